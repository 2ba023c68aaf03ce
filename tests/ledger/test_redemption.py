"""Redemption: money goes back to the system account, and is out of circulation."""

from functools import partial

import msgspec
import pytest

from ousel.database.port import Database
from ousel.kernel.clock import system_clock
from ousel.kernel.errors import Refusal
from ousel.ledger.funding import fund_account, redeem_money
from ousel.ledger.history import HistoryQuery, page_of_entries
from ousel.ledger.journal import set_status
from ousel.ledger.refusals import AccountFrozen, IdempotencyConflict, InsufficientBalance
from ousel.ledger.rules import SYSTEM_ACCOUNT_ID, Entry, Kind
from tests.ledger.tampering import People, forge_history, verification_error
from tests.support.accounts import balance, person, verify
from tests.support.raw_sql import RawSql


async def test_redeemed_money_is_out_of_circulation(database: Database) -> None:
    """The account has less, the system account owes less, and the sum stays zero."""
    ada = await person(database, "ada", "5")

    moved = await redeem_money(database, system_clock, ada, 2_000_000, note="Paid out")

    assert not moved.replayed
    assert moved.transfer_id.startswith("tr_")
    assert await balance(database, ada) == 3_000_000
    assert (await verify(database)).issued == 3_000_000
    query = HistoryQuery(account_id=ada.id, limit=1, kind="redemption")
    ((entry, recipient),) = await database.read(lambda each: page_of_entries(each, query))
    assert (entry.amount, entry.note, entry.transfer_id) == (
        *(-2_000_000, "Paid out"),
        moved.transfer_id,
    )
    assert recipient.id == SYSTEM_ACCOUNT_ID


async def test_redeeming_again_with_the_same_key_moves_nothing(database: Database) -> None:
    """The operator may repeat a command; another amount with its key is a conflict."""
    ada = await person(database, "ada", "5")
    first = await redeem_money(database, system_clock, ada, 5, idempotency_key="k")

    again = await redeem_money(database, system_clock, ada, 5, idempotency_key="k")
    with pytest.raises(IdempotencyConflict):
        await redeem_money(database, system_clock, ada, 6, idempotency_key="k")

    assert (again.transfer_id, again.replayed) == (first.transfer_id, True)
    assert await balance(database, ada) == 4_999_995


@pytest.mark.parametrize(
    ("amount", "frozen", "refusal"), [(6, False, InsufficientBalance), (1, True, AccountFrozen)]
)
async def test_what_cannot_be_redeemed_stays(
    database: Database, amount: int, *, frozen: bool, refusal: type[Refusal]
) -> None:
    """More than the balance, or money of a frozen account, does not move."""
    ada = await person(database, "ada")
    await fund_account(database, system_clock, ada, 5)
    status = partial(set_status, account_id=ada.id, status="frozen" if frozen else "active")
    await database.write(status)

    with pytest.raises(refusal):
        await redeem_money(database, system_clock, ada, amount)

    assert await balance(database, ada) == 5


@pytest.mark.parametrize(
    ("forged", "kind"),
    [("funding", "transfer"), ("funding", "redemption"), ("transfer", "funding")],
)
async def test_a_kind_that_does_not_fit_its_accounts_is_named(
    database: Database, people: People, raw_sql: RawSql, forged: Kind, kind: Kind
) -> None:
    """Money enters and leaves circulation only by its own kinds, even if every hash is adapted."""

    def change(before: list[Entry]) -> list[Entry]:
        return [
            msgspec.structs.replace(each, kind=kind) if each.kind == forged else each
            for each in before
        ]

    for account_id in (SYSTEM_ACCOUNT_ID, people.ada.id, people.bob.id):
        await forge_history(raw_sql, account_id, change)

    error = await verification_error(database)

    assert error.endswith(f"has the kind {kind}, which does not match its accounts")
