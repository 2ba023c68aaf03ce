"""The example of a partner's application: what it begins it can finish, and it pays for nobody."""

import asyncio
import importlib.util
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest

from ousel.charges.lifecycle import LIFETIME_MICROS
from ousel.charges.payment import ChargePayments
from ousel.charges.service import ChargeService
from ousel.kernel.clock import system_clock
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Account
from ousel_client import AsyncClient, ConnectionFailed, RetryPolicy, UserToken
from tests.oauth.consents import REDIRECT_URI, Consent
from tests.support.ports import free_port
from tests.support.raw_sql import RawSql
from tests.support.world import PartnerClient, World

SHOP = Path(__file__).parents[2] / "examples" / "shop" / "shop.py"
ORDER = re.compile(r'action="(/orders/order-\w+/pay)"><button>Pay your order of 12.50 OUSD')
IMPATIENT = RetryPolicy(attempts_max=1)

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


class ExampleShop:
    """The shop of a partner, and a browser that visits it."""

    def __init__(
        self, module: Any, world: World, caller: PartnerClient, browser: httpx2.AsyncClient
    ) -> None:
        self.module = module
        self.world = world
        self.caller = caller
        self.browser = browser

    async def call(self, base_url: str) -> None:
        """Let the shop call Ousel at this address."""
        await self.module.ousel.close()
        self.module.ousel = AsyncClient(self.caller.key, base_url=base_url, retry=IMPATIENT)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Let the shop deliver orders during the block."""
        async with self.module.lifespan(self.module.shop):
            yield

    async def pay(self, checkout_url: str, payer: Account) -> None:
        """Pay at this address."""
        queue = PostingQueue(
            self.world.database, system_clock, queue_limit=1, charge_rows=ChargePayments()
        )
        charges = ChargeService(self.world.database, queue, system_clock)
        charge = await charges.charge_by_id(checkout_url.rpartition("/")[2])
        await charges.pay(charge, payer.id)

    async def cancel_charges(self) -> None:
        """Cancel the charges of the shop that can still be paid."""
        for charge in (await self.caller.client.get("/charges?status=created")).json()["data"]:
            canceled = await self.caller.client.post(f"/charges/{charge['id']}/cancel")
            assert canceled.is_success, canceled.text

    async def expire_charges(self) -> None:
        """Let the charges of the shop be older than a charge can be paid."""
        async with RawSql(self.world.url) as raw_sql:
            await raw_sql.run(
                "UPDATE charges SET created_at = created_at - ?, expires_at = expires_at - ?"
                " WHERE account_id = ? AND status = 'created'",
                *(LIFETIME_MICROS,) * 2,
                self.caller.account.id,
            )

    async def connect(self, person: Account) -> None:
        """Connect a person's account, as if they had come back from the portal."""
        consent = Consent(self.world.database, self.caller.app, self.caller.key, person)
        async with self.world.server.client() as client:
            token = await consent.token(client)
        await self.browser.get("/")
        self.module.tokens[self.browser.cookies["visitor"]] = UserToken(
            access_token=token,
            token_type="Bearer",
            expires_in=1,
            scope="profile balance",
            user_id=person.id,
        )


def load_module() -> ModuleType:
    """Return the shop's one file as a module of its own."""
    spec = importlib.util.spec_from_file_location("shop", SHOP)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@asynccontextmanager
async def run_shop(world: World, caller: PartnerClient) -> AsyncIterator[ExampleShop]:
    """Open the shop of this partner."""
    module: Any = load_module()
    transport = httpx2.ASGITransport(module.shop)
    async with httpx2.AsyncClient(transport=transport, base_url="http://shop.test") as browser:
        shop = ExampleShop(module, world, caller, browser)
        await shop.call(world.server.base_url)
        yield shop
        await module.ousel.close()
        module.database.close()


@pytest.fixture
async def shop(world: World, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ExampleShop]:
    """A shop whose supplier is somebody else."""
    supplier = await world.person()
    async with world.partner("100", redirect_uris=[REDIRECT_URI]) as caller:
        monkeypatch.setenv("OUSEL_CLIENT_ID", caller.app.id)
        monkeypatch.setenv("OUSEL_KEY", caller.key)
        monkeypatch.setenv("SHOP_SUPPLIER", f"@{supplier.username}")
        async with run_shop(world, caller) as ready:
            yield ready


async def test_an_order_that_got_no_charge_is_paid_later(shop: ExampleShop) -> None:
    """The visitor finds it in the shop, and asks again with the same key: there is one charge."""
    await shop.browser.post("/cart/notes")
    await shop.call(f"http://127.0.0.1:{free_port()}/v1")

    failed = await shop.browser.post("/pay")
    await shop.call(shop.world.server.base_url)
    waiting = ORDER.findall((await shop.browser.get("/")).text)
    answers = [await shop.browser.post(waiting[0]) for _ in range(2)]

    assert failed.status_code == 502
    assert len(waiting) == 1
    [charge] = (await shop.caller.client.get("/charges")).json()["data"]
    assert {each.headers["location"] for each in answers} == {charge["checkout_url"]}
    assert not ORDER.search((await shop.browser.get("/")).text)


async def test_a_shop_that_ends_closes_its_client(shop: ExampleShop) -> None:
    """Its connections do not stay open."""
    async with shop.open():
        assert (await shop.module.ousel.me()).id == shop.caller.account.id

    with pytest.raises(ConnectionFailed, match="closed"):
        await shop.module.ousel.me()


