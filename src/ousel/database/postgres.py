"""PostgreSQL: for production. Any number of Ousel processes share one primary."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Final

import asyncpg

from ousel.database import citus
from ousel.database.citus_transaction import CitusTransaction
from ousel.database.pool import ConnectionPool
from ousel.database.port import Connections, IntegrityViolation, Result, Work
from ousel.database.postgres_transaction import BEGIN, STATEMENTS_CACHED, PostgresTransaction
from ousel.database.primary import MonitoredConnection, Primary
from ousel.database.retries import RowsLocked, TransientFailure, with_retries
from ousel.database.statements import UnstorableValue
from ousel.database.suspension import WriteSuspension, suspension_refusal
from ousel.kernel.cancellation import run_to_end
from ousel.kernel.deadlines import check_deadline
from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown

READ_CONNECTIONS_MAX: Final = 4
WRITE_CONNECTIONS_MAX: Final = 5
CONNECTIONS_MAX: Final = READ_CONNECTIONS_MAX + WRITE_CONNECTIONS_MAX + 1  # and one for probes
CONNECT_TIMEOUT_SECONDS: Final = 5.0
COMMIT_TIMEOUT_SECONDS: Final = 8.0
STATEMENT_TIMEOUT_SECONDS: Final = 12.0

# Every statement of Ousel finds its rows by an index, in the order in which it needs them. Planning
# the look-up of a few keys takes longer than the look-up itself, so plans are kept. Therefore no
# plan may read or sort a whole table, not even a plan that was made while the table was empty.
_SERVER_SETTINGS: Final = {
    "application_name": "ousel",
    "lock_timeout": "1500ms",  # longer than PostgreSQL needs to find a deadlock
    "idle_in_transaction_session_timeout": "15s",  # releases the locks of a process that hangs
    "plan_cache_mode": "force_generic_plan",
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    "standard_conforming_strings": "on",  # PostgresTransaction quotes literals accordingly
}

# A snapshot of a large ledger is worked on for minutes between two statements.
_ALLOW_PAUSES: Final = "SET LOCAL idle_in_transaction_session_timeout = '1h'"
_PROBE: Final = "SELECT pg_logical_emit_message(true, 'ousel', '')"

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
    """Connections to one PostgreSQL primary: some for reads, others for writes."""

    def __init__(self, url: str) -> None:
        """Remember the address; `open` connects to it."""
        self._primary = Primary(url)
        self._transaction: type[PostgresTransaction] = PostgresTransaction
        self._settings = _SERVER_SETTINGS
        self._begin = [BEGIN]
        self._probe_text = _PROBE
        self._reads = ConnectionPool(self._connect, READ_CONNECTIONS_MAX)
        self._writes = ConnectionPool(self._connect, WRITE_CONNECTIONS_MAX)
        self._suspension = WriteSuspension(
            self._probe, on_suspended=lambda: self._writes.refuse_waiters(suspension_refusal())
        )

    async def open(self) -> None:
        """Connect, or raise DatabaseUnavailable."""
        try:
            connection = await self._reads.acquire()
            try:
                if await citus.is_distributed(connection):
                    self._use_citus()
                    connection.terminate()
            finally:
                self._reads.release(connection)
        except (*_DISCONNECTED, asyncpg.PostgresError, ValueError) as error:
            raise _unavailable(error) from error

    def _use_citus(self) -> None:
        self._transaction = CitusTransaction
        self._settings = _SERVER_SETTINGS | citus.SETTINGS
        self._begin = [BEGIN, citus.LOCAL_SETTINGS]
        self._probe_text = citus.PROBE

    async def close(self) -> None:
        """Close every connection."""
        await self._suspension.close()
        self._reads.terminate()
        self._writes.terminate()

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
        before_commit: Callable[[], None] | None = None,
        repeats_locked: bool = True,
    ) -> Result:
        """Run the work in a transaction and commit it; repeat it as a whole if that is safe.

        A commit must not be canceled, so a request that is canceled waits for the end of its
        transaction, which is rolled back if its commit has not begun. A batch, which has its own
        `before_commit`, is never canceled.
        """
        check = before_commit or partial(_check_caller, asyncio.current_task())
        transacting = with_retries(
            lambda follows_unknown_commit: self._transact(work, follows_unknown_commit, check),
            resolves_unknown_commit=resolves_unknown_commit,
            repeats_locked=repeats_locked,
        )
        if before_commit is None:
            return await run_to_end(transacting)
        return await transacting

    def is_distributed(self) -> bool:
        """Return whether Citus distributes the tables, as `open` has found."""
        return self._transaction is CitusTransaction

    def version(self) -> int | None:
        """Return None: other processes commit, and only the server knows when."""
        return None

    def connections(self) -> Connections:
        """Return how many connections are open now, and whether writes are suspended."""
        reads, writes = self._reads.counts(), self._writes.counts()
        return Connections(
            in_use=reads.in_use + writes.in_use,
            idle=reads.idle + writes.idle,
            abandoned_commits=writes.abandoned_commits,
            writes_suspended=self._suspension.is_suspended,
        )

    async def _read(self, work: Work[Result]) -> Result:
        async with _connection_of(self._reads) as connection:
            return await self._run(work, self._transaction(connection), connection)

    async def _snapshot(self, work: Work[Result]) -> Result:
        async with (
            _connection_of(self._reads) as connection,
            self._consistent_transaction(connection),
        ):
            await connection.execute(_ALLOW_PAUSES)
            return await self._run(work, self._transaction(connection), connection)

    def _consistent_transaction(
        self, connection: MonitoredConnection
    ) -> contextlib.AbstractAsyncContextManager[object]:
        if self.is_distributed():
            return citus.consistent_transaction(connection, self._connect)
        return connection.transaction(isolation="repeatable_read", readonly=True)

    async def _transact(
        self,
        work: Work[Result],
        follows_unknown_commit: bool,  # noqa: FBT001 - as the retry policy calls it
        before_commit: Callable[[], None],
    ) -> Result:
        self._suspension.check()
        async with _connection_of(self._writes) as connection:
            transaction = self._transaction(
                connection, *self._begin, follows_unknown_commit=follows_unknown_commit
            )
            try:
                result = await self._run(work, transaction, connection)
                self._suspension.check()
                before_commit()
                await self._commit(connection, transaction)
            except (*_DISCONNECTED, OutcomeUnknown):  # there is no session left for a rollback
                raise
            except BaseException:
                if transaction.has_begun:
                    await _roll_back(connection)
                raise
        return result

    async def _run(
        self, work: Work[Result], transaction: PostgresTransaction, connection: MonitoredConnection
    ) -> Result:
        """Run the work; if another host has taken over, discard the work's result or refusal."""
        if not self._primary.has_several_hosts:
            return await work(transaction)
        begun = asyncio.get_running_loop().time()
        try:
            result = await work(transaction)
        except _DRIVER_ERRORS:
            raise
        except Exception:
            await self._primary.check(connection, begun)
            raise
        await self._primary.check(connection, begun)
        return result

    async def _commit(
        self, connection: MonitoredConnection, transaction: PostgresTransaction
    ) -> None:
        """Commit, or raise OutcomeUnknown if the connection breaks before the answer arrives.

        If the commit takes too long, we abandon it instead of canceling it. If a commit that waits
        for a standby is canceled, PostgreSQL reports success although only the primary has it. If
        the caller is canceled, we abandon the commit too, before the driver cancels it.
        """
        if connection.is_closed():
            raise ConnectionResetError("The server ended the transaction before its commit.")
        overdue = asyncio.get_running_loop().call_later(
            COMMIT_TIMEOUT_SECONDS, self._abandon, connection
        )
        try:
            await transaction.send("COMMIT")
        except _DISCONNECTED as error:
            connection.terminate()
            raise OutcomeUnknown(
                "The connection to the database broke during the commit.", retry_after_seconds=1
            ) from error
        except asyncio.CancelledError:
            self._abandon(connection)
            raise
        finally:
            overdue.cancel()

    def _abandon(self, connection: MonitoredConnection) -> None:
        """Give up a commit that the server has not answered, and find out whether others succeed.

        The commit still waits in the server, so the connection keeps its place in the pool.
        """
        self._writes.abandon(connection)
        if self._writes.counts().abandoned_commits == WRITE_CONNECTIONS_MAX:
            self._suspension.suspend()
        else:
            self._suspension.probe()

    async def _probe(self) -> None:
        """Commit without an effect, then stop waiting for the commits that were abandoned before.

        The primary confirms commits in the order of its write-ahead log. So an earlier commit that
        still hangs is in a server that is no longer the primary. On Citus, each server does so.
        """
        while True:
            abandoned = self._writes.abandoned()
            await self._commit_without_effect()
            self._writes.forget(abandoned)
            if not self._writes.abandoned():
                return

    async def _commit_without_effect(self) -> None:
        """Commit a transaction that writes only to the WAL; unlike others, it may be canceled."""
        connection = await self._connect()
        try:
            await connection.execute(self._probe_text, timeout=COMMIT_TIMEOUT_SECONDS)
        finally:
            await connection.close(timeout=CONNECT_TIMEOUT_SECONDS)

    async def _connect(self) -> MonitoredConnection:
        return await self._primary.connect(
            timeout=CONNECT_TIMEOUT_SECONDS,
            command_timeout=STATEMENT_TIMEOUT_SECONDS,
            statement_cache_size=STATEMENTS_CACHED,
            server_settings=self._settings,
        )


