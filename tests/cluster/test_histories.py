"""A cluster is disturbed in every way under load: no client gets a wrong answer."""

import random
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ousel.database.schema import migrate
from tests.cluster.clusters import Cluster
from tests.cluster.disturbances import Disturbances
from tests.cluster.network import Network, network_is_possible
from tests.faults.histories.clients import Clients
from tests.faults.histories.verdict import assert_correct
from tests.faults.sizes import FULL, SEED
from tests.support.faketime import faketime_library, remove_shared_memory
from tests.support.server import Server

GROUPS = 6
COUNTS = {
    "kill_server": 70,
    "kill_leader": 15,
    "kill_follower": 15,
    "switch_over": 30,
    "part_leader": 15,
    "part_follower": 15,
    "jump_clock": 20,
    "pause_leader": 10,
    "pause_server": 10,
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3 * 3_600),
    pytest.mark.skipif(not FULL, reason="it takes an hour: make faults"),
    pytest.mark.skipif(not network_is_possible(), reason="it needs network namespaces, as root"),
]


class ServerOnJumpingClock(Server):
    """A server that is not ready, but serves, while the clock of its host is wrong."""

    ready_path = "/healthz"


@pytest.fixture
def library() -> Iterator[str]:
    """The library that shows a wrong clock to a process."""
    yield faketime_library()
    remove_shared_memory()


async def test_a_disturbed_cluster_gives_no_wrong_answer(
    tmp_path: Path, library: str, record_property: Callable[[str, object], None]
) -> None:
    """Kills, switches, partitions, clock jumps and pauses, in a random order."""
    chance = random.Random(SEED)
    clock = tmp_path / "clock"
    clock.write_text("+0")
    faked = {
        "LD_PRELOAD": library,
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "OUSEL_LOG_LEVEL": "error",
    }
    order = list(Counter(COUNTS).elements())
    chance.shuffle(order)
    with Network(machines=3) as network:
        async with Cluster(network.machines) as cluster:
            url = await cluster.create_database("ousel", secrets.token_hex(8))
            await migrate(url)
            servers = [ServerOnJumpingClock(url, **faked) for _ in range(2)]
            clients = Clients(servers, SEED)
            disturbances = Disturbances(cluster, servers, clients, chance, clock)
            with servers[0], servers[1]:
                await clients.open_accounts(url, GROUPS, times=len(order))
                async with clients.running():
                    for name in order:
                        await getattr(disturbances, name)()
                        await disturbances.recover()
                        clients.use_next_groups()
            histories = await clients.histories(f"{url}?target_session_attrs=read-write")

    assert clients.unexpected == []
    verdict = assert_correct(histories, tmp_path)
    record_property(
        "figure",
        f"cluster: {sum(len(each.operations) for each in histories)} operations,"
        f" {len(clients.acknowledgements)} transfers acknowledged beside {COUNTS}: {verdict};"
        f" refused {dict(clients.codes)}",
    )
