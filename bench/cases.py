"""The cases that are measured, and the environment in which they run."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from bench import fixtures
from bench.postgres import Postgres
from bench.processes import cpu_seconds, measure_start, reference_server
from bench.reference import tables as reference_tables
from ousel.sealed_log.keys import new_key, write_key
from ousel.sealed_log.tiles import TILE_WIDTH
from ousel.workload import plans, sample_data
from ousel.workload.flushes import flush_seconds
from ousel.workload.load import LoadPlan, LoadResult
from ousel.workload.plans import Shape
from ousel.workload.processes import MeasurementFailed, Server, ousel_server, run_load_process

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
PAYMENTS_PER_SECOND_MAX: Final = 4_000


class Sizes(msgspec.Struct, frozen=True):
    """How much is set up before the first case runs."""

    partners: int
    recipients: int
    pgbench_scale: int
    starts: int


FULL: Final = Sizes(partners=256, recipients=10_000, pgbench_scale=50, starts=5)
SMALL: Final = Sizes(partners=10, recipients=100, pgbench_scale=1, starts=1)


class Sample(msgspec.Struct, frozen=True):
    """One run of a case: the result of the load, and the CPU time used."""

    load_result: LoadResult
    server_cpu_seconds: float = 0.0
    database_cpu_seconds: float = 0.0


class Case(msgspec.Struct, frozen=True):
    """A named measurement; `run` takes the number of seconds."""

    name: str
    run: Callable[[float], Sample]


class MeasuredLedger(msgspec.Struct):
    """A database with Ousel servers, and how many transfers they acknowledged."""

    engine: str
    url: str
    sample_data: sample_data.SampleData
    fixtures: fixtures.Fixtures
    transfers_before: int
    start_seconds: float
    idle_megabytes: float
    server: Server
    acknowledged: int = 0


class BenchEnvironment:
    """All servers: PostgreSQL, Ousel on both engines, and the reference application."""

    def __init__(self, folder: Path, sizes: Sizes, running: contextlib.ExitStack) -> None:
        """Start the servers with their data in this folder; closing `running` stops them."""
        self._folder = folder
        self._running = running
        self._multi_worker_server = cache(self._start_multi_worker_server)
        self.postgres = Postgres(folder / "postgresql")
        self.postgres.prepare_pgbench(sizes.pgbench_scale)
        for leftover in folder.glob("ousel.*"):
            leftover.unlink()
        self._log_key = folder / "ousel.log-key"  # on SQLite, the server creates one itself
        write_key(self._log_key, new_key("ousel/log"))
        urls = {
            "postgresql": self.postgres.fresh_database("ousel"),
            "sqlite": f"sqlite:///{folder / 'ousel.db'}",
        }
        settings = {"postgresql": {"OUSEL_LOG_KEY_FILE": str(self._log_key)}, "sqlite": {}}
        self.ledgers = {
            engine: _start_ledger(engine, url, sizes, running, settings[engine])
            for engine, url in urls.items()
        }
        reference_url = self.postgres.fresh_database("reference")
        reference_tables.fill(reference_url, self.ledgers["postgresql"].sample_data)
        self.reference = running.enter_context(reference_server(reference_url))
        self.reference_acknowledged = 0

    def cases(self) -> Iterator[Case]:
        """Yield all cases in the order of the results table."""
        for clients in PGBENCH_CLIENTS:
            yield self._pgbench_case(f"pgbench tpcb-like {clients}", clients, "simple")
        yield self._pgbench_case("prepared tpcb-like 8", 8, "prepared")
        yield Case("flush of 4 KiB", lambda _: Sample(_flush_result(self._folder)))
        for connections in EMPTY_CONNECTIONS:
            yield self._read_case("sqlite", "empty endpoint", connections, [("/healthz", {})])
        for engine in self.ledgers:
            for shape, connections in TRANSFERS:
                yield self._transfer_case(engine, shape, connections)
            yield from self._other_cases(engine)
            yield from self._log_cases(engine)
        for shape in ("hot", "spread"):
            yield self._multi_worker_case(shape)
        for shape in ("hot", "spread"):
            yield self._reference_case(shape)

    def verify(self) -> None:
        """Check that every acknowledged transfer is in its ledger, and that the ledgers balance."""
        for engine, ledger in self.ledgers.items():
            written = sample_data.verify_ledger(ledger.url).transfers - ledger.transfers_before
            if written != ledger.acknowledged:
                raise MeasurementFailed(
                    f"{engine}: {ledger.acknowledged} acknowledged, {written} written"
                )
        written = self.postgres.count("reference", "transfers")
        if written != self.reference_acknowledged:
            raise MeasurementFailed(
                f"reference: {self.reference_acknowledged} acknowledged, {written} written"
            )

    def send_transfers(self, ledger: MeasuredLedger, count: int) -> None:
        """Let the first partner send this many transfers, at least."""
        while count > 0:
            plan = plans.transfer_plan(ledger.server, ledger.sample_data, "hot", 16, seconds=0.1)
            count -= self.run_transfers(ledger, plan).total

    def run_transfers(self, ledger: MeasuredLedger, plan: LoadPlan) -> LoadResult:
        """Run a load of transfers, and count those that were acknowledged."""
        return self._measure_transfers(ledger, ledger.server, plan).load_result

    def _pgbench_case(self, name: str, clients: int, protocol: str) -> Case:
        def run(seconds: float) -> Sample:
            before = cpu_seconds(self.postgres.pid)
            load_result = self.postgres.pgbench(clients, seconds, protocol)
            return Sample(load_result, 0.0, cpu_seconds(self.postgres.pid) - before)

        return Case(name, run)

    def _transfer_case(self, engine: str, shape: Shape, connections: int) -> Case:
        ledger = self.ledgers[engine]

        def run(seconds: float) -> Sample:
            plan = plans.transfer_plan(
                ledger.server, ledger.sample_data, shape, connections, seconds
            )
            return self._measure_transfers(ledger, ledger.server, plan)

        return Case(f"{engine} {shape} {connections}", run)

    def _multi_worker_case(self, shape: Shape) -> Case:
        ledger = self.ledgers["postgresql"]

        def run(seconds: float) -> Sample:
            server = self._multi_worker_server()
            plan = plans.transfer_plan(server, ledger.sample_data, shape, 256, seconds)
            return self._measure_transfers(ledger, server, plan)

        return Case(f"postgresql {shape} 256, {WORKERS} workers", run)

    def _start_multi_worker_server(self) -> Server:
        ledger = self.ledgers["postgresql"]
        settings = {
            "OUSEL_LOG_KEY_FILE": str(self._log_key),
            # The log is named after this address.
            "OUSEL_PORTAL_URL": f"http://127.0.0.1:{ledger.server.port}",
        }
        return self._running.enter_context(ousel_server(ledger.url, WORKERS, **settings))

    def _other_cases(self, engine: str) -> Iterator[Case]:
        """Yield the other cases: replays, reads, new charges and checkout payments."""
        ledger = self.ledgers[engine]
        key = ledger.sample_data.keys[0]
        partner = {"Authorization": f"Bearer {key}"}
        charges = ledger.fixtures.charges
        tag = fixtures.entity_tag(ledger.server, key, charges[0])

        def replays(seconds: float) -> Sample:
            plan = plans.replay_plan(ledger.server, ledger.sample_data, 256, seconds, REPLAYED_KEYS)
            return self._measure_transfers(ledger, ledger.server, plan)

        def new_charges(seconds: float) -> Sample:
            plan = plans.charge_plan(ledger.server, ledger.sample_data, 64, seconds)
            return self._measure(plan, ledger.server, on_postgres=engine == "postgresql")

        def payments(seconds: float) -> Sample:
            count = round((seconds + plans.warm_seconds(seconds)) * PAYMENTS_PER_SECOND_MAX)
            requests = fixtures.payment_requests(
                ledger.url, ledger.sample_data, ledger.fixtures, count
            )
            return self._measure_transfers(
                ledger, ledger.server, plans.one_time_plan(ledger.server, requests, 64, seconds)
            )

        yield Case(f"{engine} replays 256", replays)
        yield self._read_case(engine, f"{engine} balance", 256, [("/v1/balance", partner)])
        polls = [(f"/v1/charges/{charge_id}", partner) for charge_id in charges]
        yield self._read_case(engine, f"{engine} charge", 256, polls)
        unchanged = [(polls[0][0], partner | {"If-None-Match": tag})]
        yield self._read_case(engine, f"{engine} charge unchanged", 256, unchanged, 304)
        yield self._read_case(engine, f"{engine} list", 64, [("/v1/transfers", partner)])
        first = [("/v1/transfers?order=oldest&limit=1", partner)]
        yield self._read_case(engine, f"{engine} follow", 256, first)
        users = [
            ("/v1/user/balance", {"Authorization": f"Bearer {token}"})
            for token in ledger.fixtures.tokens
        ]
        yield self._read_case(engine, f"{engine} user token", 256, users)
        yield Case(f"{engine} new charge 64", new_charges)
        yield Case(f"{engine} checkout payment 64", payments)

    def _log_cases(self, engine: str) -> Iterator[Case]:
        """Yield the cases of the sealed log: receipts, and its first tile."""
        ledger = self.ledgers[engine]
        receipts = fixtures.receipts(ledger.url, ledger.server, ledger.sample_data)
        yield self._read_case(engine, f"{engine} receipt", 256, receipts)
        width = min(len(receipts), TILE_WIDTH)
        tile = f"/log/tile/0/000{'' if width == TILE_WIDTH else f'.p/{width}'}"
        yield self._read_case(engine, f"{engine} tile", 256, [(tile, {})])

    def _read_case(
        self,
        engine: str,
        name: str,
        connections: int,
        targets: list[tuple[str, dict[str, str]]],
        status: int = 200,
    ) -> Case:
        ledger = self.ledgers[engine]

        def run(seconds: float) -> Sample:
            plan = plans.read_plan(ledger.server, targets, connections, seconds, status)
            return self._measure(plan, ledger.server, on_postgres=engine == "postgresql")

        return Case(f"{name} {connections}", run)

    def _reference_case(self, shape: Shape) -> Case:
        def run(seconds: float) -> Sample:
            data = self.ledgers["postgresql"].sample_data
            plan = plans.transfer_plan(self.reference, data, shape, REFERENCE_CONNECTIONS, seconds)
            sample = self._measure(plan, self.reference, on_postgres=True)
            self.reference_acknowledged += sample.load_result.answers[201]
            return sample

        return Case(f"reference fastapi {shape} {REFERENCE_CONNECTIONS}", run)

    def _measure_transfers(self, ledger: MeasuredLedger, server: Server, plan: LoadPlan) -> Sample:
        sample = self._measure(plan, server, on_postgres=ledger.engine == "postgresql")
        answers = sample.load_result.answers
        ledger.acknowledged += answers.get(201, 0) + answers.get(303, 0)
        return sample

    def _measure(self, plan: LoadPlan, server: Server, *, on_postgres: bool) -> Sample:
        pids = [server.pid, self.postgres.pid] if on_postgres else [server.pid]
        before = [cpu_seconds(pid) for pid in pids]
        load_result = run_load_process(plan)
        used = [cpu_seconds(pid) - start for pid, start in zip(pids, before, strict=True)]
        return Sample(load_result, used[0], used[1] if on_postgres else 0.0)


def _start_ledger(
    engine: str,
    url: str,
    sizes: Sizes,
    running: contextlib.ExitStack,
    settings: Mapping[str, str],
) -> MeasuredLedger:
    data = sample_data.create_sample_data(url, sizes.partners, sizes.recipients)
    created_fixtures = fixtures.create_fixtures(url, data)
    before = sample_data.verify_ledger(url).transfers
    start_seconds, idle_megabytes = measure_start(url, sizes.starts)
    return MeasuredLedger(
        engine=engine,
        url=url,
        sample_data=data,
        fixtures=created_fixtures,
        transfers_before=before,
        start_seconds=start_seconds,
        idle_megabytes=idle_megabytes,
        server=running.enter_context(ousel_server(url, workers=1, **settings)),
    )


def _flush_result(folder: Path) -> LoadResult:
    seconds = flush_seconds(folder)
    return LoadResult(
        rate=1 / seconds,
        p50_seconds=seconds,
        p99_seconds=seconds,
        answers={200: 1},
        client_cpu_seconds=0.0,
    )
