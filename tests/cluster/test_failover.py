"""Two Ousel processes on a cluster that loses its leader: no acknowledged transfer is lost."""

import asyncio
import os
import random
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import asyncpg
import pytest

from ousel.database.schema import migrate
from tests.cli.commands import ousel_process
from tests.cluster.clusters import Cluster
from tests.cluster.load import Load
from tests.cluster.nodes import POSTGRES_BIN
from tests.support.accounts import open_database, partner, person
from tests.support.server import Server

FULL = os.environ.get("OUSEL_CLUSTER") == "full"
ROUNDS = 10 if FULL else 1
SEED = int(os.environ.get("OUSEL_CLUSTER_SEED") or random.SystemRandom().randrange(10**6))
TRANSFERS_BETWEEN = 100 if FULL else 25
ON_THE_WAY_SECONDS = 1.0
WITHOUT_FOLLOWERS_SECONDS = 15.0

SENT = """
    SELECT idempotency_key, transfer_id, amount FROM entries
    WHERE account_id = $1 AND idempotency_key IS NOT NULL AND amount < 0
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_600 if FULL else 240)]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A complete cluster."""
    async with Cluster() as whole:
        yield whole


async def test_no_acknowledged_transfer_is_lost_or_doubled(
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    """Leaders are killed and switched over under load; each acknowledged transfer exists once."""
    url = await cluster.create_database("ousel", secrets.token_hex(8))
    await migrate(url)
    async with open_database(url) as database:
        sender, _, key = await partner(database, "harbour", "1000000")
        await person(database, "ada")
    monkeypatch.setenv("PATH", f"{POSTGRES_BIN}{os.pathsep}{os.environ['PATH']}")
    with Server(url) as first, Server(url) as second:
        load = Load([first, second], key, "@ada", SEED)
        async with load.running():
            await load.further(TRANSFERS_BETWEEN)
            gaps = await _disturbed(cluster, load)
            assert "ReadTimeout" not in load.refusals, "every request was answered in time"
            if FULL:
                await _without_one_follower(cluster, load)
                await _frozen(cluster, load)
                await _without_followers(cluster, load)

    await _every_acknowledged_transfer_is_there_once(url, sender.id, load)
    backup = tmp_path / "cluster.backup"
    for command in (("verify",), ("backup", str(backup))):
        ended = await asyncio.to_thread(ousel_process, *command, database=url)
        assert ended.exit_code == 0, ended.errors
    assert backup.stat().st_size > 0
    for figure in (
        f"cluster: seed {SEED}; {ROUNDS} leaders killed, {ROUNDS} handed over",
        f"cluster: {len(load.acknowledged)} transfers acknowledged, 0 lost, 0 doubled",
        f"cluster: longest write gap after a kill {max(gaps['kill']):.1f} s",
        f"cluster: longest write gap after a handover {max(gaps['handover']):.1f} s",
        f"cluster: slowest answer {load.slowest_seconds:.1f} s; refused {dict(load.refusals)}",
    ):
        record_property("figure", figure)


async def _disturbed(cluster: Cluster, load: Load) -> dict[str, list[float]]:
    """Kill leaders and switch over in a random order; return the gaps between acknowledgements."""
    disturbances = ["kill", "handover"] * ROUNDS
    random.Random(SEED).shuffle(disturbances)
    gaps: dict[str, list[float]] = {"kill": [], "handover": []}
    for disturbance in disturbances:
        started = time.monotonic()
        if disturbance == "kill":
            killed = await cluster.kill_leader()
            await load.further(TRANSFERS_BETWEEN)
            killed.start()
        else:
            await cluster.switch_over()
        await cluster.whole()
        await load.further(TRANSFERS_BETWEEN)
        gaps[disturbance].append(load.longest_gap_seconds(started))
    listed = await asyncio.to_thread((await cluster.whole()).patronictl, "list")
    assert re.findall(r"Quorum Standby *\| *(\w+)", listed) == ["streaming"] * 2, listed
    return gaps


async def _without_one_follower(cluster: Cluster, load: Load) -> None:
    """Kill one follower; no request is refused."""
    leader = await cluster.whole()
    refused = load.refusals.total()
    follower = next(node for node in cluster.nodes if node is not leader)
    follower.kill()
    await load.further(TRANSFERS_BETWEEN)
    follower.start()
    await cluster.whole()
    assert load.refusals.total() == refused


async def _frozen(cluster: Cluster, load: Load) -> None:
    """Freeze the leader; another node takes over, and the frozen one follows it later."""
    frozen = await cluster.freeze_leader()
    await load.further(TRANSFERS_BETWEEN)
    frozen.thaw()
    await cluster.whole()
    await load.further(TRANSFERS_BETWEEN)


async def _without_followers(cluster: Cluster, load: Load) -> None:
    """Kill both followers; nothing is acknowledged that only one machine has."""
    leader = await cluster.whole()
    followers = [node for node in cluster.nodes if node is not leader]
    for follower in followers:
        follower.kill()
    await asyncio.sleep(ON_THE_WAY_SECONDS)
    before = load.successes
    await asyncio.sleep(WITHOUT_FOLLOWERS_SECONDS)
    assert load.successes == before
    for follower in followers:
        follower.start()
    await cluster.whole()
    await load.further(TRANSFERS_BETWEEN)


async def _every_acknowledged_transfer_is_there_once(url: str, account_id: str, load: Load) -> None:
    assert load.faults == []
    connection = await asyncpg.connect(f"{url}?target_session_attrs=read-write")
    try:
        rows = await connection.fetch(SENT, account_id)
    finally:
        await connection.close()
    assert len(rows) == len(load.acknowledged)
    assert {key: transfer_id for key, transfer_id, _ in rows} == load.acknowledged
    assert {key: amount for key, _, amount in rows} == {
        key: -cents * 10_000 for key, cents in load.amounts.items()
    }