async def test_an_order_whose_charge_ended_unpaid_gets_another(shop: ExampleShop) -> None:
    """A visitor whose charge was canceled or expired is sent to a charge that can be paid."""
    await shop.browser.post("/cart/notes")
    await shop.browser.post("/pay")

    for end in (shop.cancel_charges, shop.expire_charges):
        await end()
        shop.module.database.execute("UPDATE orders SET charge_id = NULL")  # no answer came
        [waiting] = ORDER.findall((await shop.browser.get("/")).text)
        answers = [await shop.browser.post(waiting) for _ in range(2)]

        [payable] = (await shop.caller.client.get("/charges?status=created")).json()["data"]
        assert {each.headers["location"] for each in answers} == {payable["checkout_url"]}


async def test_a_payer_who_comes_back_too_late_can_pay_again(shop: ExampleShop) -> None:
    """The checkout page of an expired charge leads to the order, which leads to a new charge."""
    await shop.browser.post("/cart/notes")
    first = (await shop.browser.post("/pay")).headers["location"]
    await shop.expire_charges()

    [charge] = (await shop.caller.client.get("/charges")).json()["data"]
    back = await shop.browser.get(urlsplit(charge["cancel_url"]).path)
    late = await shop.browser.get(back.headers["location"])
    [again] = re.findall(r'action="([^"]+)"><button>Pay again<', late.text)
    second = (await shop.browser.post(again)).headers["location"]

    [payable] = (await shop.caller.client.get("/charges?status=created")).json()["data"]
    assert second == payable["checkout_url"] != first


async def test_a_canceled_order_is_in_the_cart_again(shop: ExampleShop) -> None:
    """It cannot be paid again as an order, because the cart would then be paid as well."""
    await shop.browser.post("/cart/notes")
    await shop.browser.post("/pay")
    [charge] = (await shop.caller.client.get("/charges")).json()["data"]
    path = urlsplit(charge["cancel_url"]).path

    await shop.browser.get(path)
    back = await shop.browser.get(path)
    order = await shop.browser.get(back.headers["location"])

    assert "Pay 12.50 OUSD" in (await shop.browser.get("/")).text
    assert "The payment is canceled" in order.text
    assert "Pay again" not in order.text


async def test_a_button_that_is_pressed_twice_leads_to_one_checkout(shop: ExampleShop) -> None:
    """The second click finds no cart, but the order that the first one has stored."""
    await shop.browser.post("/cart/notes")
    answers = await asyncio.gather(*(shop.browser.post("/pay") for _ in range(2)))
    [charge] = (await shop.caller.client.get("/charges")).json()["data"]
    assert {each.headers["location"] for each in answers} == {charge["checkout_url"]}


async def test_an_order_of_many_books_can_be_paid(shop: ExampleShop) -> None:
    """Their titles are cut to the longest description that a charge may have."""
    for _ in range(16):
        await shop.browser.post("/cart/notes")
    answer = await shop.browser.post("/pay")
    [charge] = (await shop.caller.client.get("/charges")).json()["data"]
    assert answer.headers["location"] == charge["checkout_url"]


async def test_two_pages_are_shown_when_a_connection_has_ended(shop: ExampleShop) -> None:
    """Both find out that the token is no longer valid."""
    await shop.browser.get("/")
    visitor = shop.browser.cookies["visitor"]
    shop.module.tokens[visitor] = UserToken(
        access_token="ut_live_ended",
        token_type="Bearer",
        expires_in=1,
        scope="profile",
        user_id="acct_1",
    )
    pages = await asyncio.gather(*(shop.browser.get("/") for _ in range(2)))
    assert [each.status_code for each in pages] == [200, 200]
    assert all("Connect with Ousel" in each.text for each in pages)


async def test_a_paid_order_is_delivered_once_whenever_the_shop_stops(
    shop: ExampleShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shop follows its account. A delivery that was not stored is repeated, and no other."""
    await shop.browser.post("/cart/notes")
    checkout = (await shop.browser.post("/pay")).headers["location"]
    payer = await shop.world.person("50")
    await shop.pay(checkout, payer)
    [[order_id]] = shop.module.database.execute("SELECT id FROM orders")
    order_path = f"/orders/{order_id}"
    monkeypatch.setattr(shop.module, "WAIT_SECONDS", 0.01)
    unpaid = await shop.browser.get(order_path)
    monkeypatch.setattr(shop.module, "WAIT_SECONDS", 60.0)

    for _ in range(2):
        await shop.call(shop.world.server.base_url)  # a shop that has stopped starts anew
        async with shop.open():
            thanks = await shop.browser.get(order_path)
            assert "Thank you" in thanks.text

    assert "Not paid yet" in unpaid.text
    assert shop.module.database.execute("SELECT delivered FROM orders").fetchall() == [(1,)]
    [[position]] = shop.module.database.execute("SELECT cursor FROM positions")
    page = await shop.caller.client.get(f"/transfers?order=oldest&cursor={position}")
    assert page.json()["data"] == []


async def test_only_the_owner_pays_the_supplier(shop: ExampleShop) -> None:
    """A stranger and a customer are refused; the owner pays once a month, however often asked."""
    answers = [await shop.browser.post("/supplier", data={"key": "a stranger's"})]
    await shop.connect(await shop.world.person())
    answers.append(await shop.browser.post("/supplier"))
    before = await shop.world.balance(shop.caller.account)

    await shop.connect(shop.caller.account)
    office = (await shop.browser.get("/")).text
    paid = [await shop.browser.post("/supplier") for _ in range(2)]

    assert [each.status_code for each in answers] == [403, 403]
    assert before == 100_000_000
    assert "Pay the supplier" in office
    assert [each.status_code for each in paid] == [200, 200]
    assert await shop.world.balance(shop.caller.account) == 95_000_000
