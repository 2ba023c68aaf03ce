"""A charge in every state that a checkout page can show, each with somebody who looks at it."""

import asyncio

import msgspec

from ousel.accounts.service import set_status
from ousel.charges.rules import Charge, ChargeTerms
from ousel.charges.service import ChargeService
from ousel.database.port import Database
from ousel.kernel.clock import MICROS_PER_SECOND, system_clock
from ousel.kernel.money import MICROS_PER_UNIT
from ousel.ledger.funding import fund_account
from ousel.ledger.posting import PostingQueue
from ousel.partners.rules import App
from ousel.partners.service import NewApp, create_app
from ousel.people.passwords import PasswordService
from tests.journeys.furnished import PASSWORD, Furnished, add_person
from tests.support.accounts import open_database

PRICE = 25 * MICROS_PER_UNIT
TERMS = ChargeTerms(
    amount=PRICE,
    description="Two tickets for the evening show\nRow 7, seats 11 and 12",
    reference="order-2041",
    success_url="https://engines.example/thanks?order=2041",
    cancel_url="https://engines.example/basket",
)


class Look(msgspec.Struct, frozen=True):
    """Somebody, signed in or not, who looks at a page of a charge."""

    username: str | None
    path: str


def checkouts(database_url: str, people: Furnished) -> dict[str, Look]:
    """Create the charges, and return who sees what at which path."""
    return asyncio.run(_checkouts(database_url, people))


async def _checkouts(database_url: str, people: Furnished) -> dict[str, Look]:
    async with open_database(database_url) as database:
        await _more_people(database)
        posting_queue = PostingQueue(database, system_clock, queue_limit=10)
        charges = ChargeService(database, posting_queue, system_clock)
        yesterday = ChargeService(database, posting_queue, _three_hours_ago)
        open_, canceled, paid = [await _created(charges, people.app) for _ in range(3)]
        expired = await _created(yesterday, people.app)
        closed = await _created(charges, await _frozen_app(database))
        await charges.cancel(canceled.account_id, canceled.id)
        await charges.pay(paid, people.friend.id)
    payer, owner = people.friend.username, people.person.username
    return {
        "signed-out": Look(None, f"/pay/{open_.id}"),
        "payable": Look(payer, f"/pay/{open_.id}"),
        "short": Look("mary", f"/pay/{open_.id}"),
        "own": Look(owner, f"/pay/{open_.id}"),
        "frozen": Look("kurt", f"/pay/{open_.id}"),
        "not-receiving": Look(payer, f"/pay/{closed.id}"),
        "paid-by-you": Look(payer, f"/pay/{paid.id}"),
        "paid": Look("mary", f"/pay/{paid.id}"),
        "paid-signed-out": Look(None, f"/pay/{paid.id}"),
        "paid-own": Look(owner, f"/pay/{paid.id}"),
        "canceled": Look(payer, f"/pay/{canceled.id}"),
        "expired": Look(payer, f"/pay/{expired.id}"),
        "unknown": Look(payer, "/pay/ch_00000000000000000000000000"),
        "receipt": Look(payer, f"/pay/{paid.id}/receipt"),
        "receipt-onward": Look(payer, f"/pay/{paid.id}/receipt?onward=yes"),
        "receipt-of-owner": Look(owner, f"/pay/{paid.id}/receipt"),
        "app-charges": Look(owner, f"/apps/{people.app.id}/charges"),
        "app-charges-none": Look(owner, f"/apps/{people.app.id}/charges?reference=nothing"),
        "app-charge-created": Look(owner, f"/apps/{people.app.id}/charges/{open_.id}"),
        "app-charge-paid": Look(owner, f"/apps/{people.app.id}/charges/{paid.id}"),
        "app-charge-canceled": Look(owner, f"/apps/{people.app.id}/charges/{canceled.id}"),
        "app-charge-expired": Look(owner, f"/apps/{people.app.id}/charges/{expired.id}"),
    }


async def _created(charges: ChargeService, app: App) -> Charge:
    return (await charges.create(app.account_id, app.id, TERMS, None)).charge


async def _more_people(database: Database) -> None:
    """Add Mary, who has too little, and Kurt, whose account is frozen."""
    hashed = await PasswordService().hash_password(PASSWORD)
    mary = await add_person(database, "mary", "Mary Somerville", hashed)
    await fund_account(database, system_clock, mary, 3 * MICROS_PER_UNIT)
    await add_person(database, "kurt", "Kurt Gödel", hashed)
    await database.write(lambda transaction: set_status(transaction, "@kurt", "frozen"))


async def _frozen_app(database: Database) -> App:
    owner = await add_person(database, "closed", "Closed Shop Ltd", None)
    new = NewApp(account_id=owner.id, name="Closed Shop")
    app = await database.write(lambda transaction: create_app(transaction, new, system_clock))
    await database.write(lambda transaction: set_status(transaction, "@closed", "frozen"))
    return app


def _three_hours_ago() -> int:
    return system_clock() - 3 * 3600 * MICROS_PER_SECOND
