"""User tokens, and connections: the apps that hold valid tokens or codes for an account.

The functions run in the transaction that they are given; the services open their own.
"""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock
from ousel.kernel.ids import handle_of, is_secret, matches_hash, new_secret, secret_hash
from ousel.oauth import rules, store
from ousel.oauth.refusals import InvalidGrant
from ousel.oauth.rules import Code, Exchange, Grant, Token
from ousel.partners import service as partners
from ousel.people.audit import EventSource, record_event

CodeOrToken = TypeVar("CodeOrToken", Code, Token)


class IssuedToken(msgspec.Struct, frozen=True):
    """A new token together with its secret, which is shown only once."""

    token: Token
    secret: str


class AppConnection(msgspec.Struct, frozen=True, kw_only=True):
    """An app that can read a person's account."""

    app_id: str
    app_name: str
    scope_ends: dict[str, int]  # until when the app can read each scope
    connected_at: int
    last_used_at: int | None


class TokenService:
    """Exchanges codes for user tokens, and revokes tokens."""

    def __init__(self, database: Database, clock: Clock, *, mode: str) -> None:
        """Issue tokens for this mode: live, or test in a sandbox."""
        self._database = database
        self._clock = clock
        self._mode = mode

    async def exchange(self, exchange: Exchange) -> IssuedToken:
        """Return a token for a code, or raise InvalidGrant."""
        outcome = await self._database.write(
            lambda transaction: exchange_code(transaction, exchange, self._mode, self._clock)
        )
        if isinstance(outcome, InvalidGrant):
            raise outcome
        return outcome

    async def revoke(self, secret: str, app_id: str) -> None:
        """Revoke a token of this app."""
        await self._database.write(
            lambda transaction: revoke_token(transaction, secret, app_id, self._mode)
        )


class ConnectionService:
    """Lists and ends the connections of an account."""

    def __init__(self, database: Database, clock: Clock) -> None:
        """Work on this database."""
        self._database = database
        self._clock = clock

    async def list_all(self, account_id: str) -> list[AppConnection]:
        """Return the apps that can read the account, the longest connected first."""
        return await self._database.read(
            lambda transaction: list_connections(transaction, account_id, self._clock())
        )

    async def disconnect(self, account_id: str, app_id: str, source: EventSource) -> None:
        """End the app's access to the account at once, if it is connected."""

        async def work(transaction: Transaction) -> None:
            connection = await find_connection(transaction, account_id, app_id, self._clock())
            if connection is None:
                return
            await disconnect(transaction, account_id, app_id)
            await record_event(
                transaction,
                account_id,
                "app_disconnected",
                source,
                self._clock,
                connection.app_name,
            )

        await self._database.write(work)


async def exchange_code(
    transaction: Transaction, exchange: Exchange, mode: str, clock: Clock
) -> IssuedToken | InvalidGrant:
    """Return a token for a code, or why there is none.

    The refusal is returned, not raised: a replayed code ends tokens, and that must be committed.
    """
    now = clock()
    code = await _code(transaction, exchange.code)
    # RFC 6749 section 4.1.3: the code must have been issued to this client.
    if code is None or code.app_id != exchange.app_id:
        return InvalidGrant("The code is unknown, or it belongs to another app.")
    if code.used_at is None:
        reason = rules.exchange_refusal(code, exchange, now)
        if reason is None and not await _is_registered(transaction, code):
            reason = "The app no longer has this redirect_uri."
        if reason is not None:
            return InvalidGrant(reason)
        if await store.use_code(transaction, code, now, kept_until=rules.token_expiry(now)):
            return await _issue(transaction, code, mode, now)
    # RFC 6749 section 4.1.2: a second use revokes the tokens issued for the first.
    await store.end_tokens_of_code(transaction, code)
    return InvalidGrant(
        "The code was used before, or the person has disconnected the app;"
        " the tokens issued for it are revoked."
    )


async def _is_registered(transaction: Transaction, code: Code) -> bool:
    """Return whether the app still has the redirect URI to which the code was sent."""
    app = await partners.find_app(transaction, code.app_id)
    return app is not None and await partners.has_redirect_uri(transaction, app, code.redirect_uri)


async def revoke_token(transaction: Transaction, secret: str, app_id: str, mode: str) -> None:
    """Revoke a token of this app."""
    if not is_secret(secret, token_prefix(mode)):
        return
    found = await store.tokens_by_handle(transaction, [handle_of(secret)])
    token = match_secret(found, secret)
    # RFC 7009 section 2.2: an unknown token counts as revoked.
    if token is None:
        return
    # RFC 7009 section 2.1: the token must have been issued to this client.
    if token.app_id != app_id:
        raise InvalidGrant("The token belongs to another app.")
    await store.end_token(transaction, token)


async def list_connections(
    transaction: Transaction, account_id: str, now: int
) -> list[AppConnection]:
    """Return the apps that can read the account, the longest connected first.

    A person has connected an app as soon as its code is issued, even if the app has yet to use it.
    """
    by_app: dict[str, list[Grant]] = {}
    for grant in await store.grants_of_account(transaction, account_id, now):
        by_app.setdefault(grant.app_id, []).append(grant)
    return [_connection(grants) for grants in by_app.values()]


async def find_connection(
    transaction: Transaction, account_id: str, app_id: str, now: int
) -> AppConnection | None:
    """Return the account's connection with an app, if there is one."""
    for each in await list_connections(transaction, account_id, now):
        if each.app_id == app_id:
            return each
    return None


async def disconnect(transaction: Transaction, account_id: str, app_id: str) -> None:
    """End the app's access to the account at once."""
    await store.end_all_of_app(transaction, account_id, app_id)


async def end_all_tokens(transaction: Transaction) -> int:
    """End every code and user token; return how many tokens there were."""
    return await store.end_all(transaction)


async def count_users(transaction: Transaction, app_id: str, now: int) -> int:
    """Return how many people are connected to an app."""
    return await store.users_of_app(transaction, app_id, now)


def token_prefix(mode: str) -> str:
    """Return how user tokens begin; `mode` is live, or test in a sandbox."""
    return f"ut_{mode}_"


def match_secret(found: Iterable[CodeOrToken], secret: str) -> CodeOrToken | None:
    """Return the code or token that has this secret, or None."""
    return next((each for each in found if matches_hash(each.hash, secret)), None)


async def _issue(transaction: Transaction, code: Code, mode: str, now: int) -> IssuedToken:
    secret = new_secret(token_prefix(mode))
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


def _connection(grants: list[Grant]) -> AppConnection:
    ends: dict[str, int] = {}
    for grant in grants:
        for scope in grant.scope.split(" "):
            ends[scope] = max(ends.get(scope, 0), grant.last_expires_at)
    first = grants[0]
    return AppConnection(
        app_id=first.app_id,
        app_name=first.app_name,
        scope_ends={scope: ends[scope] for scope in rules.SCOPES if scope in ends},
        connected_at=first.first_created_at,
        last_used_at=max(grant.last_used_at or 0 for grant in grants) or None,
    )
