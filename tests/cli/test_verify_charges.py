"""`ousel verify` compares charges with money: each paid charge has exactly one payment."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence

import msgspec
import pytest

from ousel.charges.rules import Charge
from ousel.cli.verification import verify_everything
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock, system_clock
from ousel.kernel.ids import new_id
from ousel.ledger.bucket_sums import BUCKETS
from ousel.ledger.interfaces import ChargeLocks
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Kind, Movement, Posting
from ousel.ledger.verify import VerificationFailed
from tests.cli.commands import assert_fails, ousel
from tests.support.accounts import person
from tests.support.clock import ManualClock
from tests.support.raw_sql import RawSql
from tests.support.shop import AMOUNT, Shop, open_shop

CHARGES = 5


class UnguardedCharges:
    """Charge rows that let every payment pass, and mark none."""

    async def wait(self, _: Transaction, __: str) -> None:
        """Do nothing."""

    async def lock(
        self, _: Transaction, __: Collection[str], clock: Clock, *, waits: bool
    ) -> ChargeLocks:
        del waits
        return ChargeLocks(clock(), {})

    async def mark_paid(self, _: Transaction, __: Sequence[Movement], ___: int) -> None:
        """Leave the charges as they are."""


class Books(msgspec.Struct, frozen=True):
    """A shop with a few paid charges, one that is created, and an intruder's connection."""

    shop: Shop
    paid: list[Charge]
    created: Charge
    raw_sql: RawSql

    async def wrong(self) -> str:
        """Return what is found wrong."""
        with pytest.raises(VerificationFailed) as found:
            await self.shop.database.snapshot(verify_everything)
        return str(found.value)

    async def credit(self, charge: Charge) -> int:
        """Return the number of the merchant's entry that a charge was paid by."""
        rows = await self.raw_sql.run(
            "SELECT sequence FROM entries WHERE account_id = ? AND charge_id = ?",
            charge.account_id,
            charge.id,
        )
        return int(rows[0][0])

    async def move(self, charge_id: str | None, kind: Kind = "charge_payment") -> str:
        """Move money as if for a charge, past all that guards charges; return the transfer."""
        posting = Posting(
            transfer_id=new_id("tr_", system_clock),
            kind=kind,
            debit_account_id=self.shop.payer.id,
            credit_identifier=self.shop.merchant.account_number,
            amount=AMOUNT,
            charge_id=charge_id,
        )
        queue = PostingQueue(
            self.shop.database, system_clock, queue_limit=1, charge_rows=UnguardedCharges()
        )
        await queue.post(posting)
        return posting.transfer_id


@pytest.fixture
async def books(database: Database, database_url: str) -> AsyncIterator[Books]:
    """Books in which every paid charge has its payment."""
    shop = await open_shop(database, ManualClock())
    paid = [await shop.pay(await shop.charge()) for _ in range(CHARGES)]
    async with RawSql(database_url) as raw_sql:
        yield Books(shop, paid, await shop.charge(), raw_sql)


async def charges_paid(books: Books) -> int:
    """Return how many paid charges a full verification counts."""
    _, counts = await books.shop.database.snapshot(verify_everything)
    return counts["charges_paid"]


async def test_charges_that_fit_their_payments_are_counted(books: Books, database_url: str) -> None:
    """The figures name how many charges are paid."""
    assert await charges_paid(books) == CHARGES
    told = await asyncio.to_thread(ousel, "verify", "--json", database=database_url)
    assert told.json["charges_paid"] == CHARGES


