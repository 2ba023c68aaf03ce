"""A simulated PostgreSQL server, and the database port of a process that is connected to it."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from ousel.database.port import Connections, IntegrityViolation, Result, Row, Work
from ousel.database.postgres import _SERVER_SETTINGS, COMMIT_TIMEOUT_SECONDS
from ousel.database.retries import TransientFailure, with_retries
from ousel.database.sqlite_transaction import _compiled, _insert, _update
from ousel.database.statements import Statement, Table
from ousel.kernel.deadlines import check_deadline
from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown
from tests.simulation.locks import LockOwner, LockTable
from tests.simulation.loop import SimulatedLoop
from tests.simulation.statements import Footprint, footprint, inserted_keys, merge_snapshot
from tests.simulation.store import Commit, CommitObserver, Store, Write
from tests.simulation.trace import Trace

LOCK_TIMEOUT_SECONDS = float(_SERVER_SETTINGS["lock_timeout"].removesuffix("ms")) / 1000
IDLE_IN_TRANSACTION_SECONDS = float(
    _SERVER_SETTINGS["idle_in_transaction_session_timeout"].removesuffix("s")
)
LATE_COMMIT_SECONDS_MAX = 12.0  # how long an abandoned commit may wait for a follower


class CommitFaults:
    """How likely it is that a commit goes wrong, and how."""

    def __init__(self) -> None:
        self.request_lost = 0.0
        self.answer_lost = 0.0
        self.late = 0.0
        self.disconnected = 0.0  # each statement


class PostgresServer:
    """The server: its tables, its locks, its clock, and what is wrong with it."""

    locks_rows = True  # two planted bugs change these
    answers_before_commit = False

    def __init__(self, store: Store, loop: SimulatedLoop, random: Random, trace: Trace) -> None:
        self.store = store
        self.loop = loop
        self.random = random
        self.trace = trace
        self.locks = LockTable(loop, LOCK_TIMEOUT_SECONDS)
        self.faults = CommitFaults()
        self.is_down = False
        self.clock: Callable[[], int] = lambda: 0
        self.observers: list[CommitObserver] = []
        self.sessions: set[Session] = set()
        self.session_count = 0

    def stop(self) -> None:
        """Break every connection, and accept none until `start`; open transactions are undone."""
        self.is_down = True
        for session in sorted(self.sessions, key=lambda each: each.number):
            session.break_off()

    def start(self) -> None:
        """Accept connections again."""
        self.is_down = False

    def break_sessions_of(self, process: object) -> None:
        """Undo the open transactions of a process that is gone; commits on their way proceed."""
        for session in sorted(self.sessions, key=lambda each: each.number):
            if session.process is process and not session.is_committing:
                session.break_off()

    def commit(self, session: "Session") -> None:
        """Make the session's writes permanent and visible, and release its locks."""
        commit = Commit(tuple(session.writes), session.process)
        self.store.commit(commit)
        for observe in self.observers:
            observe(commit)


_UNREACHABLE = "PostgreSQL cannot be reached."


def _disconnected() -> TransientFailure:
    return TransientFailure(DatabaseUnavailable(_UNREACHABLE, retry_after_seconds=1))


