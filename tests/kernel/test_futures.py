"""Many callers share a result or an error, and others have their turns in between."""

import asyncio
from itertools import groupby

from ousel.kernel.futures import ITERATIONS_PER_FAILURE, SharedCalls, fail_gradually

CALLERS = 10


async def test_others_have_their_turns_while_many_callers_fail() -> None:
    """After each failure, others have several turns of the event loop, and in the end all fail."""
    loop = asyncio.get_running_loop()
    futures = [loop.create_future() for _ in range(CALLERS)]

    fail_gradually(futures, ValueError("planned"))
    failed_counts = [1]
    while failed_counts[-1] < CALLERS:
        await asyncio.sleep(0)
        failed_counts.append(sum(each.done() for each in futures))

    turns = [len(list(group)) for _, group in groupby(failed_counts)]
    assert turns == [ITERATIONS_PER_FAILURE] * (CALLERS - 1) + [1]
    assert {repr(each.exception()) for each in futures} == {"ValueError('planned')"}


async def test_a_caller_that_has_its_result_keeps_it() -> None:
    """Only those that still wait fail."""
    answered, waiting = (asyncio.get_running_loop().create_future() for _ in range(2))
    answered.set_result(1)

    fail_gradually([answered, waiting], ValueError("planned"))

    assert answered.result() == 1
    assert isinstance(waiting.exception(), ValueError)


class SlowCalls:
    """Calls that last until they are told to end."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.end = asyncio.Event()
        self.error: Exception | None = None

    async def __call__(self, key: str) -> None:
        """Record that the call has begun, and wait."""
        self.begun.append(key)
        await self.end.wait()
        if self.error is not None:
            raise self.error


async def test_callers_with_the_same_key_share_a_call() -> None:
    """A caller that comes after the end of a call begins a new one."""
    calls = SlowCalls()
    shared = SharedCalls(calls)
    callers = [asyncio.create_task(shared.run(key)) for key in ("a", "b", "a", "a")]
    await asyncio.sleep(0.01)
    assert not any(caller.done() for caller in callers)

    calls.end.set()
    await asyncio.gather(*callers)
    assert calls.begun == ["a", "b"]
    await shared.run("a")
    assert calls.begun == ["a", "b", "a"]


async def test_a_call_goes_on_for_the_others_if_a_caller_gives_up() -> None:
    """This is true of the caller that began it as well."""
    calls = SlowCalls()
    shared = SharedCalls(calls)
    first, second = (asyncio.create_task(shared.run("a")) for _ in range(2))
    await asyncio.sleep(0.01)
    first.cancel()
    calls.end.set()

    await second
    assert calls.begun == ["a"]
    assert first.cancelled()


async def test_an_error_reaches_all_callers_of_a_call() -> None:
    """The next caller begins a new call."""
    calls = SlowCalls()
    calls.error = ValueError("planned")
    calls.end.set()
    shared = SharedCalls(calls)

    results = await asyncio.gather(*(shared.run("a") for _ in range(5)), return_exceptions=True)
    assert [repr(result) for result in results] == ["ValueError('planned')"] * 5
    calls.error = None
    await shared.run("a")
    assert calls.begun == ["a", "a"]