async def test_charges_are_counted_wherever_a_page_ends(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages of one, of two, and of all of them come to the same."""
    for size in (1, 2, CHARGES, 100):
        monkeypatch.setattr("ousel.charges.verification.PAGE_CHARGES", size)
        assert await charges_paid(books) == CHARGES


@pytest.mark.parametrize(
    ("column", "value", "what"),
    [("amount", AMOUNT + 1, "the amount"), ("transfer_id", "tr_other", "the transfer")],
)
async def test_a_charge_that_differs_from_its_payment_is_named(
    books: Books, column: str, value: object, what: str
) -> None:
    """The sentence names the charge, what the charge says, and what the entry has."""
    charge = books.paid[2]
    await books.raw_sql.run(f"UPDATE charges SET {column} = ? WHERE id = ?", value, charge.id)

    assert await books.wrong() == (
        f"the payment of charge {charge.id} of account {charge.account_id} "
        f"must have {what} {value}, "
        f"but entry {await books.credit(charge)} of account {charge.account_id} "
        f"has {getattr(charge, column)}"
    )


async def test_a_charge_with_another_payer_is_named(books: Books) -> None:
    """Who the charge says paid must be who did."""
    charge, other = books.paid[0], await person(books.shop.database, "other_payer")
    await books.raw_sql.run("UPDATE charges SET paid_by = ? WHERE id = ?", other.id, charge.id)

    assert f"must have the payer {other.id}, but entry" in await books.wrong()


async def test_a_paid_charge_of_another_partner_is_named(books: Books) -> None:
    """A charge that was given to another account is not the one that was paid."""
    charge, other = books.paid[0], await person(books.shop.database, "other_shop")
    await books.raw_sql.run("UPDATE charges SET account_id = ? WHERE id = ?", other.id, charge.id)

    assert f"must have the account {other.id}, but entry" in await books.wrong()


async def test_a_charge_that_nobody_paid_is_named(books: Books, database_url: str) -> None:
    """A charge that is marked as paid without any money; the command fails with the sentence."""
    charge = books.created
    await books.raw_sql.run(
        "UPDATE charges SET status = 'paid', paid_at = created_at, paid_by = ?, transfer_id = ?"
        " WHERE id = ?",
        books.shop.payer.id,
        "tr_none",
        charge.id,
    )

    told = (
        f"charge {charge.id} of account {charge.account_id} is paid, "
        "but no entry of the account pays it"
    )
    assert await books.wrong() == told
    assert_fails(await asyncio.to_thread(ousel, "verify", database=database_url), told)


async def test_a_payment_whose_charge_is_gone_is_named(books: Books) -> None:
    """The entry is named, and the charge that it names."""
    charge = books.paid[3]
    sequence = await books.credit(charge)
    await books.raw_sql.run("DELETE FROM charges WHERE id = ?", charge.id)

    assert await books.wrong() == (
        f"entry {sequence} of account {charge.account_id} pays charge {charge.id}, "
        "which does not exist"
    )


async def test_a_payment_whose_charge_is_not_paid_is_named(books: Books) -> None:
    """A charge that was set back after its payment, or paid past its guard."""
    charge = books.paid[3]
    sequence = await books.credit(charge)
    await books.raw_sql.run(
        "UPDATE charges SET status = 'canceled', canceled_at = created_at, paid_at = NULL,"
        " paid_by = NULL, transfer_id = NULL WHERE id = ?",
        charge.id,
    )

    assert await books.wrong() == (
        f"entry {sequence} of account {charge.account_id} pays charge {charge.id}, "
        "which is canceled"
    )


@pytest.mark.parametrize("buckets", [1, BUCKETS])
async def test_a_charge_that_was_paid_twice_is_named(
    books: Books, buckets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second payment is named, even if both payments are in one bucket of the comparison."""
    monkeypatch.setattr("ousel.ledger.bucket_sums.BUCKETS", buckets)
    charge = books.paid[1]
    await books.move(charge.id)

    told = await books.wrong()

    assert told.endswith(
        f"pays charge {charge.id}, which was paid by transfer {charge.transfer_id}"
    )


async def test_a_charge_whose_payments_are_both_others_is_named(books: Books) -> None:
    """Two payments, and the charge names neither: both entries are named."""
    charge = books.created
    await books.move(charge.id)
    await books.move(charge.id)
    await books.raw_sql.run(
        "UPDATE charges SET status = 'paid', paid_at = created_at, paid_by = ?, transfer_id = ?"
        " WHERE id = ?",
        books.shop.payer.id,
        "tr_none",
        charge.id,
    )

    assert f"charge {charge.id} of account {charge.account_id} is paid more than once" in (
        await books.wrong()
    )


async def test_a_payment_of_no_charge_is_named(books: Books) -> None:
    """A movement that says to be a payment and names no charge."""
    await books.move(None)

    assert (await books.wrong()).endswith("is a charge payment, but names no charge")


async def test_a_transfer_that_names_a_charge_is_named(books: Books) -> None:
    """A movement of another kind pays no charge, whatever it names."""
    await books.move(books.created.id, kind="transfer")

    assert (await books.wrong()).endswith(f"pays charge {books.created.id}, which is created")
