"""The page that plans a cluster: its tables are computed, and its formulas keep their limits."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import planning
from bench.hot_accounts import BatchTimes, Crowd, simulate
from bench.planning import Cost, Demand, Machine, fit, plan
from ousel.ledger.writer import BATCH_POSTINGS_MAX

PAGE = Path(__file__).parents[2] / "docs/operating/plan-a-cluster.md"
TIMES = BatchTimes(
    cpu_seconds=0.002,
    cpu_seconds_per_transfer=0.0005,
    wait_seconds=0.02,
    turnaround_seconds=0.002,
    cores=4,
)
costs = st.floats(1, 10_000)
demands = st.builds(
    Demand,
    accounts=st.integers(1_000, 10**10),
    transfers_per_second=st.integers(1, 10**6),
)


def test_the_page_shows_what_is_computed() -> None:
    """Costs and plans in the documentation are those of the module."""
    assert planning.cost_table() in PAGE.read_text()
    assert planning.plan_table(planning.demands(), Machine()) in PAGE.read_text()


@pytest.mark.slow
def test_the_page_shows_what_is_simulated() -> None:
    """So do the rates of crowds with hot accounts."""
    assert planning.crowd_table() in PAGE.read_text()


def test_figures_of_a_service_need_its_accounts() -> None:
    """An option that would have no effect is refused."""
    with pytest.raises(SystemExit, match="need --accounts"):
        planning.main(years=3)


def test_a_reader_gets_a_row_for_their_figures(capsys: pytest.CaptureFixture[str]) -> None:
    """The options take the reader's own figures."""
    planning.main(accounts=50_000_000, rate=3_000, years=3, cores=32)

    assert "| 50 | 3,000 | 4 | " in capsys.readouterr().out


@given(costs, costs)
def test_a_cost_that_follows_the_formula_is_found(per_batch: float, per_transfer: float) -> None:
    """The fit returns both parts of a cost from its values at some sizes of batches."""
    cost = Cost(per_batch, per_transfer)

    found = fit((batch, cost.of_transfer(batch)) for batch in (1, 8, 32, 128))

    assert (found.per_batch, found.per_transfer) == pytest.approx((per_batch, per_transfer), 1e-3)


@given(demands)
def test_a_planned_cluster_has_room_for_its_demand(demand: Demand) -> None:
    """No process and no server is busier than it may be, and none can be left out."""
    machine = Machine()
    size = plan(demand, machine)
    room = size.servers * machine.busy_share
    most = machine.busy_share * planning.transfers_per_process(machine, BATCH_POSTINGS_MAX)

    assert 1 <= size.batch <= BATCH_POSTINGS_MAX
    assert size.cores <= size.servers * machine.cores
    assert size.disk_terabytes <= room * machine.disk_terabytes
    assert size.memory_gigabytes <= room * machine.memory_gigabytes
    assert (size.ousel_processes - 1) * most < demand.transfers_per_second
    assert demand.transfers_per_second <= size.ousel_processes * most


@given(demands, st.integers(2, 10))
def test_more_accounts_and_transfers_never_need_less(demand: Demand, factor: int) -> None:
    """Disk, memory, processes and the WAL only grow."""
    more = Demand(
        accounts=demand.accounts * factor,
        transfers_per_second=demand.transfers_per_second * factor,
    )
    size, larger = plan(demand, Machine()), plan(more, Machine())

    assert larger.disk_terabytes >= size.disk_terabytes
    assert larger.memory_gigabytes >= size.memory_gigabytes
    assert larger.ousel_processes >= size.ousel_processes
    assert larger.wal_megabytes_per_second >= size.wal_megabytes_per_second * 0.5


def test_without_hot_accounts_the_cpu_is_the_limit() -> None:
    """Many callers keep all cores busy, if batches cost nothing but their transfers."""
    times = BatchTimes(
        cpu_seconds=0.0,
        cpu_seconds_per_transfer=0.001,
        wait_seconds=0.0,
        turnaround_seconds=0.0,
        cores=2,
    )

    rate = simulate(Crowd(callers=64, processes=4), times, seconds=2)

    assert rate == pytest.approx(2 / 0.001, rel=0.05)


@pytest.mark.slow
def test_one_account_for_all_makes_one_batch_at_a_time() -> None:
    """More processes do not help: the account is locked until each commit."""
    limit = BATCH_POSTINGS_MAX / TIMES.seconds(BATCH_POSTINGS_MAX)
    crowds = [Crowd(callers=256, processes=count, recipients=1) for count in (1, 2, 4, 8)]

    rates = [simulate(crowd, TIMES, seconds=4) for crowd in crowds]

    assert max(rates) <= limit * 1.1
    assert rates[0] == max(rates)


@pytest.mark.slow
@pytest.mark.parametrize("side", ["recipient_exponent", "sender_exponent"])
def test_hotter_accounts_never_make_more_transfers(side: str) -> None:
    """The rate falls with the exponent."""
    crowds = [
        Crowd(callers=64, processes=4, senders=64, recipients=1_000, **{side: exponent})
        for exponent in (0.0, 1.0, 2.0)
    ]

    even, hot, hotter = (simulate(crowd, TIMES, seconds=4) for crowd in crowds)

    assert even > hot > hotter > 0
