"""The portal's pages of charges: only the owner of an app sees its charges."""

import re

import pytest

from ousel.charges.lifecycle import LIFETIME_MICROS
from ousel.charges.rules import Charge
from ousel.partners.rules import App
from tests.charges.portal_shop import PRICE, Customer, PortalShop

pytestmark = pytest.mark.one_engine


async def listed_ids(owner: Customer, app: App, query: str = "") -> list[str]:
    """Return the ids of the charges on a page of the list, in their order."""
    answer = await owner.visitor.get(f"/apps/{app.id}/charges{query}")
    assert answer.status_code == 200, answer.text
    return re.findall(rf'href="/apps/{app.id}/charges/(ch_\w+)"', answer.text)


async def charges_by_status(
    portal_shop: PortalShop, owner: Customer, app: App
) -> dict[str, Charge]:
    """Return a charge of the app for each status."""
    expired = await owner.charge(app, reference="late")
    payer = await portal_shop.person(PRICE)  # as long as the other tests can issue money too
    portal_shop.clock.advance(micros=LIFETIME_MICROS)
    charges = {name: await owner.charge(app, reference=name) for name in ("paid", "canceled")}
    await payer.pay(charges["paid"])
    await portal_shop.charges.cancel(owner.account.id, charges["canceled"].id)
    return charges | {"expired": expired, "created": await owner.charge(app)}


async def test_the_list_has_only_the_charges_of_this_app(portal_shop: PortalShop) -> None:
    """They are newest first; charges of the owner's other app are on another page."""
    owner = await portal_shop.person()
    app, other = await owner.app("One"), await owner.app("Other")
    charges = []
    for _ in range(3):
        charges.append(await owner.charge(app))
        await owner.charge(other)
        portal_shop.clock.advance(seconds=1)

    assert await listed_ids(owner, app) == [charge.id for charge in reversed(charges)]
    assert len(await listed_ids(owner, other)) == 3


async def test_the_list_filters_by_status_and_reference(portal_shop: PortalShop) -> None:
    """The status is the one at this time, even if an expiry is not stored yet."""
    owner = await portal_shop.person()
    app = await owner.app("Shop")
    await owner.charge(await owner.app("Other"), reference="late")
    charges = await charges_by_status(portal_shop, owner, app)

    for status, charge in charges.items():
        assert await listed_ids(owner, app, f"?status={status}") == [charge.id]
    assert await listed_ids(owner, app, "?reference=late") == [charges["expired"].id]
    assert await listed_ids(owner, app, "?reference=late&status=expired") == [charges["expired"].id]
    assert await listed_ids(owner, app, "?reference=late&status=paid") == []
    assert await listed_ids(owner, app, f"?reference={'x' * 300}") == []


async def test_the_pages_of_the_list_miss_and_repeat_nothing(portal_shop: PortalShop) -> None:
    """60 charges of the same time are on three pages, and the links keep the filter."""
    owner = await portal_shop.person()
    app = await owner.app("Shop")
    charges = [await owner.charge(app, reference="same") for _ in range(60)]

    address, walked = f"/apps/{app.id}/charges?reference=same", list[str]()
    pages = 0
    while address:
        page = (await owner.visitor.get(address)).text
        walked += re.findall(rf'href="/apps/{app.id}/charges/(ch_\w+)"', page)
        older = re.search(r'href="([^"]+)">Older charges', page)
        address = older[1].replace("&amp;", "&") if older else ""
        pages += 1

    assert pages == 3
    assert sorted(walked) == sorted(charge.id for charge in charges)


async def test_an_invalid_filter_is_explained(portal_shop: PortalShop) -> None:
    """For an unknown status or cursor, the page shows an error above the list."""
    owner = await portal_shop.person()
    app = await owner.app("Shop")
    charge = await owner.charge(app)

    for query in ("?status=lost", "?cursor=bm9uZQ", "?status=paid&cursor=bm9uZQ"):
        answer = await owner.visitor.get(f"/apps/{app.id}/charges{query}")
        assert answer.status_code == 400
        assert 'role="alert"' in answer.text
        assert charge.id in answer.text
        assert " selected>" not in answer.text  # the list is not filtered


async def test_a_charge_shows_its_history(portal_shop: PortalShop) -> None:
    """It shows who paid with which transfer, or that it was canceled, expired or is open."""
    owner = await portal_shop.person()
    app = await owner.app("Shop")
    charges = await charges_by_status(portal_shop, owner, app)
    texts = {
        name: (await owner.visitor.get(f"/apps/{app.id}/charges/{charge.id}")).text
        for name, charge in charges.items()
    }
    paid = await portal_shop.charges.own_charge(owner.account.id, charges["paid"].id)

    assert all("<strong>Created</strong> by Shop" in text for text in texts.values())
    assert paid.payer is not None
    assert f"@{paid.payer.username}" in texts["paid"]
    assert f'href="/activity/1">{paid.transfer_id}</a>' in texts["paid"]
    assert "your balance after it was 25.00 OUSD" in texts["paid"]
    assert f'href="/pay/{paid.id}/receipt"' in texts["paid"]
    assert "<strong>Canceled</strong>" in texts["canceled"]
    assert "<strong>Expired</strong> without a payment" in texts["expired"]
    assert "Can be paid until" in texts["created"]
    assert f'href="/pay/{charges["created"].id}"' in texts["created"]


async def test_charges_are_shown_only_to_their_owner(portal_shop: PortalShop) -> None:
    """Another owner's app or charge, or a charge under the wrong app, is a 404."""
    owner, other = await portal_shop.person(), await portal_shop.person()
    app, second = await owner.app("One"), await owner.app("Two")
    charge = await owner.charge(app)
    others_app = await other.app("Other")
    paths = [
        (other, f"/apps/{app.id}/charges"),
        (other, f"/apps/{app.id}/charges/{charge.id}"),
        (other, f"/apps/{others_app.id}/charges/{charge.id}"),
        (owner, f"/apps/{second.id}/charges/{charge.id}"),
        (owner, f"/apps/{app.id}/charges/ch_"),
    ]

    for person, path in paths:
        answer = await person.visitor.get(path)
        assert answer.status_code == 404, path
        assert charge.id not in answer.text.replace(path, "")
    stranger = await portal_shop.portal.visitor().get(f"/apps/{app.id}/charges")
    assert stranger.headers["location"].startswith("/login?next=")


async def test_the_apps_page_links_to_its_charges(portal_shop: PortalShop) -> None:
    """For an app without charges, the list says how to create one."""
    owner = await portal_shop.person()
    app = await owner.app("Shop")

    assert f'href="/apps/{app.id}/charges"' in (await owner.visitor.get(f"/apps/{app.id}")).text
    charges = (await owner.visitor.get(f"/apps/{app.id}/charges")).text
    assert "No charges yet." in charges
    assert 'href="/docs/api/createCharge"' in charges
    assert (await owner.visitor.get("/docs/api/createCharge")).status_code == 200
