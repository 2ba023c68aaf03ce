"""The books of a fresh database, and a desk that writes to them."""

import msgspec
import pytest

from ousel.database.port import Database
from ousel.kernel.clock import Clock, system_clock
from ousel.ledger.history import HistoryQuery, newest_entries
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Account, Entry
from tests.ledger.databases import StagedDatabase
from tests.ledger.intruder import People, books_with_people
from tests.support.accounts import balance, person


class Desk(msgspec.Struct, frozen=True):
    """A desk, the staged database that it writes to, and two people: one has 100 millionths."""

    queue: PostingQueue
    staged: StagedDatabase
    database: Database
    ada: Account
    bob: Account

    def another(self, clock: Clock = system_clock, queue_limit: int = 1_000) -> PostingQueue:
        """Return another desk, as another process has one."""
        return PostingQueue(self.staged, clock, queue_limit=queue_limit)

    async def balances(self) -> tuple[int, int]:
        """Return what ada and bob have."""
        return await balance(self.database, self.ada), await balance(self.database, self.bob)

    async def entries(self, account: Account) -> list[Entry]:
        """Return an account's entries, oldest first."""
        query = HistoryQuery(account_id=account.id, limit=10_000)
        found = await self.database.read(lambda transaction: newest_entries(transaction, query))
        return [entry for entry, _ in reversed(found)]


@pytest.fixture
async def queue(database: Database) -> Desk:
    """A desk on a fresh database."""
    staged = StagedDatabase(database)
    ada = await person(database, "ada", "0.0001")
    bob = await person(database, "bob")
    return Desk(PostingQueue(staged, system_clock, queue_limit=5_000), staged, database, ada, bob)


@pytest.fixture
async def people(database: Database) -> People:
    """Two people in books with a little history."""
    return await books_with_people(database)
