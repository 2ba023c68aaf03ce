"""A long run at 70 % of top speed: no error, and memory does not grow."""

import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil
import pytest

from ousel.workload import sample_data
from ousel.workload.load import LoadPlan
from ousel.workload.processes import run_load_process
from tests.faults.paced import PacedPlan, PacedTally
from tests.faults.sizes import FULL, SOAK_SECONDS, TOP_SPEED_SECONDS, sized
from tests.support.engines import Engine, Engines
from tests.support.figures import Figure
from tests.support.postgres_server import PostgresServer
from tests.support.server import Server

pytestmark = pytest.mark.slow

PARTNERS = 1
RECIPIENTS = sized(500, 10_000)
CONNECTIONS = 64
SHARE = 0.7
WARM_SECONDS = 60.0  # until caches have their size
COMPARED_SECONDS = 30.0
MEMORY_GROWTH_MAX = 0.05
MEBIBYTE = 1 << 20


@pytest.fixture
def database_url(engines: Engines, engine: Engine, tmp_path: Path) -> Iterator[str]:
    """The address of a fresh database, which grows large and is removed in the end."""
    if engine == "sqlite" or not FULL:
        yield engines.fresh_url(engine, tmp_path)
        shutil.rmtree(tmp_path)
        return
    with PostgresServer() as postgres:
        yield postgres.fresh_url()


def request_parts(filled: sample_data.SampleData, run: str) -> tuple[bytes, list[bytes]]:
    """Return the start of a request up to the number in its key, and one end for each recipient."""
    head = (
        "POST /v1/transfers HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Authorization: Bearer {filled.keys[0]}\r\nIdempotency-Key: {run}-"
    )
    bodies = [f'{{"to":"{recipient}","amount":0.01}}' for recipient in filled.recipients]
    tails = [f"\r\nContent-Length: {len(body)}\r\n\r\n{body}" for body in bodies]
    return head.encode(), [tail.encode() for tail in tails]


def top_speed(server: Server, filled: sample_data.SampleData) -> tuple[float, int]:
    """Return the top speed of the server in transfers a second, and how many it wrote."""
    head, tails = request_parts(filled, "top")
    plan = LoadPlan(
        port=server.port,
        connections=CONNECTIONS,
        warm_seconds=TOP_SPEED_SECONDS / 4,
        seconds=TOP_SPEED_SECONDS,
        statuses=[201],
        heads=[head],
        tails=tails,
    )
    tally = run_load_process(plan)
    return tally.rate, tally.total


def soaked(server: Server, plan: PacedPlan) -> tuple[PacedTally, list[int]]:
    """Run the load; return its results and the server's memory in each second."""
    process = psutil.Process(server.process.pid)
    memory: list[int] = []
    with subprocess.Popen(
        [sys.executable, "-m", "tests.faults.paced"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as paced:
        assert paced.stdin is not None
        assert paced.stdout is not None
        paced.stdin.write(msgspec.json.encode(plan))
        paced.stdin.close()
        while paced.poll() is None:
            memory.append(process.memory_info().rss)
            with suppress(subprocess.TimeoutExpired):
                paced.wait(1)
        tally = msgspec.json.decode(paced.stdout.read(), type=PacedTally)
    return tally, memory


def growth(memory: list[int]) -> float:
    """Return by what share memory grew from the end of the first minute to the last seconds."""
    seconds = int(COMPARED_SECONDS)
    warm = memory[int(WARM_SECONDS) :]
    return statistics.median(warm[-seconds:]) / statistics.median(warm[:seconds]) - 1


def test_a_long_time_at_70_percent(database_url: str, engine: Engine, figure: Figure) -> None:
    """Every request is acknowledged and in the ledger; memory stays flat after the warm-up."""
    filled = sample_data.create_sample_data(database_url, PARTNERS, RECIPIENTS)
    before = sample_data.verify_ledger(database_url).transfers
    with Server(database_url, OUSEL_LOG_LEVEL="error") as server:
        rate, done = top_speed(server, filled)
        head, tails = request_parts(filled, "soak")
        plan = PacedPlan(
            port=server.port,
            connections=CONNECTIONS,
            rate=SHARE * rate,
            seconds=SOAK_SECONDS,
            head=head,
            tails=tails,
        )
        tally, memory = soaked(server, plan)
        log = server.stop()

    assert tally.failed == 0
    assert log == ""
    assert sample_data.verify_ledger(database_url).transfers == before + done + tally.acknowledged
    line = (
        f"{engine}: {SOAK_SECONDS:.0f} s at {plan.rate:.0f}/s, 70 % of {rate:.0f}/s: "
        f"{tally.acknowledged} transfers, no error, p50 {tally.p50_seconds * 1000:.1f} ms, "
        f"p99 {tally.p99_seconds * 1000:.1f} ms, longest {tally.longest_seconds * 1000:.0f} ms, "
        f"memory {memory[-1] / MEBIBYTE:.0f} MiB"
    )
    if SOAK_SECONDS > WARM_SECONDS + 2 * COMPARED_SECONDS:
        assert growth(memory) < MEMORY_GROWTH_MAX, line
        line += f", grown by {growth(memory):.1%} after the first minute"
    figure(line)
