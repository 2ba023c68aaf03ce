"""A simulated PostgreSQL server: its sessions, what they lock and commit, and how they break."""

import asyncio
import sqlite3
from random import Random

from ousel.database.port import IntegrityViolation
from ousel.database.postgres import _SERVER_SETTINGS, COMMIT_TIMEOUT_SECONDS
from ousel.database.retries import TransientFailure
from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown
from tests.simulation.locks import LockOwner, LockTable
from tests.simulation.loop import SimulatedLoop
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


def disconnected() -> TransientFailure:
    """Return the failure of a transaction whose connection broke before its commit."""
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
            pending.set_exception(disconnected())

    async def travel(self) -> None:
        """Let a statement travel to the server; it may not arrive."""
        server = self.server
        if self.is_broken or server.is_down:
            self.break_off()
            raise disconnected()
        loop = asyncio.get_running_loop()
        self.pending = arrival = loop.create_future()
        server.loop.call_later(0.0002 + 0.0008 * server.random.random(), _resolve, arrival)
        try:
            await arrival
        finally:
            self.pending = None
        if self.is_broken:  # while the process was frozen
            raise disconnected()
        if server.faults.disconnected and server.random.random() < server.faults.disconnected:
            server.trace.add("session breaks", self.number)
            self.break_off()
            raise disconnected()

    async def commit(self) -> None:
        """Commit, or raise OutcomeUnknown if no answer arrives."""
        if self.is_broken or self.server.is_down:
            self.break_off()
            raise disconnected()
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
