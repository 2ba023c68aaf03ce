"""Refusals leave nothing to the garbage collector, whose pauses delay every other request."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import contextmanager

from ousel.app.background_tasks import run_repeatedly
from ousel.kernel.errors import DatabaseUnavailable, Refusal
from tests.support.in_process import in_process_client
from tests.support.seeded import SeededDatabase


@contextmanager
def refusals_in_garbage() -> Iterator[list[Refusal]]:
    """Yield a list; in the end it has the refusals that only the garbage collector can find."""
    found: list[Refusal] = []
    gc.collect()
    gc.disable()
    try:
        yield found
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found += [each for each in gc.garbage if isinstance(each, Refusal)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def test_a_refused_request_leaves_no_garbage(seeded: SeededDatabase) -> None:
    """The refusal of a transfer does not stay in memory."""
    body = {"to": f"@{seeded.people[0]}", "amount": 999_999_999}
    async with in_process_client(seeded.url) as client:
        with refusals_in_garbage() as found:
            headers = {"Authorization": f"Bearer {seeded.key}"}
            answer = await client.post("/transfers", json=body, headers=headers)

    assert answer.json()["code"] == "insufficient_balance"
    assert found == []


async def test_a_refused_background_task_leaves_no_garbage() -> None:
    """A task may be refused four times a second, for as long as commits hang."""
    ran = asyncio.Event()

    async def work() -> None:
        ran.set()
        refusal = DatabaseUnavailable("Commits hang.")
        raise refusal

    with refusals_in_garbage() as found:
        running = asyncio.create_task(run_repeatedly(0, work))
        await ran.wait()
        running.cancel()
        await asyncio.wait({running})

    assert found == []
