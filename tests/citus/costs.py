"""`python -m tests.citus.costs`: what a transfer costs on PostgreSQL and on Citus, in one run.

All servers run at the same time, and each round measures all of them, one after the other. They
share the machine, so compare the CPU time per transfer rather than the rates.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from statistics import median

import msgspec

from bench.processes import cpu_seconds
from ousel.database.schema import distribute, migrate
from ousel.workload import plans, sample_data
from ousel.workload.processes import Server, ousel_server, run_load_process
from tests.support.citus_cluster import CitusCluster, CitusNode

WORKERS = (0, 1, 2, 4)  # none: the tables are not distributed
SHARDS = 8
PARTNERS, PEOPLE = 64, 1000
CALLERS = (16, 128)  # the more callers, the larger the batches
ROUNDS, SECONDS = 7, 4.0
DATABASE = "ousel"


class Sample(msgspec.Struct, frozen=True):
    """The rate, and what a transfer cost."""

    rate: float
    ousel_micros: float
    coordinator_micros: float
    workers_micros: float
    wal_bytes: float


class Ledger:
    """A cluster with a ledger, and the Ousel server that is connected to its coordinator."""

    def __init__(self, workers: int, running: contextlib.ExitStack) -> None:
        self.workers = workers
        self._cluster = CitusCluster(f"citus.shard_count = {SHARDS}", workers=workers)
        running.enter_context(self._cluster)
        url = asyncio.run(self._create_database())
        self._data = sample_data.create_sample_data(url, PARTNERS, PEOPLE)
        self._server: Server = running.enter_context(ousel_server(url))

    def measure(self, callers: int) -> Sample:
        """Send transfers for some seconds, and return what they cost."""
        nodes = self._cluster.nodes
        before, wal_before = self._cpu_seconds(), asyncio.run(_wal_bytes(nodes))
        plan = plans.transfer_plan(self._server, self._data, "spread", callers, SECONDS)
        result = run_load_process(plan)
        used = [after - start for after, start in zip(self._cpu_seconds(), before, strict=True)]
        micros = [seconds * 1e6 / result.total for seconds in used]
        wal = asyncio.run(_wal_bytes(nodes)) - wal_before
        return Sample(result.rate, micros[0], micros[1], sum(micros[2:]), wal / result.total)

    async def _create_database(self) -> str:
        node = self._cluster.coordinator
        if not self.workers:
            await node.fetch("postgres", f"CREATE DATABASE {DATABASE}")
            await migrate(node.url(DATABASE))
        else:
            await self._cluster.create_database(DATABASE)
            await migrate(node.url(DATABASE))
            await distribute(node.url(DATABASE))
        return node.url(DATABASE)

    def _cpu_seconds(self) -> list[float]:
        """Return the CPU time of Ousel, of the coordinator and of each worker."""
        return [cpu_seconds(pid) for pid in (self._server.pid, *self._node_pids())]

    def _node_pids(self) -> list[int]:
        return [node.pid for node in self._cluster.nodes]


async def _wal_bytes(nodes: Sequence[CitusNode]) -> float:
    question = "SELECT (pg_current_wal_lsn() - '0/0')::float8"
    answers = [await node.fetch("postgres", question) for node in nodes]
    return sum(float(str(rows[0][0])) for rows in answers)


def _row(workers: int, samples: Sequence[Sample]) -> str:
    values = [median(column) for column in zip(*map(msgspec.structs.astuple, samples), strict=True)]
    rate, ousel, coordinator, together, wal = values
    cells = [
        f"Citus, {workers} worker{'s' * (workers > 1)}" if workers else "plain PostgreSQL",
        *(f"{micros:,.0f} µs" for micros in (ousel, coordinator)),
        *((f"{together:,.0f} µs", f"{together / workers:,.0f} µs") if workers else ("", "")),
        f"{wal / 1000:.1f} kB",
        f"{rate:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Measure, and print a table for each number of callers."""
    with contextlib.ExitStack() as running:
        ledgers = [Ledger(workers, running) for workers in WORKERS]
        for callers in CALLERS:
            _print_table(ledgers, callers)


def _print_table(ledgers: Sequence[Ledger], callers: int) -> None:
    for ledger in ledgers:
        ledger.measure(callers)
    rounds = [[ledger.measure(callers) for ledger in ledgers] for _ in range(ROUNDS)]
    print(
        f"| {callers} callers | Ousel | the server that Ousel is connected to"
        " | the workers, together | each worker | log (WAL) of all servers"
        " | transfers per second |\n|---|---|---|---|---|---|---|"
    )
    for ledger, samples in zip(ledgers, zip(*rounds, strict=True), strict=True):
        print(_row(ledger.workers, samples))


if __name__ == "__main__":
    main()
