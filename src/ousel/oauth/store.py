"""The rows of authorization codes and user tokens."""

from collections.abc import Collection
from typing import Final

import msgspec

from ousel.database.last_uses import Uses
from ousel.database.port import Transaction
from ousel.database.statements import Statement, Table, deletion_of_oldest, deletion_since
from ousel.database.sweeping import delete_all
from ousel.kernel.clock import MICROS_PER_SECOND
from ousel.oauth.rules import TOKEN_SECONDS, Code, Grant, Token

_TOKEN_MICROS: Final = TOKEN_SECONDS * MICROS_PER_SECOND

CODES: Final = Table(
    "authorization_codes",
    key=("account_id text", "handle text"),
    columns=(
        "hash text",
        "app_account_id text",
        "app_id text",
        "redirect_uri text",
        "scope text",
        "code_challenge text",
        "created_at bigint",
        "expires_at bigint",
        "used_at bigint",
        "kept_until bigint",
    ),
)
TOKENS: Final = Table(
    "user_tokens",
    key=("account_id text", "handle text"),
    columns=(
        "hash text",
        "app_account_id text",
        "app_id text",
        "scope text",
        "code_handle text",
        "created_at bigint",
        "expires_at bigint",
        "last_used_at bigint",
    ),
)
TOKEN_USES: Final = Table(
    "user_tokens", key=("account_id text", "handle text"), columns=("last_used_at bigint",)
)

_CODE_COLUMNS: Final = ", ".join(CODES.names)
_TOKEN_COLUMNS: Final = ", ".join(f"user_tokens.{name}" for name in TOKENS.names)

CODES_BY_HANDLE: Final = Statement(
    "codes by their handle",
    f"SELECT {_CODE_COLUMNS} FROM authorization_codes WHERE handle = :handle",
)
# The first request that changes the row uses the code; all others find that it was used.
USE_CODE: Final = Statement(
    "use a code, once",
    "UPDATE authorization_codes SET used_at = :now, kept_until = :kept_until"
    " WHERE account_id = :account_id AND handle = :handle"
    " AND used_at IS NULL AND expires_at > :now",
)
# The tokens of a deleted app remain until they expire; without the app they are not found.
TOKENS_BY_HANDLE: Final = Statement(
    "tokens by their handles, of apps that still exist",
    f"SELECT {_TOKEN_COLUMNS} FROM user_tokens"
    " JOIN apps ON apps.account_id = user_tokens.app_account_id AND apps.id = user_tokens.app_id"
    " WHERE user_tokens.handle = ANY(:handles)",
)
GRANTS_OF_ACCOUNT: Final = Statement(
    "the valid tokens and unused codes of an account by app and scope, oldest first",
    "SELECT grants.app_id, apps.name, grants.scope, MIN(grants.created_at) AS first_created_at,"
    " MAX(grants.expires_at), MAX(grants.last_used_at) FROM ("
    "SELECT app_account_id, app_id, scope, created_at, expires_at, last_used_at"
    " FROM user_tokens WHERE account_id = :account_id AND expires_at > :now UNION ALL "
    # The token that the code is exchanged for will expire later than the code.
    f"SELECT app_account_id, app_id, scope, created_at, expires_at + {_TOKEN_MICROS}, NULL"
    " FROM authorization_codes"
    " WHERE account_id = :account_id AND expires_at > :now AND used_at IS NULL) AS grants"
    " JOIN apps ON apps.account_id = grants.app_account_id AND apps.id = grants.app_id"
    " GROUP BY grants.app_id, apps.name, grants.scope ORDER BY first_created_at, grants.app_id",
)
COUNT_USERS_OF_APP: Final = Statement(
    "how many accounts have a valid token with an app",
    "SELECT COUNT(DISTINCT account_id) FROM user_tokens"
    " WHERE app_id = :app_id AND expires_at > :now",
)
DELETE_TOKEN: Final = Statement(
    "end a token", "DELETE FROM user_tokens WHERE account_id = :account_id AND handle = :handle"
)
DELETE_TOKENS_OF_CODE: Final = Statement(
    "end the tokens that a code was exchanged for",
    "DELETE FROM user_tokens WHERE account_id = :account_id AND code_handle = :code_handle",
)
DELETE_UNUSED_CODES_OF_APP: Final = Statement(
    "end an account's unused codes for an app",
    "DELETE FROM authorization_codes"
    " WHERE account_id = :account_id AND app_id = :app_id AND used_at IS NULL",
)
DELETE_TOKENS_OF_APP: Final = Statement(
    "end an account's tokens for an app",
    "DELETE FROM user_tokens WHERE account_id = :account_id AND app_id = :app_id",
)
DELETE_CODES_SINCE: Final = deletion_since("end some codes", CODES, by="kept_until")
DELETE_TOKENS_SINCE: Final = deletion_since("end some tokens", TOKENS, by="expires_at")
DELETE_OLD_CODES: Final = deletion_of_oldest(
    "delete some codes that are no longer needed", CODES, by="kept_until"
)
DELETE_EXPIRED_TOKENS: Final = deletion_of_oldest(
    "delete some tokens that have expired", TOKENS, by="expires_at"
)


