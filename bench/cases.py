"""The cases: what is measured, each by a name, and the stage that they are measured on."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal

import msgspec

from bench import books
from bench.load import Plan, Tally
from bench.postgres import Postgres
from bench.processes import (
    Failure,
    Server,
    cpu_seconds,
    load,
    ousel_server,
    reference_server,
)
from bench.reference import books as reference_books

WARM_SECONDS: Final = 0.5
CONNECTIONS: Final = (1, 64, 256)
PGBENCH_CLIENTS: Final = (8, 32)
REFERENCE_CONNECTIONS: Final = 64
HEALTH_CONNECTIONS: Final = 256

Spread = Literal["hot", "spread"]

SPREADS: Final[tuple[Spread, ...]] = ("hot", "spread")


class Sample(msgspec.Struct, frozen=True):
    """One run of a case: what came back, and the CPU time it took."""

    tally: Tally
    server_cpu_seconds: float
    database_cpu_seconds: float


class Case(msgspec.Struct, frozen=True):
    """Something to measure, by name; it runs for so many seconds."""

    name: str
    run: Callable[[float], Sample]


class Ledger(msgspec.Struct):
    """An Ousel server, its database and what its transfers add up to."""

    url: str
    server: Server
    books: books.Books
    transfers_before: int
    acknowledged: int = 0


class Stage:
    """Everything that runs: PostgreSQL, Ousel on both engines, and the reference application."""

    def __init__(self, folder: Path, running: contextlib.ExitStack) -> None:
        """Start it all with data in this folder; `running` stops it in the end."""
        self.postgres = Postgres(folder / "postgresql")
        self.postgres.prepare_pgbench()
        sqlite_file = folder / "ousel.db"
        for leftover in folder.glob("ousel.db*"):
            leftover.unlink()
        urls = {
            "postgresql": self.postgres.fresh_database("ousel"),
            "sqlite": f"sqlite:///{sqlite_file}",
        }
        self.ledgers = {
            engine: self._ledger(url, books.opened(url), running) for engine, url in urls.items()
        }
        reference_url = self.postgres.fresh_database("reference")
        reference_books.fill(reference_url, self.ledgers["postgresql"].books)
        self.reference = running.enter_context(reference_server(reference_url))
        self.reference_acknowledged = 0

    @staticmethod
    def _ledger(url: str, filled: books.Books, running: contextlib.ExitStack) -> Ledger:
        before = books.proven(url).transfers
        return Ledger(url, running.enter_context(ousel_server(url)), filled, before)

    def cases(self) -> Iterator[Case]:
        """Yield all cases in the order of the table."""
        for clients in PGBENCH_CLIENTS:
            yield self._pgbench(clients)
        yield self._empty()
        for engine in self.ledgers:
            for spread in SPREADS:
                for connections in CONNECTIONS:
                    yield self._transfers(engine, spread, connections)
        for spread in SPREADS:
            yield self._plain(spread)

    def check(self) -> None:
        """See that every acknowledged transfer is in its books, and that the books balance."""
        for engine, ledger in self.ledgers.items():
            proof = books.proven(ledger.url)
            written = proof.transfers - ledger.transfers_before
            if written != ledger.acknowledged:
                raise Failure(f"{engine}: {ledger.acknowledged} acknowledged, {written} written")
        written = self.postgres.count("reference", "transfers")
        if written != self.reference_acknowledged:
            raise Failure(f"reference: {self.reference_acknowledged} acknowledged, {written} there")

    def _pgbench(self, clients: int) -> Case:
        def run(seconds: float) -> Sample:
            before = cpu_seconds(self.postgres.pid)
            tally = self.postgres.pgbench(clients, seconds)
            return Sample(tally, 0.0, cpu_seconds(self.postgres.pid) - before)

        return Case(f"pgbench tpcb-like {clients}", run)

    def _empty(self) -> Case:
        def run(seconds: float) -> Sample:
            server = self.ledgers["sqlite"].server
            plan = Plan(
                port=server.port,
                connections=HEALTH_CONNECTIONS,
                warm_seconds=WARM_SECONDS,
                seconds=seconds,
                status=200,
                heads=[b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nIdempotency-Key: "],
                tails=[b"\r\n\r\n"],
            )
            return self._measured(plan, server, on_postgres=False)

        return Case(f"empty endpoint {HEALTH_CONNECTIONS}", run)

    def _transfers(self, engine: str, spread: Spread, connections: int) -> Case:
        ledger = self.ledgers[engine]

        def run(seconds: float) -> Sample:
            plan = _plan(ledger.server, ledger.books, spread, connections, seconds)
            sample = self._measured(plan, ledger.server, on_postgres=engine == "postgresql")
            ledger.acknowledged += sample.tally.acknowledged
            return sample

        return Case(f"ousel {engine} {spread} {connections}", run)

    def _plain(self, spread: Spread) -> Case:
        def run(seconds: float) -> Sample:
            filled = self.ledgers["postgresql"].books
            plan = _plan(self.reference, filled, spread, REFERENCE_CONNECTIONS, seconds)
            sample = self._measured(plan, self.reference, on_postgres=True)
            self.reference_acknowledged += sample.tally.acknowledged
            return sample

        return Case(f"reference fastapi {spread} {REFERENCE_CONNECTIONS}", run)

    def _measured(self, plan: Plan, server: Server, *, on_postgres: bool) -> Sample:
        pids = [server.pid, self.postgres.pid] if on_postgres else [server.pid]
        before = [cpu_seconds(pid) for pid in pids]
        tally = load(plan)
        used = [cpu_seconds(pid) - start for pid, start in zip(pids, before, strict=True)]
        if tally.failed:
            raise Failure(f"{tally.failed} requests failed")
        return Sample(tally, used[0], used[1] if on_postgres else 0.0)


_runs = iter(range(1_000_000))


def _plan(
    server: Server, filled: books.Books, spread: Spread, connections: int, seconds: float
) -> Plan:
    """Return a load of transfers whose idempotency keys no other load has used."""
    run = next(_runs)
    keys = filled.keys[:1] if spread == "hot" else filled.keys
    heads = [
        f"POST /v1/transfers HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nIdempotency-Key: run-{run}-".encode()
        for key in keys
    ]
    bodies = [
        f'{{"to":"{recipient}","amount":0.01,"note":"Order"}}' for recipient in filled.recipients
    ]
    tails = [f"\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode() for body in bodies]
    return Plan(
        port=server.port,
        connections=connections,
        warm_seconds=WARM_SECONDS,
        seconds=seconds,
        status=201,
        heads=heads,
        tails=tails,
    )
