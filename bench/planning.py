"""`python -m bench.planning`: how large a Citus cluster must be, from what a transfer costs.

What was measured is data here, and everything else is computed from it. The tables in
docs/operating/plan-a-cluster.md are what this module prints; its options take your own figures.
"""

import math
import sys
from collections.abc import Iterable
from typing import Annotated, Final

import msgspec
import typer

from bench.hot_accounts import BatchTimes, Crowd, simulate
from bench.tables import markdown
from ousel.ledger.writer import BATCH_POSTINGS_MAX

ACCOUNTS: Final = (10_000_000, 100_000_000, 1_000_000_000)
RATES: Final = (1_000, 10_000, 100_000)
YEAR_SECONDS: Final = 365 * 24 * 3_600
ROUND_TRIPS: Final = 11  # of a batch, one after the other: see the page
PAGE_BYTES: Final = 8_192
PAGES_PER_TRANSFER: Final = 2  # of the recipient: its account, and the index of its entries


class CostPoint(msgspec.Struct, frozen=True):
    """What one transfer cost in batches of a certain size; measured with two workers."""

    batch: float
    batch_milliseconds: float
    ousel_micros: float
    server_micros: float
    workers_micros: float
    wal_bytes: float
    network_bytes: float


# Measured on a machine with two cores, which all processes shared, with 1, 4, 16, 64 and 256
# callers, 256 senders and 10,000 recipients, one Ousel process and three database servers.
# The bytes on the network include an estimate of 2,500 for sealing.
COSTS: Final = (
    CostPoint(1, 11.9, 1_088, 2_346, 2_920, 5_785, 19_500),
    CostPoint(2, 13.3, 594, 1_350, 1_872, 3_629, 11_500),
    CostPoint(8, 15.9, 212, 418, 627, 2_341, 9_300),
    CostPoint(32, 30.1, 115, 177, 303, 2_018, 8_100),
    CostPoint(126, 60.6, 77, 84, 192, 1_859, 8_200),
)
ACCOUNT_BYTES: Final = 790  # with its identifiers, and all indexes
TRANSFER_BYTES: Final = 900  # two entries, their indexes, and its part of the sealed log


class Cost(msgspec.Struct, frozen=True):
    """A cost of which a part is shared by the transfers of a batch."""

    per_batch: float
    per_transfer: float

    def of_transfer(self, batch: float) -> float:
        """Return the cost of one transfer in a batch of this size."""
        return self.per_transfer + self.per_batch / batch


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A database server, and the round-trip time to another one."""

    cores: int = 16
    memory_gigabytes: int = 128
    disk_terabytes: int = 8
    round_trip_milliseconds: float = 0.2
    busy_share: float = 0.5  # of CPU, memory and disk that may be used at the peak


class Demand(msgspec.Struct, frozen=True, kw_only=True):
    """What a service needs at its peak, and how long it operates."""

    accounts: int
    transfers_per_second: int
    mean_share: float = 0.2  # the mean rate of transfers, relative to the peak
    years: float = 1.0  # of operation; entries are never deleted
    active_share: float = 0.2  # of the accounts, whose rows are to stay in memory
    checkpoint_seconds: int = 300


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a cluster."""

    batch: float
    ousel_processes: int
    servers: int
    reason: str  # what decides the number of servers
    cores: float
    memory_gigabytes: float
    disk_terabytes: float
    wal_megabytes_per_second: float
    network_megabytes_per_second: float


def fit(points: Iterable[tuple[float, float]]) -> Cost:
    """Fit a cost to points (batch, cost of a transfer): least squares of relative differences."""
    rows = [(1 / batch, cost, 1 / cost**2) for batch, cost in points]
    weight = sum(w for _, _, w in rows)
    mean_x = sum(w * x for x, _, w in rows) / weight
    mean_y = sum(w * y for _, y, w in rows) / weight
    spread = sum(w * (x - mean_x) ** 2 for x, _, w in rows)
    slope = sum(w * (x - mean_x) * (y - mean_y) for x, y, w in rows) / spread
    return Cost(slope, mean_y - slope * mean_x)


def fitted(name: str) -> Cost:
    """Return the cost that has this name in CostPoint, from all measured points."""
    return fit((point.batch, getattr(point, name)) for point in COSTS)


def batch_seconds(machine: Machine) -> Cost:
    """Return how long a batch takes: what was measured without a network, and its round trips."""
    local = fit((point.batch, point.batch_milliseconds / point.batch) for point in COSTS)
    trips = ROUND_TRIPS * machine.round_trip_milliseconds
    return Cost((local.per_batch + trips) / 1e3, local.per_transfer / 1e3)


