"""Fresh, migrated databases: a file, or a database on a PostgreSQL server or a Citus cluster."""

import asyncio
import os
import secrets
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import asyncpg

from ousel.database.addresses import is_postgres
from ousel.database.schema import distribute, migrate
from ousel.ledger.rules import FIRST_HASH, SYSTEM_ACCOUNT_ID
from tests.support.citus_cluster import CitusCluster
from tests.support.postgres_server import start_postgres
from tests.support.run_locks import first_in_run, mark_done

Engine = Literal["sqlite", "postgresql", "citus"]
IS_CHECK = os.environ.get("OUSEL_TESTS") == "check"


def _chosen_engines() -> tuple[Engine, ...]:
    if os.environ.get("OUSEL_ENGINE") == "citus":
        return ("citus",)  # in `make citus`: it takes several times as long
    # `make check` starts no server of PostgreSQL: what it tests seldom depends on the engine.
    return ("sqlite",) if IS_CHECK else ("sqlite", "postgresql")


ENGINES = _chosen_engines()

# Creating a PostgreSQL database takes longer than most tests, so databases are emptied and reused.
# A new connection would first read the whole catalogue, so one is kept for each database.
SCHEMA_MARK = """
    SELECT concat_ws(' ', version_num,
        (SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace),
        (SELECT count(*) FROM pg_proc WHERE pronamespace = 'public'::regnamespace))
    FROM alembic_version
"""
TABLES = """
    SELECT tablename FROM pg_tables
    WHERE schemaname = 'public' AND tablename NOT IN ('accounts', 'alembic_version')
"""
END_OTHERS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_get_activity(NULL)
    WHERE datid = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND pid <> pg_backend_pid() AND client_port IS NOT NULL
        AND application_name NOT LIKE 'citus%'
"""
SYSTEM_ACCOUNT_AS_NEW = f"""
    DELETE FROM accounts WHERE id <> '{SYSTEM_ACCOUNT_ID}';
    UPDATE accounts SET status = 'active', balance = 0, sequence = 0, head_hash = '{FIRST_HASH}',
        updated_at = 0;
