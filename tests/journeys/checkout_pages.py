"""A charge in every state that a checkout page can show, each with somebody who opens it."""

import msgspec

from ousel.accounts.service import set_status
from ousel.charges.payment import ChargePayments
from ousel.charges.rules import Charge, ChargeTerms
from ousel.charges.service import ChargeService
from ousel.database.addresses import open_database
from ousel.database.port import Database
from ousel.kernel.clock import system_clock
from ousel.kernel.money import MICROS_PER_UNIT
from ousel.ledger.queue import PostingQueue
from ousel.partners.rules import App
from tests.support.accounts import app_with_key, person
from tests.support.clock import ManualClock
from tests.support.passwords import QUICK_HASHER
from tests.support.sample_data import SampleData
from tests.support.visitor import PASSWORD

PRICE = 25 * MICROS_PER_UNIT
TERMS = ChargeTerms(
    amount=PRICE,
    description="Two tickets for the evening show\nRow 7, seats 11 and 12",
    reference="order-2041",
    success_url="https://engines.example/thanks?order=2041",
    cancel_url="https://engines.example/basket",
)


class CheckoutPage(msgspec.Struct, frozen=True):
    """A page of a charge, and who opens it: a username, or nobody who is signed in."""

    username: str | None
    path: str


async def create_checkout_pages(database_url: str, sample: SampleData) -> dict[str, CheckoutPage]:
    """Create the charges, and return their pages by name."""
    async with open_database(database_url) as database:
        await _add_people(database)
        posting_queue = PostingQueue(
            database, system_clock, queue_limit=10, charge_rows=ChargePayments()
        )
        charges = ChargeService(database, posting_queue, system_clock)
        three_hours_ago = ManualClock()
        three_hours_ago.advance(seconds=-3 * 3600)
        yesterday = ChargeService(database, posting_queue, three_hours_ago)
        open_, canceled, paid = [await _create(charges, sample.app) for _ in range(3)]
        expired = await _create(yesterday, sample.app)
        closed = await _create(charges, await _app_of_frozen_account(database))
        await charges.cancel(canceled.account_id, canceled.id)
        await charges.pay(paid, sample.friend.id)
    payer, owner = sample.friend.username, sample.person.username
    return {
        "signed-out": CheckoutPage(None, f"/pay/{open_.id}"),
        "payable": CheckoutPage(payer, f"/pay/{open_.id}"),
        "short": CheckoutPage("mary", f"/pay/{open_.id}"),
        "own": CheckoutPage(owner, f"/pay/{open_.id}"),
        "frozen": CheckoutPage("kurt", f"/pay/{open_.id}"),
        "not-receiving": CheckoutPage(payer, f"/pay/{closed.id}"),
        "paid-by-you": CheckoutPage(payer, f"/pay/{paid.id}"),
        "paid": CheckoutPage("mary", f"/pay/{paid.id}"),
        "paid-signed-out": CheckoutPage(None, f"/pay/{paid.id}"),
        "paid-own": CheckoutPage(owner, f"/pay/{paid.id}"),
        "canceled": CheckoutPage(payer, f"/pay/{canceled.id}"),
        "expired": CheckoutPage(payer, f"/pay/{expired.id}"),
        "unknown": CheckoutPage(payer, "/pay/ch_00000000000000000000000000"),
        "receipt": CheckoutPage(payer, f"/pay/{paid.id}/receipt"),
        "receipt-onward": CheckoutPage(payer, f"/pay/{paid.id}/receipt?onward=yes"),
        "receipt-of-owner": CheckoutPage(owner, f"/pay/{paid.id}/receipt"),
        "app-charges": CheckoutPage(owner, f"/apps/{sample.app.id}/charges"),
        "app-charges-none": CheckoutPage(owner, f"/apps/{sample.app.id}/charges?reference=nothing"),
        "app-charge-created": CheckoutPage(owner, f"/apps/{sample.app.id}/charges/{open_.id}"),
        "app-charge-paid": CheckoutPage(owner, f"/apps/{sample.app.id}/charges/{paid.id}"),
        "app-charge-canceled": CheckoutPage(owner, f"/apps/{sample.app.id}/charges/{canceled.id}"),
        "app-charge-expired": CheckoutPage(owner, f"/apps/{sample.app.id}/charges/{expired.id}"),
    }


async def _create(charges: ChargeService, app: App) -> Charge:
    return (await charges.create(app.account_id, app.id, TERMS, None)).charge


async def _add_people(database: Database) -> None:
    """Add Mary, who has too little, and Kurt, whose account is frozen."""
    hashed = QUICK_HASHER.hash(PASSWORD)
    await person(database, "mary", "3", display_name="Mary Somerville", password_hash=hashed)
    await person(database, "kurt", display_name="Kurt Gödel", password_hash=hashed)
    await database.write(lambda transaction: set_status(transaction, "@kurt", "frozen"))


async def _app_of_frozen_account(database: Database) -> App:
    owner = await person(database, "closed", display_name="Closed Shop Ltd")
    app, _ = await app_with_key(database, owner, "test", name="Closed Shop")
    await database.write(lambda transaction: set_status(transaction, "@closed", "frozen"))
    return app
