"""Many callers fail, and others have their turns in between."""

import asyncio
from itertools import pairwise

from ousel.kernel.futures import FAILED_AT_ONCE, fail_gradually

FULL_TURNS = 10


async def test_others_have_their_turns_while_many_callers_fail() -> None:
    """In each turn of the event loop only a few fail, and in the end all have."""
    loop = asyncio.get_running_loop()
    futures = [loop.create_future() for _ in range(FULL_TURNS * FAILED_AT_ONCE + 1)]

    fail_gradually(futures, ValueError("planned"))
    done_counts = [0, sum(each.done() for each in futures)]
    while done_counts[-1] > done_counts[-2]:
        await asyncio.sleep(0)
        done_counts.append(sum(each.done() for each in futures))

    failed = [later - earlier for earlier, later in pairwise(done_counts)]
    assert failed == [*[FAILED_AT_ONCE] * FULL_TURNS, 1, 0]
    assert {repr(each.exception()) for each in futures} == {"ValueError('planned')"}


async def test_a_caller_that_has_its_result_keeps_it() -> None:
    """Only those that still wait fail."""
    answered, waiting = (asyncio.get_running_loop().create_future() for _ in range(2))
    answered.set_result(1)

    fail_gradually([answered, waiting], ValueError("planned"))

    assert answered.result() == 1
    assert isinstance(waiting.exception(), ValueError)
