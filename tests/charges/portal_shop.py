"""A shop whose checkout pages people open, and pay."""

from typing import Any

import msgspec
from typing_extensions import override

from ousel.accounts import service as accounts
from ousel.charges.rules import Charge, ChargeTerms
from ousel.ledger.funding import fund_account
from ousel.ledger.rules import Account, Status
from ousel.partners.rules import App
from ousel.partners.service import NewApp, create_app
from tests.support.accounts import balance, unique_name
from tests.support.portal import Portal
from tests.support.shop import Shop, open_shop
from tests.support.visitor import Visitor

PRICE = 25_000_000
SUCCESS_URL = "https://shop.example/thanks"
CANCEL_URL = "https://shop.example/basket"
PAY = "Pay 25.00 OUSD"


class Customer:
    """Somebody who has signed up at the portal."""

    def __init__(self, shop: "PortalShop", visitor: Visitor, account: Account) -> None:
        self.visitor = visitor
        self.account = account
        self._shop = shop

    async def page(self, charge: Charge, query: str = "") -> str:
        """Return the text of the checkout page."""
        return await checkout_page(self.visitor, charge, query)

    async def pay(self, charge: Charge) -> str:
        """Open the checkout page, press the button, and return where the answer redirects to."""
        answer = await self.visitor.press(f"/pay/{charge.id}", PAY)
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    async def post_form(self, charge: Charge) -> str:
        """Send the form of a page that offers none; return where the answer redirects to."""
        form = await self.visitor.form("/activity", "Sign out")
        answer = await self.visitor.post(f"/pay/{charge.id}", form.fields)
        assert answer.status_code == 303, answer.text
        return answer.headers["location"]

    async def app(self, name: str) -> App:
        """Create an app that the person owns."""
        new = NewApp(account_id=self.account.id, name=name)
        return await self._shop.database.write(
            lambda transaction: create_app(transaction, new, self._shop.clock)
        )

    async def charge(self, app: App, **terms: Any) -> Charge:
        """Create a charge of an app that the person owns."""
        charge_terms = ChargeTerms(**{"amount": PRICE} | terms)
        created = await self._shop.charges.create(self.account.id, app.id, charge_terms, None)
        return created.charge

    async def balance(self) -> int:
        """Return the person's balance."""
        return await balance(self._shop.database, self.account)

    async def set_status(self, status: Status) -> None:
        """Freeze or unfreeze the person's account."""
        await self._shop.set_status(self.account, status)

    async def fund(self, micros: int) -> None:
        """Add money to the person's balance."""
        await fund_account(self._shop.database, self._shop.clock, self.account, micros)


class PortalShop(Shop):
    """A shop with the portal on the same database and clock."""

    portal: Portal

    @override
    async def charge(self, amount: int = PRICE, **terms: Any) -> Charge:
        """Create a charge of the shop, with a success_url and a cancel_url."""
        addresses = {"success_url": SUCCESS_URL, "cancel_url": CANCEL_URL}
        return await super().charge(amount, **addresses | terms)

    async def person(self, micros: int = 0, name: str = "payer", **fields: str) -> Customer:
        """Sign up a new person with this balance."""
        username = unique_name(name)
        visitor = await self.portal.person(username, **fields)
        account = await self.database.read(
            lambda transaction: accounts.find_account(transaction, f"@{username}", param="to")
        )
        person = Customer(self, visitor, account)
        if micros:
            await person.fund(micros)
        return person

    async def set_status(self, account: Account, status: Status) -> None:
        """Freeze or unfreeze an account."""
        await self.database.write(
            lambda transaction: accounts.set_status(transaction, f"@{account.username}", status)
        )

    async def merchant_balance(self) -> int:
        """Return the shop's balance."""
        return await balance(self.database, self.merchant)


async def open_portal_shop(portal: Portal) -> PortalShop:
    """Open a new shop on the portal's database."""
    shop = await open_shop(portal.database, portal.clock)
    return PortalShop(**msgspec.structs.asdict(shop), portal=portal)


async def checkout_page(visitor: Visitor, charge: Charge, query: str = "") -> str:
    """Return the text of the checkout page that the visitor sees."""
    answer = await visitor.get(f"/pay/{charge.id}{query}")
    assert answer.status_code == 200, answer.text
    return answer.text
