"""The transfer record: one movement as each of its two sides reads it."""

import re
from typing import Any

from ousel.kernel.clock import system_clock
from ousel.ledger.funding import redeem_money
from ousel.ledger.rules import SYSTEM_ACCOUNT_ID, Account
from tests.support.world import World

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
FIELDS = [
    *("object", "id", "status", "kind", "direction", "amount", "currency", "from", "to", "note"),
    *("charge_id", "sequence", "balance_after", "idempotency_key", "created_at"),
]


async def test_both_sides_read_one_transfer_each_in_its_own_way(world: World) -> None:
    """Direction and balance are the reader's own, the key is the sender's alone."""
    async with world.partner("100.5") as sender, world.partner("7") as recipient:
        created = await sender.send(
            f'{{"to":"@{recipient.account.username}","amount":0.25,"note":"for tea"}}', "tea-1"
        )
        sent = (await sender.client.get("/transfers?limit=1")).json()["data"][0]
        received = (await recipient.client.get("/transfers?limit=1")).json()["data"][0]

    assert created.status_code == 201
    record = created.json()
    assert list(record) == FIELDS
    assert TIME.fullmatch(record["created_at"])
    assert re.fullmatch(r"tr_[0-9a-v]{26}", record["id"])
    assert record == {
        "object": "transfer",
        "id": record["id"],
        "status": "completed",
        "kind": "transfer",
        "direction": "out",
        "amount": 0.25,
        "currency": "OUSD",
        "from": _party(sender.account),
        "to": _party(recipient.account),
        "note": "for tea",
        "charge_id": None,
        "sequence": 2,
        "balance_after": 100.25,
        "idempotency_key": "tea-1",
        "created_at": record["created_at"],
    }
    assert sent == record
    assert received == record | {
        "direction": "in",
        "balance_after": 7.25,
        "idempotency_key": None,
    }


async def test_amounts_in_a_record_are_written_exactly(world: World) -> None:
    """The text of an answer has 2 to 6 decimals, in the list as in the answer to the post."""
    ada = await world.person()

    async with world.partner("1234.567801") as sender:
        first = await sender.send(f'{{"to":"@{ada.username}","amount":1234.5678}}')
        second = await sender.send(f'{{"to":"@{ada.username}","amount":1e-6}}')
        listed = await sender.client.get("/transfers")

    assert '"amount":1234.5678,' in first.text
    assert '"balance_after":0.000001,' in first.text
    assert '"amount":0.000001,' in second.text
    assert '"balance_after":0.00,' in second.text
    assert re.findall(r'"amount":([^,]+),', listed.text) == ["0.000001", "1234.5678", "1234.567801"]


async def test_funding_is_a_movement_from_the_system_account(world: World) -> None:
    """Money that the operator issued stands in the list as what it is."""
    async with world.partner("3") as caller:
        (record,) = (await caller.client.get("/transfers")).json()["data"]

    assert list(record) == FIELDS
    assert record["kind"] == "funding"
    assert record["direction"] == "in"
    assert record["from"]["id"] == SYSTEM_ACCOUNT_ID
    assert record["to"] == _party(caller.account)
    assert record["amount"] == record["balance_after"] == 3
    assert record["note"] is record["idempotency_key"] is record["charge_id"] is None


async def test_a_redemption_is_a_movement_to_the_system_account(world: World) -> None:
    """Money that the operator took out of circulation is listed, and found by its kind."""
    async with world.partner("3") as caller:
        moved = await redeem_money(world.database, system_clock, caller.account, 1_000_000)
        (record,) = (await caller.client.get("/transfers?kind=redemption")).json()["data"]

    assert list(record) == FIELDS
    assert (record["id"], record["kind"]) == (moved.transfer_id, "redemption")
    assert record["direction"] == "out"
    assert record["from"] == _party(caller.account)
    assert record["to"]["id"] == SYSTEM_ACCOUNT_ID
    assert (record["amount"], record["balance_after"]) == (1, 2)


def _party(account: Account) -> dict[str, Any]:
    return {
        "id": account.id,
        "username": account.username,
        "account_number": account.account_number,
        "display_name": account.display_name,
    }
