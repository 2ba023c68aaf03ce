"""GET /transfers/:id/receipt: proof that a transfer is in the sealed log."""

import base64
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from ousel.database.port import Database
from ousel.kernel.settings import Settings
from ousel.sealed_log.notes import VerifierKey, parse_verifier_key
from ousel.sealed_log.notifier import LogNotifier
from ousel.sealed_log.receipt_check import check_receipt
from ousel.sealed_log.receipts import ReceiptRefused
from tests.sealed_log.logs import Log
from tests.support import accounts
from tests.support.in_process import in_process_client
from tests.support.problems import assert_problem
from tests.support.world import PartnerClient, World

WAIT = {"Prefer": "wait=60"}


@pytest.fixture
async def log(database: Database, tmp_path: Path) -> Log:
    """An empty log."""
    return Log(database, tmp_path, Settings().portal_url)


async def log_key(world: World) -> VerifierKey:
    """Return the published key of the log."""
    async with world.server.client() as client:
        return parse_verifier_key((await client.get(f"{world.server.origin}/log/key")).text)


async def send(sender: PartnerClient, recipient: PartnerClient) -> dict[str, Any]:
    """Send a transfer with a note and a key, and return its record."""
    body = f'{{"to":"@{recipient.account.username}","amount":1.5,"note":"Tee & Küchen"}}'
    created: dict[str, Any] = (await sender.send(body, "tea")).json()
    return created


async def test_both_sides_get_a_receipt_that_proves_their_side(world: World) -> None:
    """The movement, each one's own balance and entry; and nothing about the other's balance."""
    key = await log_key(world)
    async with world.partner("5") as sender, world.partner("7") as recipient:
        created = await send(sender, recipient)
        path = f"/transfers/{created['id']}"
        for side, balance in ((sender, 3_500_000), (recipient, 8_500_000)):
            answer = await side.client.get(f"{path}/receipt", headers=WAIT)
            assert answer.status_code == 200, answer.text
            assert answer.headers["preference-applied"] == "wait=60"

            checked = check_receipt(answer.content, [key])

            assert answer.json()["object"] == "receipt"
            assert answer.json()["transfer"] == (await side.client.get(path)).json()
            assert checked.movement.id == created["id"]
            assert checked.movement.note == "Tee & Küchen"
            assert checked.own_entry is not None
            assert checked.own_entry.account_id == side.account.id
            assert (checked.own_entry.sequence, checked.own_entry.balance_after) == (2, balance)
            assert checked.index == answer.json()["index"]


async def test_the_receipt_as_text_proves_the_movement_and_shows_no_balance(world: World) -> None:
    """In the form of C2SP tlog-proof, the same for both sides."""
    key = await log_key(world)
    async with world.partner("5") as sender, world.partner("5") as recipient:
        path = f"/transfers/{(await send(sender, recipient))['id']}/receipt"
        receipt = (await sender.client.get(path, headers=WAIT)).json()

        answer = await recipient.client.get(path, headers={"Accept": "text/plain"} | WAIT)

        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.headers["vary"] == "Accept"
        lines = answer.text.splitlines()
        assert lines[:3] == [
            "c2sp.org/tlog-proof@v1",
            f"extra {receipt['leaf']}",
            f"index {receipt['index']}",
        ]
        assert check_receipt(answer.content, [key]).own_entry is None
        assert b"balance" not in base64.b64decode(receipt["leaf"])


async def test_the_form_of_a_receipt_depends_on_what_the_client_accepts(world: World) -> None:
    """Media types are compared without case; a client that accepts JSON too gets JSON."""
    async with world.partner("5") as sender, world.partner("5") as recipient:
        path = f"/transfers/{(await send(sender, recipient))['id']}/receipt"
        for accepted, form in (
            ("Text/Plain", "text/plain; charset=utf-8"),
            ("text/plain;q=0.9, */*;q=0.1", "text/plain; charset=utf-8"),
            ("text/plain, Application/JSON", "application/json"),
            ("*/*", "application/json"),
        ):
            answer = await sender.client.get(path, headers={"Accept": accepted} | WAIT)

            assert answer.headers["content-type"] == form, accepted


