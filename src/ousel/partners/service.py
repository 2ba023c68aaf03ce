"""Apps and their keys: functions that run in the transaction that they are given."""

from collections.abc import Collection
from typing import Final

import msgspec

from ousel.database.port import Transaction
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.errors import InvalidField, Refusal
from ousel.kernel.ids import (
    HANDLE_CHARACTERS,
    handle_of,
    matches_hash,
    new_id,
    new_secret,
    secret_hash,
)
from ousel.partners import rules, store
from ousel.partners.rules import App, Key

FIRST_KEY_NAME: Final = "first key"
HANDLE_CHARACTERS_SHOWN: Final = len("sk_live_") + HANDLE_CHARACTERS


class AppNotFound(Refusal):
    """No app has this client id."""

    status = 404
    code = "app_not_found"
    title = "There is no such app"
    cure = "Check the client id in the portal."


class KeyNotFound(Refusal):
    """No key has this handle."""

    status = 404
    code = "key_not_found"
    title = "There is no such key"
    cure = "Check the handle in the list of keys."


class HandleShared(Refusal):
    """Keys of several accounts have this handle, which is unique only within one account."""

    status = 409
    code = "handle_shared"
    title = "The handle names several keys"
    cure = "Give the whole key."


class AppHasKeys(Refusal):
    """An app can be deleted only when all of its keys are revoked or have expired."""

    status = 409
    code = "app_has_keys"
    title = "The app has valid keys"
    cure = "Revoke the app's keys first."


class NewApp(msgspec.Struct, frozen=True, kw_only=True):
    """An app about to be created."""

    account_id: str
    name: str
    id: str | None = None  # None for a new id
    redirect_uris: Collection[str] = ()
    origins: Collection[str] = ()


class IssuedKey(msgspec.Struct, frozen=True):
    """A new key together with its secret, which is not stored."""

    key: Key
    secret: str
    is_repeated: bool = False  # the same request had issued it before


async def create_app(transaction: Transaction, new: NewApp, clock: Clock) -> App:
    """Create an app."""
    app = App(
        account_id=new.account_id,
        id=new.id or new_id("app_", clock),
        name=rules.parse_name(new.name),
        created_at=clock(),
    )
    redirect_uris = [rules.parse_redirect_uri(uri) for uri in new.redirect_uris]
    origins = [rules.parse_origin(origin) for origin in new.origins]
    await store.add_app(transaction, app, redirect_uris, origins)
    return app


async def app_by_id(transaction: Transaction, app_id: str) -> App:
    """Return the app with this client id."""
    app = await store.app_by_id(transaction, app_id)
    if app is None:
        raise AppNotFound(f"No app has the client id {app_id[:100]}.", param="client_id")
    return app


async def find_app(transaction: Transaction, app_id: str) -> App | None:
    """Return the app with this client id, if there is one."""
    return await store.app_by_id(transaction, app_id)


async def has_redirect_uri(transaction: Transaction, app: App, redirect_uri: str) -> bool:
    """Return whether the app has registered exactly this redirect URI."""
    return await store.has_redirect_uri(transaction, app, redirect_uri)


async def own_app(transaction: Transaction, account_id: str, app_id: str) -> App:
    """Return the account's own app with this client id; other apps count as not found."""
    app = await store.app_by_id(transaction, app_id)
    if app is None or app.account_id != account_id:
        raise AppNotFound("You have no app with this client id.", param="client_id")
    return app


async def rename_app(transaction: Transaction, app: App, name: str) -> None:
    """Give the app another name, which was parsed."""
    await store.rename_app(transaction, app, name)


async def delete_app(transaction: Transaction, app: App, clock: Clock) -> None:
    """Delete the app; raise AppHasKeys while one of its keys is valid."""
    await check_deletable(transaction, app, clock)
    await store.remove_app(transaction, app)


async def check_deletable(transaction: Transaction, app: App, clock: Clock) -> None:
    """Raise AppHasKeys while one of the app's keys is valid."""
    if await store.count_valid_keys(transaction, app, clock()):
        raise AppHasKeys("Revoke the app's keys before you delete it.")


async def issue_key(
    transaction: Transaction, app: App, name: str, mode: str, clock: Clock
) -> IssuedKey:
    """Issue a key to the app; `mode` is live, or test in a sandbox."""
    return await add_key(transaction, app, name, new_key_secret(mode), clock)


def new_key_secret(mode: str) -> str:
    """Return the secret of a new key; `mode` is live, or test in a sandbox."""
    return new_secret(f"sk_{mode}_")


