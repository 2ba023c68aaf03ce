"""Each intent moves its money exactly once, whatever faults the network has."""

import asyncio
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from clients.python.tests.client_kinds import client_of
from clients.python.tests.faults import FAULTS, LATE_SECONDS, Fault, FaultProxy
from ousel.database.addresses import open_database
from ousel_client import (
    AsyncClient,
    Client,
    ConnectionFailed,
    RetryPolicy,
    Transfer,
    TransferIntent,
)
from tests.faults.sizes import sized
from tests.support.accounts import verify
from tests.support.engines import ENGINES, Engine, Engines
from tests.support.seeded import PEOPLE, SeededServer, run_seeded_server
from tests.support.waiting import until_async

SEED = 20_260_131
PROGRESS = sized(10, 100)  # transfers between two kills of the server
COUNTS: dict[Engine, int] = {"sqlite": sized(150, 20_000), "postgresql": sized(80, 2_000)}
WORKERS = 24
FAILURES = tuple(fault for fault in FAULTS if fault not in {"delayed", "request doubled"})
QUICK_RETRIES = RetryPolicy(
    attempts_max=200, seconds_max=500, first_delay_seconds=0.002, delay_seconds_max=0.05
)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn: both run the same tests."""
    chosen: Engine = request.param
    return chosen


def intents(count: int) -> list[TransferIntent]:
    """Return this many random intents, which are the same for the same seed."""
    chance = random.Random(SEED)
    return [
        TransferIntent(
            to=f"@{chance.choice(PEOPLE)}",
            amount=Decimal(chance.randint(1, 40_000_000)).scaleb(-6),
            note=chance.choice([None, "", f"number {number}", "\u00e4\U0001f426"]),
            idempotency_key=f"intent-{number:06d}",
        )
        for number in range(count)
    ]


async def all_sent(client: AsyncClient, wanted: list[TransferIntent]) -> list[Transfer]:
    """Send all intents, many at a time; return the transfers in the order of the intents."""
    waiting = enumerate(wanted)  # shared by the workers: each takes the next one
    sent: dict[int, Transfer] = {}

    async def work() -> None:
        for number, intent in waiting:
            sent[number] = await client.transfers.send(intent)

    await asyncio.gather(*(work() for _ in range(WORKERS)))
    return [sent[number] for number in range(len(wanted))]


async def stored(seeded: SeededServer) -> list[tuple[str, int, str | None]]:
    """Return the key, amount and note of each transfer of the partner in the ledger."""
    return [(each.idempotency_key, each.amount, each.note) for each in await seeded.transfers()]


async def verified(seeded: SeededServer) -> None:
    """Check that the ledger balances."""
    async with open_database(seeded.url) as database:
        await verify(database)


async def sent_through(live: SeededServer, intent: TransferIntent, *faults: Fault) -> Transfer:
    """Send an intent while its first attempts meet these faults."""
    async with (
        FaultProxy(live.server.port, seed=SEED, chance=0) as proxy,
        client_of("asyncio", live.key, proxy.base_url) as client,
    ):
        proxy.planned = [*faults]
        transfer = await client.transfers.send(intent)
        assert proxy.planned == []
    assert isinstance(transfer, Transfer)
    return transfer


@pytest.mark.one_engine
async def test_each_fault_alone_and_one_after_the_other(live: SeededServer) -> None:
    """After one fault, or all of them in a row, the transfer is returned and has moved once."""
    wanted = []
    for faults in [(fault,) for fault in FAULTS] + [FAILURES]:
        key = "+".join(fault.replace(" ", "-") for fault in faults)
        intent = TransferIntent(to="@ada", amount=Decimal("0.5"), idempotency_key=key)
        wanted.append((key, 500_000, None))

        transfer = await sent_through(live, intent, *faults)

        assert (transfer.idempotency_key, transfer.amount) == (key, Decimal("0.5"))
    assert [row for row in await stored(live) if row in wanted] == sorted(wanted)


@pytest.mark.one_engine
async def test_a_stored_intent_survives_its_process(live: SeededServer) -> None:
    """If a process dies without knowing the outcome, the next one can find out or send it again."""
    written = {"to": "@grace", "amount": "7.25", "note": "rent", "idempotency_key": "rent-2026-01"}
    async with (
        FaultProxy(live.server.port, seed=SEED, chance=0) as proxy,
        client_of("asyncio", live.key, proxy.base_url, retry=RetryPolicy(attempts_max=1)) as dying,
    ):
        proxy.planned = ["answer lost"]
        with pytest.raises(ConnectionFailed) as raised:
            await dying.transfers.send(**written)
    assert raised.value.in_doubt
    assert raised.value.idempotency_key == "rent-2026-01"

    async with client_of("asyncio", live.key, live.base_url) as next_process:
        found = await next_process.transfers.find(idempotency_key="rent-2026-01")
        again = await next_process.transfers.send(**written)

    assert again == found
    assert [row for row in await stored(live) if row[0] == "rent-2026-01"] == [
        ("rent-2026-01", 7_250_000, "rent")
    ]


@pytest.mark.slow
@pytest.mark.one_engine
async def test_a_request_that_timed_out_is_sent_again(live: SeededServer) -> None:
    """After a timeout, the client sends the request again with the same key. Money moves once."""
    async with (
        FaultProxy(live.server.port, seed=SEED, chance=0) as proxy,
        client_of("asyncio", live.key, proxy.base_url, timeout_seconds=LATE_SECONDS / 2) as client,
    ):
        proxy.planned = ["answer late"]
        sent = await client.transfers.send(to="@ada", amount=1, idempotency_key="patience")

    assert proxy.met["answer late"] == 1
    assert proxy.requests > 1
    assert [row for row in await stored(live) if row[0] == "patience"] == [
        ("patience", 1_000_000, None)
    ]
    assert sent.idempotency_key == "patience"


@pytest.mark.one_engine
async def test_threads_share_a_client_through_a_failing_network(live: SeededServer) -> None:
    """The synchronous client moves each intent once too."""
    wanted = [
        TransferIntent(to="@alan", amount=Decimal("0.01"), idempotency_key=f"thread-{number:02d}")
        for number in range(40)
    ]
    async with FaultProxy(live.server.port, seed=SEED) as proxy:

        def send_all() -> list[Transfer]:
            with (
                Client(live.key, base_url=proxy.base_url, retry=QUICK_RETRIES) as client,
                ThreadPoolExecutor(8) as threads,
            ):
                return list(threads.map(client.transfers.send, wanted))

        sent = await asyncio.to_thread(send_all)

    assert [each.idempotency_key for each in sent] == [each.idempotency_key for each in wanted]
    assert [row[0] for row in await stored(live) if row[0].startswith("thread-")] == [
        each.idempotency_key for each in wanted
    ]
    assert proxy.met.total() > 0


@pytest.mark.slow
async def test_each_intent_moves_once_through_a_failing_network(
    live: SeededServer, engine: Engine
) -> None:
    """Four in ten requests meet a fault, and yet the ledger has each of many intents once."""
    count = COUNTS[engine]
    wanted = intents(count)
    begun = time.monotonic()
    async with (
        FaultProxy(live.server.port, seed=SEED) as proxy,
        AsyncClient(live.key, base_url=proxy.base_url, retry=QUICK_RETRIES) as client,
    ):
        sent = await all_sent(client, wanted)
    seconds = time.monotonic() - begun

    expected = [
        (intent.idempotency_key, int(intent.amount.scaleb(6)), intent.note) for intent in wanted
    ]
    assert [row for row in await stored(live) if row[0].startswith("intent-")] == expected
    assert [each.idempotency_key for each in sent] == [each.idempotency_key for each in wanted]
    assert [each.amount for each in sent] == [each.amount for each in wanted]
    assert len({each.id for each in sent}) == count
    assert set(proxy.met) == set(FAULTS), "every fault must have occurred"
    print(f"\n{count} transfers in {proxy.requests} requests, {seconds:.0f} s; {dict(proxy.met)}")
    await verified(live)


@pytest.fixture
def killable(engines: Engines, engine: Engine, tmp_path: Path) -> Iterator[SeededServer]:
    """A server that only this test uses, so it may be killed."""
    with run_seeded_server(engines.fresh_url(engine, tmp_path)) as seeded:
        yield seeded


async def _has_grown(seeded: SeededServer, count: int) -> bool:
    return len(await stored(seeded)) >= count


@pytest.mark.slow
async def test_each_intent_moves_once_though_the_server_dies(killable: SeededServer) -> None:
    """Each intent moves once although the server is killed and restarted meanwhile."""
    wanted = intents(sized(60, 1_000))
    patient = RetryPolicy(attempts_max=1_000, seconds_max=500, delay_seconds_max=1)
    async with client_of("asyncio", killable.key, killable.base_url, retry=patient) as client:
        sending = asyncio.create_task(all_sent(client, wanted))
        for _ in range(sized(1, 3)):
            before = len(await stored(killable))
            await until_async(partial(_has_grown, killable, before + PROGRESS))
            killable.server.process.kill()
            await asyncio.to_thread(killable.server.stop)
            await asyncio.to_thread(killable.server.__enter__)
        sent = await sending

    assert [row[0] for row in await stored(killable)] == [each.idempotency_key for each in wanted]
    assert [each.amount for each in sent] == [each.amount for each in wanted]
    await verified(killable)


@pytest.fixture
def limited(engines: Engines, tmp_path: Path) -> Iterator[SeededServer]:
    """A server that allows 20 requests a second for each key."""
    database_url = engines.fresh_url("sqlite", tmp_path)
    with run_seeded_server(database_url, OUSEL_RATE_LIMIT="20/second") as seeded:
        yield seeded


@pytest.mark.slow
async def test_a_client_keeps_to_the_servers_own_limit(limited: SeededServer) -> None:
    """Under a rate limit, every transfer succeeds, as fast as the limit allows."""
    wanted = intents(60)
    async with client_of("asyncio", limited.key, limited.base_url, retry=RetryPolicy()) as client:
        begun = time.monotonic()
        sent = await all_sent(client, wanted)
        seconds = time.monotonic() - begun

    assert len({each.id for each in sent}) == len(wanted)
    assert seconds > 1.5, (
        "the limit allows 20 at once, then 20 a second, so 60 need about two seconds"
    )
    print(f"\n{len(wanted)} transfers under 20/second in {seconds:.1f} s")
