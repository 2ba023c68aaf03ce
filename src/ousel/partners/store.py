"""The rows of apps, their keys, redirect URIs, origins and refused calls."""

from collections.abc import Collection
from typing import Final, NamedTuple

import msgspec

from ousel.database.last_uses import Uses
from ousel.database.port import Transaction
from ousel.database.statements import Statement, Table
from ousel.partners.rules import ApiError, App, Key

API_ERRORS_MAX: Final = 100  # of each app

APPS: Final = Table(
    "apps", key=("account_id text", "id text"), columns=("name text", "created_at bigint")
)
KEYS: Final = Table(
    "partner_keys",
    key=("account_id text", "handle text"),
    columns=(
        "app_id text",
        "name text",
        "hash text",
        "created_at bigint",
        "ends_at bigint",
        "last_used_at bigint",
    ),
)
KEY_USES: Final = Table(
    "partner_keys",
    key=("account_id text", "handle text"),
    columns=("last_used_at bigint",),
)
REDIRECT_URIS: Final = Table(
    "app_redirect_uris",
    key=("account_id text", "app_id text", "redirect_uri text"),
    columns=("created_at bigint",),
)
ORIGINS: Final = Table(
    "app_origins",
    key=("account_id text", "app_id text", "origin text"),
    columns=("created_at bigint",),
)

API_ERRORS: Final = Table(
    "api_errors",
    key=("account_id text", "app_id text", "request_id text"),
    columns=("status bigint", "code text", "method text", "path text", "created_at bigint"),
)

_KEY_COLUMNS: Final = ", ".join(f"partner_keys.{name}" for name in KEYS.names)

