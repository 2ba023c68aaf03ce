"""Codes become tokens, tokens end, and a connection is the tokens that live."""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from ousel.database.port import Transaction
from ousel.kernel.clock import Clock
from ousel.kernel.ids import handle_of, is_secret, matches_hash, new_secret, secret_hash
from ousel.oauth import rules, store
from ousel.oauth.refusals import InvalidGrant
from ousel.oauth.rules import Code, Exchange, Token

Kept = TypeVar("Kept", Code, Token)


class IssuedToken(msgspec.Struct, frozen=True):
    """A new token together with its secret, which is shown this once."""

    token: Token
    secret: str


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """An app that can read a person's account."""

    app_id: str
    app_name: str
    scopes: tuple[str, ...]
    connected_at: int
    last_used_at: int | None
    ends_at: int


async def exchange_code(
    transaction: Transaction, wish: Exchange, kind: str, clock: Clock
) -> IssuedToken | InvalidGrant:
    """Return a token for a code, or why not.

    The refusal is returned, not raised: a replayed code ends tokens, and that must be committed.
    """
    now = clock()
    code = await _code(transaction, wish.code)
    # RFC 6749 section 4.1.3: the code was issued to this very client.
    if code is None or code.app_id != wish.app_id:
        return InvalidGrant("The code is unknown, or it is another app's.")
    if code.used_at is None:
        reason = rules.exchange_refusal(code, wish, now)
        if reason is not None:
            return InvalidGrant(reason)
        if await store.use_code(transaction, code, now, kept_until=rules.token_expiry(now)):
            return await _issue(transaction, code, kind, now)
    # RFC 6749 section 4.1.2: a second use ends what the first one gave.
    await store.end_tokens_of_code(transaction, code)
    return InvalidGrant("The code has been used; the tokens that it gave have ended.")


async def revoke_token(transaction: Transaction, secret: str, app_id: str, kind: str) -> None:
    """End a token of this app."""
    if not is_secret(secret, token_prefix(kind)):
        return
    found = await store.tokens_by_handle(transaction, [handle_of(secret)])
    token = match_secret(found, secret)
    # RFC 7009 section 2.2: a token that nobody knows has ended already.
    if token is None:
        return
    # RFC 7009 section 2.1: the token was issued to this very client.
    if token.app_id != app_id:
        raise InvalidGrant("The token is another app's.")
    await store.end_token(transaction, token)


async def list_connections(transaction: Transaction, account_id: str, now: int) -> list[Connection]:
    """Return the apps that can read the account, the longest connected first."""
    by_app: dict[str, list[tuple[Token, str]]] = {}
    for token, app_name in await store.tokens_of_account(transaction, account_id, now):
        by_app.setdefault(token.app_id, []).append((token, app_name))
    return [_connection(tokens) for tokens in by_app.values()]


async def find_connection(
    transaction: Transaction, account_id: str, app_id: str, now: int
) -> Connection | None:
    """Return the account's connection with an app, if there is one."""
    for each in await list_connections(transaction, account_id, now):
        if each.app_id == app_id:
            return each
    return None


async def disconnect(transaction: Transaction, account_id: str, app_id: str) -> bool:
    """End all that lets the app read the account, at once; say whether there was anything."""
    return await store.end_all_of_app(transaction, account_id, app_id) > 0


async def count_users(transaction: Transaction, app_id: str, now: int) -> int:
    """Return how many people are connected to an app."""
    return await store.users_of_app(transaction, app_id, now)


def token_prefix(kind: str) -> str:
    """Return how user tokens begin; `kind` is live, or test in a sandbox."""
    return f"ut_{kind}_"


def match_secret(found: Iterable[Kept], secret: str) -> Kept | None:
    """Return the code or token that this very secret opens."""
    return next((each for each in found if matches_hash(each.hash, secret)), None)


async def _issue(transaction: Transaction, code: Code, kind: str, now: int) -> IssuedToken:
    secret = new_secret(token_prefix(kind))
    token = Token(
        account_id=code.account_id,
        handle=handle_of(secret),
        hash=secret_hash(secret),
        app_account_id=code.app_account_id,
        app_id=code.app_id,
        scope=code.scope,
        code_handle=code.handle,
        created_at=now,
        expires_at=rules.token_expiry(now),
        last_used_at=None,
    )
    await store.add_token(transaction, token)
    return IssuedToken(token, secret)


async def _code(transaction: Transaction, secret: str) -> Code | None:
    if not is_secret(secret, rules.CODE_PREFIX):
        return None
    return match_secret(await store.codes_by_handle(transaction, handle_of(secret)), secret)


def _connection(tokens: list[tuple[Token, str]]) -> Connection:
    held = {scope for token, _ in tokens for scope in token.scope.split(" ")}
    first, app_name = tokens[0]
    return Connection(
        app_id=first.app_id,
        app_name=app_name,
        scopes=tuple(scope for scope in rules.SCOPES if scope in held),
        connected_at=first.created_at,
        last_used_at=max((token.last_used_at or 0 for token, _ in tokens)) or None,
        ends_at=max(token.expires_at for token, _ in tokens),
    )