async def add_key(
    transaction: Transaction,
    app: App,
    name: str,
    secret: str,
    clock: Clock,
    *,
    ends_at: int | None = None,
) -> IssuedKey:
    """Add a key with this secret to the app."""
    key = Key(
        account_id=app.account_id,
        handle=handle_of(secret),
        app_id=app.id,
        name=rules.parse_name(name),
        hash=secret_hash(secret),
        created_at=clock(),
        stored_end=ends_at,
        last_used_at=None,
    )
    await store.add_key(transaction, key)
    return IssuedKey(key, secret)


async def rotate_key(
    transaction: Transaction, key: Key, overlap_seconds: int, secret: str, clock: Clock
) -> IssuedKey:
    """Replace a key with a new one; the old key stays valid for the overlap."""
    overlap = rules.parse_overlap_seconds(overlap_seconds) * MICROS_PER_SECOND
    if key.stored_end is not None:
        raise InvalidField(
            "This key has already been rotated or revoked, or it has an end. Issue a new one.",
            param="handle",
        )
    app = await app_by_id(transaction, key.app_id)
    if overlap:
        await store.end_key(transaction, key, clock() + overlap)
    else:
        await revoke_key(transaction, key, clock)
    return await add_key(transaction, app, key.name, secret, clock)


async def revoke_key(transaction: Transaction, key: Key, clock: Clock) -> None:
    """Revoke the key at once, on every host, whatever its clock says."""
    await store.revoke_key(transaction, key, clock())


async def revoke_all_keys(transaction: Transaction, clock: Clock) -> int:
    """Revoke every partner's valid keys at once; return how many there were."""
    return await store.revoke_all_keys(transaction, clock())


async def key_by_handle(transaction: Transaction, given: str) -> Key:
    """Return the key with this handle; a whole key is accepted too, but never shown in errors."""
    handle = given[:HANDLE_CHARACTERS_SHOWN]
    found = [key for key, _ in await store.keys_by_handle(transaction, [handle])]
    if not found:
        raise KeyNotFound(f"No key has the handle {handle}.", param="handle")
    if given != handle:
        found = [key for key in found if matches_hash(key.hash, given)]
    if not found:
        raise KeyNotFound(
            f"A key has the handle {handle}, but the rest of the given key does not match.",
            param="handle",
        )
    if len(found) > 1:
        raise HandleShared(
            f"{len(found)} keys have the handle {handle}: give the whole key.", param="handle"
        )
    return found[0]


async def own_key(transaction: Transaction, app: App, handle: str) -> Key:
    """Return the app's own key with this handle."""
    for key, _ in await store.keys_by_handle(transaction, [handle]):
        if (key.account_id, key.app_id) == (app.account_id, app.id):
            return key
    raise KeyNotFound("This app has no such key.", param="handle")


async def find_key(transaction: Transaction, app: App, secret: str) -> Key | None:
    """Return the app's own key that has this secret, if there is one."""
    for key, _ in await store.keys_by_handle(transaction, [handle_of(secret)]):
        is_own = (key.account_id, key.app_id) == (app.account_id, app.id)
        if is_own and matches_hash(key.hash, secret):
            return key
    return None


async def redirect_uris_of(transaction: Transaction, app: App) -> list[str]:
    """Return the redirect URIs of an app."""
    return await store.addresses_of(transaction, app, store.REDIRECT_URI_STATEMENTS)


async def origins_of(transaction: Transaction, app: App) -> list[str]:
    """Return the origins of an app."""
    return await store.addresses_of(transaction, app, store.ORIGIN_STATEMENTS)


async def count_valid_keys(transaction: Transaction, app: App, now: int) -> int:
    """Return how many keys of an app are valid."""
    return await store.count_valid_keys(transaction, app, now)


async def valid_keys_of(transaction: Transaction, app: App, now: int) -> list[Key]:
    """Return the valid keys of an app, oldest first."""
    return await store.valid_keys_of(transaction, app, now)


async def last_ended_keys_of(transaction: Transaction, app: App, now: int, limit: int) -> list[Key]:
    """Return the keys of an app that ended last, the last one first."""
    return await store.last_ended_keys_of(transaction, app, now, limit)


async def valid_keys_of_account(transaction: Transaction, account_id: str, now: int) -> list[Key]:
    """Return the valid keys of all apps of an account, oldest first."""
    return await store.valid_keys_of_account(transaction, account_id, now)


async def keys_of(transaction: Transaction, app: App) -> list[Key]:
    """Return the keys of an app, oldest first."""
    return await store.keys_of(transaction, app)
