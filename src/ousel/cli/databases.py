"""The settings and the database of a command, and the services that use them."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from ousel.cli.console import clean_up_on_signal, fail
from ousel.database.addresses import (
    database_may_exist,
    is_postgres,
    open_database,
    sqlite_path,
)
from ousel.database.clock import check_skew, clock_of
from ousel.database.deployment import mode_of, recorded_mode
from ousel.database.port import Database, Transaction
from ousel.database.schema import (
    SCHEMA_VERSION,
    check_distribution,
    check_texts,
    is_supported,
    schema_version,
)
from ousel.kernel.clock import Clock
from ousel.kernel.errors import Refusal
from ousel.kernel.settings import PORT_DEFAULT, Settings, settings_from
from ousel.sandbox.clock import SandboxClock

if TYPE_CHECKING:
    from ousel.mail.outbox import Outbox

DATABASE_IS_LIVE: Final = "this database is live: a sandbox needs its own database"

Result = TypeVar("Result")
Service = TypeVar("Service")


def settings(database: str | None, port: int = PORT_DEFAULT, **changes: Any) -> Settings:
    """Return the environment's settings, changed by the command line's options."""
    if database is not None:
        changes["database_url"] = database
    return msgspec.structs.replace(settings_from(port=port), **changes)


def require_database(database: str | None) -> str:
    """Return the address of the database, or end the command if there is no such SQLite file.

    Opening a mistyped path would create an empty database there.
    """
    url = settings(database).database_url
    if not database_may_exist(url):
        path = sqlite_path(url)
        fail(
            f"there is no SQLite file {path}: name another database with --database or "
            f"OUSEL_DATABASE_URL, or create this one with 'ousel migrate --database {path}'"
        )
    return url


def _run(database: str | None, task: Callable[[Database, str], Awaitable[Result]]) -> Result:
    """Run the task with the open database and its address; the schema must be current."""
    url = require_database(database)

    async def run_task() -> Result:
        async with open_database(url) as opened:
            await check_schema(opened, url)
            return await task(opened, url)

    return asyncio.run(run_task())


def run_on_snapshot(
    database: str | None, work: Callable[[Transaction], Awaitable[Result]]
) -> Result:
    """Run the work on one snapshot of the database, which no other transaction changes."""
    return _run(database, lambda opened, _: opened.snapshot(work))


def read_if_reachable(
    database: str | None, work: Callable[[Transaction], Awaitable[Result]]
) -> Result | None:
    """Run reads on the database; return None if it does not exist or cannot be read now."""
    url = settings(database).database_url

    async def read() -> Result | None:
        async with open_database(url) as opened:
            version = await schema_version(opened, url)
            return await opened.read(work) if is_supported(version) else None

    try:
        return asyncio.run(read()) if database_may_exist(url) else None
    except Refusal:
        return None


def run_with(
    database: str | None,
    new_service: Callable[[Database, Clock], Service],
    task: Callable[[Service], Awaitable[Result]],
    *,
    writes: bool = True,
) -> Result:
    """Run the task with a service that uses the open database and the clock of Ousel's servers.

    If the task writes, it is refused on a host whose own clock is wrong.
    """

    async def with_service(opened: Database, url: str) -> Result:
        return await task(new_service(opened, await servers_clock(opened, url, writes=writes)))

    return _run(database, with_service)


def run_with_outbox(
    database: str | None,
    new_service: "Callable[[Database, Clock, Outbox], Service]",
    task: Callable[[Service], Awaitable[Result]],
    *,
    writes: bool = True,
    server_settings: Settings | None = None,
) -> Result:
    """Run the task with a service that also writes mail, which a server then sends.

    `server_settings` say whether mail is sent, and where its links lead. Without them, this
    command's own settings are used. If those say that a live database is a sandbox, whose mail is
    never sent, a command that writes ends.
    """
    from ousel.mail.outbox import Outbox

    async def with_service(opened: Database, url: str) -> Result:
        clock = await servers_clock(opened, url, writes=writes)
        own = settings(None)
        mode = await opened.read(recorded_mode)
        if writes and own.sandbox and mode == "live":
            fail(DATABASE_IS_LIVE)
        own = msgspec.structs.replace(own, sandbox=own.sandbox or mode == "test")
        outbox = Outbox(opened, clock, server_settings or own)
        return await task(new_service(opened, clock, outbox))

    return _run(database, with_service)


async def servers_clock(opened: Database, url: str, *, writes: bool = True) -> Clock:
    """Return the clock that Ousel's servers use: the database's, or the sandbox's.

    To write, this host's own clock must be right.
    """
    clock = clock_of(opened, url)
    await clock.measure()
    if writes:
        check_skew(clock.skew_micros)
    if await opened.read(mode_of) == "live":
        return clock
    sandbox_clock = SandboxClock(opened, clock)
    await sandbox_clock.refresh()
    return sandbox_clock


async def check_clock(opened: Database, url: str) -> None:
    """Refuse to write from a host whose clock differs from the database's."""
    clock = clock_of(opened, url)
    await clock.measure()
    check_skew(clock.skew_micros)


async def check_schema(database: Database, url: str) -> None:
    """End the command if Ousel cannot use the database: its texts, schema or distribution."""
    await check_texts(database, url)
    version = await schema_version(database, url)
    if not is_supported(version):
        found = f"the schema is at {version}" if version else "the database has no schema"
        fail(
            f"{found}, but {SCHEMA_VERSION} is needed: run 'ousel migrate' with the same "
            "--database or OUSEL_DATABASE_URL"
        )
    await check_distribution(database)


async def check_empty(url: str, message: str) -> None:
    """End the command with this message if the database that it will fill has Ousel's tables."""
    if not database_may_exist(url):
        return
    async with open_database(url) as database:
        await check_clock(database, url)
        version = await schema_version(database, url)
    if version is not None:
        fail(message)


def database_file(url: str) -> str | None:
    """Return the path of an SQLite file.

    Return None for PostgreSQL, because its address may contain a password.
    """
    return None if is_postgres(url) else str(sqlite_path(url))


@contextmanager
def temporary_database(
    given: str | None, message: str, folder: Path | None = None
) -> Iterator[str]:
    """Provide an empty database: the given one, or an SQLite file that is deleted afterwards."""
    with clean_up_on_signal():
        if given is not None:
            asyncio.run(check_empty(given, message))
            yield given
            return
        with tempfile.TemporaryDirectory(prefix="ousel-", dir=folder) as scratch:
            yield f"sqlite:///{Path(scratch).resolve() / 'ousel.db'}"
