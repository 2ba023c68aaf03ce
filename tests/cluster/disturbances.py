"""What happens to a cluster and to the servers in front of it, while clients use them."""

import asyncio
import random
import signal
from collections.abc import Sequence
from pathlib import Path

from tests.cluster.clusters import Cluster
from tests.cluster.network import Machine
from tests.cluster.nodes import Node
from tests.faults.histories.clients import Clients
from tests.support.server import Server

TRANSFERS_BETWEEN = 25
CUT_SECONDS_MAX = 30.0  # longer than Patroni waits for a silent leader
PAUSE_SECONDS_MAX = 30.0
JUMPS = ("+3h", "-3h", "+400d", "+0")


class Disturbances:
    """Disturbs a cluster, mends it, and waits until transfers go on."""

    def __init__(
        self,
        cluster: Cluster,
        servers: Sequence[Server],
        clients: Clients,
        chance: random.Random,
        clock: Path,
    ) -> None:
        """Set the servers' clock by writing to this file."""
        self._cluster = cluster
        self._servers = servers
        self._clients = clients
        self._chance = chance
        self._clock = clock

    async def kill_leader(self) -> None:
        """Kill the leader; another node takes over."""
        killed = await self._cluster.kill_leader()
        await self._clients.further(TRANSFERS_BETWEEN)
        killed.start()

    async def kill_follower(self) -> None:
        """Kill a follower; the other one is enough."""
        killed = self._chance.choice(await self._cluster.followers())
        killed.kill()
        await self._clients.further(TRANSFERS_BETWEEN)
        killed.start()

    async def kill_server(self) -> None:
        """Kill an Ousel server, and start it again."""
        server = self._chance.choice(self._servers)
        server.process.kill()
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.__enter__)

    async def switch_over(self) -> None:
        """Let another node lead, as an operator does."""
        await self._cluster.switch_over()

    async def part_leader(self) -> None:
        """Cut the leader off from the other nodes; the servers still reach it."""
        leader = await self._cluster.leader()
        cuts = [
            cut
            for follower in await self._cluster.followers()
            for cut in ((leader, follower), (follower, leader))
        ]
        await self._cut(cuts)

    async def part_follower(self) -> None:
        """Lose what one node sends to a second one; everything else arrives."""
        one, other = self._chance.sample(self._cluster.nodes, 2)
        await self._cut([(one, other)])

    async def pause_leader(self) -> None:
        """Freeze the leader's processes until another node leads, or less long."""
        leader = await self._cluster.leader()
        leader.freeze()
        await asyncio.sleep(self._chance.uniform(0, PAUSE_SECONDS_MAX))
        leader.thaw()

    async def pause_server(self) -> None:
        """Freeze an Ousel server for a few seconds."""
        server = self._chance.choice(self._servers)
        server.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(self._chance.uniform(0, 5))
        server.process.send_signal(signal.SIGCONT)

    async def jump_clock(self) -> None:
        """Set the clock of the servers' hosts to another time."""
        self._clock.write_text(self._chance.choice(JUMPS))

    async def recover(self) -> None:
        """Wait until the cluster is whole and transfers are acknowledged."""
        await self._cluster.whole()
        await self._clients.further(TRANSFERS_BETWEEN)

    async def _cut(self, cuts: Sequence[tuple[Node, Node]]) -> None:
        for sender, recipient in cuts:
            _machine(sender).lose_packets_to(_machine(recipient))
        await asyncio.sleep(self._chance.uniform(0, CUT_SECONDS_MAX))
        for sender, recipient in cuts:
            _machine(sender).reach(_machine(recipient))


def _machine(node: Node) -> Machine:
    assert node.machine is not None
    return node.machine
