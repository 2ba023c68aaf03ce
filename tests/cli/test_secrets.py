"""`ousel secret`, and servers that start only with the key that encrypts second factors."""

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest

from ousel.database.addresses import is_postgres
from ousel.people.rules import CODE_STEP_SECONDS
from tests.cli.commands import assert_fails, ousel, ousel_process
from tests.support.portal import Portal, open_portal
from tests.support.raw_sql import RawSql
from tests.support.server import Server
from tests.support.visitor import Visitor


def run(*arguments: str, database: str, file: Path) -> dict[str, str]:
    """Run a command with this secret file, and return what it prints."""
    environment = os.environ | {"OUSEL_SECRET_FILE": str(file)}
    return ousel(*arguments, database=database, environment=environment).rows


def mark_as_encrypted(url: str) -> None:
    """Record a key, as if secrets had been encrypted with it."""

    async def mark() -> None:
        async with RawSql(url) as raw_sql:
            await raw_sql.run(
                "INSERT INTO deployment (name, value) VALUES ('secret_key', '0123456789ab')"
            )

    asyncio.run(mark())


def store_unreadable_secret(url: str) -> None:
    """Store a secret that was encrypted with a key that is lost."""

    async def store() -> None:
        async with RawSql(url) as raw_sql:
            await raw_sql.run(
                "INSERT INTO second_factors (account_id, secret, last_step)"
                " SELECT id, '0123456789ab.', 0 FROM accounts"
            )

    asyncio.run(store())


def test_a_file_is_created_once(database_url: str, tmp_path: Path) -> None:
    """For its owner alone; it needs no database."""
    file = tmp_path / "secret"
    assert run("secret", "create", database=database_url, file=file) == {"file": str(file)}
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    before = file.read_bytes()

    environment = os.environ | {"OUSEL_SECRET_FILE": str(file)}
    again = ousel("secret", "create", database=database_url, environment=environment)
    assert again.exit_code == 1
    assert "exists already" in again.errors
    assert file.read_bytes() == before


def test_postgresql_needs_the_setting(postgres_url: str) -> None:
    """One line names it."""
    for command in ("create", "rotate"):
        refused = ousel("secret", command, database=postgres_url)
        assert refused.exit_code == 1
        assert refused.errors.startswith("ousel: OUSEL_SECRET_FILE must be set")
        assert refused.errors.count("\n") == 1


def test_a_file_that_cannot_be_written_is_named(database_url: str, tmp_path: Path) -> None:
    """It is not taken for a database that cannot be reached."""
    run("secret", "create", database=database_url, file=tmp_path / "secret")
    # A temporary file beside this one would have a name of more than 255 characters.
    file = (tmp_path / "secret").rename(tmp_path / ("s" * 250))
    before = file.read_bytes()
    environment = os.environ | {"OUSEL_SECRET_FILE": str(file)}
    refused = ousel("secret", "rotate", database=database_url, environment=environment)
    assert_fails(refused, f"{file} cannot be written")
    assert file.read_bytes() == before


@pytest.mark.one_engine
def test_a_file_that_cannot_be_created_is_named(database_url: str, tmp_path: Path) -> None:
    """Not the temporary file beside it, which the operator does not know."""
    file = tmp_path / "no" / "secret"
    environment = os.environ | {"OUSEL_SECRET_FILE": str(file)}
    refused = ousel("secret", "create", database=database_url, environment=environment)
    assert_fails(refused, f"{file} cannot be written: No such file or directory")


@pytest.mark.one_engine
@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_root_rotates_for_the_owner_of_the_file(database_url: str, tmp_path: Path) -> None:
    """The server usually runs as another user, who must be able to read the new key."""
    file = tmp_path / "secret"
    run("secret", "create", database=database_url, file=file)
    os.chown(file, 10_001, 10_002)
    run("secret", "rotate", database=database_url, file=file)
    assert (file.stat().st_uid, file.stat().st_gid) == (10_001, 10_002)