async def test_a_receipt_of_another_log_is_refused(world: World) -> None:
    """Only the key of the log that sealed the movement proves it."""
    async with world.partner("5") as sender, world.partner("5") as recipient:
        path = f"/transfers/{(await send(sender, recipient))['id']}/receipt"
        answer = await sender.client.get(path, headers=WAIT)
    other = VerifierKey("other.example/log", 1, bytes(32))
    with pytest.raises(ReceiptRefused):
        check_receipt(answer.content, [other])


async def test_only_the_two_sides_get_the_receipt(world: World) -> None:
    """For anyone else the transfer does not exist, nor for a key that was revoked."""
    async with (
        world.partner("5") as sender,
        world.partner("5") as recipient,
        world.partner() as other,
    ):
        created = await send(sender, recipient)
        path = f"/transfers/{created['id']}/receipt"
        await sender.client.get(path, headers=WAIT)

        assert_problem(await other.client.get(path), 404, "transfer_not_found")
        assert_problem(await other.client.get("/transfers/x/receipt"), 404, "transfer_not_found")
        await world.revoke(sender)
        assert_problem(await sender.client.get(path), 401, "unauthorized")


async def test_a_receipt_is_not_ready_before_the_transfer_is_sealed(
    log: Log, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer says when to ask again; then the receipt is there."""
    monkeypatch.setattr(
        "ousel.app.background_tasks.TICK_SECONDS", 3_600
    )  # the test seals by itself
    sender = await accounts.partner(log.database, "shop", "5")
    async with in_process_client(database_url, log_key_file=log.key_holder.path) as client:
        headers = {"Authorization": f"Bearer {sender.key}"}
        (funding,) = (await client.get("/transfers", headers=headers)).json()["data"]
        path = f"/transfers/{funding['id']}/receipt"

        early = await client.get(path, headers=headers | {"Prefer": "wait=0"})
        assert_problem(early, 404, "receipt_not_ready")
        assert early.headers["retry-after"] == "1"
        assert early.headers["preference-applied"] == "wait=0"

        await log.sealer.seal_all()
        assert (await client.get(path, headers=headers)).status_code == 200


async def test_a_server_whose_key_was_replaced_gives_no_receipts(
    log: Log, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another server has signed the log with the new key, and this one was not restarted yet."""
    monkeypatch.setattr("ousel.app.background_tasks.TICK_SECONDS", 3_600)
    sender = await accounts.partner(log.database, "shop", "5")
    assert log.key_holder.key is not None
    async with in_process_client(database_url, log_key_file=log.key_holder.path) as client:
        headers = {"Authorization": f"Bearer {sender.key}", "Prefer": "wait=0"}
        (funding,) = (await client.get("/transfers", headers=headers)).json()["data"]
        log.key_holder.key = log.key_holder.key.create_successor()
        await log.sealer.seal_all()

        answer = await client.get(f"/transfers/{funding['id']}/receipt", headers=headers)
        assert_problem(answer, 404, "receipt_not_ready")


async def test_without_a_key_there_are_no_receipts(
    log: Log, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer does not ask to come back soon, and nobody waits for what cannot come."""
    monkeypatch.setattr("ousel.sealed_log.keys.KeyHolder.read", AsyncMock())
    monkeypatch.setattr(LogNotifier, "wait_for_growth", AsyncMock(side_effect=AssertionError))
    sender = await accounts.partner(log.database, "shop", "5")
    async with in_process_client(database_url) as client:
        headers = {"Authorization": f"Bearer {sender.key}"} | WAIT
        (funding,) = (await client.get("/transfers", headers=headers)).json()["data"]
        answer = await client.get(f"/transfers/{funding['id']}/receipt", headers=headers)

        assert_problem(answer, 404, "receipt_not_ready")
        assert answer.headers["retry-after"] == "60"
        for file in ("key", "checkpoint", "former-keys"):
            found = await client.get(f"http://127.0.0.1:8000/log/{file}")
            assert found.status_code == 404, found.text
