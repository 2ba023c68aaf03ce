"""Upgrades: two versions on one database behave as docs/operating/upgrade.md says."""

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from ousel.database.addresses import open_database
from ousel.database.schema import SCHEMA_VERSION
from tests.cli.commands import OUSEL, PROCESS_SECONDS_MAX, ousel
from tests.packaging.history import ROOT, checked_out, code_before_the_last_migration
from tests.support.accounts import partner, person
from tests.support.engines import Engine, Engines
from tests.support.raw_sql import RawSql
from tests.support.server import Server
from tests.support.waiting import assert_none_ends

pytestmark = pytest.mark.slow

NEXT_VERSION = f"{int(SCHEMA_VERSION) + 1:04d}"
NEXT_MIGRATION = f'''
"""What a coming version may do: a new table, and a column that old code knows nothing of."""

from alembic import op

revision = "{NEXT_VERSION}"
down_revision = "{SCHEMA_VERSION}"


def upgrade() -> None:
    """Add to the schema."""
    op.execute("CREATE TABLE tomorrow (id TEXT NOT NULL PRIMARY KEY)")
    op.execute("ALTER TABLE accounts ADD COLUMN tomorrow TEXT")
    op.execute("ALTER TABLE entries ADD COLUMN tomorrow BIGINT")
    op.execute("ALTER TABLE charges ADD COLUMN tomorrow TEXT")
'''


