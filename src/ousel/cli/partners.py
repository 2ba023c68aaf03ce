"""`ousel app` and `ousel key`: apps, and the keys that they call with."""

import math
from typing import Annotated, Any, Final

import typer

from ousel.accounts import service as accounts
from ousel.cli.console import (
    DatabaseOption,
    JsonOption,
    fail,
    run,
    run_in_transaction,
    settings,
    show,
    show_list,
)
from ousel.database.deployment import Mode, claim_mode, mode_of
from ousel.database.port import Transaction
from ousel.kernel.clock import Clock, timestamp
from ousel.partners import service
from ousel.partners.rules import OVERLAP_SECONDS_DEFAULT, Key
from ousel.partners.service import IssuedKey, NewApp
from ousel.people.audit import BY_OPERATOR, record_event

SECONDS_PER_HOUR: Final = 3600

apps = typer.Typer(no_args_is_help=True, help="Create partner apps.")
keys = typer.Typer(no_args_is_help=True, help="Issue, rotate, revoke and list partner keys.")

Handle = Annotated[
    str,
    typer.Argument(help="The key's handle, as 'ousel key list' shows it; or the whole key."),
]
ClientId = Annotated[str, typer.Argument(help="The app's client id: app_…")]


@apps.command("create")
def create_app(
    *,
    owner: Annotated[str, typer.Option(help="@username, account number or email.")],
    name: Annotated[str, typer.Option(help="The app's name, as people will see it.")],
    redirect_uri: Annotated[
        list[str] | None, typer.Option(help="Where Connect may send people back; repeatable.")
    ] = None,
    origin: Annotated[
        list[str] | None, typer.Option(help="A web origin that may call; repeatable.")
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create an app with its first key, which is shown this once."""

    async def create(transaction: Transaction, clock: Clock) -> dict[str, Any]:
        account = await accounts.find_account(transaction, owner, param="owner")
        new = NewApp(
            account_id=account.id,
            name=name,
            redirect_uris=redirect_uri or (),
            origins=origin or (),
        )
        app = await service.create_app(transaction, new, clock)
        issued = await service.issue_key(
            transaction, app, service.FIRST_KEY_NAME, await _kind(transaction), clock
        )
        await record_event(transaction, account.id, "app_created", BY_OPERATOR, clock, app.name)
        await _record_issued(transaction, issued, clock)
        return {
            "client_id": app.id,
            "name": app.name,
            "owner": account.username,
            "key": issued.secret,
        }

    show(run_in_transaction(database, create), as_json=as_json)


@keys.command()
def issue(
    client_id: ClientId,
    *,
    name: Annotated[str, typer.Option(help="What the key is for.")] = "key",
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Issue another key to an app; it is shown this once."""

    async def issued(transaction: Transaction, clock: Clock) -> IssuedKey:
        app = await service.app_by_id(transaction, client_id)
        new = await service.issue_key(transaction, app, name, await _kind(transaction), clock)
        await _record_issued(transaction, new, clock)
        return new

    _show_issued(run_in_transaction(database, issued), as_json=as_json)


@keys.command()
def rotate(
    handle: Handle,
    *,
    overlap_hours: Annotated[
        float, typer.Option(help="How long the old key goes on; 0 ends it at once.")
    ] = OVERLAP_SECONDS_DEFAULT / SECONDS_PER_HOUR,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Issue a key in place of another, which goes on for a while."""
    if not math.isfinite(overlap_hours):
        fail("the overlap must be a number of hours")
    overlap_seconds = round(overlap_hours * SECONDS_PER_HOUR)

    async def rotated(transaction: Transaction, clock: Clock) -> IssuedKey:
        key = await service.key_by_handle(transaction, handle)
        kind = await _kind(transaction)
        new = await service.rotate_key(transaction, key, overlap_seconds, kind, clock)
        detail = f"{key.label} → {new.key.label}"
        await record_event(transaction, key.account_id, "key_rotated", BY_OPERATOR, clock, detail)
        return new

    _show_issued(run_in_transaction(database, rotated), as_json=as_json)


@keys.command()
def revoke(handle: Handle, database: DatabaseOption = None, *, as_json: JsonOption = False) -> None:
    """End a key at once."""

    async def revoked(transaction: Transaction, clock: Clock) -> Key:
        key = await service.key_by_handle(transaction, handle)
        await service.revoke_key(transaction, key, clock)
        if key.is_valid_at(clock()):
            await record_event(
                transaction, key.account_id, "key_revoked", BY_OPERATOR, clock, key.label
            )
        return await service.key_by_handle(transaction, handle)

    show(_record(run_in_transaction(database, revoked)), as_json=as_json)


@keys.command("list")
def list_keys(
    client_id: ClientId, database: DatabaseOption = None, *, as_json: JsonOption = False
) -> None:
    """List the keys of an app."""

    async def listed(transaction: Transaction) -> list[Key]:
        return await service.keys_of(transaction, await service.app_by_id(transaction, client_id))

    found = run(database, lambda opened: opened.read(listed))
    show_list([_record(key) for key in found], as_json=as_json)


async def _kind(transaction: Transaction) -> Mode:
    """Return the kind of keys that the database issues; unserved, it may be made a sandbox here."""
    if settings(None).sandbox:
        return await claim_mode(transaction, "test")
    return await mode_of(transaction)


async def _record_issued(transaction: Transaction, issued: IssuedKey, clock: Clock) -> None:
    key = issued.key
    await record_event(transaction, key.account_id, "key_issued", BY_OPERATOR, clock, key.label)


def _show_issued(issued: IssuedKey, *, as_json: bool) -> None:
    show(_record(issued.key) | {"key": issued.secret}, as_json=as_json)


def _record(key: Key) -> dict[str, Any]:
    return {
        "handle": key.handle,
        "name": key.name,
        "client_id": key.app_id,
        "created_at": timestamp(key.created_at),
        "ends_at": None if key.end is None else timestamp(key.end),
        "last_used_at": None if key.last_used_at is None else timestamp(key.last_used_at),
    }
