"""When keys, tokens and sessions were last used: collected in memory, written from time to time."""

from collections.abc import Awaitable, Callable

from ousel.database.port import Database, Transaction

Uses = dict[tuple[str, str], int]  # the time of the last use, by account id and handle or hash


class LastUseRecorder:
    """Holds the last use of each key, token or session until it is written."""

    def __init__(
        self, database: Database, write: Callable[[Transaction, Uses], Awaitable[None]]
    ) -> None:
        """Write to this database with `write`."""
        self._database = database
        self._write = write
        self.unwritten: Uses = {}

    async def record(self) -> None:
        """Write all uses in one transaction; if that fails, keep them for the next time."""
        uses, self.unwritten = self.unwritten, {}
        if not uses:
            return
        try:
            await self._database.write(lambda transaction: self._write(transaction, uses))
        except BaseException:
            self.unwritten = uses | self.unwritten
            raise