async def add_code(transaction: Transaction, code: Code) -> None:
    """Insert a code."""
    await transaction.insert(CODES, [msgspec.structs.astuple(code)])


async def codes_by_handle(transaction: Transaction, handle: str) -> list[Code]:
    """Return the codes with this handle."""
    return [Code(*row) for row in await transaction.fetch(CODES_BY_HANDLE, handle=handle)]


async def use_code(transaction: Transaction, code: Code, now: int, kept_until: int) -> bool:
    """Mark a code as used; return whether it was unused and had not expired."""
    used = await transaction.execute(
        USE_CODE,
        account_id=code.account_id,
        handle=code.handle,
        now=now,
        kept_until=kept_until,
    )
    return used == 1


async def add_token(transaction: Transaction, token: Token) -> None:
    """Insert a token."""
    await transaction.insert(TOKENS, [msgspec.structs.astuple(token)])


async def tokens_by_handle(transaction: Transaction, handles: Collection[str]) -> list[Token]:
    """Return the tokens with these handles."""
    rows = await transaction.fetch(TOKENS_BY_HANDLE, handles=list(handles))
    return [Token(*row) for row in rows]


async def grants_of_account(transaction: Transaction, account_id: str, now: int) -> list[Grant]:
    """Return what lets apps read an account, oldest first."""
    rows = await transaction.fetch(GRANTS_OF_ACCOUNT, account_id=account_id, now=now)
    return [Grant(*row) for row in rows]


async def users_of_app(transaction: Transaction, app_id: str, now: int) -> int:
    """Return how many accounts have a valid token with an app."""
    rows = await transaction.fetch(COUNT_USERS_OF_APP, app_id=app_id, now=now)
    return int(rows[0][0])


async def end_token(transaction: Transaction, token: Token) -> None:
    """Remove a token: the next look-up does not find it."""
    await transaction.execute(DELETE_TOKEN, account_id=token.account_id, handle=token.handle)


async def end_tokens_of_code(transaction: Transaction, code: Code) -> None:
    """Remove the tokens that a code was exchanged for."""
    await transaction.execute(
        DELETE_TOKENS_OF_CODE, account_id=code.account_id, code_handle=code.handle
    )


async def end_all_of_app(transaction: Transaction, account_id: str, app_id: str) -> None:
    """Remove an account's unused codes and its tokens for an app.

    The codes are removed first. Removing a code waits for a concurrent exchange, which has locked
    the code. So the token of that exchange is written in time to be removed too.
    """
    await transaction.execute(DELETE_UNUSED_CODES_OF_APP, account_id=account_id, app_id=app_id)
    await transaction.execute(DELETE_TOKENS_OF_APP, account_id=account_id, app_id=app_id)


async def end_all(transaction: Transaction) -> int:
    """Remove every code and token; return how many tokens there were."""
    await delete_all(transaction, DELETE_CODES_SINCE)
    return await delete_all(transaction, DELETE_TOKENS_SINCE)


async def record_uses(transaction: Transaction, uses: Uses) -> None:
    """Write when tokens, given by account and handle, were last used."""
    await transaction.update(
        TOKEN_USES, [(*token, used_at) for token, used_at in sorted(uses.items())]
    )


async def sweep(transaction: Transaction, now: int, limit: int) -> int:
    """Remove up to `limit` old codes and `limit` expired tokens; return how many."""
    codes = await transaction.execute(DELETE_OLD_CODES, before=now, limit=limit)
    return codes + await transaction.execute(DELETE_EXPIRED_TOKENS, before=now, limit=limit)
