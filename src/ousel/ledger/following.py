"""Following a history: its next entries, oldest first, and waiting for them."""

import asyncio

import msgspec

from ousel.kernel.errors import DatabaseUnavailable
from ousel.ledger.history import HistoryQuery
from ousel.ledger.notifier import MovementNotifier
from ousel.ledger.rules import Account, Entry
from ousel.ledger.search import HistorySearch


class NextEntries(msgspec.Struct, frozen=True):
    """The account, its next matching entries, and where to go on."""

    own: Account
    entries: list[tuple[Entry, Account]]  # with their counterparties, at most as many as the limit
    has_more: bool
    position: int  # the sequence number after which to go on


class HistoryFollower:
    """Finds the entries that come after a sequence number."""

    def __init__(self, search: HistorySearch, notifier: MovementNotifier) -> None:
        """Find entries with this search, and wait for them with this notifier."""
        self._search = search
        self._notifier = notifier

    async def next_entries(self, query: HistoryQuery, wait_seconds: float) -> NextEntries:
        """Return the next matching entries; wait up to this long until there is one."""
        assert query.oldest_first, "entries are followed in the order in which they were written"
        time = asyncio.get_running_loop().time
        deadline = time() + wait_seconds
        while True:
            following = await self._read(query)
            left_seconds = deadline - time()
            if following.entries or left_seconds <= 0 or self._notifier.stopped:
                return following
            query = msgspec.structs.replace(query, after_sequence=following.position)
            await self._notifier.wait_for_movement(following.own, left_seconds)

    async def _read(self, query: HistoryQuery) -> NextEntries:
        found = await self._search.find(query)
        if found.own.sequence < query.after_sequence:
            raise DatabaseUnavailable(
                "The database lacks transfers that the cursor has already passed."
            )
        entries = found.entries[: query.limit]
        if len(found.entries) > query.limit:
            return NextEntries(found.own, entries, has_more=True, position=entries[-1][0].sequence)
        # The search has read up to the account's last entry. Later ones may have been found too.
        last = max([found.own.sequence, *(entry.sequence for entry, _ in entries)])
        return NextEntries(found.own, entries, has_more=False, position=last)
