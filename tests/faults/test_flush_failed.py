"""The disk of an SQLite server refuses to flush: every answer is what the ledger says later."""

import asyncio
import signal
from collections.abc import Iterable
from pathlib import Path

import pytest

from ousel.database.addresses import open_database
from tests.faults.load import Load, assert_settled_exactly_once
from tests.support.accounts import verify
from tests.support.engines import Engines
from tests.support.ports import free_port
from tests.support.seeded import SeededDatabase, seed_database
from tests.support.server import Server
from tests.support.waiting import until

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TRANSFERS = 5
REFUSALS = 20

START_FAULTY = """
from pathlib import Path
from tests.support.faulty_disk import fail_by_marker
fail_by_marker(Path({marker!r}))
"""


class FaultyDisk:
    """The disk of a server; a file names the operations that fail on it."""

    def __init__(self, folder: Path) -> None:
        self.marker = folder / "failing"

    def fail(self, operations: str) -> None:
        """Let these operations fail from now on."""
        self.marker.write_text(operations)

    def mend(self) -> None:
        """Let everything succeed again."""
        self.marker.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> FaultyDisk:
    """A disk on which nothing fails yet."""
    return FaultyDisk(tmp_path)


@pytest.fixture
async def seeded(engines: Engines, tmp_path: Path) -> SeededDatabase:
    """A fresh SQLite database with a partner and people."""
    return await seed_database(await asyncio.to_thread(engines.fresh_url, "sqlite", tmp_path))


@pytest.fixture
def admin_port() -> int:
    """A port for the server's metrics."""
    return free_port()


@pytest.fixture
def server(seeded: SeededDatabase, disk: FaultyDisk, admin_port: int, tmp_path: Path) -> Server:
    """A server on this disk, not yet started."""
    folder = tmp_path / "start"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(START_FAULTY.format(marker=str(disk.marker)))
    return Server(
        seeded.url,
        OUSEL_LOG_LEVEL="error",
        OUSEL_ADMIN_PORT=str(admin_port),
        PYTHONPATH=f"{folder}:{ROOT / 'src'}:{ROOT}",
    )


async def send_transfers(
    server: Server, seeded: SeededDatabase, keys: Iterable[str]
) -> dict[str, str]:
    """Send transfers with these keys; return the code of each refusal, or "", by key."""
    codes = {}
    async with server.client(seeded.key) as client:
        for key in keys:
            answer = await client.post(
                "/transfers",
                json={"to": f"@{seeded.people[0]}", "amount": 1},
                headers={"Idempotency-Key": key},
            )
            codes[key] = answer.json().get("code", "")
    return codes


async def test_what_was_answered_still_holds_after_a_kill(
    server: Server, seeded: SeededDatabase, disk: FaultyDisk
) -> None:
    """A transfer that was refused as not written is not in the ledger after a restart."""
    with server:
        assert await send_transfers(server, seeded, ["first"]) == {"first": ""}
        for failing in ("flush", "write", "flush write"):
            keys = [f"{failing}-{number}".replace(" ", "-") for number in range(TRANSFERS)]
            disk.fail(failing)
            codes = await send_transfers(server, seeded, keys)
            await asyncio.to_thread(server.stop, signal.SIGKILL)
            disk.mend()
            await asyncio.to_thread(server.__enter__)
            stored = {transfer.idempotency_key for transfer in await seeded.transfers()}
            again = await send_transfers(server, seeded, keys)

            assert set(codes.values()) <= {"database_unavailable", "outcome_unknown"}
            assert not stored & {key for key, code in codes.items() if code != "outcome_unknown"}
            assert set(again.values()) == {""}

    assert len(await seeded.transfers()) == 1 + 3 * TRANSFERS
    async with open_database(seeded.url) as database:
        await verify(database)


async def test_writes_resume_when_the_disk_flushes_again(
    server: Server, seeded: SeededDatabase, disk: FaultyDisk, admin_port: int
) -> None:
    """Reads are answered meanwhile, a metric shows it, and nobody restarts the server."""
    metrics = f"http://127.0.0.1:{admin_port}/metrics"
    with server:
        load = Load(seeded, server.port, between_seconds=0)
        async with load.running():
            await load.progress()
            disk.fail("flush")
            await until(lambda: load.refused["database_unavailable"] >= REFUSALS or load.wrong)
            async with server.client(seeded.key) as client:
                assert (await client.get("/balance")).status_code == 200
                unused = await client.get("/transfers", params={"idempotency_key": "unused"})
                assert unused.status_code == 503, "it might still come back after a crash"
                assert "ousel_database_writes_suspended 1.0" in (await client.get(metrics)).text
            disk.mend()
            await load.progress()
            async with server.client() as client:
                assert "ousel_database_writes_suspended 0.0" in (await client.get(metrics)).text
        log = server.stop()

    await assert_settled_exactly_once(load)
    assert load.lost == 0
    # If the first flush that fails is not that of a transfer, no outcome is unknown.
    assert set(load.refused) <= {"database_unavailable", "outcome_unknown"}
    assert "Traceback" not in log, log
