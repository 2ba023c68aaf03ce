"""Fixtures for tests of the ledger: a queue that writes to a fresh database."""

import msgspec
import pytest

from ousel.database.port import Database
from ousel.kernel.clock import Clock, system_clock
from ousel.ledger.history import HistoryQuery, page_of_entries
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Account, Entry
from tests.ledger.tampering import People, ledger_with_people
from tests.support.accounts import balance, person
from tests.support.controlled_database import ControlledDatabase


class LedgerWorld(msgspec.Struct, frozen=True):
    """A queue, the database that it writes to, and two people: Ada has 100 millionths."""

    queue: PostingQueue
    controlled: ControlledDatabase
    database: Database
    ada: Account
    bob: Account

    def another_queue(self, clock: Clock = system_clock, queue_limit: int = 1_000) -> PostingQueue:
        """Return another queue, like that of another process."""
        return PostingQueue(self.controlled, clock, queue_limit=queue_limit)

    async def balances(self) -> tuple[int, int]:
        """Return the balances of Ada and Bob."""
        return await balance(self.database, self.ada), await balance(self.database, self.bob)

    async def entries(self, account: Account) -> list[Entry]:
        """Return an account's entries, oldest first."""
        query = HistoryQuery(account_id=account.id, limit=10_000)
        found = await self.database.read(lambda transaction: page_of_entries(transaction, query))
        return [entry for entry, _ in reversed(found)]


@pytest.fixture
async def world(database: Database) -> LedgerWorld:
    """A queue on a fresh database, and two people."""
    controlled = ControlledDatabase(database)
    ada = await person(database, "ada", "0.0001")
    bob = await person(database, "bob")
    return LedgerWorld(
        PostingQueue(controlled, system_clock, queue_limit=5_000), controlled, database, ada, bob
    )


@pytest.fixture
async def people(database: Database) -> People:
    """Two people with a short history."""
    return await ledger_with_people(database)
