"""Two Ousel processes on a cluster that loses its leader: no acknowledged transfer is lost."""

import asyncio
import os
import random
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from ousel.database.schema import migrate
from tests.cli.commands import ousel_process
from tests.cluster.clusters import Cluster
from tests.faults.histories.clients import Clients
from tests.faults.histories.verdict import assert_correct
from tests.support.postgres_server import POSTGRES_BIN
from tests.support.server import Server
from tests.support.waiting import until_async

FULL = os.environ.get("OUSEL_CLUSTER") == "full"
ROUNDS = 10 if FULL else 1
SEED = int(os.environ.get("OUSEL_CLUSTER_SEED") or random.SystemRandom().randrange(10**6))
TRANSFERS_BETWEEN = 100 if FULL else 10
GROUPS = 4 if FULL else 2
# Most of the time goes by while Patroni waits for a silent leader, so a few requests are enough.
PAUSE_SECONDS_MAX = 0.1 if FULL else 1.0
ANSWER_SECONDS_MAX = 20.0 if FULL else 240.0  # a slow machine is not a defect
ON_THE_WAY_SECONDS = 1.0
WITHOUT_FOLLOWERS_SECONDS = 15.0

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3_600 if FULL else 900)]


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
    monkeypatch.setenv("PATH", f"{POSTGRES_BIN}{os.pathsep}{os.environ['PATH']}")
    with Server(url) as first, Server(url) as second:
        clients = Clients(
            [first, second],
            SEED,
            pause_seconds_max=PAUSE_SECONDS_MAX,
            answer_seconds_max=ANSWER_SECONDS_MAX,
        )
        await clients.open_accounts(url, GROUPS)
        async with clients.running():
            await clients.further(TRANSFERS_BETWEEN)
            gaps = await _disturbed(cluster, clients)
            assert "ReadTimeout" not in clients.codes, "every request was answered"
            if FULL:
                await _without_one_follower(cluster, clients)
                await _frozen(cluster, clients)
                await _without_followers(cluster, clients)

    assert clients.unexpected == []
    histories = await clients.histories(f"{url}?target_session_attrs=read-write")
    verdict = assert_correct(histories, tmp_path)
    backup = tmp_path / "cluster.backup"
    for command in (("verify",), ("backup", str(backup))):
        ended = await asyncio.to_thread(ousel_process, *command, database=url)
        assert ended.exit_code == 0, ended.errors
    assert backup.stat().st_size > 0
    for figure in (
        f"cluster: seed {SEED}; {ROUNDS} leaders killed, {ROUNDS} handed over",
        f"cluster: {len(clients.acknowledgements)} transfers acknowledged; {verdict}",
        f"cluster: longest write gap after a kill {max(gaps['kill']):.1f} s",
        f"cluster: longest write gap after a handover {max(gaps['handover']):.1f} s",
        f"cluster: refused {dict(clients.codes)}",
    ):
        record_property("figure", figure)


async def _disturbed(cluster: Cluster, clients: Clients) -> dict[str, list[float]]:
    """Kill leaders and switch over in a random order; return the gaps between acknowledgements."""
    disturbances = ["kill", "handover"] * ROUNDS
    random.Random(SEED).shuffle(disturbances)
    gaps: dict[str, list[float]] = {"kill": [], "handover": []}
    for disturbance in disturbances:
        started = time.monotonic()
        if disturbance == "kill":
            killed = await cluster.kill_leader()
            await clients.further(TRANSFERS_BETWEEN)
            killed.start()
        else:
            await cluster.switch_over()
        await cluster.whole()
        await clients.further(TRANSFERS_BETWEEN)
        gaps[disturbance].append(clients.longest_gap_seconds(started))
    await until_async(lambda: _lists_two_standbys(cluster))
    return gaps


async def _lists_two_standbys(cluster: Cluster) -> bool:
    """Return whether Patroni's list shows two standbys that can take over; it may lag behind."""
    listed = await asyncio.to_thread((await cluster.whole()).patronictl, "list")
    return re.findall(r"Quorum Standby *\| *(\w+)", listed) == ["streaming"] * 2


async def _without_one_follower(cluster: Cluster, clients: Clients) -> None:
    """Kill one follower; no request is refused."""
    leader = await cluster.whole()
    refused = clients.codes.total()
    follower = next(node for node in cluster.nodes if node is not leader)
    follower.kill()
    await clients.further(TRANSFERS_BETWEEN)
    follower.start()
    await cluster.whole()
    assert clients.codes.total() == refused


async def _frozen(cluster: Cluster, clients: Clients) -> None:
    """Freeze the leader; another node takes over, and the frozen one follows it later."""
    frozen = await cluster.freeze_leader()
    await clients.further(TRANSFERS_BETWEEN)
    frozen.thaw()
    await cluster.whole()
    await clients.further(TRANSFERS_BETWEEN)


async def _without_followers(cluster: Cluster, clients: Clients) -> None:
    """Kill both followers; nothing is acknowledged that only one machine has."""
    leader = await cluster.whole()
    followers = [node for node in cluster.nodes if node is not leader]
    for follower in followers:
        follower.kill()
    await asyncio.sleep(ON_THE_WAY_SECONDS)
    before = len(clients.acknowledgements)
    await asyncio.sleep(WITHOUT_FOLLOWERS_SECONDS)
    assert len(clients.acknowledgements) == before
    for follower in followers:
        follower.start()
    await cluster.whole()
    await clients.further(TRANSFERS_BETWEEN)