@pytest.fixture(scope="module")
def coming(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the code of a coming version is, which has one migration more."""
    folder = tmp_path_factory.mktemp("coming")
    for part in ("src", "docs", "zensical.toml", "examples"):
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, folder / part)
    database = folder / "src" / "ousel" / "database"
    migration = database / "migrations" / "versions" / f"{NEXT_VERSION}_tomorrow.py"
    migration.write_text(NEXT_MIGRATION.lstrip())
    schema = database / "schema.py"
    changed = schema.read_text().replace(f'"{SCHEMA_VERSION}"', f'"{NEXT_VERSION}"')
    schema.write_text(changed)
    return str(folder / "src")


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Where the code is as it was before the schema was changed for the last time."""
    folder = tmp_path_factory.mktemp("before")
    return str(checked_out(code_before_the_last_migration(), folder) / "src")


@pytest.fixture
def url(engines: Engines, engine: Engine, tmp_path: Path) -> Iterator[str]:
    """A database with today's schema."""
    address = engines.fresh_url(engine, tmp_path)
    yield address
    engines.give_back(address)


def of_version(code: str, *arguments: str, url: str) -> subprocess.CompletedProcess[str]:
    """Run a command of another version."""
    return subprocess.run(
        [str(OUSEL), *arguments],
        env=os.environ | {"OUSEL_DATABASE_URL": url, "PYTHONPATH": code},
        capture_output=True,
        check=False,
        text=True,
        timeout=PROCESS_SECONDS_MAX,
    )


async def _partner(url: str) -> str:
    async with open_database(url) as database:
        _, _, key = await partner(database, "shop", "100")
        await person(database, "grace")
        return key


def work_done(server: Server, key: str, name: str) -> None:
    """Check that a server moves money, and creates, reads and cancels charges."""
    with httpx2.Client(
        base_url=server.base_url, headers={"Authorization": f"Bearer {key}"}, verify=False
    ) as client:
        before = client.get("/balance").json()["available"]
        transfer = {"to": "@grace", "amount": 1.5, "idempotency_key": name}
        sent = [client.post("/transfers", json=transfer).status_code for _ in range(2)]
        charge = client.post("/charges", json={"amount": 2, "reference": name}).json()
        canceled = client.post(f"/charges/{charge['id']}/cancel")

        assert sent == [201, 200]
        assert client.get("/balance").json()["available"] == before - 1.5
        assert canceled.json()["status"] == "canceled"
        assert len(client.get("/charges", params={"reference": name}).json()["data"]) == 1
        assert client.get("/transfers").json()["data"][0]["idempotency_key"] == name


def is_ready(server: Server) -> bool:
    """Say whether a proxy would send requests to this server."""
    return httpx2.get(f"{server.origin}/readyz", verify=False).status_code == 200


def test_the_code_before_the_last_migration_serves_todays_schema(before: str, url: str) -> None:
    """Old servers go on after the migration, and new ones serve the same database beside them."""
    key = asyncio.run(_partner(url))

    with Server(url, PYTHONPATH=before) as old:
        work_done(old, key, "old")
        if "postgresql" in url:
            with Server(url) as new:
                work_done(new, key, "new")
                work_done(old, key, "old_again")

    assert ousel("verify", database=url).exit_code == 0


def test_a_migration_under_a_running_server_disturbs_nobody(url: str, coming: str) -> None:
    """The old server stays ready and works; the new one starts beside it, or after it."""
    key = asyncio.run(_partner(url))
    with Server(url) as old:
        work_done(old, key, "before")
        migrated = of_version(coming, "migrate", "--json", url=url)
        assert migrated.returncode == 0, migrated.stderr
        assert NEXT_VERSION in migrated.stdout

        assert is_ready(old)
        work_done(old, key, "after")
        if "postgresql" in url:
            with Server(url, PYTHONPATH=coming) as new:
                work_done(new, key, "new")
                work_done(old, key, "beside")

    with Server(url) as old_again:  # should the new version disappoint
        assert is_ready(old_again)
        work_done(old_again, key, "back")
    assert ousel("verify", database=url).exit_code == 0


@pytest.mark.parametrize("engine", ["postgresql"])
def test_a_new_server_refuses_an_old_schema_and_names_the_command(coming: str, url: str) -> None:
    """On PostgreSQL nothing is migrated by itself, by a server or by a command."""
    for command in (("serve",), ("account", "list"), ("verify",)):
        refused = of_version(coming, *command, url=url)

        assert refused.returncode == 1
        assert refused.stderr == (
            f"ousel: the schema is at {SCHEMA_VERSION}, but {NEXT_VERSION} is needed: "
            "run 'ousel migrate'\n"
        )


@pytest.mark.parametrize("engine", ["sqlite"])
def test_an_sqlite_file_is_migrated_when_the_new_version_starts(coming: str, url: str) -> None:
    """One process serves the file, so there is nobody to wait for."""
    key = asyncio.run(_partner(url))
    with Server(url, PYTHONPATH=coming) as new:
        work_done(new, key, "new")

    assert asyncio.run(_version(url)) == NEXT_VERSION


def test_a_migration_goes_forward_alone(url: str) -> None:
    """An older version leaves a newer schema as it is, and says so in one line."""
    asyncio.run(_set_version(url, NEXT_VERSION))

    refused = ousel("migrate", database=url)

    assert refused.exit_code == 1
    assert NEXT_VERSION in refused.errors
    assert refused.errors.count("\n") == 1
    assert asyncio.run(_version(url)) == NEXT_VERSION


def test_no_migration_goes_back() -> None:
    """Migrations cannot be reverted by mistake."""
    versions = ROOT / "src" / "ousel" / "database" / "migrations" / "versions"
    for migration in versions.glob("[0-9]*.py"):
        text = migration.read_text()
        assert "def upgrade" in text
        assert "def downgrade" not in text
        assert not re.search(r"\bDROP (TABLE|COLUMN)|\bRENAME\b", text), migration.name


async def _version(url: str) -> str:
    async with RawSql(url) as raw_sql:
        return str((await raw_sql.run("SELECT version_num FROM alembic_version"))[0][0])


async def _set_version(url: str, version: str) -> None:
    async with RawSql(url) as raw_sql:
        await raw_sql.run("UPDATE alembic_version SET version_num = ?", version)


def test_a_server_answers_what_it_has_begun_before_it_ends(tmp_path: Path) -> None:
    """Asked to stop, it answers those who wait for a charge at once, and ends cleanly."""
    url = str(tmp_path / "ousel.db")
    with Server(url) as server:
        key = asyncio.run(_partner(url))
        status, took = asyncio.run(_waiting_while_stopped(server, key))
        log = server.stop()

    assert status == "created"
    assert took < 50
    assert "Traceback" not in log
    assert ousel("verify", database=url).exit_code == 0


async def _waiting_while_stopped(server: Server, key: str) -> tuple[str, float]:
    loop = asyncio.get_running_loop()
    async with server.client(key) as client:
        charge = (await client.post("/charges", json={"amount": 1})).json()
        waiting = asyncio.create_task(
            client.get(f"/charges/{charge['id']}", headers={"Prefer": "wait=60"})
        )
        await assert_none_ends(waiting, seconds=0.5)
        started = loop.time()
        server.process.terminate()
        answer = await waiting
        return answer.json()["status"], loop.time() - started
