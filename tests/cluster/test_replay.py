"""A replayed transfer or charge is acknowledged only if a follower has it, as a new one is."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from typing_extensions import override

from ousel.charges.rules import ChargeTerms
from ousel.charges.service import ChargeService
from ousel.charges.transitions import CreatedCharge
from ousel.database.addresses import open_database
from ousel.database.port import Database
from ousel.kernel.clock import system_clock
from ousel.kernel.errors import DatabaseUnavailable
from ousel.kernel.ids import new_id
from ousel.ledger.batch import PostingResult
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Account, Posting, Replay
from tests.support.accounts import balance, person, verify
from tests.support.delegating_database import DelegatingDatabase
from tests.support.postgres_server import PostgresServer
from tests.support.raw_sql import RawSql

FUNDS_LEFT = 9_999_999
UNANSWERED_SECONDS = 0.5
TERMS = ChargeTerms(amount=1)

pytestmark = pytest.mark.slow


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server for this test alone."""
    with PostgresServer() as own:
        yield own


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    """A fresh database on it."""
    return postgres.fresh_url()


async def test_a_replay_waits_for_a_follower(postgres: PostgresServer, url: str) -> None:
    """Without a follower a replay is not answered, even if the leader has the transfer."""
    async with open_database(url) as database:
        sender = await person(database, "harbour", "10")
        await person(database, "ada")
        await _sent(database, sender)

        await postgres.require_followers("ANY 1 (nobody)")
        replay = asyncio.create_task(_sent(database, sender))
        done, _ = await asyncio.wait({replay}, timeout=UNANSWERED_SECONDS)
        assert not done
        assert await balance(database, sender) == FUNDS_LEFT  # reads go on

        await postgres.require_followers("")
        assert isinstance((await replay).outcome, Replay)
        await verify(database)


async def test_a_replayed_charge_waits_for_a_follower(postgres: PostgresServer, url: str) -> None:
    """Without a follower a charge is not returned again, even if the leader has it."""
    async with open_database(url) as database:
        queue = PostingQueue(database, system_clock, queue_limit=1)
        charges = ChargeService(database, queue, system_clock)
        created = await charges.create("acct_1", "app_1", TERMS, "the same")

        await postgres.require_followers("ANY 1 (nobody)")
        replay = asyncio.create_task(charges.create("acct_1", "app_1", TERMS, "the same"))
        done, _ = await asyncio.wait({replay}, timeout=UNANSWERED_SECONDS)
        assert not done
        assert await charges.own_charge("acct_1", created.charge.id) == created.charge

        await postgres.require_followers("")
        assert await replay == CreatedCharge(created.charge, replayed=True)


async def test_a_replayed_charge_that_is_lost_is_not_called_unknown(url: str) -> None:
    """If another leader lacks it, the same request can be sent again, and creates a charge."""
    async with open_database(url) as database, RawSql(url) as raw_sql:

        class NewLeader(DelegatingDatabase):
            @override
            async def write(self, *arguments: Any, **options: Any) -> Any:
                result = await super().write(*arguments, **options)
                await raw_sql.run("DELETE FROM charges")
                return result

        queue = PostingQueue(database, system_clock, queue_limit=1)
        before = ChargeService(database, queue, system_clock)
        created = await before.create("acct_1", "app_1", TERMS, "the same")
        charges = ChargeService(NewLeader(database), queue, system_clock)

        with pytest.raises(DatabaseUnavailable):
            await charges.create("acct_1", "app_1", TERMS, "the same")
        again = await charges.create("acct_1", "app_1", TERMS, "the same")

    assert not again.replayed
    assert again.charge.id != created.charge.id


async def _sent(database: Database, sender: Account) -> PostingResult:
    """Send always the same transfer, through a new queue."""
    return await PostingQueue(database, system_clock, queue_limit=1).post(
        Posting(
            transfer_id=new_id("tr_", system_clock),
            kind="transfer",
            debit_account_id=sender.id,
            credit_identifier="@ada",
            amount=1,
            idempotency_key="the same",
        )
    )
