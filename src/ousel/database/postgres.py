"""PostgreSQL: for production. Any number of Ousel processes share one primary."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from ousel.database import primary
from ousel.database.port import Connections, IntegrityViolation, Result, Work
from ousel.database.postgres_transaction import STATEMENTS_CACHED, PostgresTransaction
from ousel.database.retries import RowsLocked, TransientFailure, with_retries
from ousel.database.statements import UnstorableValue
from ousel.kernel.deadlines import check_deadline
from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

CONNECTIONS_MAX: Final = 10
CONNECT_TIMEOUT_SECONDS: Final = 5.0
ACQUIRE_TIMEOUT_SECONDS: Final = 10.0
COMMIT_TIMEOUT_SECONDS: Final = 8.0
STATEMENT_TIMEOUT_SECONDS: Final = 12.0

# Every statement of Ousel finds its rows by an index, in the order in which it needs them. The
# settings about plans have two purposes. A plan made while a table was empty would read or sort the
# whole table, and must not be kept. And planning the look-up of a few keys takes longer than the
# look-up itself, so it must not be repeated each time.
_SERVER_SETTINGS: Final = {
    "application_name": "ousel",
    "lock_timeout": "1500ms",  # longer than PostgreSQL needs to find a deadlock
    "idle_in_transaction_session_timeout": "15s",  # ends the locks of a process that hangs
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    "standard_conforming_strings": "on",  # PostgresTransaction quotes literals accordingly
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
    asyncpg.InternalClientError,  # the server ended the connection while it was idle
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
    asyncpg.InsufficientPrivilegeError,  # the tables belong to another role
    asyncpg.InsufficientResourcesError,  # mostly a full disk
    asyncpg.PostgresSystemError,
    asyncpg.IntegrityConstraintViolationError,
    asyncpg.DataError,
    UnicodeEncodeError,
)


class PostgresDatabase:
    """A pool of connections to one PostgreSQL primary."""

    def __init__(self, url: str) -> None:
        """Remember the address; `open` connects to it."""
        self._url = url
        self._pool: asyncpg.Pool[Any] | None = None
        self._idle: list[PoolConnectionProxy[Any]] = []  # faster than asking the pool
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
        """Close every connection."""
        if self._pool is not None:
            self._pool.terminate()

    async def read(self, work: Work[Result]) -> Result:
        """Run reads, each of which sees all that was committed before it."""
        return await with_retries(lambda _: self._read(work))

    async def snapshot(self, work: Work[Result]) -> Result:
        """Run reads that all see the state of the database at their start."""
        return await with_retries(lambda _: self._snapshot(work))

    async def write(
        self,
        work: Work[Result],
        *,
        resolves_unknown_commit: bool = False,
        before_commit: Callable[[], None] = check_deadline,
        repeats_locked: bool = True,
    ) -> Result:
        """Run the work in a transaction and commit it; repeat it as a whole if that is safe."""
        return await with_retries(
            lambda follows_unknown_commit: self._transact(
                work, follows_unknown_commit, before_commit
            ),
            resolves_unknown_commit=resolves_unknown_commit,
            repeats_locked=repeats_locked,
        )

    def version(self) -> int | None:
        """Return None: other processes commit, and only the server knows when."""
        return None

    def connections(self) -> Connections:
        """Return how many connections are open now."""
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
        follows_unknown_commit: bool,  # noqa: FBT001 - as the retry policy calls it
        before_commit: Callable[[], None],
    ) -> Result:
        async with self._connection() as connection:
            transaction = PostgresTransaction(
                connection, "BEGIN", follows_unknown_commit=follows_unknown_commit
            )
            try:
                result = await work(transaction)
                before_commit()
                await _commit(connection, transaction)
            except (*_DISCONNECTED, OutcomeUnknown):  # there is no session left for a rollback
                raise
            except BaseException:
                await _roll_back(connection)
                raise
        return result

    @contextlib.asynccontextmanager
    async def _connection(self) -> "AsyncIterator[PoolConnectionProxy[Any]]":
        """Yield a connection; do not reuse it if its server turns out to be gone or demoted."""
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
        """Return an idle connection, or the pool's next one.

        If the server refuses a new connection for any reason, that is a transient failure.
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
        """Give a connection back to the pool; ignore it if it breaks now, after the commit."""
        with contextlib.suppress(*_DISCONNECTED):
            await self._connections.release(connection)

    @property
    def _connections(self) -> "asyncpg.Pool[Any]":
        assert self._pool is not None, "the database is not open"
        return self._pool


async def _commit(connection: "PoolConnectionProxy[Any]", transaction: PostgresTransaction) -> None:
    """Commit, or raise OutcomeUnknown if the connection breaks before the answer arrives.

    If the commit takes too long, we end the connection instead of canceling the commit. If a
    commit that waits for a standby is canceled, PostgreSQL reports success although only the
    primary has it.
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
    """End a connection at once, unless the driver has ended it already."""
    with contextlib.suppress(asyncpg.InterfaceError):
        connection.terminate()


async def _roll_back(connection: "PoolConnectionProxy[Any]") -> None:
    try:
        if connection.is_in_transaction():
            await connection.execute("ROLLBACK")
    except (*_DISCONNECTED, asyncpg.PostgresError):
        _terminate(connection)


async def _skip_reset(_: object) -> None:
    """Do not reset a session when it is given back, which would take a round trip.

    Ousel leaves no settings or locks in a session, only prepared statements, which it reuses.
    """


def _translate(error: Exception) -> Exception:
    if isinstance(error, asyncpg.IntegrityConstraintViolationError):
        return IntegrityViolation(str(error))
    if isinstance(error, asyncpg.DataError | UnicodeEncodeError):
        return UnstorableValue(str(error))
    if isinstance(error, asyncpg.LockNotAvailableError):
        return TransientFailure(RowsLocked())
    return TransientFailure(_unavailable(error))


def _unavailable(error: BaseException) -> DatabaseUnavailable:
    reason = type(error).__name__
    return DatabaseUnavailable(
        f"PostgreSQL cannot be reached or refuses the connection ({reason}).",
        retry_after_seconds=1,
    )
