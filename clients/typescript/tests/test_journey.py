"""The TypeScript client on a real server: the whole journey, and failures of the network."""

import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from clients.python.tests.faults import FAULTS, LATE_SECONDS, Fault, FaultProxy
from clients.python.tests.test_connect import connected
from clients.python.tests.test_faults import FAILURES
from tests.faults.sizes import sized
from tests.support.added_fields import FieldAddingProxy
from tests.support.node import NODE
from tests.support.partner_program import run_partner_program
from tests.support.seeded import PEOPLE, REDIRECT_URI, SeededServer

pytestmark = pytest.mark.slow

PROGRAMS = Path(__file__).parent / "programs"
SEED = 20_261_116
COUNT = sized(100, 5_000)


async def journey(sandbox: SeededServer, base_url: str, reference: str) -> dict[str, Any]:
    """Make the whole journey at this address, and return what the program saw."""

    async def open_address(url: str) -> str:
        return_url, _ = await connected(sandbox, url)
        return return_url

    seen: dict[str, Any] = await run_partner_program(
        NODE,
        PROGRAMS / "journey.mjs",
        options={
            "baseUrl": base_url,
            "portalUrl": sandbox.server.origin,
            "key": sandbox.key,
            "redirectUri": REDIRECT_URI,
            "reference": reference,
        },
        open_address=open_address,
    )
    return seen


def check_journey(seen: dict[str, Any]) -> None:
    """Check that everything happened that should happen on the journey."""
    username = seen["connect"].pop("username")
    assert username.startswith("user_")
    assert seen == {
        "following": {"isNext": True, "isDone": True},
        "transfers": {
            "amount": "0.000001",
            "note": "\u00e4\U0001f426",
            **dict.fromkeys(("isSame", "isFound", "isNext", "isConflict", "isMissing"), True),
            "balanceIsExact": True,
        },
        "charges": {
            "statuses": ["created", "created", "paid", "canceled"],
            "isSame": True,
            "paidBy": "ada",
            "isTimedOut": True,
            "stopped": "stopped",
            "refusal": "paid",
            "listed": ["9.90"],
        },
        "connect": {
            "scope": "profile balance",
            "days": 30,
            "available": "12.50",
            "errors": ["InvalidGrant", "InvalidToken"],
        },
    }


async def send(base_url: str, key: str, *intents: dict[str, Any], **options: Any) -> Any:
    """Send these intents with the client, and return what became of each."""
    wanted = {"baseUrl": base_url, "key": key, "intents": intents, **options}
    return await run_partner_program(NODE, PROGRAMS / "faults.mjs", options=wanted)


def intent(key: str, amount: str = "0.50", **changes: Any) -> dict[str, Any]:
    """Return an intent as a program stores it."""
    return {"to": "@ada", "amount": amount, "idempotency_key": key, **changes}


async def stored(live: SeededServer, prefix: str) -> list[tuple[str, int, str | None]]:
    """Return the key, amount and note of the transfers whose keys begin like this."""
    return [
        (each.idempotency_key, each.amount, each.note)
        for each in await live.transfers()
        if each.idempotency_key.startswith(prefix)
    ]


async def test_the_whole_journey(sandbox: SeededServer) -> None:
    """Transfers, charges and a person who connects, each with its refusals."""
    check_journey(await journey(sandbox, sandbox.base_url, "order-ts-1"))


async def test_a_field_added_to_each_object_breaks_nothing(sandbox: SeededServer) -> None:
    """The client makes the same journey where every object in every answer has a new field."""
    async with FieldAddingProxy(sandbox.server.port) as proxy:
        check_journey(await journey(sandbox, proxy.base_url, "order-ts-2"))

    assert proxy.added > 0


async def test_each_fault_alone_and_one_after_the_other(live: SeededServer) -> None:
    """After one fault, or all of them in a row, the transfer is returned and has moved once."""
    rows: list[tuple[Fault, ...]] = [*((fault,) for fault in FAULTS), FAILURES]
    keys = [f"ts-{number}-{faults[0].replace(' ', '-')}" for number, faults in enumerate(rows)]
    async with FaultProxy(live.server.port, seed=SEED, chance=0) as proxy:
        for faults in rows:
            proxy.planned += [
                *faults,
                *([] if faults[-1] in {"delayed", "request doubled"} else [None]),
            ]
        sent = await send(proxy.base_url, live.key, *map(intent, keys))
        assert proxy.planned == []

    assert [each["idempotency_key"] for each in sent] == keys
    assert await stored(live, "ts-") == sorted((key, 500_000, None) for key in keys)


async def test_a_stored_intent_survives_its_process(live: SeededServer) -> None:
    """If a process ends without knowing the outcome, the next one sends the stored intent again."""
    rent = intent("tsrent-2026-01", "7.25", note="rent")
    async with FaultProxy(live.server.port, seed=SEED, chance=0) as proxy:
        proxy.planned = ["answer lost"]
        [failed] = await send(proxy.base_url, live.key, rent, attemptsMax=1, isToFail=True)
    [again] = await send(live.base_url, live.key, rent)

    assert failed == {
        "name": "ConnectionFailed",
        "inDoubt": True,
        "idempotencyKey": "tsrent-2026-01",
        "attempts": 1,
    }
    assert again["amount"] == "7.25"
    assert await stored(live, "tsrent") == [("tsrent-2026-01", 7_250_000, "rent")]


async def test_a_request_that_timed_out_is_sent_again(live: SeededServer) -> None:
    """After a timeout, the client sends the request again with the same key. Money moves once."""
    async with FaultProxy(live.server.port, seed=SEED, chance=0) as proxy:
        proxy.planned = ["answer late"]
        await send(proxy.base_url, live.key, intent("tspatience"), timeoutSeconds=LATE_SECONDS / 2)

    assert proxy.met["answer late"] == 1
    assert proxy.requests > 1
    assert await stored(live, "tspatience") == [("tspatience", 500_000, None)]


async def test_following_outlasts_a_failing_network(sandbox: SeededServer) -> None:
    """Through faults, a client that starts again and again handles each transfer once, in order."""
    async with FaultProxy(sandbox.server.port, seed=SEED) as proxy:
        options = {"baseUrl": proxy.base_url, "key": sandbox.key, "count": 60}
        seen = await run_partner_program(NODE, PROGRAMS / "follow.mjs", options=options)

    assert [each["sequence"] for each in seen] == list(range(1, 60))
    assert len({each["id"] for each in seen}) == 59
    assert proxy.met.total() > 0


async def test_each_intent_moves_once_through_a_failing_network(live: SeededServer) -> None:
    """Four in ten requests meet a fault, and yet the ledger has each of many intents once."""
    chance = random.Random(SEED)
    wanted = [
        intent(
            f"tsmany-{number:06d}",
            f"{Decimal(chance.randint(1, 40_000_000)).scaleb(-6):f}",
            to=f"@{chance.choice(PEOPLE)}",
            note=chance.choice([None, "", f"number {number}", "\u00e4\U0001f426"]),
        )
        for number in range(COUNT)
    ]
    async with FaultProxy(live.server.port, seed=SEED) as proxy:
        sent = await send(proxy.base_url, live.key, *wanted, workers=12)

    assert [each["idempotency_key"] for each in sent] == [
        each["idempotency_key"] for each in wanted
    ]
    assert await stored(live, "tsmany") == [
        (each["idempotency_key"], int(Decimal(each["amount"]).scaleb(6)), each["note"])
        for each in wanted
    ]
    assert len({each["id"] for each in sent}) == COUNT
    assert proxy.met.total() > 0
