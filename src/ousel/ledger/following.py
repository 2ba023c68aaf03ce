"""Following a history: its next entries, oldest first, and waiting for them."""

import asyncio
from typing import Final, NamedTuple

import msgspec

from ousel.database.batching import SharedReads
from ousel.database.port import Database, Transaction
from ousel.kernel.errors import DatabaseUnavailable
from ousel.ledger.history import HistoryQuery, entries_in_ranges, matches
from ousel.ledger.journal import accounts_by_id
from ousel.ledger.notifier import MovementNotifier
from ousel.ledger.rules import Account, Entry
from ousel.ledger.search import HistorySearch, SearchResult

SHARED_ENTRIES_MAX: Final = 500  # reading this many takes a few milliseconds
NEW_ENTRIES_PER_READ: Final = 100  # after a wait


class Wanted(NamedTuple):
    """Which entries of an account a follower asks for."""

    account_id: str
    after_sequence: int
    limit: int


class NextEntries(msgspec.Struct, frozen=True):
    """The account, its next matching entries, and where to go on."""

    own: Account
    entries: list[tuple[Entry, Account]]  # with their counterparties, at most as many as the limit
    has_more: bool
    position: int  # the sequence number after which to go on


class HistoryFollower:
    """Finds the entries that come after a sequence number."""

    def __init__(
        self, database: Database, search: HistorySearch, notifier: MovementNotifier
    ) -> None:
        """Find entries with this search, and wait for them with this notifier."""
        self._search = search
        self._notifier = notifier
        self._next_entries = SharedReads(database, _read_next_entries, is_worth_caching=_is_empty)

    async def next_entries(self, query: HistoryQuery, wait_seconds: float) -> NextEntries:
        """Return the next matching entries; wait up to this long until there is one."""
        assert query.oldest_first, "entries are followed in the order in which they were written"
        time = asyncio.get_running_loop().time
        deadline = time() + wait_seconds
        is_last_read = wait_seconds <= 0 or self._notifier.stopped
        following = _page_of(query, await self._find(query))
        while not (following.entries or is_last_read):
            query = msgspec.structs.replace(query, after_sequence=following.position)
            await self._notifier.wait_for_movement(following.own, deadline - time())
            # The last read may say that there is nothing, so it searches as the first one did.
            is_last_read = time() >= deadline or self._notifier.stopped
            found = await (self._find(query) if is_last_read else self._find_new(query))
            following = _page_of(query, found)
        return following

    async def _find(self, query: HistoryQuery) -> SearchResult:
        """Return the next matching entries; followers without filters share their statements."""
        wanted = Wanted(query.account_id, query.after_sequence, query.limit)
        if query == _unfiltered(wanted):
            found = await self._next_entries.get(wanted)
            if found is not None:
                return found
        return await self._search.find(query)

    async def _find_new(self, query: HistoryQuery) -> SearchResult:
        """Return the matching entries among those that were written during a wait.

        Thousands may wait for the same account. Whatever their filters are, they read the same new
        entries, so they share their statements.
        """
        after, matching = query.after_sequence, list[tuple[Entry, Account]]()
        while True:
            wanted = Wanted(query.account_id, after, NEW_ENTRIES_PER_READ)
            found = await self._next_entries.get(wanted)
            if found is None:
                return await self._find(query)
            matching += [pair for pair in found.entries if matches(query, pair[0])]
            after += len(found.entries)
            if len(matching) > query.limit or after >= found.own.sequence:
                return SearchResult(found.own, matching[: query.limit + 1])


def _page_of(query: HistoryQuery, found: SearchResult) -> NextEntries:
    """Return what was found as a page, with the position after it."""
    if found.own.sequence < query.after_sequence:
        raise DatabaseUnavailable("The database lacks transfers that came before this cursor.")
    entries = found.entries[: query.limit]
    if len(found.entries) > query.limit:
        return NextEntries(found.own, entries, has_more=True, position=entries[-1][0].sequence)
    # The search has read at least up to the last entry that the account's row named. Entries
    # written since then may have been found too.
    last = max([found.own.sequence, *(entry.sequence for entry, _ in entries)])
    return NextEntries(found.own, entries, has_more=False, position=last)


def _is_empty(found: SearchResult | None) -> bool:
    """Return whether the page has no entries. Followers ask again only for such a page."""
    return found is None or not found.entries


def _unfiltered(wanted: Wanted) -> HistoryQuery:
    return HistoryQuery(**wanted._asdict(), oldest_first=True)


async def _read_next_entries(
    transaction: Transaction, wanted: list[Wanted]
) -> dict[Wanted, SearchResult | None]:
    """Return the next entries of several accounts, or None for those that would take too long.

    An account's sequence numbers have no gaps, so its last number says which entries there are.
    """
    accounts = await accounts_by_id(transaction, {each.account_id for each in wanted})
    ranges: dict[Wanted, range] = {}
    entries_left = SHARED_ENTRIES_MAX
    for each in wanted:
        first = each.after_sequence + 1
        last = min(accounts[each.account_id].sequence, first + each.limit)
        numbers = range(first, last + 1)
        if len(numbers) <= entries_left:
            ranges[each] = numbers
            entries_left -= len(numbers)
    filled = {
        (each.account_id, numbers[0], numbers[-1]) for each, numbers in ranges.items() if numbers
    }
    entries = await entries_in_ranges(transaction, filled) if filled else {}
    return {
        each: SearchResult(
            accounts[each.account_id],
            [entries[each.account_id, number] for number in ranges[each]],
        )
        if each in ranges
        else None
        for each in wanted
    }
