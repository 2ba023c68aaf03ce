"""The database port of a process that is connected to the simulated PostgreSQL server."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ousel.database.port import Connections, Result, Row, Work
from ousel.database.retries import TransientFailure, with_retries
from ousel.database.sqlite_transaction import _compiled, _insert, _update
from ousel.database.statements import Statement, Table
from ousel.kernel.deadlines import check_deadline
from tests.simulation.server import PostgresServer, Session, disconnected
from tests.simulation.statements import Footprint, footprint, inserted_keys, merge_snapshot
from tests.simulation.store import Write


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
            raise disconnected()
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
        before_commit: Callable[[], None] | None = None,
        repeats_locked: bool = True,
    ) -> Result:
        """Run the work in a transaction and commit it; the real policy decides about retries."""
        return await with_retries(
            lambda follows_unknown_commit: self._transact(
                work, follows_unknown_commit, before_commit or check_deadline
            ),
            resolves_unknown_commit=resolves_unknown_commit,
            repeats_locked=repeats_locked,
        )

    def is_distributed(self) -> bool:
        """Return False: there is one server."""
        return False

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
