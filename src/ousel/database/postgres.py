"""PostgreSQL: for production. Any number of Ousel processes share one primary."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

import asyncpg

from ousel.database import primary
from ousel.database.port import Connections, IntegrityViolation, Result, Row, Work
from ousel.database.retries import TransientFailure, with_retries
from ousel.database.statements import (
    CompiledStatement,
    Statement,
    Table,
    UnstorableValue,
    bulk_insert,
    bulk_update,
    for_postgres,
)
from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    from ousel.database.primary import MonitoredConnection

CONNECTIONS_MAX: Final = 10
CONNECT_TIMEOUT_SECONDS: Final = 5.0
ACQUIRE_TIMEOUT_SECONDS: Final = 10.0
COMMIT_TIMEOUT_SECONDS: Final = 8.0
STATEMENT_TIMEOUT_SECONDS: Final = 12.0
STATEMENTS_CACHED: Final = 256

# Every statement of Ousel finds its rows by an index, in the order that it wants them in. Without
# these, a plan made while a table is still empty reads all of it or sorts it, and stays so; or
# short lists of keys are planned anew each time, which takes longer than to look them up.
_SERVER_SETTINGS: Final = {
    "application_name": "ousel",
    "lock_timeout": "5s",
    "idle_in_transaction_session_timeout": "15s",  # a process that died holds no locks for long
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    "standard_conforming_strings": "on",  # as _quoted needs it
}

_ROLLED_BACK: Final = (
    asyncpg.SerializationError,
    asyncpg.DeadlockDetectedError,
    asyncpg.LockNotAvailableError,
)
_DISCONNECTED: Final = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # the server said goodbye while the connection was idle
    asyncpg.PostgresConnectionError,
    asyncpg.OperatorInterventionError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
    asyncpg.ReadOnlySQLTransactionError,
)

_DRIVER_ERRORS: Final = (
    *_DISCONNECTED,
    *_ROLLED_BACK,
    asyncpg.InsufficientPrivilegeError,  # the tables are another role's
    asyncpg.InsufficientResourcesError,  # a full disk, above all
    asyncpg.PostgresSystemError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.DataError,
    UnicodeEncodeError,
)


class PostgresTransaction:
    """Statements on one connection.

    What returns nothing need not wait for an answer: the transaction's beginning and its bulk
    writes travel with whatever is sent next, in the end with the commit. A posting's batch so
    takes three round trips: begin, look, write and commit.
    """

    def __init__(
        self, connection: "PoolConnectionProxy[Any]", *unsent: str, in_doubt: bool = False
    ) -> None:
        """Run statements on this connection, after those that are still to be sent."""
        self._connection = connection
        self.in_doubt = in_doubt
        self._unsent = list(unsent)

    async def send(self, *statements: str) -> None:
        """Send what is unsent, and these statements after it."""
        texts, self._unsent = [*self._unsent, *statements], []
        await self._connection.execute("; ".join(texts))

    async def fetch(self, statement: Statement, **parameters: object) -> list[Row]:
        """Run the statement and return all its rows."""
        if self._unsent:
            await self.send()
        compiled = _compiled(statement)
        rows = await self._connection.fetch(compiled.text, *compiled.arguments(parameters))
        return list(rows)

    async def execute(self, statement: Statement, **parameters: object) -> int:
        """Run the statement and return how many rows it touched."""
        if self._unsent:
            await self.send()
        compiled = _compiled(statement)
        tag = await self._connection.execute(compiled.text, *compiled.arguments(parameters))
        return int(tag.rpartition(" ")[2])

    async def insert(self, table: Table, rows: Iterable[Sequence[object]]) -> None:
        """Insert the rows, all in one go."""
        await self._write(bulk_insert, table, rows)

    async def update(self, table: Table, rows: Iterable[Sequence[object]]) -> None:
        """Write the columns after the key of the rows that exist, all in one go."""
        await self._write(bulk_update, table, rows)

    async def _write(
        self,
        make: Callable[[Table], Statement],
        table: Table,
        rows: Iterable[Sequence[object]],
    ) -> None:
        compiled = _compiled_bulk(make, table)
        [values] = compiled.arguments({"rows": rows})
        name = await cast("MonitoredConnection", self._connection).prepare_once(compiled.text)
        self._unsent.append(f"EXECUTE {name}({_quoted(values)})")


class PostgresDatabase:
    """A pool of connections to one PostgreSQL primary."""

    def __init__(self, url: str) -> None:
        """Connect to this address, once opened."""
        self._url = url
        self._pool: asyncpg.Pool[Any] | None = None
        self._idle: list[PoolConnectionProxy[Any]] = []  # the pool takes its time to lend one
        self._waiters = 0

    async def open(self) -> None:
        """Connect, or raise DatabaseUnavailable."""
        try:
            self._pool = await asyncpg.create_pool(
                self._url,
                connect=primary.connect,
                min_size=1,
                max_size=CONNECTIONS_MAX,
                reset=_skip_reset,
                timeout=CONNECT_TIMEOUT_SECONDS,
                command_timeout=STATEMENT_TIMEOUT_SECONDS,
                statement_cache_size=STATEMENTS_CACHED,
                server_settings=_SERVER_SETTINGS,
            )
        except (*_DISCONNECTED, asyncpg.PostgresError, ValueError) as error:
            raise _unavailable(error) from error

    async def close(self) -> None:
        """Let go of every connection."""
        if self._pool is not None:
            self._pool.terminate()

    async def read(self, work: Work[Result]) -> Result:
        """Run reads, each of which sees all that was committed before it."""
        return await with_retries(lambda _: self._read(work))

    async def snapshot(self, work: Work[Result]) -> Result:
        """Run reads that all see the one state of the database at their start."""
        return await with_retries(lambda _: self._snapshot(work))

    async def write(
        self,
        work: Work[Result],
        *,
        resolves_unknown_commit: bool = False,
        while_committing: Callable[[], None] | None = None,
    ) -> Result:
        """Run the work in a transaction and commit it; repeat it as a whole where that is safe."""
        return await with_retries(
            lambda in_doubt: self._transact(work, in_doubt, while_committing),
            resolves_unknown_commit=resolves_unknown_commit,
        )

    def version(self) -> int | None:
        """Return nothing: other processes commit, and only the server knows when."""
        return None

    def connections(self) -> Connections:
        """Return how many connections the pool has open at this moment."""
        idle = self._connections.get_idle_size() + len(self._idle)
        return Connections(in_use=self._connections.get_size() - idle, idle=idle)

    async def _read(self, work: Work[Result]) -> Result:
        async with self._connection() as connection:
            return await work(PostgresTransaction(connection))

    async def _snapshot(self, work: Work[Result]) -> Result:
        async with (
            self._connection() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            return await work(PostgresTransaction(connection))

    async def _transact(
        self,
        work: Work[Result],
        in_doubt: bool,  # noqa: FBT001 - as the retry policy calls it
        while_committing: Callable[[], None] | None,
    ) -> Result:
        async with self._connection() as connection:
            transaction = PostgresTransaction(connection, "BEGIN", in_doubt=in_doubt)
            try:
                result = await work(transaction)
                if while_committing is not None:
                    while_committing()
                await _commit(connection, transaction)
            except (*_DISCONNECTED, OutcomeUnknown):  # there is no session left to roll back
                raise
            except BaseException:
                await _roll_back(connection)
                raise
        return result

    @contextlib.asynccontextmanager
    async def _connection(self) -> "AsyncIterator[PoolConnectionProxy[Any]]":
        """Lend a connection; one whose server is gone, stuck or demoted is lent to nobody else."""
        try:
            connection = await self._acquire()
            try:
                yield connection
            except BaseException as error:
                if isinstance(error, _DISCONNECTED):
                    _terminate(connection)
                await self._release(connection)
                raise
            if self._waiters:
                await self._release(connection)
            else:
                self._idle.append(connection)
        except _DRIVER_ERRORS as error:
            raise _translate(error) from error

    async def _acquire(self) -> "PoolConnectionProxy[Any]":
        """Return a connection that is at hand, or the pool's next one.

        Whatever a server says to a new connection but welcome, it is no fault of a statement's.
        """
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
            await self._release(connection)
        self._waiters += 1
        try:
            return await self._connections.acquire(timeout=ACQUIRE_TIMEOUT_SECONDS)
        except asyncpg.PostgresError as error:
            raise TransientFailure(_unavailable(error)) from error
        finally:
            self._waiters -= 1

    async def _release(self, connection: "PoolConnectionProxy[Any]") -> None:
        """Give a connection back; should it break now, what was committed stays committed."""
        with contextlib.suppress(*_DISCONNECTED):
            await self._connections.release(connection)

    @property
    def _connections(self) -> "asyncpg.Pool[Any]":
        assert self._pool is not None, "the database is not open"
        return self._pool


async def _commit(connection: "PoolConnectionProxy[Any]", transaction: PostgresTransaction) -> None:
    """Commit; where the connection breaks meanwhile, nobody can tell whether it took effect.

    A commit that takes too long is never canceled, its connection is ended: one that waits for
    a standby would, if canceled, stand on the primary alone and yet be reported as done.
    """
    if connection.is_closed():
        raise ConnectionResetError("The server ended the transaction before its commit was sent.")
    overdue = asyncio.get_running_loop().call_later(COMMIT_TIMEOUT_SECONDS, _terminate, connection)
    try:
        await transaction.send("COMMIT")
    except _DISCONNECTED as error:
        _terminate(connection)
        raise OutcomeUnknown(
            "The connection to the database broke during the commit.", retry_after_seconds=1
        ) from error
    finally:
        overdue.cancel()


def _terminate(connection: "PoolConnectionProxy[Any]") -> None:
    """End a connection at once, unless the driver has given it up already."""
    with contextlib.suppress(asyncpg.InterfaceError):
        connection.terminate()


async def _roll_back(connection: "PoolConnectionProxy[Any]") -> None:
    try:
        if connection.is_in_transaction():
            await connection.execute("ROLLBACK")
    except (*_DISCONNECTED, asyncpg.PostgresError):
        _terminate(connection)


async def _skip_reset(_: object) -> None:
    """Spare the round trip of a reset: all that Ousel leaves in a session is statements prepared.

    Those are to stay; nothing that it runs changes a session's settings or keeps a lock there.
    """


def _translate(error: Exception) -> Exception:
    if isinstance(error, asyncpg.IntegrityConstraintViolationError):
        return IntegrityViolation(str(error))
    if isinstance(error, asyncpg.DataError | UnicodeEncodeError):
        return UnstorableValue(str(error))
    return TransientFailure(_unavailable(error))


def _unavailable(error: BaseException) -> DatabaseUnavailable:
    reason = type(error).__name__
    return DatabaseUnavailable(
        f"PostgreSQL cannot be reached or refuses the connection ({reason}).",
        retry_after_seconds=1,
    )


def _quoted(text: str) -> str:
    """Return a text as a literal of SQL."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'"


@lru_cache(maxsize=STATEMENTS_CACHED)
def _compiled(statement: Statement) -> CompiledStatement:
    return for_postgres(statement)


@lru_cache(maxsize=STATEMENTS_CACHED)
def _compiled_bulk(make: Callable[[Table], Statement], table: Table) -> CompiledStatement:
    return for_postgres(make(table))
