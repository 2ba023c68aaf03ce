"""The cases: what is measured, each by a name, and the stage that they are measured on."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from bench import furniture
from bench.postgres import Postgres
from bench.processes import cpu_seconds, reference_server, started
from bench.reference import books as reference_books
from ousel.workload import plans, sample_data
from ousel.workload.flushes import flush_seconds
from ousel.workload.load import Plan, Tally
from ousel.workload.plans import Shape
from ousel.workload.processes import Failure, Server, load, ousel_server

PARTNERS: Final = 256
RECIPIENTS: Final = 10_000
PGBENCH_CLIENTS: Final = (8, 32)
EMPTY_CONNECTIONS: Final = (1, 64, 256)
TRANSFERS: Final[tuple[tuple[Shape, int], ...]] = (
    *(("hot", connections) for connections in (1, 16, 64, 256)),
    *(("spread", connections) for connections in (1, 16, 64, 256)),
    ("fan-in", 256),
)
REFERENCE_CONNECTIONS: Final = 64
WORKERS: Final = 2
REPLAYED_KEYS: Final = 1_000
PAYMENTS_A_SECOND_MAX: Final = 4_000


class Sample(msgspec.Struct, frozen=True):
    """One run of a case: what came back, and the CPU time it took."""

    tally: Tally
    server_cpu_seconds: float = 0.0
    database_cpu_seconds: float = 0.0


class Case(msgspec.Struct, frozen=True):
    """Something to measure, by name; it runs for so many seconds."""

    name: str
    run: Callable[[float], Sample]


class Ledger(msgspec.Struct):
    """A database with Ousel servers on it, and how many transfers they acknowledged."""

    engine: str
    url: str
    books: sample_data.Books
    furniture: furniture.Furniture
    transfers_before: int
    start_seconds: float
    idle_megabytes: float
    server: Server
    more_workers: Server | None
    acknowledged: int = 0


class Stage:
    """Everything that runs: PostgreSQL, Ousel on both engines, and the reference application."""

    def __init__(self, folder: Path, running: contextlib.ExitStack) -> None:
        """Start it all with data in this folder; `running` stops it in the end."""
        self._folder = folder
        self.postgres = Postgres(folder / "postgresql")
        self.postgres.prepare_pgbench()
        for leftover in folder.glob("ousel.db*"):
            leftover.unlink()
        urls = {
            "postgresql": self.postgres.fresh_database("ousel"),
            "sqlite": f"sqlite:///{folder / 'ousel.db'}",
        }
        self.ledgers = {engine: _ledger(engine, url, running) for engine, url in urls.items()}
        reference_url = self.postgres.fresh_database("reference")
        reference_books.fill(reference_url, self.ledgers["postgresql"].books)
        self.reference = running.enter_context(reference_server(reference_url))
        self.reference_acknowledged = 0

    def cases(self) -> Iterator[Case]:
        """Yield all cases in the order of the table."""
        for clients in PGBENCH_CLIENTS:
            yield self._pgbench(f"pgbench tpcb-like {clients}", clients, "simple")
        yield self._pgbench("prepared tpcb-like 8", 8, "prepared")
        yield Case("flush of 4 KiB", lambda _: Sample(_flushed(self._folder)))
        for connections in EMPTY_CONNECTIONS:
            yield self._reads("sqlite", "empty endpoint", connections, [("/healthz", {})])
        for engine in self.ledgers:
            for shape, connections in TRANSFERS:
                yield self._transfers(engine, shape, connections)
            yield from self._others(engine)
        for shape in ("hot", "spread"):
            yield self._transfers_of_more_workers(shape)
        for shape in ("hot", "spread"):
            yield self._plain(shape)

    def check(self) -> None:
        """See that every acknowledged transfer is in its books, and that the books balance."""
        for engine, ledger in self.ledgers.items():
            written = sample_data.proven(ledger.url).transfers - ledger.transfers_before
            if written != ledger.acknowledged:
                raise Failure(f"{engine}: {ledger.acknowledged} acknowledged, {written} written")
        written = self.postgres.count("reference", "transfers")
        if written != self.reference_acknowledged:
            raise Failure(f"reference: {self.reference_acknowledged} acknowledged, {written} there")

    def _pgbench(self, name: str, clients: int, protocol: str) -> Case:
        def run(seconds: float) -> Sample:
            before = cpu_seconds(self.postgres.pid)
            tally = self.postgres.pgbench(clients, seconds, protocol)
            return Sample(tally, 0.0, cpu_seconds(self.postgres.pid) - before)

        return Case(name, run)

    def _transfers(self, engine: str, shape: Shape, connections: int) -> Case:
        ledger = self.ledgers[engine]

        def run(seconds: float) -> Sample:
            plan = plans.transfers(ledger.server, ledger.books, shape, connections, seconds)
            return self._counted(ledger, ledger.server, plan)

        return Case(f"{engine} {shape} {connections}", run)

    def _transfers_of_more_workers(self, shape: Shape) -> Case:
        ledger = self.ledgers["postgresql"]
        server = ledger.more_workers
        assert server is not None

        def run(seconds: float) -> Sample:
            plan = plans.transfers(server, ledger.books, shape, 256, seconds)
            return self._counted(ledger, server, plan)

        return Case(f"postgresql {shape} 256, {WORKERS} workers", run)

    def _others(self, engine: str) -> Iterator[Case]:
        """Yield what is not a transfer that moves money: replays, reads, and payments on a page."""
        ledger = self.ledgers[engine]
        key = ledger.books.keys[0]
        partner = {"Authorization": f"Bearer {key}"}
        charges = ledger.furniture.charges
        tag = furniture.tag_of(ledger.server, key, charges[0])

        def replays(seconds: float) -> Sample:
            plan = plans.replays(ledger.server, ledger.books, 256, seconds, REPLAYED_KEYS)
            return self._counted(ledger, ledger.server, plan)

        def new_charges(seconds: float) -> Sample:
            plan = plans.charges(ledger.server, ledger.books, 64, seconds)
            return self._measured(plan, ledger.server, on_postgres=engine == "postgresql")

        def payments(seconds: float) -> Sample:
            count = round((seconds + plans.WARM_SECONDS) * PAYMENTS_A_SECOND_MAX)
            requests = furniture.payments(ledger.url, ledger.books, ledger.furniture, count)
            return self._counted(
                ledger, ledger.server, plans.once(ledger.server, requests, 64, seconds)
            )

        yield Case(f"{engine} replays 256", replays)
        yield self._reads(engine, f"{engine} balance", 256, [("/v1/balance", partner)])
        polls = [(f"/v1/charges/{charge_id}", partner) for charge_id in charges]
        yield self._reads(engine, f"{engine} charge", 256, polls)
        unchanged = [(polls[0][0], partner | {"If-None-Match": tag})]
        yield self._reads(engine, f"{engine} charge unchanged", 256, unchanged, 304)
        yield self._reads(engine, f"{engine} list of 20", 64, [("/v1/transfers", partner)])
        users = [
            ("/v1/user/balance", {"Authorization": f"Bearer {token}"})
            for token in ledger.furniture.tokens
        ]
        yield self._reads(engine, f"{engine} user token", 256, users)
        yield Case(f"{engine} new charge 64", new_charges)
        yield Case(f"{engine} checkout payment 64", payments)

    def _reads(
        self,
        engine: str,
        name: str,
        connections: int,
        targets: list[tuple[str, dict[str, str]]],
        status: int = 200,
    ) -> Case:
        ledger = self.ledgers[engine]

        def run(seconds: float) -> Sample:
            plan = plans.reads(ledger.server, targets, connections, seconds, status)
            return self._measured(plan, ledger.server, on_postgres=engine == "postgresql")

        return Case(f"{name} {connections}", run)

    def _plain(self, shape: Shape) -> Case:
        def run(seconds: float) -> Sample:
            filled = self.ledgers["postgresql"].books
            plan = plans.transfers(self.reference, filled, shape, REFERENCE_CONNECTIONS, seconds)
            sample = self._measured(plan, self.reference, on_postgres=True)
            self.reference_acknowledged += sample.tally.answers[201]
            return sample

        return Case(f"reference fastapi {shape} {REFERENCE_CONNECTIONS}", run)

    def _counted(self, ledger: Ledger, server: Server, plan: Plan) -> Sample:
        sample = self._measured(plan, server, on_postgres=ledger.engine == "postgresql")
        answers = sample.tally.answers
        ledger.acknowledged += answers.get(201, 0) + answers.get(303, 0)
        return sample

    def _measured(self, plan: Plan, server: Server, *, on_postgres: bool) -> Sample:
        pids = [server.pid, self.postgres.pid] if on_postgres else [server.pid]
        before = [cpu_seconds(pid) for pid in pids]
        tally = load(plan)
        used = [cpu_seconds(pid) - start for pid, start in zip(pids, before, strict=True)]
        return Sample(tally, used[0], used[1] if on_postgres else 0.0)


def _ledger(engine: str, url: str, running: contextlib.ExitStack) -> Ledger:
    filled = sample_data.opened(url, PARTNERS, RECIPIENTS)
    furnished = furniture.furnished(url, filled)
    before = sample_data.proven(url).transfers
    start_seconds, idle_megabytes = started(url)
    more = engine == "postgresql"
    return Ledger(
        engine=engine,
        url=url,
        books=filled,
        furniture=furnished,
        transfers_before=before,
        start_seconds=start_seconds,
        idle_megabytes=idle_megabytes,
        server=running.enter_context(ousel_server(url)),
        more_workers=running.enter_context(ousel_server(url, WORKERS)) if more else None,
    )


def _flushed(folder: Path) -> Tally:
    seconds = flush_seconds(folder)
    return Tally(
        rate=1 / seconds,
        p50_seconds=seconds,
        p99_seconds=seconds,
        answers={200: 1},
        client_cpu_seconds=0.0,
    )
