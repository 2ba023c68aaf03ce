"""Receipts of the sealed log on the pages: downloads and fingerprints."""

import re

import pytest

from ousel.ledger.queue import PostingQueue
from ousel.sealed_log.receipt_check import check_receipt
from tests.ledger.examples import posting
from tests.support.portal import Portal
from tests.support.visitor import Visitor

pytestmark = pytest.mark.one_engine

FINGERPRINT = re.compile(r"[0-9A-F]{4}(?:-[0-9A-F]{4}){3}")


@pytest.fixture(autouse=True)
def _without_sealer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests seal by themselves. This takes effect before the portal is opened."""
    monkeypatch.setattr("ousel.app.background_tasks.TICK_SECONDS", 3_600)


@pytest.fixture
async def friends(portal: Portal, ada: Visitor) -> tuple[Visitor, Visitor]:
    """Ada, who was funded, and Grace; Ada has sent Grace money. Nothing is sealed yet."""
    grace = await portal.person("grace")
    account = await portal.fund("ada", "100")
    queue = PostingQueue(portal.database, portal.clock, queue_limit=10)
    await queue.post(posting(account.id, "@grace", 5_000_000, note="tea"))
    return ada, grace


async def test_both_people_see_the_same_fingerprint(
    portal: Portal, friends: tuple[Visitor, Visitor]
) -> None:
    """Once the movement is sealed, each page shows it, and each download proves the movement.

    People pass downloads on, so they show no balance.
    """
    ada, grace = friends
    early = (await ada.get("/activity/2")).text
    assert "Not ready yet. It takes about a second" in early
    assert 'href="/activity/2">Look again</a>' in early  # works without scripts
    assert "Download receipt" in early

    await portal.log.sealer.seal_all()

    key = portal.log.key_holder.key
    assert key is not None
    shown = set()
    for person, path in ((ada, "/activity/2"), (grace, "/activity/1")):
        page = (await person.get(path)).text
        assert f'href="{path}/receipt"' in page
        assert f'href="{path}/receipt"' in (await person.get("/activity")).text
        receipt = await person.get(f"{path}/receipt")
        checked = check_receipt(receipt.content, [key.verifier])
        shown |= {checked.fingerprint, *FINGERPRINT.findall(page)}
        name = f"ousel-receipt-{checked.movement.id}.json"
        assert receipt.headers["content-disposition"] == f'attachment; filename="{name}"'
        assert checked.movement.note == "tea"
        assert checked.own_entry is None
        assert "balance_after" not in receipt.text
    assert len(shown) == 1


async def test_people_find_the_account_ids_of_their_receipts(
    portal: Portal, friends: tuple[Visitor, Visitor]
) -> None:
    """A receipt proves a movement between ids: one's own is in Settings, both are on its page."""
    ada, grace = friends
    await portal.log.sealer.seal_all()
    transfer = (await ada.get("/activity/2/receipt")).json()["transfer"]
    for person, path, side in ((ada, "/activity/2", "from"), (grace, "/activity/1", "to")):
        assert f">{transfer[side]['id']}<" in (await person.get("/settings")).text
        page = (await person.get(path)).text
        assert all(f">{transfer[each]['id']}<" in page for each in ("from", "to"))


async def test_a_person_gets_only_receipts_of_their_own_movements(
    portal: Portal, friends: tuple[Visitor, Visitor]
) -> None:
    """The address names an entry of the person who is signed in."""
    await portal.log.sealer.seal_all()
    eve = await portal.person("eve")
    for path in ("/activity/1/receipt", "/activity/x/receipt", "/activity/0/receipt"):
        assert (await eve.get(path)).status_code == 404
    assert (await friends[1].get("/activity/2/receipt")).status_code == 404
    assert (await portal.visitor().get("/activity/1/receipt")).status_code == 303
