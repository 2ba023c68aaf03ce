"""The load measures a server once it is warm, however long that takes."""

import asyncio

import pytest

from ousel.workload.load import LoadPlan
from ousel.workload.processes import run_load_process

pytestmark = pytest.mark.slow

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
FIRST_SECONDS = 0.5
LATER_SECONDS = 0.01
RUNS_MAX = 10


async def test_the_window_opens_when_everybody_was_answered_once() -> None:
    """The slow first answers of a cold server do not count.

    A machine that stalls may make later answers as slow, but not in every run.
    """
    server = await asyncio.start_server(_answers, "127.0.0.1", 0)
    plan = LoadPlan(
        port=server.sockets[0].getsockname()[1],
        connections=4,
        warm_seconds=0.0,
        seconds=0.2,
        statuses=[200],
        heads=[b"GET / HTTP/1.1\r\nX-Number: "],
    )
    async with server:
        tally = await asyncio.to_thread(run_load_process, plan)
        for _ in range(RUNS_MAX - 1):
            if tally.p99_seconds >= FIRST_SECONDS:
                tally = await asyncio.to_thread(run_load_process, plan)

    assert LATER_SECONDS < tally.p50_seconds <= tally.p99_seconds < FIRST_SECONDS
    assert tally.total > plan.connections


async def _answers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    seconds = FIRST_SECONDS
    while await reader.readline():
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(seconds)  # a slow server
        writer.write(ANSWER)
        seconds = LATER_SECONDS
    writer.close()
