"""Upgrades: two versions on one database behave as docs/operating/upgrade.md says."""

import asyncio
import os
import re
import shutil
import subprocess

import httpx2
import pytest

from ousel.database.addresses import open_database
from ousel.database.schema import SCHEMA_VERSION
from tests.cli.commands import OUSEL, PROCESS_SECONDS_MAX, ousel
from tests.packaging.history import ROOT, checked_out, code_before_the_last_migration
from tests.support.accounts import partner, person
from tests.support.raw_sql import RawSql
from tests.support.server import Server

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


def test_the_code_before_the_last_migration_serves_todays_schema(
    before: str, database_url: str
) -> None:
    """Old servers go on after the migration, and new ones serve the same database beside them."""
    key = asyncio.run(_partner(database_url))

    with Server(database_url, PYTHONPATH=before) as old:
        work_done(old, key, "old")
        if "postgresql" in database_url:
            with Server(database_url) as new:
                work_done(new, key, "new")
                work_done(old, key, "old_again")

    assert ousel("verify", database=database_url).exit_code == 0


def test_a_migration_under_a_running_server_disturbs_nobody(database_url: str, coming: str) -> None:
    """The old server stays ready and works; the new one starts beside it, or after it."""
    key = asyncio.run(_partner(database_url))
    with Server(database_url) as old:
        work_done(old, key, "before")
        migrated = of_version(coming, "migrate", "--json", url=database_url)
        assert migrated.returncode == 0, migrated.stderr
        assert NEXT_VERSION in migrated.stdout

        assert is_ready(old)
        work_done(old, key, "after")
        if "postgresql" in database_url:
            with Server(database_url, PYTHONPATH=coming) as new:
                work_done(new, key, "new")
                work_done(old, key, "beside")

    with Server(database_url) as old_again:  # should the new version disappoint
        assert is_ready(old_again)
        work_done(old_again, key, "back")
    assert ousel("verify", database=database_url).exit_code == 0


@pytest.mark.parametrize("engine", ["sqlite"])
def test_an_sqlite_file_is_migrated_when_the_new_version_starts(
    coming: str, database_url: str
) -> None:
    """One process serves the file, so there is nobody to wait for."""
    key = asyncio.run(_partner(database_url))
    with Server(database_url, PYTHONPATH=coming) as new:
        work_done(new, key, "new")

    assert asyncio.run(_version(database_url)) == NEXT_VERSION


def test_no_migration_goes_back() -> None:
    """Migrations cannot be reverted by mistake."""
    versions = ROOT / "src" / "ousel" / "database" / "migrations" / "versions"
    migrations = list(versions.glob("[0-9]*.py"))
    assert len(migrations) == int(SCHEMA_VERSION)
    for migration in migrations:
        text = migration.read_text()
        assert "def upgrade" in text
        assert "def downgrade" not in text
        assert not re.search(r"\bDROP (TABLE|COLUMN)|\bRENAME\b", text), migration.name


async def _version(url: str) -> str:
    async with RawSql(url) as raw_sql:
        return str((await raw_sql.run("SELECT version_num FROM alembic_version"))[0][0])
