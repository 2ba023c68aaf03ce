"""Searching a history with filters, which may have to read many entries to fill a page.

A search reads five hundred entries in each step. The first steps of one account run one after
another, so however many it begins, they leave the other connections to others. All further steps
take turns (`SearchTurns`). So a long history delays nobody else, however often it is searched.
"""

import asyncio
import re
from typing import Final
from weakref import WeakValueDictionary

import msgspec

from ousel.database.port import Database, Transaction
from ousel.database.retries import RowsLocked
from ousel.kernel.clock import MICROS_PER_SECOND
from ousel.kernel.concurrency import SearchTurns
from ousel.kernel.errors import DatabaseUnavailable, OutcomeUnknown
from ousel.kernel.ids import time_of_id
from ousel.ledger.history import HistoryQuery, matching_entries, page_of_entries, sequence_range
from ousel.ledger.journal import accounts_by_id, wait_for_account
from ousel.ledger.refusals import TransferNotFound
from ousel.ledger.rules import Account, Entry

STEP_ENTRIES: Final = 500  # reading this many takes less than a millisecond
KEY_LOOK_UPS_MAX: Final = 2  # under the lock of an account, at the same time
KEY_SECONDS_MAX: Final = 10.0  # for a look-up under the lock, with the wait for its turn
# An id is created before its entry is dated, but possibly by a clock that is ahead. The next two
# constants say how far ahead such a clock usually is, and how far at most.
CLOCK_AHEAD_MICROS: Final = MICROS_PER_SECOND
CLOCK_AHEAD_MICROS_MAX: Final = 3_600 * MICROS_PER_SECOND

_TRANSFER_ID: Final = re.compile(r"tr_[0-9a-v]{26}", re.ASCII)


class SearchResult(msgspec.Struct, frozen=True):
    """The account, and its first matching entries with their counterparties."""

    own: Account
    entries: list[tuple[Entry, Account]]  # up to one more than the limit


class HistorySearch:
    """Finds pages of histories."""

    def __init__(self, database: Database) -> None:
        """Search in this database."""
        self._database = database
        self._turns = SearchTurns()
        self._first_step_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._key_locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._key_look_ups = asyncio.Semaphore(KEY_LOOK_UPS_MAX)

    async def find(self, query: HistoryQuery, *, has_limit: bool = True) -> SearchResult:
        """Return the first matching entries; for most pages the first step is enough.

        A search beyond the limit of its account is refused. A download that has begun cannot be
        refused any more, so it has no limit.
        """
        if has_limit and not _uses_index(query):
            self._turns.check(query.account_id)
        found = await self._find(query, has_limit=has_limit)
        if query.idempotency_key is not None and not found.entries:
            return await self._find_key_under_lock(query)
        return found

    async def find_transfer(
        self, account_id: str, transfer_id: str
    ) -> tuple[Account, Entry, Account]:
        """Return the account, its entry of this transfer, and the counterparty.

        No index has the ids of transfers: it would make every transfer slower. The id says when
        the transfer was made, so the first step almost always finds its entry.
        """
        if _TRANSFER_ID.fullmatch(transfer_id) is None:
            raise TransferNotFound
        created_at = time_of_id(transfer_id)
        query = HistoryQuery(
            account_id=account_id,
            limit=0,  # ends the search at the first match
            oldest_first=True,
            created_after=created_at - CLOCK_AHEAD_MICROS,
            transfer_id=transfer_id,
        )
        found, rest = await self._first_step(query)
        if not found.entries and len(rest) > 0:
            found = await self.find(query)
        if not found.entries:
            earlier = msgspec.structs.replace(
                query,
                created_after=created_at - CLOCK_AHEAD_MICROS_MAX,
                created_before=created_at - CLOCK_AHEAD_MICROS + 1,
            )
            found = await self.find(earlier)
        if not found.entries:
            raise TransferNotFound
        return found.own, *found.entries[0]

    async def _find_key_under_lock(self, query: HistoryQuery) -> SearchResult:
        """Look the key up again under the account's lock: no transaction can be writing it now.

        A commit that waits for a replica, or for the disk, is invisible, but its accounts are
        locked. The look-up is also committed: a server that is no longer the primary, and may lack
        the newest entries, cannot commit.

        While another transaction keeps the account locked, each look-up holds a connection for
        writes. So there is one at a time for each account, and few in all.
        """

        async def look_up(transaction: Transaction) -> SearchResult:
            await wait_for_account(transaction, query.account_id)
            own = (await accounts_by_id(transaction, [query.account_id]))[query.account_id]
            return SearchResult(own, await page_of_entries(transaction, query))

        lock = self._key_locks.setdefault(query.account_id, asyncio.Lock())
        caller = asyncio.current_task()
        assert caller is not None
        try:
            async with asyncio.timeout(KEY_SECONDS_MAX), lock:
                while True:
                    try:
                        async with self._key_look_ups:
                            return await self._database.write(look_up, repeats_locked=False)
                    except RowsLocked:
                        if caller.cancelling():  # the time is over, or the client has hung up
                            raise
        except TimeoutError:
            raise RowsLocked from None
        except OutcomeUnknown as error:  # nothing was written: only the look-up has failed
            raise DatabaseUnavailable(error.detail, retry_after_seconds=1) from error

    async def _first_step(self, query: HistoryQuery) -> tuple[SearchResult, range]:
        """Return what the first step finds, and the sequence numbers that it has not read."""

        async def begin(transaction: Transaction) -> tuple[SearchResult, range]:
            own = (await accounts_by_id(transaction, [query.account_id]))[query.account_id]
            if _uses_index(query):
                return SearchResult(own, await page_of_entries(transaction, query)), range(0)
            among = await sequence_range(transaction, query)
            among = range(among.start, min(among.stop, own.sequence + 1))
            step, rest = _split_range(among, query)
            return SearchResult(own, await matching_entries(transaction, query, step)), rest

        return await self._database.read(begin)

    async def _find(self, query: HistoryQuery, *, has_limit: bool) -> SearchResult:
        if _uses_index(query):
            return (await self._first_step(query))[0]
        async with self._first_step_locks.setdefault(query.account_id, asyncio.Lock()):
            found, rest = await self._first_step(query)
        if len(rest) == 0 or len(found.entries) > query.limit:
            return found
        with self._turns.search(query.account_id, has_limit=has_limit):
            while len(rest) > 0 and len(found.entries) <= query.limit:
                step, rest = _split_range(rest, query)
                async with self._turns.step(query.account_id):
                    found.entries.extend(await self._step(query, step, len(found.entries)))
        return found

    async def _step(
        self, query: HistoryQuery, among: range, count: int
    ) -> list[tuple[Entry, Account]]:
        """Return the matching entries among these sequence numbers; `count` were found before."""
        remaining = msgspec.structs.replace(query, limit=query.limit - count)
        return await self._database.read(
            lambda transaction: matching_entries(transaction, remaining, among)
        )


def _split_range(among: range, query: HistoryQuery) -> tuple[range, range]:
    """Return the numbers that the query reads first, as many as one step reads, and the rest."""
    if query.oldest_first:
        return among[:STEP_ENTRIES], among[STEP_ENTRIES:]
    middle = max(len(among) - STEP_ENTRIES, 0)
    return among[middle:], among[:middle]


def _uses_index(query: HistoryQuery) -> bool:
    """Return whether an index finds all matching entries, so that no steps are needed."""
    if query.idempotency_key is not None:
        return True
    return query.direction is None and query.kind is None and query.transfer_id is None
