"""Refusals leave nothing to the garbage collector, whose pauses delay every other request."""

import asyncio

from ousel.app.background_tasks import run_repeatedly
from ousel.kernel.errors import DatabaseUnavailable, Refusal
from tests.support.garbage import garbage_of
from tests.support.in_process import in_process_client
from tests.support.seeded import SeededDatabase


async def test_a_refused_request_leaves_no_garbage(seeded: SeededDatabase) -> None:
    """The refusal of a transfer does not stay in memory."""
    body = {"to": f"@{seeded.people[0]}", "amount": 999_999_999}
    async with in_process_client(seeded.url) as client:
        with garbage_of(Refusal) as found:
            headers = {"Authorization": f"Bearer {seeded.key}"}
            answer = await client.post("/transfers", json=body, headers=headers)

    assert answer.json()["code"] == "insufficient_balance"
    assert found == []


async def test_a_path_without_a_page_leaves_no_garbage(seeded: SeededDatabase) -> None:
    """Programs that look for weak spots ask for thousands of paths."""
    async with in_process_client(seeded.url) as client:
        with garbage_of(Refusal) as found:
            answer = await client.get("/nothing")

    assert answer.json()["code"] == "not_found"
    assert found == []


async def test_a_refused_background_task_leaves_no_garbage() -> None:
    """A task may be refused four times a second, for as long as commits hang."""
    ran = asyncio.Event()

    async def work() -> None:
        ran.set()
        refusal = DatabaseUnavailable("Commits hang.")
        raise refusal

    with garbage_of(Refusal) as found:
        running = asyncio.create_task(run_repeatedly(0, work))
        await ran.wait()
        running.cancel()
        await asyncio.wait({running})

    assert found == []