APP_BY_ID: Final = Statement(
    "an app by its id", "SELECT account_id, id, name, created_at FROM apps WHERE id = :id"
)
APPS_OF: Final = Statement(
    "the apps of an account, oldest first",
    "SELECT account_id, id, name, created_at FROM apps WHERE account_id = :account_id ORDER BY id",
)
RENAME_APP: Final = Statement(
    "rename an app", "UPDATE apps SET name = :name WHERE account_id = :account_id AND id = :id"
)
DELETE_APP: Final = tuple(
    Statement(
        f"remove an app's rows in {table}",
        f"DELETE FROM {table} WHERE account_id = :account_id AND {column} = :app_id",
    )
    for table, column in (
        ("api_errors", "app_id"),
        ("app_origins", "app_id"),
        ("app_redirect_uris", "app_id"),
        ("partner_keys", "app_id"),
        ("apps", "id"),
    )
)
KEYS_BY_HANDLE: Final = Statement(
    "keys by their handles, with their apps' names",
    f"SELECT {_KEY_COLUMNS}, apps.name FROM partner_keys"
    " JOIN apps ON apps.account_id = partner_keys.account_id AND apps.id = partner_keys.app_id"
    " WHERE handle = ANY(:handles)",
)
KEYS_OF_APP: Final = Statement(
    "the keys of an app, oldest first",
    f"SELECT {_KEY_COLUMNS} FROM partner_keys"
    " WHERE account_id = :account_id AND app_id = :app_id ORDER BY created_at, handle",
)
_VALID: Final = "(ends_at IS NULL OR ends_at > :now)"
COUNT_VALID_KEYS_OF_APP: Final = Statement(
    "how many keys of an app are valid",
    "SELECT COUNT(*) FROM partner_keys"
    f" WHERE account_id = :account_id AND app_id = :app_id AND {_VALID}",
)
VALID_KEYS_OF_APP: Final = Statement(
    "the valid keys of an app, oldest first",
    f"SELECT {_KEY_COLUMNS} FROM partner_keys"
    f" WHERE account_id = :account_id AND app_id = :app_id AND {_VALID}"
    " ORDER BY created_at, handle",
)
LAST_EXPIRED_KEYS_OF_APP: Final = Statement(
    "the keys of an app that expired last, the last one first",
    f"SELECT {_KEY_COLUMNS} FROM partner_keys"
    " WHERE account_id = :account_id AND app_id = :app_id AND ends_at BETWEEN 0 AND :now"
    " ORDER BY ends_at DESC LIMIT :limit",
)
LAST_REVOKED_KEYS_OF_APP: Final = Statement(
    "the keys of an app that were revoked last, the last one first",
    f"SELECT {_KEY_COLUMNS} FROM partner_keys"
    " WHERE account_id = :account_id AND app_id = :app_id AND ends_at < 0"
    " ORDER BY ends_at LIMIT :limit",
)
VALID_KEYS_OF_ACCOUNT: Final = Statement(
    "the valid keys of all apps of an account, oldest first",
    f"SELECT {_KEY_COLUMNS} FROM partner_keys"
    f" WHERE account_id = :account_id AND {_VALID} ORDER BY created_at, handle",
)
END_KEY: Final = Statement(
    "set when a key ends",
    "UPDATE partner_keys SET ends_at = :ends_at"
    " WHERE account_id = :account_id AND handle = :handle"
    " AND (ends_at IS NULL OR ends_at > 0 AND ends_at > :ends_at)",
)
REVOKE_ALL_KEYS: Final = Statement(
    "revoke every key that is valid",
    "UPDATE partner_keys SET ends_at = :revoked WHERE ends_at IS NULL OR ends_at > :now",
)
EXISTING_APPS: Final = Statement(
    "which of these apps exist",
    "SELECT apps.account_id, apps.id FROM ROWS(:keys, account_id text, id text)"
    " JOIN apps ON apps.account_id = keys.account_id AND apps.id = keys.id",
)
API_ERRORS_OF: Final = Statement(
    "the refused calls of an app, newest first",
    f"SELECT {', '.join(API_ERRORS.names)} FROM api_errors"
    " WHERE account_id = :account_id AND app_id = :app_id"
    " ORDER BY request_id DESC LIMIT :limit",
)
DELETE_OLD_API_ERRORS: Final = Statement(
    "delete all but an app's newest refused calls",
    "DELETE FROM api_errors WHERE account_id = :account_id AND app_id = :app_id"
    " AND request_id < (SELECT MIN(request_id) FROM (SELECT request_id FROM api_errors"
    " WHERE account_id = :account_id AND app_id = :app_id"
    " ORDER BY request_id DESC LIMIT :limit) AS newest)",
)
REDIRECT_URIS_OF: Final = Statement(
    "the redirect URIs of an app",
    "SELECT redirect_uri FROM app_redirect_uris"
    " WHERE account_id = :account_id AND app_id = :app_id ORDER BY redirect_uri",
)
INSERT_REDIRECT_URI: Final = Statement(
    "register a redirect URI",
    "INSERT INTO app_redirect_uris (account_id, app_id, redirect_uri, created_at)"
    " VALUES (:account_id, :app_id, :address, :created_at) ON CONFLICT DO NOTHING",
)
DELETE_REDIRECT_URI: Final = Statement(
    "remove a redirect URI",
    "DELETE FROM app_redirect_uris"
    " WHERE account_id = :account_id AND app_id = :app_id AND redirect_uri = :address",
)
ORIGINS_OF: Final = Statement(
    "the origins of an app",
    "SELECT origin FROM app_origins"
    " WHERE account_id = :account_id AND app_id = :app_id ORDER BY origin",
)
INSERT_ORIGIN: Final = Statement(
    "register an origin",
    "INSERT INTO app_origins (account_id, app_id, origin, created_at)"
    " VALUES (:account_id, :app_id, :address, :created_at) ON CONFLICT DO NOTHING",
)
DELETE_ORIGIN: Final = Statement(
    "remove an origin",
    "DELETE FROM app_origins"
    " WHERE account_id = :account_id AND app_id = :app_id AND origin = :address",
)


class AddressStatements(NamedTuple):
    """The statements for one kind of an app's addresses."""

    select: Statement
    insert: Statement
    delete: Statement


REDIRECT_URI_STATEMENTS: Final = AddressStatements(
    REDIRECT_URIS_OF, INSERT_REDIRECT_URI, DELETE_REDIRECT_URI
)
ORIGIN_STATEMENTS: Final = AddressStatements(ORIGINS_OF, INSERT_ORIGIN, DELETE_ORIGIN)

