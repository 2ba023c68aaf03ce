"""A request that was read after a standstill counts as arrived when the standstill began."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from ousel.http.arrivals import STANDSTILL_TICK_SECONDS, Arrivals
from tests.support.loop_time import LoopTime

SECONDS = st.floats(0, 100)


async def test_what_arrived_in_a_standstill_is_as_old_as_the_standstill() -> None:
    """Also if it is read only after the first tick that follows; soon all is as before."""
    time, arrivals = LoopTime(runs=False), Arrivals()
    await arrivals.tick()
    time.advance(40)
    before_tick = arrivals.earliest(time.now())
    await arrivals.tick()
    read_at = time.now()
    after_tick = arrivals.earliest(read_at)
    for _ in range(3):
        time.advance(STANDSTILL_TICK_SECONDS)
        await arrivals.tick()

    assert before_tick == after_tick == arrivals.earliest(read_at) == STANDSTILL_TICK_SECONDS
    assert arrivals.earliest(time.now()) == time.now()


@given(st.lists(st.tuples(SECONDS, st.floats(0, 1), st.booleans()), min_size=1))
def test_no_request_counts_as_much_younger_than_it_is(
    pauses: list[tuple[float, float, bool]],
) -> None:
    """It counts as at most two seconds younger, and as no older than the standstill."""

    async def play() -> None:
        time, arrivals = LoopTime(runs=False), Arrivals()
        last_in_time_at = 0.0
        await arrivals.tick()
        for pause_seconds, share, is_read_before_tick in pauses:
            seconds = STANDSTILL_TICK_SECONDS + pause_seconds
            arrived_at = time.now() + share * seconds
            time.advance(seconds)
            if is_read_before_tick:
                earliest = arrivals.earliest(time.now())
                await arrivals.tick()
            else:
                await arrivals.tick()
                earliest = arrivals.earliest(time.now())
            assert last_in_time_at < earliest <= arrived_at + 2.001 * STANDSTILL_TICK_SECONDS
            if pause_seconds < STANDSTILL_TICK_SECONDS:
                last_in_time_at = time.now()

    asyncio.run(play())
