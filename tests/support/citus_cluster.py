"""A Citus cluster for tests: a coordinator and workers, each a PostgreSQL server of its own."""

import asyncio
import contextlib
import functools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Self

import asyncpg
import psutil

from tests.support.ports import free_port
from tests.support.waiting import wait_until

WORKERS = 2
SHARDS = 4  # of each distributed table; a few are enough to need several of them at once
SETTINGS = Path(__file__).parents[2] / "deploy/citus/postgresql.conf"
ABSENT = "it is not in the library folder of pg_config"


@functools.cache
def is_citus_installed() -> bool:
    """Return whether the server that `pg_config` describes can load Citus."""
    folder = _pg_config("--pkglibdir")
    return folder is not None and (folder / "citus.so").exists()


def _pg_config(option: str) -> Path | None:
    program = shutil.which("pg_config")
    if program is None:
        return None
    printed = subprocess.run([program, option], capture_output=True, text=True, check=True)
    return Path(printed.stdout.strip())


class CitusNode:
    """One PostgreSQL server on this machine, which can be killed and started again."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self._folder = folder
        self._pid_file = folder / "postmaster.pid"
        self.log = folder / "server.log"
        self.port = free_port()
        self._programs = _pg_config("--bindir") or Path()
        self._run("initdb", "--auth=trust", "--username=postgres", "--no-sync", "-E", "UTF8")
        lines = (
            SETTINGS.read_text(),
            f"port = {self.port}",
            "unix_socket_directories = ''",
            f"citus.shard_count = {SHARDS}",
            "citus.node_conninfo = 'sslmode=disable'",
            *settings,
        )
        with (folder / "postgresql.conf").open("a") as file:
            file.write("\n".join(lines) + "\n")
        self.start()

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        self._run("pg_ctl", "start", "--wait", "--silent", f"--log={self.log}")

    def stop(self) -> None:
        """Kill all of the server's processes: the next start recovers from the log."""
        self._run("pg_ctl", "stop", "--wait", "--silent", "--mode=immediate")

    @property
    def pid(self) -> int:
        """The process that has started all others of the server."""
        return int(self._pid_file.read_text().split()[0])

    def signal(self, sent: signal.Signals) -> None:
        """Send a signal to all of the server's processes."""
        first = psutil.Process(self.pid)
        first.suspend()  # it starts no others meanwhile
        for process in (first, *first.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(sent)

    def kill_hung(self) -> None:
        """Kill processes that hang by SIGSTOP: they do nothing else when they continue."""
        self.signal(signal.SIGQUIT)
        self.signal(signal.SIGCONT)
        wait_until(lambda: not self._pid_file.exists())

    def url(self, database: str) -> str:
        """Return the address of one of the server's databases."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    async def fetch(self, database: str, sql: str) -> list[tuple[object, ...]]:
        """Run a statement as the server's owner, and return its rows."""
        connection = await asyncpg.connect(self.url(database))
        try:
            return [tuple(row) for row in await connection.fetch(sql)]
        finally:
            await connection.close()

    def _run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs on the data folder, as a user who is not root."""
        command = [str(self._programs / program), f"--pgdata={self._folder}", *arguments]
        user = None
        if os.getuid() == 0:
            user = pwd.getpwnam("postgres").pw_uid
            os.chown(self._folder, user, -1)
        ended = subprocess.run(
            command,
            user=user,
            cwd="/",
            # Where the home folder belongs to root, libpq cannot look for certificates there.
            env=os.environ | {"HOME": str(self._folder)},
            stdout=subprocess.DEVNULL,
            check=False,
        )
        assert ended.returncode == 0, f"{program} failed: see {self.log}"


class CitusCluster:
    """A coordinator and its workers; leaving the block stops them and removes their folders."""

    def __init__(self, *settings: str, workers: int = WORKERS) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ousel-citus-"))
        self._folder.chmod(0o755)
        names = ("coordinator", *(f"worker{number}" for number in range(1, workers + 1)))
        for name in names:
            (self._folder / name).mkdir()
        self.nodes = [CitusNode(self._folder / name, *settings) for name in names]
        self.coordinator, *self.workers = self.nodes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop all servers and remove their folders."""
        for node in self.nodes:
            node.stop()
        shutil.rmtree(self._folder)

    def has(self, url: str) -> bool:
        """Return whether this is the address of a database on one of the servers."""
        return any(f"127.0.0.1:{node.port}/" in url for node in self.nodes)

    async def create_database(self, name: str, template: str | None = None) -> str:
        """Create a database on all servers; return its address on the coordinator."""
        source = f" TEMPLATE {template}" if template else ""
        await asyncio.gather(
            *(node.fetch("postgres", f"CREATE DATABASE {name}{source}") for node in self.nodes)
        )
        if template is None:
            await asyncio.gather(
                *(node.fetch(name, "CREATE EXTENSION citus") for node in self.nodes)
            )
            ask = self.coordinator.fetch
            await ask(
                name, f"SELECT citus_set_coordinator_host('127.0.0.1', {self.coordinator.port})"
            )
            for worker in self.workers:
                await ask(name, f"SELECT citus_add_node('127.0.0.1', {worker.port})")
        return self.coordinator.url(name)