def _check_caller(caller: "asyncio.Task[object] | None") -> None:
    """Refuse to commit for a request that was canceled, or whose deadline has passed."""
    if caller is not None and caller.cancelling():
        raise asyncio.CancelledError
    check_deadline()


@contextlib.asynccontextmanager
async def _connection_of(pool: ConnectionPool) -> AsyncIterator[MonitoredConnection]:
    """Yield a connection; do not reuse it if its server turns out to be gone or demoted."""
    try:
        connection = await _acquire(pool)
        try:
            yield connection
        except _DISCONNECTED:
            connection.terminate()
            raise
        finally:
            pool.release(connection)
    except _DRIVER_ERRORS as error:
        raise _translate(error) from error


async def _acquire(pool: ConnectionPool) -> MonitoredConnection:
    """Return a connection; if the server refuses it for any reason, that is a transient failure."""
    try:
        return await pool.acquire()
    except asyncpg.PostgresError as error:
        raise TransientFailure(_unavailable(error)) from error


async def _roll_back(connection: MonitoredConnection) -> None:
    try:
        if not connection.is_closed():
            await connection.execute("ROLLBACK")
    except (*_DISCONNECTED, asyncpg.PostgresError):
        connection.terminate()


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
        f"PostgreSQL cannot be reached, or could not run the transaction ({reason}).",
        retry_after_seconds=1,
    )