def transfers_per_process(machine: Machine, batch: float) -> float:
    """Return how many transfers a process makes per second with batches of this size."""
    return 1 / batch_seconds(machine).of_transfer(batch)


def batch_at(machine: Machine, transfers_per_second: float) -> float:
    """Return how many transfers wait while a batch is written, which is the size of the next."""
    seconds = batch_seconds(machine)
    free = 1 - transfers_per_second * seconds.per_transfer
    return max(1.0, transfers_per_second * seconds.per_batch / free)


def page_images(demand: Demand) -> float:
    """Return the bytes of whole pages in the WAL, for each transfer.

    PostgreSQL logs the whole page when it is first changed after a checkpoint. The recipients are
    chosen uniformly at random.
    """
    pages = demand.accounts * ACCOUNT_BYTES / PAGE_BYTES
    changes = demand.transfers_per_second * demand.checkpoint_seconds
    changed = pages * -math.expm1(-changes / pages)
    return PAGES_PER_TRANSFER * PAGE_BYTES * changed / changes


def plan(demand: Demand, machine: Machine) -> Plan:
    """Return the smallest cluster whose machines are at most `busy_share` busy at the peak."""
    rate, busy = demand.transfers_per_second, machine.busy_share
    per_process = busy * transfers_per_process(machine, BATCH_POSTINGS_MAX)
    processes = math.ceil(rate / per_process)
    batch = batch_at(machine, rate / processes)
    micros = sum(fitted(name).of_transfer(batch) for name in ("server_micros", "workers_micros"))
    cores = rate * micros / 1e6 / busy
    transfers_kept = rate * demand.mean_share * YEAR_SECONDS * demand.years
    disk = (demand.accounts * ACCOUNT_BYTES + transfers_kept * TRANSFER_BYTES) / 1e12
    memory = demand.accounts * demand.active_share * ACCOUNT_BYTES / 1e9
    wal = fitted("wal_bytes").of_transfer(batch) + page_images(demand)
    needed = {
        "CPU": math.ceil(cores / machine.cores),
        "memory": math.ceil(memory / machine.memory_gigabytes / busy),
        "disk": math.ceil(disk / machine.disk_terabytes / busy),
    }
    reason = max(needed, key=lambda name: needed[name])
    return Plan(
        batch=batch,
        ousel_processes=processes,
        servers=needed[reason],
        reason=reason,
        cores=cores,
        memory_gigabytes=memory,
        disk_terabytes=disk,
        wal_megabytes_per_second=rate * wal / 1e6,
        network_megabytes_per_second=rate * fitted("network_bytes").of_transfer(batch) / 1e6,
    )


def cost_table() -> str:
    """Return what a transfer cost, and the formulas that were fitted to it."""
    names = CostPoint.__struct_fields__[2:]
    rows = [
        (f"{point.batch:.0f}", *(f"{getattr(point, name):,.0f}" for name in names))
        for point in COSTS
    ]
    formula = [
        f"{fitted(name).per_transfer:,.0f} + {fitted(name).per_batch:,.0f} / *b*" for name in names
    ]
    headings = (
        "batch *b*",
        "CPU of Ousel, µs",
        "CPU of the server it is connected to, µs",
        "CPU of the workers, µs",
        "WAL, bytes",
        "network, bytes",
    )
    return markdown(headings, iter([*rows, ("formula", *formula)]))


def plan_table(demands: Iterable[Demand], machine: Machine) -> str:
    """Return the table of plans."""
    headings = (
        "accounts, millions",
        "transfers per second",
        "Ousel processes",
        "batch *b*",
        "database servers",
        "decided by",
        "cores needed",
        "disk, TB",
        "memory, GB",
        "WAL, MB/s",
        "network, MB/s",
    )
    rows = []
    for demand in demands:
        size = plan(demand, machine)
        rows.append(
            (
                f"{demand.accounts / 1e6:,g}",
                f"{demand.transfers_per_second:,}",
                f"{size.ousel_processes:,}",
                f"{size.batch:.1f}",
                f"{size.servers:,}",
                size.reason,
                f"{size.cores:,.0f}",
                f"{size.disk_terabytes:,.1f}",
                f"{size.memory_gigabytes:,.0f}",
                f"{size.wal_megabytes_per_second:,.0f}",
                f"{size.network_megabytes_per_second:,.0f}",
            )
        )
    return markdown(headings, iter(rows))


class CrowdPoint(msgspec.Struct, frozen=True):
    """How many transfers per second a crowd made, measured; the exponents are those of Crowd."""

    callers: int
    recipient_exponent: float
    sender_exponent: float
    measured: float
    measured_slow: float  # with commits that wait for 60 ms


