"""`ousel app` and `ousel key`: partner apps and their keys."""

import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, Final

import typer

from ousel.cli.command_group import command_group
from ousel.cli.console import DatabaseOption, JsonOption, fail, show, show_list
from ousel.cli.databases import Result, run_with_outbox, settings
from ousel.kernel.clock import timestamp
from ousel.partners.operator_service import OperatorService
from ousel.partners.rules import OVERLAP_SECONDS_DEFAULT, Key
from ousel.partners.service import IssuedKey

SECONDS_PER_HOUR: Final = 3600

apps = command_group("Create partner apps.")
keys = command_group("Issue, rotate, revoke and list partner keys.")

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
        list[str] | None,
        typer.Option(help="An address to which Connect may send people back; may be repeated."),
    ] = None,
    origin: Annotated[
        list[str] | None,
        typer.Option(help="A web origin whose pages may call the API; may be repeated."),
    ] = None,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Create an app with its first key, which is shown only once."""
    created = _run(
        database,
        lambda service: service.create_app(owner, name, redirect_uri or [], origin or []),
    )
    record = {
        "client_id": created.app.id,
        "name": created.app.name,
        "owner": created.owner.username,
        "key": created.issued.secret,
    }
    show(record, as_json=as_json)


@keys.command()
def issue(
    client_id: ClientId,
    *,
    name: Annotated[str, typer.Option(help="What the key is for.")] = "key",
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Issue another key to an app; it is shown only once."""
    issued = _run(database, lambda service: service.issue_key(client_id, name))
    _show_issued(issued, as_json=as_json)


@keys.command()
def rotate(
    handle: Handle,
    *,
    overlap_hours: Annotated[
        float, typer.Option(help="How long the old key stays valid; 0 ends it at once.")
    ] = OVERLAP_SECONDS_DEFAULT / SECONDS_PER_HOUR,
    database: DatabaseOption = None,
    as_json: JsonOption = False,
) -> None:
    """Replace a key with a new one; the old key stays valid for a while."""
    if not math.isfinite(overlap_hours * SECONDS_PER_HOUR):
        fail("the overlap must be a number of hours")
    overlap_seconds = round(overlap_hours * SECONDS_PER_HOUR)
    issued = _run(database, lambda service: service.rotate_key(handle, overlap_seconds))
    _show_issued(issued, as_json=as_json)


@keys.command()
def revoke(handle: Handle, database: DatabaseOption = None, *, as_json: JsonOption = False) -> None:
    """Revoke a key at once."""
    revoked = _run(database, lambda service: service.revoke_key(handle))
    show(_record(revoked), as_json=as_json)


@keys.command("list")
def list_keys(
    client_id: ClientId, database: DatabaseOption = None, *, as_json: JsonOption = False
) -> None:
    """List the keys of an app."""
    found = _run(database, lambda service: service.list_keys(client_id), writes=False)
    show_list([_record(key) for key in found], as_json=as_json)


def _run(
    database: str | None,
    task: Callable[[OperatorService], Awaitable[Result]],
    *,
    writes: bool = True,
) -> Result:
    """Run the task.

    With OUSEL_SANDBOX, issuing a key makes the database a sandbox if it has no mode yet.
    """
    new_service = partial(OperatorService, sandbox=settings(None).sandbox)
    return run_with_outbox(database, new_service, task, writes=writes)


def _show_issued(issued: IssuedKey, *, as_json: bool) -> None:
    show(_record(issued.key) | {"key": issued.secret}, as_json=as_json)


def _record(key: Key) -> dict[str, Any]:
    return {
        "handle": key.handle,
        "name": key.name,
        "client_id": key.app_id,
        "created_at": timestamp(key.created_at),
        "ends_at": None if key.ends_at is None else timestamp(key.ends_at),
        "last_used_at": None if key.last_used_at is None else timestamp(key.last_used_at),
    }