"""


TEMPLATE = "ousel_template"
SQLITE_TEMPLATE_MADE = "template-sqlite"
POSTGRES_TEMPLATE_MADE = "template-postgresql"


class Engines:
    """Creates databases; the schema is migrated once for each engine and run, and then copied."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.gettempdir())  # all workers of this run use it
        self._postgres: Any = None  # the handle of the server, once it runs
        self._citus: CitusCluster | None = None
        self._free_citus: list[str] = []
        self._is_template_ready = False
        self._free: list[str] = []  # addresses of emptied databases
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._kept: dict[str, asyncpg.Connection] = {}  # by the address of the database
        self._deletions = ""
        self._mark = ""  # identifies the schema of a fresh database
        self._citus_mark = ""

    def fresh_url(self, engine: Engine, folder: Path) -> str:
        """Return the address of a new database with the current schema."""
        if engine == "sqlite":
            return self._fresh_sqlite(folder)
        if engine == "citus":
            return self._runner.run(self._fresh_citus())
        return self._runner.run(self._fresh_postgres())

    def empty_url(self, engine: Engine, folder: Path) -> str:
        """Return the address of a new, empty database without a schema."""
        name = f"ousel_{secrets.token_hex(6)}"
        if engine == "sqlite":
            return str(folder / f"{name}.db")
        if engine == "citus":
            return self._runner.run(self._cluster().create_database(name))
        self._runner.run(self._execute(f"CREATE DATABASE {name}"))
        return self._url(name)

    def close(self) -> None:
        """Stop the PostgreSQL server, unless another worker of this run uses it."""
        for connection in self._kept.values():
            connection.terminate()
        self._runner.close()
        if self._postgres is not None:
            self._postgres.cleanup()
        if self._citus is not None:
            self._citus.close()

    def give_back(self, url: str) -> None:
        """Empty a database for the next test, unless its schema was changed."""
        if is_postgres(url):
            self._runner.run(self._give_back(url))

    async def _give_back(self, url: str) -> None:
        connection = await self._kept_connection(url)
        is_on_citus = self._citus is not None and self._citus.has(url)
        mark = self._citus_mark if is_on_citus else self._mark
        if await connection.fetchval(SCHEMA_MARK) != mark:
            await self._kept.pop(url).close()
            return
        if not self._deletions:
            tables = await connection.fetch(TABLES)
            deletions = "".join(f"DELETE FROM {name};" for (name,) in tables)
            self._deletions = deletions + SYSTEM_ACCOUNT_AS_NEW
        await connection.fetch(END_OTHERS)
        await connection.execute(self._deletions)
        (self._free_citus if is_on_citus else self._free).append(url)

    async def _kept_connection(self, url: str) -> asyncpg.Connection:
        """Return the connection that empties this database; a test may have ended it."""
        if url in self._kept:
            with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                await self._kept[url].execute("SELECT 1")
                return self._kept[url]
        settings = {"application_name": "ousel tests"}
        self._kept[url] = await asyncpg.connect(url, server_settings=settings)
        return self._kept[url]

    def _fresh_sqlite(self, folder: Path) -> str:
        template = self._folder / "template.db"
        with first_in_run(SQLITE_TEMPLATE_MADE) as is_first:
            if is_first:
                asyncio.run(migrate(str(template)))
        path = folder / f"ousel_{secrets.token_hex(6)}.db"
        shutil.copy(template, path)
        return str(path)

    async def _fresh_postgres(self) -> str:
        if not self._is_template_ready:
            with first_in_run(POSTGRES_TEMPLATE_MADE) as is_first:
                if is_first:
                    await self._create_template()
            self._is_template_ready = True
        if self._free:
            return self._free.pop()
        name = f"ousel_{secrets.token_hex(6)}"
        await self._execute(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        self._mark = self._mark or await self._fetch_mark(self._url(name))
        return self._url(name)

    async def _fresh_citus(self) -> str:
        """Return the address of a distributed database, on the coordinator of the cluster."""
        if self._free_citus:
            return self._free_citus.pop()
        url = await self._cluster().create_database(f"ousel_{secrets.token_hex(6)}")
        await migrate(url)
        await distribute(url)
        self._citus_mark = self._citus_mark or await self._fetch_mark(url)
        return url

    def _cluster(self) -> CitusCluster:
        if self._citus is None:
            self._citus = CitusCluster("fsync = off")
        return self._citus

    async def _create_template(self) -> None:
        # No test makes the machine of this server fail, so it need not flush to its disk.
        await self._execute("ALTER SYSTEM SET fsync = off")
        # A vacuum between two tests would leave the statistics of an empty table to the second.
        await self._execute("ALTER SYSTEM SET autovacuum = off")
        await self._execute("SELECT pg_reload_conf()")
        await self._execute(f"CREATE DATABASE {TEMPLATE}")
        await migrate(self._url(TEMPLATE))

    async def _fetch_mark(self, url: str) -> str:
        connection = await asyncpg.connect(url)
        try:
            return str(await connection.fetchval(SCHEMA_MARK))
        finally:
            await connection.close()

    async def _execute(self, sql: str) -> None:
        connection = await asyncpg.connect(self._url("postgres"))
        try:
            await connection.execute(sql)
        finally:
            await connection.close()

    def _url(self, database: str) -> str:
        if self._postgres is None:
            assert not IS_CHECK, (
                "a test that needs PostgreSQL is not for `make check`: mark it slow"
            )
            self._postgres = start_postgres(self._folder / "postgresql", cleanup_mode="stop")
        return str(self._postgres.get_uri(database))


def use_template(path: Path) -> None:
    """Let the SQLite databases of this run be copies of this one, which is migrated already."""
    shutil.copy(path, Path(tempfile.gettempdir()) / "template.db")
    mark_done(SQLITE_TEMPLATE_MADE)
