"""Funding: money is issued from the system account, whose balance counts it."""

import pytest

from ousel.database.port import Database
from ousel.kernel.clock import system_clock
from ousel.ledger.funding import fund_account, fund_through
from ousel.ledger.history import HistoryQuery, page_of_entries
from ousel.ledger.journal import set_status
from ousel.ledger.queue import PostingQueue
from ousel.ledger.refusals import AccountFrozen, IdempotencyConflict
from ousel.ledger.rules import SYSTEM_ACCOUNT_ID, Movement, Replay
from tests.support.accounts import balance, person, verify


async def test_money_is_issued_from_the_system_account(database: Database) -> None:
    """The account has the money, the system account owes it, and the sum stays zero."""
    ada = await person(database, "ada")

    funded = await fund_account(database, system_clock, ada, 5_000_000, note="Opening")

    assert not funded.replayed
    assert funded.transfer_id.startswith("tr_")
    assert await balance(database, ada) == 5_000_000
    assert (await verify(database)).issued == 5_000_000
    query = HistoryQuery(account_id=ada.id, limit=1)
    ((entry, giver),) = await database.read(lambda each: page_of_entries(each, query))
    assert (entry.kind, entry.note, entry.transfer_id) == ("funding", "Opening", funded.transfer_id)
    assert giver.id == SYSTEM_ACCOUNT_ID


async def test_funding_again_with_the_same_key_issues_nothing(database: Database) -> None:
    """The operator may repeat a command; another amount with its key is a conflict."""
    ada = await person(database, "ada")
    first = await fund_account(database, system_clock, ada, 5, idempotency_key="k")

    again = await fund_account(database, system_clock, ada, 5, idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        await fund_account(database, system_clock, ada, 6, idempotency_key="k")

    assert (again.transfer_id, again.replayed) == (first.transfer_id, True)
    assert await balance(database, ada) == 5


async def test_a_frozen_account_is_not_funded(database: Database) -> None:
    """Not even the operator can send money to it."""
    ada = await person(database, "ada")
    await database.write(lambda transaction: set_status(transaction, ada.id, "frozen"))

    with pytest.raises(AccountFrozen):
        await fund_account(database, system_clock, ada, 5)

    assert await balance(database, ada) == 0


async def test_a_running_server_funds_through_its_own_queue(database: Database) -> None:
    """The result contains the movement with its note; the same key issues nothing more."""
    ada = await person(database, "ada")
    queue = PostingQueue(database, system_clock, queue_limit=10)

    posted = await fund_through(queue, system_clock, ada, 5, note="Gift", idempotency_key="k")
    again = await fund_through(queue, system_clock, ada, 5, note="Gift", idempotency_key="k")

    assert isinstance(posted.outcome, Movement)
    assert posted.outcome.credit.account_id == ada.id
    assert posted.outcome.credit.note == "Gift"
    assert isinstance(again.outcome, Replay)
    assert await balance(database, ada) == 5