EVEN: Final = (0.0, 0.0)
EXPONENTS: Final = (EVEN, (0.8, 0.0), (1.0, 0.0), (1.2, 0.0), (0.0, 0.8), (0.0, 1.0), (0.0, 1.2))
CROWD_PROCESSES: Final = 4
# Measured with four Ousel processes, two on each worker, beside other work on the same two cores.
_MEASURED: Final = {
    16: ((291, 267, 277, 184, 232, 215, 161), (117, 112, 113, 74, 112, 107, 90)),
    64: ((685, 463, 321, 251, 285, 253, 211), (362, 330, 305, 255, 310, 276, 246)),
    256: ((1382, 883, 559, 489, 623, 615, 473), (1106, 732, 531, 416, 510, 424, 356)),
}
CROWDS: Final = tuple(
    CrowdPoint(callers, *exponents, fast, slow)
    for callers, rates in _MEASURED.items()
    for exponents, fast, slow in zip(EXPONENTS, *rates, strict=True)
)
# Fitted to the measurements without hot accounts, and used for all crowds.
TIMES: Final = BatchTimes(
    cpu_seconds=0.0075,
    cpu_seconds_per_transfer=0.0006,
    wait_seconds=0.003,
    turnaround_seconds=0.004,
    cores=1.15,
)
SLOW_TIMES: Final = msgspec.structs.replace(TIMES, wait_seconds=0.06)


def predict(point: CrowdPoint, times: BatchTimes) -> float:
    """Return how many transfers per second the simulation makes for a measured crowd."""
    crowd = Crowd(
        callers=point.callers,
        processes=CROWD_PROCESSES,
        recipient_exponent=point.recipient_exponent,
        sender_exponent=point.sender_exponent,
    )
    return simulate(crowd, times)


def crowd_table() -> str:
    """Return the simulated and the measured rates."""
    headings = ("callers", "hot accounts", "simulated / measured", "the same with slow commits")
    rows = []
    for point in CROWDS:
        fast, slow = predict(point, TIMES), predict(point, SLOW_TIMES)
        rows.append(
            (
                f"{point.callers}",
                _describe(point),
                f"{fast:,.0f} / {point.measured:,.0f} = {fast / point.measured:.2f}",
                f"{slow:,.0f} / {point.measured_slow:,.0f} = {slow / point.measured_slow:.2f}",
            )
        )
    return markdown(headings, iter(rows))


def _describe(point: CrowdPoint) -> str:
    if point.recipient_exponent:
        return f"recipients, *s* = {point.recipient_exponent}"
    return f"senders, *s* = {point.sender_exponent}" if point.sender_exponent else "none"


def demands() -> list[Demand]:
    """Return the demands of the table in the documentation."""
    return [
        Demand(accounts=accounts, transfers_per_second=rate)
        for accounts in ACCOUNTS
        for rate in RATES
    ]


def main(  # noqa: PLR0913 - readers can set each figure
    *,
    accounts: Annotated[int | None, typer.Option(help="Number of accounts.", min=1)] = None,
    rate: Annotated[
        int | None, typer.Option(help="Transfers per second at the peak; default: 1000.", min=1)
    ] = None,
    years: Annotated[
        float | None, typer.Option(help="Years of entries on disk; default: 1.", min=0)
    ] = None,
    mean_share: Annotated[
        float | None, typer.Option(help="Mean rate relative to the peak; default: 0.2.")
    ] = None,
    cores: Annotated[int, typer.Option(help="Cores of a server.", min=1)] = 16,
    memory: Annotated[int, typer.Option(help="Memory of a server, in gigabytes.", min=1)] = 128,
    disk: Annotated[int, typer.Option(help="Disk of a server, in terabytes.", min=1)] = 8,
    round_trip: Annotated[
        float, typer.Option(help="Round trip between two servers, in milliseconds.")
    ] = 0.2,
) -> None:
    """Print what a transfer costs, and the size of a cluster for your figures."""
    machine = Machine(
        cores=cores,
        memory_gigabytes=memory,
        disk_terabytes=disk,
        round_trip_milliseconds=round_trip,
    )
    own = {"transfers_per_second": rate, "years": years, "mean_share": mean_share}
    given = {name: value for name, value in own.items() if value is not None}
    if accounts is None:
        if given:
            raise SystemExit("--rate, --years and --mean-share need --accounts")
        tables = [cost_table(), plan_table(demands(), machine), crowd_table()]
    else:
        demand = Demand(accounts=accounts, transfers_per_second=RATES[0])
        demand = msgspec.structs.replace(demand, **given)
        tables = [cost_table(), plan_table([demand], machine)]
    sys.stdout.write("\n\n".join(tables) + "\n")


if __name__ == "__main__":
    typer.run(main)
