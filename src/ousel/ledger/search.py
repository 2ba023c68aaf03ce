"""Searching a history: filters may leave little of it, and then a page is far to seek.

It is sought in steps, between which others have their turn, and one step at a time: however long
an account's history is, and however often it is searched, nobody else waits for the end of it.
"""

import asyncio
from typing import Final

import msgspec

from ousel.database.port import Database, Transaction
from ousel.ledger.history import HistoryQuery, matching_entries, newest_entries, sequence_range
from ousel.ledger.journal import accounts_by_id
from ousel.ledger.rules import Account, Entry

STEP_ENTRIES: Final = 2_000  # a few milliseconds


class SearchResult(msgspec.Struct, frozen=True):
    """The account whose history it is, and the newest entries that fit with their other sides."""

    own: Account
    entries: list[tuple[Entry, Account]]  # one more than the limit


class HistorySearch:
    """Finds pages of histories."""

    def __init__(self, database: Database) -> None:
        """Search in this database."""
        self._database = database
        self._turn = asyncio.Lock()

    async def find(self, query: HistoryQuery) -> SearchResult:
        """Return the newest entries that fit: most pages are found with the first step."""

        async def begin(transaction: Transaction) -> tuple[SearchResult, range]:
            own = (await accounts_by_id(transaction, [query.account_id]))[query.account_id]
            if _uses_index(query):
                return SearchResult(own, await newest_entries(transaction, query)), range(0)
            among = await sequence_range(transaction, query)
            step, rest = _split_range(range(among.start, min(among.stop, own.sequence + 1)))
            return SearchResult(own, await matching_entries(transaction, query, step)), rest

        found, rest = await self._database.read(begin)
        while len(rest) > 0 and len(found.entries) <= query.limit:
            step, rest = _split_range(rest)
            found.entries.extend(await self._step(query, step, len(found.entries)))
        return found

    async def _step(
        self, query: HistoryQuery, among: range, count: int
    ) -> list[tuple[Entry, Account]]:
        """Return what fits among these, where so many have been found before."""
        left = msgspec.structs.replace(query, limit=query.limit - count)
        async with self._turn:
            await asyncio.sleep(0)  # a database may answer at once, and let nobody in between
            return await self._database.read(
                lambda transaction: matching_entries(transaction, left, among)
            )


def _split_range(among: range) -> tuple[range, range]:
    """Return the newest, as many as are looked at in one step, and the rest."""
    middle = max(len(among) - STEP_ENTRIES, 0)
    return among[middle:], among[:middle]


def _uses_index(query: HistoryQuery) -> bool:
    """Say whether an index leads to all that fits."""
    unfiltered = query.direction is None and query.kind is None
    return unfiltered or query.idempotency_key is not None
