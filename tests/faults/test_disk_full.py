"""The disk is full: nothing is half written, reads go on, and free space is enough to recover."""

import asyncio
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.disks import SmallDisk
from tests.faults.load import Load, assert_settled_exactly_once
from tests.support.engines import Engine, Engines
from tests.support.figures import Figure
from tests.support.postgres_server import PostgresServer
from tests.support.seeded import SeededDatabase, seed_database
from tests.support.server import Server
from tests.support.waiting import until

pytestmark = pytest.mark.slow

REFUSALS = 10


@pytest.fixture
def disk() -> Iterator[SmallDisk]:
    """A small disk for one test."""
    with SmallDisk() as small:
        yield small


@pytest.fixture
def database_url(engine: Engine, engines: Engines, disk: SmallDisk) -> Iterator[str]:
    """The address of a fresh database whose tables are on that disk."""
    if engine == "sqlite":
        yield engines.fresh_url("sqlite", disk.folder)
        return
    with PostgresServer() as postgres:
        space = disk.folder / "tables"
        space.mkdir(mode=0o700)
        if postgres.system_user is not None:
            shutil.chown(space, postgres.system_user)
        asyncio.run(postgres.execute(f"CREATE TABLESPACE small LOCATION '{space}'"))
        yield postgres.fresh_url("TABLESPACE small")


async def refused(load: Load) -> None:
    """Wait until the server has refused several transfers because it cannot write."""
    before = load.refused["database_unavailable"]
    await until(lambda: load.refused["database_unavailable"] >= before + REFUSALS or load.wrong)


async def reads(server: Server, seeded: SeededDatabase) -> None:
    """Check that reads are served."""
    async with server.client(seeded.key) as client:
        answers = [await client.get("/balance"), await client.get(f"{server.origin}/readyz")]
    assert [answer.status_code for answer in answers] == [200, 200]


async def test_a_full_disk_refuses_and_recovers(
    disk: SmallDisk, seeded: SeededDatabase, engine: Engine, figure: Figure
) -> None:
    """Transfers are refused with 503 while the disk is full, and written when it has space."""
    with Server(seeded.url, OUSEL_LOG_LEVEL="error") as server:
        load = Load(seeded, server.port)
        async with load.running():
            await load.progress()
            disk.fill()
            await refused(load)
            await reads(server, seeded)
            disk.make_room()
            await load.progress()
        log = server.stop()

    await assert_settled_exactly_once(load)
    assert load.lost == 0
    assert set(load.refused) == {"database_unavailable"}
    assert "Traceback" not in log, log
    figure(
        f"{engine}: disk full under load, {load.refused.total()} refusals, then "
        f"{len(load.acknowledged)} transfers, each once"
    )


async def test_a_server_that_may_not_write_a_byte_still_answers(
    engines: Engines, tmp_path: Path
) -> None:
    """With neither its SQLite file nor its log writable, the server still answers with refusals."""
    seeded = await seed_database(await asyncio.to_thread(engines.fresh_url, "sqlite", tmp_path))
    with Server(seeded.url, OUSEL_LOG_LEVEL="error") as server:
        load = Load(seeded, server.port)
        async with load.running():
            await load.progress()
            _, most = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, most))
            await refused(load)
            await reads(server, seeded)
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (most, most))
            await load.progress()

    await assert_settled_exactly_once(load)
    assert load.lost == 0
    assert set(load.refused) == {"database_unavailable"}