REDIRECT_URI_OF_APP: Final = Statement(
    "a redirect URI, if the app has registered it",
    "SELECT redirect_uri FROM app_redirect_uris"
    " WHERE account_id = :account_id AND app_id = :app_id AND redirect_uri = :redirect_uri",
)
ORIGIN_OF_APP: Final = Statement(
    "an origin, if the app has registered it",
    "SELECT origin FROM app_origins"
    " WHERE account_id = :account_id AND app_id = :app_id AND origin = :origin",
)
ORIGIN_OF_ANY_APP: Final = Statement(
    "an origin, if any app has registered it",
    "SELECT origin FROM app_origins WHERE origin = :origin LIMIT 1",
)


async def add_app(
    transaction: Transaction, app: App, redirect_uris: Collection[str], origins: Collection[str]
) -> None:
    """Insert an app with its redirect URIs and origins."""
    await transaction.insert(APPS, [msgspec.structs.astuple(app)])
    owner = (app.account_id, app.id)
    await transaction.insert(
        REDIRECT_URIS, [(*owner, uri, app.created_at) for uri in dict.fromkeys(redirect_uris)]
    )
    await transaction.insert(
        ORIGINS, [(*owner, origin, app.created_at) for origin in dict.fromkeys(origins)]
    )


async def app_by_id(transaction: Transaction, app_id: str) -> App | None:
    """Return the app with this id, whoever owns it."""
    rows = await transaction.fetch(APP_BY_ID, id=app_id)
    return App(*rows[0]) if rows else None


async def apps_of(transaction: Transaction, account_id: str) -> list[App]:
    """Return the apps of an account, oldest first."""
    rows = await transaction.fetch(APPS_OF, account_id=account_id)
    return [App(*row) for row in rows]


async def rename_app(transaction: Transaction, app: App, name: str) -> None:
    """Give the app another name."""
    await transaction.execute(RENAME_APP, account_id=app.account_id, id=app.id, name=name)


async def remove_app(transaction: Transaction, app: App) -> None:
    """Remove the app with its keys, redirect URIs, origins and refused calls."""
    for statement in DELETE_APP:
        await transaction.execute(statement, account_id=app.account_id, app_id=app.id)


async def addresses_of(transaction: Transaction, app: App, kind: AddressStatements) -> list[str]:
    """Return the redirect URIs of an app, or its origins."""
    rows = await transaction.fetch(kind.select, account_id=app.account_id, app_id=app.id)
    return [row[0] for row in rows]


async def add_address(
    transaction: Transaction, app: App, kind: AddressStatements, address: str, now: int
) -> None:
    """Register a redirect URI or an origin, unless it is registered already."""
    await transaction.execute(
        kind.insert, account_id=app.account_id, app_id=app.id, address=address, created_at=now
    )


async def remove_address(
    transaction: Transaction, app: App, kind: AddressStatements, address: str
) -> None:
    """Remove a redirect URI or an origin."""
    await transaction.execute(
        kind.delete, account_id=app.account_id, app_id=app.id, address=address
    )


async def add_key(transaction: Transaction, key: Key) -> None:
    """Insert a key."""
    await transaction.insert(KEYS, [msgspec.structs.astuple(key)])


async def keys_by_handle(
    transaction: Transaction, handles: Collection[str]
) -> list[tuple[Key, str]]:
    """Return the keys with these handles, each with its app's name."""
    rows = await transaction.fetch(KEYS_BY_HANDLE, handles=list(handles))
    return [(Key(*row[:-1]), row[-1]) for row in rows]


async def keys_of(transaction: Transaction, app: App) -> list[Key]:
    """Return the keys of an app, oldest first."""
    rows = await transaction.fetch(KEYS_OF_APP, account_id=app.account_id, app_id=app.id)
    return [Key(*row) for row in rows]


async def count_valid_keys(transaction: Transaction, app: App, now: int) -> int:
    """Return how many keys of an app are valid."""
    rows = await transaction.fetch(
        COUNT_VALID_KEYS_OF_APP, account_id=app.account_id, app_id=app.id, now=now
    )
    return int(rows[0][0])


