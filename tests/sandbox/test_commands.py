"""Commands beside a sandbox, and before it first runs: its clock, and its keys."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from ousel.database.addresses import open_database
from ousel.database.deployment import Mode, claim_mode
from tests.cli.commands import Operator, assert_fails, ousel
from tests.support.engines import Engine, Engines
from tests.support.ports import free_port
from tests.support.server import Server

TWO_DAYS_SECONDS = 172_800


class SandboxOperator(Operator):
    """Runs commands on the database of a sandbox, on which a partner has a key."""

    def __init__(self, server: Server) -> None:
        super().__init__(server)
        self.partner = self.open_account()
        app = self.run_json("app", "create", f"--owner=@{self.partner}", "--name=Shop")
        self.client_id, self.key = app["client_id"], app["key"]

    def run_json(self, *arguments: str) -> Any:
        """Run a command, and return the JSON that it prints."""
        return self.run(*arguments, "--json").json

    def advance_clock(self, seconds: int) -> datetime:
        """Move the sandbox's clock forward, and return its time."""
        answer = httpx2.post(
            f"{self.server.base_url}/sandbox/clock",
            headers={"Authorization": f"Bearer {self.key}"},
            json={"advance": seconds},
            verify=False,
        )
        return datetime.fromisoformat(answer.json()["now"])


@pytest.fixture
def sandbox(server: Server) -> SandboxOperator:
    """A partner of its own for each test."""
    return SandboxOperator(server)


@pytest.mark.slow
def test_a_key_rotated_by_a_command_has_its_overlap(sandbox: SandboxOperator) -> None:
    """The old key goes on for 24 hours of the sandbox's time, wherever that clock stands."""
    now = sandbox.advance_clock(TWO_DAYS_SECONDS)

    rotated = sandbox.run_json("key", "rotate", sandbox.key[:16])
    old, new = sandbox.run_json("key", "list", sandbox.client_id)

    assert sandbox.get("/me", sandbox.key).status_code == 200
    assert sandbox.get("/me", rotated["key"]).status_code == 200
    assert timedelta(hours=24) <= _moment(old, "ends_at") - now < timedelta(hours=24, minutes=1)
    assert _is_soon_after(now, _moment(new, "created_at"))


def test_commands_use_the_sandbox_s_clock(sandbox: SandboxOperator) -> None:
    """Accounts, money, apps and ended keys: nothing is older than what the server wrote before."""
    now = sandbox.advance_clock(TWO_DAYS_SECONDS)

    account = sandbox.run_json("account", "show", f"@{sandbox.open_account()}")
    sandbox.run_json("account", "fund", f"@{sandbox.partner}", "5")
    (funding,) = sandbox.get("/transfers", sandbox.key).json()["data"]
    issued = sandbox.run_json("key", "issue", sandbox.client_id)
    revoked = sandbox.run_json("key", "revoke", issued["handle"])

    for record, name in (
        *((account, "created_at"), (funding, "created_at")),
        *((issued, "created_at"), (revoked, "ends_at")),
    ):
        assert _is_soon_after(now, _moment(record, name)), (record, name)


@pytest.fixture
def unserved_url(engines: Engines, engine: Engine, tmp_path: Path) -> Iterator[str]:
    """A fresh database that no server has run on."""
    url = engines.fresh_url(engine, tmp_path)
    yield url
    engines.give_back(url)


def test_the_setting_makes_an_unused_database_a_sandbox(unserved_url: str) -> None:
    """Keys are test keys from the first on, and the database is a sandbox for good."""
    first = _app(unserved_url, OUSEL_SANDBOX="true")["key"]
    rotated = _key(unserved_url, "rotate", first[:16])

    assert (first[:8], rotated[:8]) == ("sk_test_", "sk_test_")
    served = ousel("serve", f"--port={free_port()}", database=unserved_url)
    assert_fails(served, "serve it with --sandbox")


@pytest.mark.slow
def test_the_setting_does_not_change_a_live_database(unserved_url: str) -> None:
    """It stays no sandbox, and commands refuse to write mail there that is never sent."""
    asyncio.run(_claimed(unserved_url, "live"))
    app = _app(unserved_url)
    first = app["key"]
    assert first[:8] == "sk_live_"

    serve = ("serve", f"--port={free_port()}")
    environment = {"OUSEL_SANDBOX": "true"}
    for outcome in (
        ousel(*serve, "--sandbox", database=unserved_url),
        ousel(*serve, database=unserved_url, environment=environment),
        ousel("key", "rotate", first[:16], database=unserved_url, environment=environment),
        ousel(
            "account", "recover", "@ada", "--yes", database=unserved_url, environment=environment
        ),
    ):
        assert_fails(outcome, "a sandbox needs its own database")
    lists = ("key", "list", app["client_id"])
    assert ousel(*lists, database=unserved_url, environment=environment).exit_code == 0


@pytest.mark.slow
def test_a_key_issued_before_a_sandbox_first_ran_is_valid_there(unserved_url: str) -> None:
    """Issued as a live one, it opens its own database; those that follow it are test keys."""
    app = _app(unserved_url)
    old = app["key"]
    with Server(unserved_url, "--sandbox") as server:
        rotated = _key(unserved_url, "rotate", old[:16])
        issued = _key(unserved_url, "issue", app["client_id"])
        told = {key: _me(server, key) for key in (old, rotated, issued)}
        ousel("key", "revoke", old[:16], database=unserved_url)
        after = _me(server, old)
        foreign = _me(server, "sk_live_" + "0" * 40)

    assert [key[:8] for key in told] == ["sk_live_", "sk_test_", "sk_test_"]
    assert [answer.status_code for answer in told.values()] == [200, 200, 200]
    assert (after.status_code, foreign.status_code) == (401, 401)
    assert after.json()["detail"] == foreign.json()["detail"]
    assert "New keys of this sandbox begin with sk_test_" in foreign.json()["detail"]


def _app(url: str, **environment: str) -> Any:
    """Open an account with an app, and return the app's record."""
    named = ("--username=ada", "--email=ada@example.com", "--name=Ada")
    assert ousel("account", "create", *named, database=url).exit_code == 0
    create = ("app", "create", "--owner=@ada", "--name=Shop", "--json")
    return ousel(*create, database=url, environment=environment).json


def _key(url: str, command: str, whose: str, **environment: str) -> str:
    """Issue or rotate a key, and return the new one."""
    outcome = ousel("key", command, whose, "--json", database=url, environment=environment)
    return str(outcome.json["key"])


def _me(server: Server, key: str) -> httpx2.Response:
    headers = {"Authorization": f"Bearer {key}"}
    return httpx2.get(f"{server.base_url}/me", headers=headers, verify=False)


async def _claimed(url: str, mode: Mode) -> None:
    async with open_database(url) as database:
        await database.write(lambda transaction: claim_mode(transaction, mode))


def _moment(record: Any, name: str) -> datetime:
    return datetime.fromisoformat(record[name])


def _is_soon_after(now: datetime, moment: datetime) -> bool:
    return now <= moment < now + timedelta(minutes=1)
