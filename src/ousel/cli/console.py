"""What every command shares: how it opens the database, prints, and fails."""

import asyncio
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, TypeVar

import msgspec
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ousel.database.addresses import database_at, may_exist, sqlite_path
from ousel.database.backup import BackupFailed
from ousel.database.deployment import mode_of
from ousel.database.port import Database
from ousel.database.schema import SCHEMA_VERSION, check_collation, is_supported, schema_version
from ousel.kernel.clock import Clock, system_clock
from ousel.kernel.errors import Refusal
from ousel.kernel.settings import PORT_DEFAULT, SettingError, Settings, settings_from
from ousel.ledger.verify import VerificationFailed
from ousel.sandbox.clock import SandboxClock

COLUMNS_MAX: Final = 1_000

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)

Result = TypeVar("Result")
Service = TypeVar("Service")

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="postgresql://… or the path of an SQLite file; default: OUSEL_DATABASE_URL.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

error_console = Console(stderr=True)


def settings(database: str | None, port: int = PORT_DEFAULT, **changes: Any) -> Settings:
    """Return the environment's settings with what the command line changes."""
    if database is not None:
        changes["database_url"] = database
    return msgspec.structs.replace(settings_from(port=port), **changes)


def require_database(database: str | None) -> str:
    """Return the address of the database, or say that there is no such file.

    To open it would create it, wherever a slip of the pen leads.
    """
    url = settings(database).database_url
    if not may_exist(url):
        folder = sqlite_path(url).parent
        fail(f"there is no SQLite file of this name in {folder}: run 'ousel migrate' to create it")
    return url


def run(database: str | None, task: Callable[[Database], Awaitable[Result]]) -> Result:
    """Run the task on the open database, whose schema must be current."""
    url = require_database(database)

    async def opened() -> Result:
        opened_database = database_at(url)
        await opened_database.open()
        try:
            await check_schema(opened_database, url)
            return await task(opened_database)
        finally:
            await opened_database.close()

    return asyncio.run(opened())


def run_with(
    database: str | None,
    new_service: Callable[[Database, Clock], Service],
    task: Callable[[Service], Awaitable[Result]],
) -> Result:
    """Run the task with a service that works on the open database, by its clock."""

    async def with_service(opened: Database) -> Result:
        return await task(new_service(opened, await _clock_of(opened)))

    return run(database, with_service)


async def _clock_of(opened: Database) -> Clock:
    """Return the clock that the database's servers use; tests can advance that of a sandbox."""
    if await opened.read(mode_of) == "live":
        return system_clock
    clock = SandboxClock(opened, system_clock)
    await clock.refresh()
    return clock


async def check_schema(database: Database, url: str) -> None:
    """End the command where the schema is too old, or the order of ids another; name the cure."""
    await check_collation(database, url)
    version = await schema_version(database, url)
    if not is_supported(version):
        fail(
            f"the schema is at {version or 'nothing yet'}, "
            f"{SCHEMA_VERSION} is needed: run 'ousel migrate'"
        )


async def check_empty(url: str, otherwise: str) -> None:
    """End the command, and say why, where there is something in the database already."""
    if not may_exist(url):
        return
    database = database_at(url)
    await database.open()
    try:
        version = await schema_version(database, url)
    finally:
        await database.close()
    if version is not None:
        fail(otherwise)


@contextmanager
def temporary_database(
    given: str | None, otherwise: str, folder: Path | None = None
) -> Iterator[str]:
    """Lend a database with nothing in it: the one that is given, or a file that does not last."""
    with clean_up_on_signal():
        if given is not None:
            asyncio.run(check_empty(given, otherwise))
            yield given
            return
        with tempfile.TemporaryDirectory(prefix="ousel-", dir=folder) as scratch:
            yield f"sqlite:///{Path(scratch).resolve() / 'ousel.db'}"


@contextmanager
def clean_up_on_signal() -> Iterator[None]:
    """Let a block leave nothing behind where a signal ends the command in its midst."""

    def ended(number: int, _: object) -> NoReturn:
        raise SystemExit(128 + number)  # as a shell tells it

    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread alone
        return
    untouched = [each for each in _ENDING if signal.getsignal(each) is signal.SIG_DFL]
    for number in untouched:
        signal.signal(number, ended)
    try:
        yield
    finally:
        for number in untouched:
            signal.signal(number, signal.SIG_DFL)


def show(record: dict[str, Any], *, as_json: bool) -> None:
    """Print one record."""
    if as_json:
        print_json(record)
        return
    table = Table(show_header=False, box=None, pad_edge=False)
    for name, value in record.items():
        table.add_row(Text(name, style="bold"), _text(value))
    _print_whole(table)


def show_list(records: Sequence[dict[str, Any]], *, as_json: bool) -> None:
    """Print a list of records."""
    if as_json:
        print_json(records)
        return
    if not records:
        Console().print("none")
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in records[0]:
        table.add_column(name)
    for record in records:
        table.add_row(*map(_text, record.values()))
    _print_whole(table)


def print_json(value: Any) -> None:
    """Print a value as JSON on standard output."""
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
    sys.stdout.buffer.flush()


def fail(reason: str) -> NoReturn:
    """End the command with one clear line on standard error."""
    _complain(reason)
    raise typer.Exit(1)


def run_explained(commands: typer.Typer) -> int:
    """Run a command and return its exit code; what is wrong is told in one clear line."""
    try:
        _check_arguments(sys.argv)
        exit_code: int | None = commands(standalone_mode=False)
    except typer.TyperException as error:
        _explain_usage(error)
        return error.exit_code
    except Refusal as refusal:
        _complain(refusal.detail)
        return 1
    except (SettingError, BackupFailed, VerificationFailed) as error:
        _complain(str(error))
        return 1
    except OSError as error:  # a full disk or a folder that is gone, met where nobody looked for it
        discard_output()
        reason = error.strerror or str(error)
        _complain(reason if error.filename is None else f"{error.filename}: {reason}")
        return 1
    return exit_code or 0


def discard_output() -> None:
    """Let what is still to be printed go nowhere: it was tried in vain, or nobody reads it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_arguments(arguments: Sequence[str]) -> None:
    """Refuse bytes that are no text before they get anywhere near the books."""
    try:
        "".join(arguments).encode()
    except UnicodeEncodeError:
        raise SettingError("the arguments must be text in UTF-8") from None


def _explain_usage(error: typer.TyperException) -> None:
    """Print what is wrong with the command line, unless Typer has printed the help instead."""
    reason = error.format_message().rstrip(".")
    if reason:
        context = getattr(error, "ctx", None)
        command = "ousel" if context is None else context.command_path
        _complain(f"{reason} (see '{command} --help')")


def _complain(reason: str) -> None:
    error_console.print(f"ousel: {reason}", markup=False, highlight=False, soft_wrap=True)


def _print_whole(table: Table) -> None:
    """Print a table as wide as its values: an id or a key is never cut off or broken."""
    Console(width=COLUMNS_MAX).print(table)


def _text(value: Any) -> Text:
    if isinstance(value, msgspec.Raw):
        return Text(bytes(value).decode())
    return Text("" if value is None else str(value))