async def valid_keys_of(transaction: Transaction, app: App, now: int) -> list[Key]:
    """Return the valid keys of an app, oldest first."""
    rows = await transaction.fetch(
        VALID_KEYS_OF_APP, account_id=app.account_id, app_id=app.id, now=now
    )
    return [Key(*row) for row in rows]


async def last_ended_keys_of(transaction: Transaction, app: App, now: int, limit: int) -> list[Key]:
    """Return the keys of an app that ended last, the last one first."""
    owner = {"account_id": app.account_id, "app_id": app.id, "limit": limit}
    expired = await transaction.fetch(LAST_EXPIRED_KEYS_OF_APP, now=now, **owner)
    revoked = await transaction.fetch(LAST_REVOKED_KEYS_OF_APP, **owner)
    ended = [Key(*row) for row in (*expired, *revoked)]
    ended.sort(key=lambda key: key.ends_at or 0, reverse=True)
    return ended[:limit]


async def valid_keys_of_account(transaction: Transaction, account_id: str, now: int) -> list[Key]:
    """Return the valid keys of all apps of an account, oldest first."""
    rows = await transaction.fetch(VALID_KEYS_OF_ACCOUNT, account_id=account_id, now=now)
    return [Key(*row) for row in rows]


async def end_key(transaction: Transaction, key: Key, ends_at: int) -> None:
    """Set when a key ends, unless it ends earlier."""
    await transaction.execute(
        END_KEY, account_id=key.account_id, handle=key.handle, ends_at=ends_at
    )


async def revoke_all_keys(transaction: Transaction, now: int) -> int:
    """Revoke every valid key; return how many there were."""
    return await transaction.execute(REVOKE_ALL_KEYS, now=now, revoked=-now)


async def revoke_key(transaction: Transaction, key: Key, now: int) -> None:
    """Revoke a key, whatever the clock of a host says; the time of its first revocation is kept."""
    await end_key(transaction, key, -now)


async def record_uses(transaction: Transaction, uses: Uses) -> None:
    """Write when keys, given by account and handle, were last used."""
    await transaction.update(KEY_USES, [(*key, used_at) for key, used_at in sorted(uses.items())])


async def add_api_errors(transaction: Transaction, errors: Collection[ApiError]) -> None:
    """Insert the refused calls of apps that still exist, and delete all but the newest of each."""
    keys = {(each.account_id, each.app_id) for each in errors}
    apps = set(map(tuple, await transaction.fetch(EXISTING_APPS, keys=list(keys))))
    existing = [each for each in errors if (each.account_id, each.app_id) in apps]
    await transaction.insert(API_ERRORS, [msgspec.structs.astuple(each) for each in existing])
    for account_id, app_id in apps:
        await transaction.execute(
            DELETE_OLD_API_ERRORS, account_id=account_id, app_id=app_id, limit=API_ERRORS_MAX
        )


async def api_errors_of(transaction: Transaction, app: App) -> list[ApiError]:
    """Return the recent refused calls of an app, newest first."""
    rows = await transaction.fetch(
        API_ERRORS_OF, account_id=app.account_id, app_id=app.id, limit=API_ERRORS_MAX
    )
    return [ApiError(*row) for row in rows]


async def has_redirect_uri(transaction: Transaction, app: App, redirect_uri: str) -> bool:
    """Return whether the app has registered exactly this redirect URI."""
    rows = await transaction.fetch(
        REDIRECT_URI_OF_APP, account_id=app.account_id, app_id=app.id, redirect_uri=redirect_uri
    )
    return bool(rows)


async def has_origin(transaction: Transaction, account_id: str, app_id: str, origin: str) -> bool:
    """Return whether the app has registered the origin."""
    rows = await transaction.fetch(
        ORIGIN_OF_APP, account_id=account_id, app_id=app_id, origin=origin
    )
    return bool(rows)


async def has_any_origin(transaction: Transaction, origin: str) -> bool:
    """Return whether any app has registered the origin."""
    return bool(await transaction.fetch(ORIGIN_OF_ANY_APP, origin=origin))
