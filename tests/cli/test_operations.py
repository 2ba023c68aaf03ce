"""`ousel migrate`, `verify` and `serve`, as an operator runs them."""

import asyncio
import os
import re
import socket
import sqlite3
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest

from ousel.cli import serve
from ousel.database.schema import SCHEMA_VERSION
from tests.cli.commands import Operator, assert_fails, ousel
from tests.support.engines import ENGINES, Engine, Engines
from tests.support.ports import free_port
from tests.support.raw_sql import RawSql
from tests.support.server import Server


def test_the_version_is_that_of_the_installed_package(tmp_path: Path) -> None:
    """`ousel --version` prints it and touches no database."""
    outcome = ousel("--version", database=str(tmp_path / "absent.db"))

    assert (outcome.exit_code, outcome.output) == (0, f"ousel {version('ousel')}\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("engine", ENGINES)
def test_migrate_brings_an_empty_database_to_todays_schema(
    engines: Engines, engine: Engine, tmp_path: Path
) -> None:
    """Once or again, it ends at the same version, and an empty ledger balances."""
    url = engines.empty_url(engine, tmp_path)

    first = ousel("migrate", "--json", database=url).json
    again = ousel("migrate", database=url).rows
    verified = ousel("verify", "--json", database=url).json

    assert first == again == {"schema": SCHEMA_VERSION}
    assert verified["result"] == "the books balance"
    assert (verified["entries"], verified["transfers"], verified["issued"]) == (0, 0, 0)
    assert verified["accounts"] == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_root_migrates_for_the_owner_of_the_folder(tmp_path: Path) -> None:
    """A new file belongs to the server's user, and so does its log; an old file keeps its owner."""
    os.chown(tmp_path, 10_001, 10_002)
    file, log = tmp_path / "new.db", tmp_path / "new.db-wal"

    assert ousel("migrate", database=str(file)).exit_code == 0
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("SELECT * FROM entries")
        owners = [(each.stat().st_uid, each.stat().st_gid) for each in (file, log)]
    os.chown(file, 10_003, 10_004)
    assert ousel("migrate", database=str(file)).exit_code == 0

    assert owners == [(10_001, 10_002)] * 2
    assert (file.stat().st_uid, file.stat().st_gid) == (10_003, 10_004)


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_only_a_database_with_citus_is_distributed(
    engines: Engines, engine: Engine, tmp_path: Path
) -> None:
    """For any other, the command says why it is not distributed; its schema is migrated even so."""
    url = engines.empty_url(engine, tmp_path)

    refused = ousel("migrate", "--distribute", database=url)

    reason = "An SQLite database is one file" if engine == "sqlite" else "the Citus extension"
    assert_fails(refused, reason)
    assert ousel("verify", "--json", database=url).json["result"] == "the books balance"


def test_the_database_option_wins_over_the_environment(tmp_path: Path) -> None:
    """As a path or as an sqlite:/// address."""
    wanted, other = tmp_path / "wanted.db", tmp_path / "other.db"

    assert ousel("migrate", f"--database={wanted}", database=str(other)).exit_code == 0
    listed = ousel("account", "list", "--json", f"--database=sqlite:///{wanted}", database="x.db")

    assert [record["username"] for record in listed.json] == ["ousel"]
    assert not other.exists()


def test_verify_works_beside_a_running_server(operator: Operator) -> None:
    """It answers its figures, as JSON and for people, while the server goes on."""
    ada, grace = operator.open_account("10"), operator.open_account()
    key = operator.run("app", "create", f"--owner=@{ada}", "--name=Shop", "--json").json["key"]
    before = operator.run("verify", "--json").json
    assert operator.send(key, f"@{grace}", 2.5).status_code == 201

    after = operator.run("verify", "--json").json
    plain = operator.run("verify").rows

    figures = ["entries", "accounts", "transfers", "issued", "charges_paid", "leaves", "unsealed"]
    assert list(after) == ["result", *figures, "seconds"]
    assert after["transfers"] == before["transfers"] + 1
    assert after["entries"] == before["entries"] + 2
    assert after["issued"] == before["issued"]
    assert plain["result"] == "the books balance"
    assert plain["entries"] == str(after["entries"])
    assert float(plain["issued"]) == after["issued"]


@pytest.mark.parametrize("engine", ENGINES)
def test_verify_names_the_first_thing_wrong(
    engines: Engines, engine: Engine, tmp_path: Path
) -> None:
    """Books that somebody has meddled with: exit 1, and one line that says where."""
    url = engines.fresh_url(engine, tmp_path)
    ousel("account", "create", "--username=ada", "--email=a@b.example", "--name=A", database=url)
    ousel("account", "fund", "@ada", "5", database=url)
    assert ousel("verify", database=url).exit_code == 0

    asyncio.run(_meddled(url))

    assert_fails(ousel("verify", database=url), "has the balance 6000000, but")
    assert_fails(ousel("verify", "--json", database=url), "has the balance 6000000")


@pytest.mark.slow
def test_serve_refuses_an_old_schema_on_postgresql(engines: Engines, tmp_path: Path) -> None:
    """It changes nothing there by itself, and names the command that does."""
    url = engines.empty_url("postgresql", tmp_path)

    for command in (("serve",), ("account", "list")):
        refused = ousel(*command, database=url)
        assert_fails(refused, f"no schema, but {SCHEMA_VERSION} is needed: run 'ousel migrate'")


@pytest.mark.slow
def test_serve_prints_what_it_serves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As JSON where that is asked for; else to a terminal alone, for a log has no use for it."""
    monkeypatch.setattr(serve, "serve_until_stopped", lambda _, listener, __: listener.close())
    url, port = str(tmp_path / "ousel.db"), free_port()

    told = ousel("serve", "--sandbox", f"--port={port}", "--json", database=url).json
    untold = ousel("serve", "--sandbox", f"--port={port}", database=url)

    assert told == {
        "mode": "sandbox",
        "listening": f"http://127.0.0.1:{port}",
        "base_url": f"http://127.0.0.1:{port}/v1",
        "portal_url": f"http://127.0.0.1:{port}",
        "workers": 1,
    }
    assert (untold.exit_code, untold.output) == (0, "")


@pytest.mark.slow
def test_an_address_of_ipv6_is_printed_in_brackets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As every program reads it."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6) as free:
            port = free.getsockname()[1]
    except OSError:
        pytest.skip("this machine has no IPv6")
    monkeypatch.setattr(serve, "serve_until_stopped", lambda _, listener, __: listener.close())

    told = ousel(
        *("serve", "--host=::1", f"--port={port}", "--json"), database=str(tmp_path / "ousel.db")
    ).json

    assert told["listening"] == f"http://[::1]:{port}"


@pytest.mark.slow
def test_addresses_that_are_set_do_not_follow_the_port(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Behind a proxy the port that is served is nobody's address."""
    monkeypatch.setattr(serve, "serve_until_stopped", lambda _, listener, __: listener.close())
    monkeypatch.setenv("OUSEL_BASE_URL", "https://pay.example/v1")
    monkeypatch.setenv("OUSEL_PORTAL_URL", "https://pay.example")

    told = ousel(
        "serve", f"--port={free_port()}", "--json", database=str(tmp_path / "ousel.db")
    ).json

    assert told["base_url"] == "https://pay.example/v1"
    assert told["portal_url"] == "https://pay.example"


@pytest.mark.slow
def test_a_database_is_live_or_a_sandbox_from_its_first_server_on(tmp_path: Path) -> None:
    """Each then refuses to be the other, and keys are issued for what the database is.

    The server creates the SQLite file, and stops cleanly.
    """
    url = str(tmp_path / "sandbox.db")
    with Server(url, "--sandbox"):
        ousel(
            "account", "create", "--username=ada", "--email=a@b.example", "--name=A", database=url
        )
        app = ousel("app", "create", "--owner=@ada", "--name=Shop", "--json", database=url).json

    assert not Path(f"{url}-wal").exists()
    assert ousel("verify", database=url).exit_code == 0
    assert app["key"].startswith("sk_test_")
    served = ousel("serve", f"--port={free_port()}", database=url)
    assert_fails(served, "serve it with --sandbox")


def test_a_live_database_is_no_sandbox(operator: Operator) -> None:
    """Test keys never reach real money."""
    served = operator.run("serve", "--sandbox", f"--port={free_port()}")
    assert_fails(served, "a sandbox needs its own database")


def test_an_sqlite_file_is_served_by_one_process(tmp_path: Path) -> None:
    """More workers need PostgreSQL, and are told so before anything starts."""
    outcome = ousel("serve", "--workers=2", database=str(tmp_path / "ousel.db"))

    assert_fails(outcome, "use PostgreSQL for more workers")


def test_a_sandbox_needs_a_path_for_its_api(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an endpoint and a page would have the same address."""
    monkeypatch.setenv("OUSEL_BASE_URL", "https://sandbox.example")

    outcome = ousel("serve", "--sandbox", database=str(tmp_path / "ousel.db"))

    assert_fails(outcome, "a sandbox needs a path in OUSEL_BASE_URL")


def test_a_port_in_use_is_reported(tmp_path: Path) -> None:
    """One line, with the address that is taken and the option that chooses another."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = ousel("serve", f"--port={port}", database=str(tmp_path / "ousel.db"))

    assert_fails(outcome, f"cannot listen on 127.0.0.1, port {port}: the port is taken")
    assert outcome.errors.endswith("choose another with --port\n")


@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_a_server_that_cannot_start_does_not_claim_the_database(
    engines: Engines, engine: Engine, tmp_path: Path
) -> None:
    """A sandbox that found its port taken leaves the database free to be live."""
    url = engines.fresh_url(engine, tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert_fails(
            ousel("serve", "--sandbox", f"--port={port}", database=url), "the port is taken"
        )

    with Server(url):
        pass


def test_an_address_of_another_machine_is_reported(tmp_path: Path) -> None:
    """Another port would not help there, so none is asked for."""
    url, port = str(tmp_path / "ousel.db"), free_port()
    outcome = ousel("serve", "--host=192.0.2.1", f"--port={port}", database=url)

    assert_fails(outcome, f"cannot listen on 192.0.2.1, port {port}")
    assert "--port" not in outcome.errors


def test_an_empty_address_does_not_stand_for_all(tmp_path: Path) -> None:
    """A variable that is not set opens the service to nobody."""
    url = str(tmp_path / "ousel.db")

    for command in (("serve", "--host="), ("demo", "--host=")):
        assert_fails(ousel(*command, database=url), "no address to listen on")


async def _meddled(url: str) -> None:
    async with RawSql(url) as raw_sql:
        await raw_sql.run("UPDATE accounts SET balance = 6000000 WHERE username = 'ada'")


@pytest.mark.slow
@pytest.mark.one_engine
def test_a_server_warns_of_misspelt_settings(database_url: str) -> None:
    """Those that it would otherwise ignore in silence; a client's own variables are none."""
    variables = {"OUSEL_WITNESSES": "off", "OUSEL_WITNESES": "x", "OUSEL_KEY": "sk_test_1"}
    with Server(database_url, **variables) as server:
        log = server.stop()

    assert re.findall("OUSEL_[A-Z]+ has no effect: .* OUSEL_[A-Z]+ is", log) == [
        "OUSEL_WITNESES has no effect: it is no setting, but OUSEL_WITNESSES is"
    ]
