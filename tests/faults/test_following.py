"""A partner follows its account while its program and the server are killed again and again."""

import asyncio
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.faults.follower import open_books
from tests.faults.load import Load, assert_settled_exactly_once
from tests.faults.sizes import CLIENT_KILLS, MOVEMENTS_FOLLOWED, SERVER_KILLS
from tests.support.engines import Engine
from tests.support.figures import Figure
from tests.support.raw_sql import RawSql
from tests.support.seeded import SeededDatabase
from tests.support.server import Server
from tests.support.waiting import until

pytestmark = pytest.mark.slow


class Follower:
    """The partner's program, which can be killed and started again, and its database."""

    def __init__(self, server: Server, key: str, path: Path) -> None:
        self._command = [sys.executable, "-m", "tests.faults.follower"]
        self._command += [server.base_url, key, str(path)]
        self._books = open_books(path)
        self._process = subprocess.Popen(self._command)

    def restart(self) -> None:
        """Kill the program and start it again."""
        assert self._process.poll() is None, "the program has ended by itself"
        self._kill()
        self._process = subprocess.Popen(self._command)

    def close(self) -> None:
        """Kill the program for good."""
        self._kill()
        self._books.close()

    def count(self) -> int:
        """Return how many transfers the program has stored."""
        return int(self._books.execute("SELECT COUNT(*) FROM transfers").fetchone()[0])

    async def progress(self) -> None:
        """Wait until the program has stored another transfer."""
        before = self.count()
        await until(lambda: self.count() > before)

    def stored(self) -> list[tuple[int, str]]:
        """Return the transfers in the order in which they were stored."""
        return self._books.execute("SELECT sequence, id FROM transfers ORDER BY rowid").fetchall()

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def options(engine: Engine) -> tuple[str, ...]:
    """On PostgreSQL, two processes serve."""
    return ("--workers=2",) if engine == "postgresql" else ()


@pytest.fixture
def server(seeded: SeededDatabase, options: tuple[str, ...]) -> Iterator[Server]:
    """The server, which the test kills."""
    with Server(seeded.url, *options, OUSEL_LOG_LEVEL="error") as running:
        yield running


async def test_every_movement_is_handled_once_whatever_is_killed(
    seeded: SeededDatabase,
    server: Server,
    engine: Engine,
    chance: random.Random,
    figure: Figure,
    tmp_path: Path,
) -> None:
    """The program stores its cursor with its effect, so no movement is missing or there twice."""
    kills = ["program"] * CLIENT_KILLS + ["server"] * SERVER_KILLS
    chance.shuffle(kills)
    load = Load(seeded, server.port)
    with closing(Follower(server, seeded.key, tmp_path / "books.db")) as follower:
        async with load.running():
            for killed in kills:
                await follower.progress()
                await asyncio.sleep(chance.uniform(0, 0.1))  # the kill comes at a random moment
                if killed == "program":
                    follower.restart()
                else:
                    await asyncio.to_thread(_restart, server)
            await until(lambda: len(load.acknowledged) >= MOVEMENTS_FOLLOWED)
        await assert_settled_exactly_once(load)
        entries = await _entries(seeded)
        await until(lambda: follower.count() >= len(entries))
        stored = follower.stored()

    assert [sequence for sequence, _ in stored] == list(range(1, len(stored) + 1))
    assert stored == entries
    figure(
        f"{engine}: {len(stored)} movements followed, each handled once and in order, "
        f"with {CLIENT_KILLS} kills of the program and {SERVER_KILLS} of the server"
    )


def _restart(server: Server) -> None:
    """Kill all processes of the server, and start it again."""
    parent = psutil.Process(server.process.pid)
    for process in (parent, *parent.children(recursive=True)):
        process.kill()
    server.stop()
    server.__enter__()


async def _entries(seeded: SeededDatabase) -> list[tuple[int, str]]:
    async with RawSql(seeded.url) as raw_sql:
        rows = await raw_sql.run(
            "SELECT sequence, transfer_id FROM entries WHERE account_id = ? ORDER BY sequence",
            seeded.account.id,
        )
    return [(row[0], row[1]) for row in rows]
