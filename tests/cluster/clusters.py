"""A cluster of three nodes: which one leads, and whether it is complete."""

import asyncio
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Self

import asyncpg
import httpx2

from tests.cluster.network import Machine
from tests.cluster.nodes import Node, check_permitted, three_nodes

SETTLE_SECONDS_MAX = 240.0
LOOK_SECONDS = 0.5  # each look asks every Patroni

# The followers that stream and confirm commits.
STREAMING_FOLLOWERS = """
    SELECT application_name FROM pg_stat_replication
    WHERE state = 'streaming' AND sync_state = 'quorum'
"""


class Cluster:
    """Three nodes, each with etcd, Patroni and PostgreSQL."""

    def __init__(self, machines: Sequence[Machine | None] = (None, None, None)) -> None:
        """Run the nodes on these machines, or all on this one."""
        check_permitted()
        self._folder = Path(tempfile.mkdtemp(prefix="ousel-cluster-"))
        self.nodes, self._shared = three_nodes(self._folder, machines)

    async def __aenter__(self) -> Self:
        for node in self.nodes:
            node.start_etcd()
        for node in self.nodes:
            node.start()
        try:
            await self.whole()
        except BaseException:
            self._end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        for node in self.nodes:
            node.end()
        shutil.rmtree(self._folder)

    def url(self, user: str, password: str, database: str) -> str:
        """Return the address of a database, with all hosts."""
        hosts = ",".join(f"{node.host}:{node.ports.postgres}" for node in self.nodes)
        return f"postgresql://{user}:{password}@{hosts}/{database}"

    async def create_database(self, name: str, password: str) -> str:
        """Create a database and its owner of the same name, and return its address."""
        await self._on_leader(f"CREATE ROLE {name} LOGIN PASSWORD '{password}'")
        await self._on_leader(f"CREATE DATABASE {name} OWNER {name}")
        return self.url(name, password, name)

    async def leader(self) -> Node:
        """Return the node that leads, once there is one."""
        return await self._awaited("a leader", self._leader)

    async def followers(self) -> list[Node]:
        """Return the nodes that do not lead."""
        leader = await self.leader()
        return [node for node in self.nodes if node is not leader]

    async def whole(self) -> Node:
        """Return the leader, once both other nodes stream from it and can take over."""
        return await self._awaited("a whole cluster", self._whole_leader)

    async def switch_over(self) -> None:
        """Switch over to another node, as an operator does."""
        old = await self.leader()
        command = ("switchover", "--leader", old.name, "--force")

        async def new_leader() -> Node | None:
            """Ask again: Patroni refuses while it finds no other node that can take over now."""
            found = await self._leader(besides=old)
            if found is None:
                await asyncio.to_thread(old.patronictl, *command, check=False)
            return found

        await self._awaited("a new leader", new_leader)

    async def freeze_leader(self) -> Node:
        """Freeze the leading node, and return it once another one leads."""
        old = await self.leader()
        old.freeze()
        await self._awaited("a new leader", lambda: self._leader(besides=old))
        return old

    async def kill_leader(self) -> Node:
        """Kill the leading node, and return it once another one leads."""
        old = await self.leader()
        old.kill()
        await self._awaited("a new leader", lambda: self._leader(besides=old))
        return old

    async def _leader(self, besides: Node | None = None) -> Node | None:
        async with _caller() as caller:
            for node in self.nodes:
                if node is not besides and await _leads(caller, node):
                    return node
        return None

    async def _whole_leader(self) -> Node | None:
        leader = await self._leader()
        if leader is None:
            return None
        try:
            rows = await self._fetch(leader, STREAMING_FOLLOWERS)
        except (OSError, asyncpg.PostgresError):
            return None
        others = {node.name for node in self.nodes} - {leader.name}
        streaming = {name for (name,) in rows}
        return leader if streaming == await _candidates(leader) == others else None

    async def _on_leader(self, sql: str) -> None:
        await self._fetch(await self.leader(), sql)

    async def _fetch(self, node: Node, sql: str) -> list[asyncpg.Record]:
        connection = await asyncpg.connect(
            host=node.host,
            port=node.ports.postgres,
            user="postgres",
            password=self._shared.superuser_password,
            database="postgres",
        )
        try:
            return await connection.fetch(sql)
        finally:
            await connection.close()

    async def _awaited(self, what: str, look: Callable[[], Awaitable[Node | None]]) -> Node:
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        while time.monotonic() < deadline:
            found = await look()
            if found is not None:
                return found
            await asyncio.sleep(LOOK_SECONDS)
        logs = "\n".join(f"{node.name}: {node.log('patroni')}" for node in self.nodes)
        raise AssertionError(f"no sign of {what}:\n{logs}")


def _caller() -> httpx2.AsyncClient:
    return httpx2.AsyncClient(timeout=30, verify=False)


async def _leads(caller: httpx2.AsyncClient, node: Node) -> bool:
    try:
        answer = await caller.get(f"{node.api_url}/primary")
    except httpx2.TransportError:
        return False
    return answer.status_code == httpx2.codes.OK


async def _candidates(leader: Node) -> set[str]:
    """Return the names of the nodes that Patroni would let take over from this leader.

    Right after a switch, Patroni knows of none, although the followers already confirm commits.
    """
    async with _caller() as caller:
        try:
            answer = await caller.get(f"{leader.api_url}/cluster")
        except httpx2.TransportError:
            return set()
    members = answer.json()["members"]
    return {each["name"] for each in members if each["role"] == "quorum_standby"}