def test_a_key_is_rotated_in_one_step_or_two(database_url: str, tmp_path: Path) -> None:
    """A key that was prepared is the one that the rotation uses."""
    file = tmp_path / "secret"
    run("secret", "create", database=database_url, file=file)
    first = run("secret", "rotate", database=database_url, file=file)
    prepared = run("secret", "rotate", "--prepare", database=database_url, file=file)
    assert prepared == run("secret", "rotate", "--prepare", database=database_url, file=file)
    second = run("secret", "rotate", database=database_url, file=file)

    assert first["key"] != second["key"] == prepared["added"]
    assert second == {"key": prepared["added"], "encrypted": "0", "unreadable": "0"}


def test_a_server_does_not_start_without_the_key(database_url: str, tmp_path: Path) -> None:
    """Nor does a rotation, unless the operator says that the key is lost."""
    mark_as_encrypted(database_url)
    file = tmp_path / "secret"
    started = ousel("serve", database=database_url)
    assert started.exit_code == 1
    assert "encrypted with the key 0123456789ab" in started.errors
    assert started.errors.count("\n") == 1

    run("secret", "create", database=database_url, file=file)
    set_file = os.environ | {"OUSEL_SECRET_FILE": str(file)}
    for command in (("serve",), ("secret", "rotate")):
        refused = ousel(*command, database=database_url, environment=set_file)
        assert refused.exit_code == 1
        assert f"which is not in {file}" in refused.errors
    assert run("secret", "rotate", "--lost", database=database_url, file=file)["encrypted"] == "0"


def test_a_server_does_not_start_with_a_file_that_does_not_exist(
    database_url: str, tmp_path: Path
) -> None:
    """A mistyped path is noticed before somebody turns on a factor."""
    environment = os.environ | {"OUSEL_SECRET_FILE": str(tmp_path / "nothing")}
    refused = ousel("serve", database=database_url, environment=environment)
    assert refused.exit_code == 1
    assert "which does not exist: create it with 'ousel secret create'" in refused.errors


@pytest.mark.slow
@pytest.mark.one_engine
def test_an_unreadable_secret_is_logged_only_by_servers(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command only counts it; a server that starts logs it, in JSON like everything else."""
    file = tmp_path / "secret"
    monkeypatch.setenv("OUSEL_SECRET_FILE", str(file))
    ousel_process("secret", "create", database=database_url)
    store_unreadable_secret(database_url)

    rotated = ousel_process("secret", "rotate", "--lost", "--json", database=database_url)
    with Server(database_url, OUSEL_SECRET_FILE=str(file)) as server:
        log = server.stop()

    assert rotated.json["unreadable"] == 1
    lines = [json.loads(line) for line in log.splitlines()]
    [line] = (each for each in lines if "unreadable" in each["event"])
    assert line["key_id"] == "0123456789ab"


@pytest.mark.slow
async def test_codes_work_while_the_key_is_rotated(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after each rotation, on a server that was started before it."""
    file = tmp_path / "secret" if is_postgres(database_url) else None
    if file is not None:
        monkeypatch.setenv("OUSEL_SECRET_FILE", str(file))
        assert ousel("secret", "create", database=database_url).exit_code == 0
    async with open_portal(database_url, secret_file=file) as portal:
        ada = await portal.person("ada")
        secret, _ = await portal.turn_on_factor(ada)
        for _ in range(2):
            await sign_in(portal, portal.visitor(), secret)
            rotated = await asyncio.to_thread(
                ousel_process, "secret", "rotate", "--json", database=database_url
            )
            assert rotated.json["encrypted"] == 1
        await sign_in(portal, portal.visitor(), secret)


async def sign_in(portal: Portal, visitor: Visitor, secret: str) -> None:
    """Sign in with the password and a code."""
    asked = await visitor.sign_in("ada")
    fields = {"code": portal.code(secret)}
    entered = await visitor.press(asked.headers["location"], "Continue", **fields)
    assert entered.headers["location"] == "/activity"
    portal.clock.advance(seconds=CODE_STEP_SECONDS)
