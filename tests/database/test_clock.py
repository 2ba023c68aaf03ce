"""The database's clock: read by a statement, estimated between measurements, compared with ours."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from ousel.database.clock import (
    SKEW_SECONDS_MAX,
    ClockSkewed,
    PostgresClock,
    check_skew,
    clock_of,
    database_time,
)
from ousel.database.port import Database, Result, Work
from ousel.kernel.clock import MICROS_PER_SECOND, system_clock
from tests.support.clock import TIME_MICROS_MAX, ManualClock
from tests.support.delegating_database import DelegatingDatabase

HOUR_MICROS = 3600 * MICROS_PER_SECOND
SKEW_MICROS_MAX = SKEW_SECONDS_MAX * MICROS_PER_SECOND
SQLITE_RESOLUTION_MICROS = 1_000

times = st.integers(0, TIME_MICROS_MAX)
waits = st.integers(0, 10 * MICROS_PER_SECOND)


class ServerWithClock(DelegatingDatabase):
    """A database of which nothing but its clock is read, after a wait on the way there and back."""

    def __init__(self, server: ManualClock, *others: ManualClock) -> None:
        self._server = server
        self._clocks = (server, *others)
        self.waits = (0, 0)
        self.next_waits: list[tuple[int, int]] = []  # they come first

    @override
    async def read(self, work: Work[Result]) -> Result:
        there, back = self.next_waits.pop(0) if self.next_waits else self.waits
        self.wait(there)
        reading: Result = self._server()  # type: ignore[assignment]
        self.wait(back)
        return reading

    def wait(self, micros: int) -> None:
        """Let time pass, here and on the server."""
        for clock in self._clocks:
            clock.advance(micros=micros)


async def test_both_engines_tell_the_time(database: Database) -> None:
    """On one machine, the clocks of PostgreSQL, SQLite and the host are the same."""
    before = system_clock()
    reading = await database.read(database_time)

    assert before - SQLITE_RESOLUTION_MICROS <= reading <= system_clock()


async def test_sqlite_uses_the_clock_of_the_host_and_postgresql_that_of_its_server(
    database: Database, database_url: str, engine: str
) -> None:
    """A reading of the server decides what PostgreSQL writes; SQLite has no other clock."""
    clock = clock_of(database, database_url)
    await clock.measure()
    an_hour_ago = system_clock() - HOUR_MICROS

    assert (clock.from_database(an_hour_ago) == an_hour_ago) == (engine == "postgresql")
    assert abs(clock() - system_clock()) < HOUR_MICROS


@given(
    server=times, host=times, elapsed=times, way=st.tuples(waits, waits), later=waits, jump=times
)
async def test_the_estimate_depends_on_the_server_alone(
    server: int, host: int, elapsed: int, way: tuple[int, int], later: int, jump: int
) -> None:
    """Whatever the host's clock shows, the estimate is behind by the time that the answer took.

    The skew is what is certain of it: a slow answer makes it smaller, but never larger.
    """
    passed, server_clock, host_clock = ManualClock(elapsed), ManualClock(server), ManualClock(host)
    database = ServerWithClock(server_clock, host_clock, passed)
    database.waits = way
    clock = PostgresClock(database, host_clock, lambda: passed() * 1_000)

    await clock.measure()
    estimates = [clock() - server_clock()]
    host_clock.now = jump
    database.wait(later)
    estimates.append(clock() - server_clock())

    assert estimates == [-way[1], -way[1]]
    skew = host - server
    assert min(skew, 0) <= clock.skew_micros <= max(skew, 0)
    assert abs(skew - clock.skew_micros) <= sum(way)
    assert clock.from_database(server_clock()) == server_clock()


async def test_a_slow_answer_is_asked_for_again() -> None:
    """If the process stands still while it waits for an answer, its clock is not behind."""
    passed, server_clock = ManualClock(0), ManualClock()
    database = ServerWithClock(server_clock, passed)
    clock = PostgresClock(database, ManualClock(), lambda: passed() * 1_000)
    stall, usual = (0, 10 * MICROS_PER_SECOND), (500, 500)
    for answers in ([usual], [stall, usual], [stall, stall, usual]):
        database.next_waits = answers
        await clock.measure()
        assert not answers
        assert clock() == server_clock() - usual[1]


@given(way=st.tuples(waits, waits), step=st.integers(-HOUR_MICROS, HOUR_MICROS))
async def test_a_step_of_the_server_s_clock_is_followed_with_the_next_measurement(
    way: tuple[int, int], step: int
) -> None:
    """After a switch to a server with another clock, the estimate is as good as before."""
    passed, server_clock = ManualClock(0), ManualClock()
    database = ServerWithClock(server_clock, passed)
    clock = PostgresClock(database, ManualClock(), lambda: passed() * 1_000)
    await clock.measure()

    server_clock.advance(micros=step)
    database.waits = way
    await clock.measure()

    assert clock() == server_clock() - way[1]


@pytest.mark.parametrize("skew_micros", [0, SKEW_MICROS_MAX, -SKEW_MICROS_MAX])
def test_a_small_skew_is_tolerated(skew_micros: int) -> None:
    """Clocks may differ by five seconds."""
    check_skew(skew_micros)


@pytest.mark.parametrize(
    ("skew_micros", "words"),
    [(SKEW_MICROS_MAX + 1, "5 seconds ahead of"), (-HOUR_MICROS, "3600 seconds behind")],
)
def test_a_larger_skew_is_refused(skew_micros: int, words: str) -> None:
    """The refusal says by how much, and in which direction."""
    with pytest.raises(ClockSkewed, match=words):
        check_skew(skew_micros)