class Session(LockOwner):
    """A connection with one transaction, as the server sees it."""

    def __init__(self, server: PostgresServer, process: object) -> None:
        super().__init__()
        server.session_count += 1
        self.number = server.session_count
        self.server = server
        self.process = process
        self.writes: list[Write] = []
        self.is_committing = False
        server.sessions.add(self)

    def end(self) -> None:
        """Release the locks, and forget the transaction."""
        self.server.sessions.discard(self)
        self.server.locks.release_all(self)

    def break_off(self) -> None:
        """End the transaction without a commit; its process gets an error."""
        if self.is_broken:
            return
        self.is_broken = True
        self.end()
        pending = self.pending
        if pending is not None and not pending.done():
            pending.set_exception(_disconnected())

    async def travel(self) -> None:
        """Let a statement travel to the server; it may not arrive."""
        server = self.server
        if self.is_broken or server.is_down:
            self.break_off()
            raise _disconnected()
        loop = asyncio.get_running_loop()
        self.pending = arrival = loop.create_future()
        server.loop.call_later(0.0002 + 0.0008 * server.random.random(), _resolve, arrival)
        try:
            await arrival
        finally:
            self.pending = None
        if self.is_broken:  # while the process was frozen
            raise _disconnected()
        if server.faults.disconnected and server.random.random() < server.faults.disconnected:
            server.trace.add("session breaks", self.number)
            self.break_off()
            raise _disconnected()

    async def commit(self) -> None:
        """Commit, or raise OutcomeUnknown if no answer arrives."""
        if self.is_broken or self.server.is_down:
            self.break_off()
            raise _disconnected()
        server, loop = self.server, asyncio.get_running_loop()
        self.is_committing = True
        self.pending = answer = loop.create_future()
        fault = self._draw_fault()
        self._send_commit(answer, fault)
        if server.answers_before_commit:
            answer.set_result(None)
        elif fault is not None:
            server.trace.add("commit fault", self.number, fault)
            seconds = 0.001 + 2.0 * server.random.random() ** 2
            loop.call_later(seconds, _fail, answer)
        overdue = loop.call_later(COMMIT_TIMEOUT_SECONDS, _fail, answer)
        try:
            await answer
        except TransientFailure as error:
            raise _unknown() from error
        finally:
            self.pending = None
            overdue.cancel()

    def _send_commit(self, answer: "asyncio.Future[None]", fault: str | None) -> None:
        draw, call_later = self.server.random.random, self.server.loop.call_later
        if fault == "request lost":
            call_later(3.0 * draw(), self.break_off)
        elif fault == "late":
            call_later(LATE_COMMIT_SECONDS_MAX * draw(), self._commit_now, None)
        else:
            seconds = 0.0002 + 0.002 * draw() * draw()
            call_later(seconds, self._commit_now, answer if fault is None else None)

    def _draw_fault(self) -> str | None:
        faults, drawn = self.server.faults, self.server.random.random()
        for name, likelihood in (
            ("request lost", faults.request_lost),
            ("answer lost", faults.answer_lost),
            ("late", faults.late),
        ):
            drawn -= likelihood
            if drawn < 0:
                return name
        return None

    def _commit_now(self, answer: "asyncio.Future[None] | None") -> None:
        if self.is_broken:
            return
        server = self.server
        try:
            server.commit(self)
        except sqlite3.IntegrityError as error:
            self.is_broken = True
            self.end()
            if answer is not None and not answer.done():
                answer.set_exception(IntegrityViolation(str(error)))
            return
        self.is_broken = True
        self.end()
        if answer is not None:
            server.loop.call_later(0.0002 + 0.001 * server.random.random(), _resolve, answer)


