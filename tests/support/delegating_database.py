"""A database that delegates to a real one; tests override a part of it."""

from collections.abc import Callable

from ousel.database.port import Connections, Database, Result, Work


class DelegatingDatabase:
    """Delegates every call to a real database, which the test opens and closes."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self) -> None:
        """Do nothing: the real database is open."""

    async def close(self) -> None:
        """Do nothing: the real database stays open."""

    def is_distributed(self) -> bool:
        """Return whether the real database is distributed."""
        return self._database.is_distributed()

    def version(self) -> int | None:
        """Return the version of the real database."""
        return self._database.version()

    def connections(self) -> Connections:
        """Return the connections of the real database."""
        return self._database.connections()

    async def read(self, work: Work[Result]) -> Result:
        return await self._database.read(work)

    async def snapshot(self, work: Work[Result]) -> Result:
        return await self._database.snapshot(work)

    async def write(
        self,
        work: Work[Result],
        *,
        resolves_unknown_commit: bool = False,
        before_commit: Callable[[], None] | None = None,
        repeats_locked: bool = True,
    ) -> Result:
        return await self._database.write(
            work,
            resolves_unknown_commit=resolves_unknown_commit,
            before_commit=before_commit,
            repeats_locked=repeats_locked,
        )
