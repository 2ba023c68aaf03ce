"""A database that passes everything on to a real one, for tests to change a part of that."""

from ousel.database.port import Connections, Database, Result, Work


class PassingDatabase:
    """Passes everything on; the real one is opened and closed by whoever made it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def open(self) -> None:
        """The real one is open."""

    async def close(self) -> None:
        """The real one stays open."""

    def version(self) -> int | None:
        """That of the real one."""
        return self._database.version()

    def connections(self) -> Connections:
        """Those of the real one."""
        return self._database.connections()

    async def read(self, work: Work[Result]) -> Result:
        return await self._database.read(work)

    async def snapshot(self, work: Work[Result]) -> Result:
        return await self._database.snapshot(work)

    async def write(self, work: Work[Result]) -> Result:
        return await self._database.write(work)