def _unknown() -> OutcomeUnknown:
    return OutcomeUnknown(
        "The connection to the database broke during the commit.", retry_after_seconds=1
    )


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _fail(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_exception(_unknown())


class PostgresTransaction:
    """The port's transaction: statements travel to the server, bulk writes with the commit."""

    def __init__(self, session: Session, *, follows_unknown_commit: bool = False) -> None:
        self._session = session
        self._server = session.server
        self.follows_unknown_commit = follows_unknown_commit

    async def fetch(self, statement: Statement, **parameters: object) -> list[Row]:
        """Run the statement and return all its rows."""
        rows, _ = await self._run(statement, parameters)
        return rows

    async def execute(self, statement: Statement, **parameters: object) -> int:
        """Run the statement and return how many rows it touched."""
        _, count = await self._run(statement, parameters)
        return count

    async def insert(self, table: Table, rows: Iterable[Sequence[object]]) -> None:
        """Insert all rows with the commit."""
        self._session.writes.append(Write(_insert(table), list(rows), is_bulk=True))

    async def update(self, table: Table, rows: Iterable[Sequence[object]]) -> None:
        """Update all rows with the commit."""
        self._session.writes.append(Write(_update(table), list(rows), is_bulk=True))

    async def _run(self, statement: Statement, parameters: dict[str, Any]) -> tuple[list[Row], int]:
        await self._session.travel()
        compiled, shape = _compiled(statement), footprint(statement)
        arguments = compiled.arguments(parameters)
        if shape.locks and self._server.locks_rows:
            return await self._locked(compiled.text, arguments, shape, parameters), 0
        if not shape.is_write:
            return self._read(compiled.text, arguments), 0
        await self._lock_touched(statement, shape, parameters)
        result = self._server.store.attempt(self._session.writes, compiled.text, arguments)
        self._session.writes.append(Write(compiled.text, [arguments]))
        return result.rows, result.row_count

    def _read(self, text: str, arguments: Sequence[Any]) -> list[Row]:
        session = self._session
        if not session.writes:
            return self._server.store.fetch(text, arguments)
        return self._server.store.attempt(session.writes, text, arguments).rows

    async def _locked(
        self, text: str, arguments: Sequence[Any], shape: Footprint, parameters: dict[str, Any]
    ) -> list[Row]:
        """Lock the rows in the order of their ids, and read them as they are then."""
        session, locks = self._session, self._server.locks
        before = self._read(text, arguments)
        waited = False
        if shape.awaited is not None:
            table, name = shape.awaited
            waited = await self._take([(table, parameters[name])])
        if shape.locked is None:
            return self._read(text, arguments)
        table, name = shape.locked
        rows = [(table, id_) for id_ in sorted(parameters[name])]
        if shape.skips_locked:
            rows = [row for row in rows if not locks.is_locked(row, session)]
        waited |= await self._take(rows)
        if waited:
            after = self._read(text, arguments)
            before = list(merge_snapshot(before, after, shape.snapshot_columns))
        if not shape.skips_locked:
            return before
        free = {id_ for _, id_ in rows}
        return [row for row in before if row[shape.id_column] in free]

    async def _lock_touched(
        self, statement: Statement, shape: Footprint, parameters: dict[str, Any]
    ) -> None:
        """Lock the rows that the statement changes, and the unique keys that it inserts."""
        if not self._server.locks_rows:
            return
        rows = inserted_keys(statement, parameters)
        if shape.touched_rows is not None:
            compiled = _compiled(shape.touched_rows)
            found = self._read(compiled.text, compiled.arguments(parameters))
            rows += [(shape.touched_table, row[0]) for row in found]
        await self._take(rows)

    async def _take(self, rows: Sequence[Any]) -> bool:
        """Lock the rows one after the other; return whether any of them was locked."""
        if self._server.locks.take_free(rows, self._session):
            return False
        self._server.trace.add("session waits for a lock", self._session.number)
        try:
            await self._server.locks.take(rows, self._session)
        except TransientFailure:
            self._session.break_off()
            raise
        if self._session.is_broken:
            raise _disconnected()
        return True


class SimulatedPostgres:
    """The database port of one process."""

    def __init__(self, server: PostgresServer, process: object) -> None:
        self._server = server
        self._process = process

    async def open(self) -> None:
        """Do nothing: each transaction connects by itself."""

    async def close(self) -> None:
        """Do nothing."""

    async def read(self, work: Work[Result]) -> Result:
        """Run reads, each of which sees all that was committed before it."""
        return await with_retries(lambda _: self._read(work))

    async def snapshot(self, work: Work[Result]) -> Result:
        """Run reads; here they see the same as other reads."""
        return await self.read(work)

    async def write(
        self,
        work: Work[Result],
        *,
        resolves_unknown_commit: bool = False,
        before_commit: Callable[[], None] = check_deadline,
        repeats_locked: bool = True,
    ) -> Result:
        """Run the work in a transaction and commit it; the real policy decides about retries."""
        return await with_retries(
            lambda follows_unknown_commit: self._transact(
                work, follows_unknown_commit, before_commit
            ),
            resolves_unknown_commit=resolves_unknown_commit,
            repeats_locked=repeats_locked,
        )

    def version(self) -> int | None:
        """Return None, as with the real server."""
        return None

    def connections(self) -> Connections:
        """Return that there are none to speak of."""
        return Connections(in_use=0, idle=0)

    async def _read(self, work: Work[Result]) -> Result:
        session = Session(self._server, self._process)
        try:
            return await work(PostgresTransaction(session))
        finally:
            session.end()

    async def _transact(
        self,
        work: Work[Result],
        follows_unknown_commit: bool,  # noqa: FBT001 - as the retry policy calls it
        before_commit: Callable[[], None],
    ) -> Result:
        session = Session(self._server, self._process)
        transaction = PostgresTransaction(session, follows_unknown_commit=follows_unknown_commit)
        try:
            result = await work(transaction)
            before_commit()
            await session.commit()
        except BaseException:
            if not session.is_committing:  # else the server decides
                session.break_off()
            raise
        return result
