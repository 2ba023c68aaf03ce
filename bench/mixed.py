"""Mixed load: how long reads take alone, and while transfers come at 70 % of their peak."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import Final

import msgspec

from bench.cases import BenchEnvironment, MeasuredLedger
from ousel.workload import plans
from ousel.workload.load import LoadPlan, LoadResult
from ousel.workload.processes import run_load_process

PART: Final = "mixed"  # selects this part of a run
TRANSFERS: Final = "transfers"
SHARE_OF_PEAK: Final = 0.7
TRANSFER_CONNECTIONS: Final = 64
READ_CONNECTIONS: Final = 8
READS_PER_SECOND: Final = 100.0  # of each kind
WINDOW_FACTOR: Final = 5  # enough reads for a p99
ROUNDS_MAX: Final = 3
WARM_SECONDS_MAX: Final = 2.0  # until the loads that were started together all run

_MILLIS: Final = 1_000


class MixedResult(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of request, alone and together with all others."""

    engine: str
    request: str
    rate: float  # per second, together with the others
    alone_p50_milliseconds: float
    alone_p99_milliseconds: float
    p50_milliseconds: float
    p99_milliseconds: float
    longest_milliseconds: float

    @property
    def p99_ratio(self) -> float:
        """The p99 together with the others, relative to the p99 alone."""
        return self.p99_milliseconds / self.alone_p99_milliseconds


def measure_mixed_load(
    environment: BenchEnvironment, seconds: float, rounds: int
) -> Iterator[MixedResult]:
    """Yield the results of transfers and of each kind of read, on each engine."""
    window = seconds * WINDOW_FACTOR
    for ledger in environment.ledgers.values():
        reads = {
            name: plans.read_plan(
                ledger.server, [(path, headers)], READ_CONNECTIONS, window, rate=READS_PER_SECOND
            )
            for name, path, headers in _reads(ledger)
        }
        alone: list[dict[str, LoadResult]] = []
        together: list[dict[str, LoadResult]] = []
        for _ in range(min(rounds, ROUNDS_MAX)):
            peak = _run_transfers(environment, ledger, seconds).rate
            rate = SHARE_OF_PEAK * peak
            alone.append({name: run_load_process(plan) for name, plan in reads.items()})
            alone[-1][TRANSFERS] = _run_transfers(environment, ledger, window, rate)
            together.append(_run_together(environment, ledger, reads, window, rate))
        for name in alone[0]:
            yield _result(
                ledger.engine,
                name,
                [each[name] for each in alone],
                [each[name] for each in together],
            )


def _reads(ledger: MeasuredLedger) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield the name, path and headers of each kind of read."""
    partner = {"Authorization": f"Bearer {ledger.sample_data.keys[0]}"}
    charge = ledger.fixtures.charges[0]
    payer = {"Cookie": f"ousel_session={ledger.fixtures.sessions[0]}"}
    yield "poll of a charge", f"/v1/charges/{charge}", partner
    yield "balance", "/v1/balance", partner
    yield "list", "/v1/transfers", partner
    yield "follower", "/v1/transfers?order=oldest&limit=1", partner | {"Prefer": "wait=5"}
    yield "checkout page", f"/pay/{charge}", payer


def _run_transfers(
    environment: BenchEnvironment, ledger: MeasuredLedger, seconds: float, rate: float | None = None
) -> LoadResult:
    plan = plans.transfer_plan(
        ledger.server, ledger.sample_data, "spread", TRANSFER_CONNECTIONS, seconds
    )
    if rate is not None:
        plan = msgspec.structs.replace(plan, rate=rate, warm_seconds=_warm_seconds(seconds))
    return environment.run_transfers(ledger, plan)


def _run_together(
    environment: BenchEnvironment,
    ledger: MeasuredLedger,
    reads: dict[str, LoadPlan],
    seconds: float,
    rate: float,
) -> dict[str, LoadResult]:
    warm_seconds = _warm_seconds(seconds)
    with ThreadPoolExecutor(1 + len(reads)) as pool:
        running = {
            name: pool.submit(
                run_load_process, msgspec.structs.replace(plan, warm_seconds=warm_seconds)
            )
            for name, plan in reads.items()
        }
        running[TRANSFERS] = pool.submit(_run_transfers, environment, ledger, seconds, rate)
        return {name: each.result() for name, each in running.items()}


def _warm_seconds(seconds: float) -> float:
    return min(seconds, WARM_SECONDS_MAX)


def _result(
    engine: str, name: str, alone: list[LoadResult], together: list[LoadResult]
) -> MixedResult:
    return MixedResult(
        engine=engine,
        request=name,
        rate=median(each.rate for each in together),
        alone_p50_milliseconds=median(each.p50_seconds for each in alone) * _MILLIS,
        alone_p99_milliseconds=median(each.p99_seconds for each in alone) * _MILLIS,
        p50_milliseconds=median(each.p50_seconds for each in together) * _MILLIS,
        p99_milliseconds=median(each.p99_seconds for each in together) * _MILLIS,
        longest_milliseconds=max(each.longest_seconds for each in together) * _MILLIS,
    )
