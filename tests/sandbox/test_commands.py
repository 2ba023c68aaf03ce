"""Commands beside a sandbox: they go by its clock."""

from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest

from tests.cli.commands import ousel
from tests.support.edge import unique
from tests.support.servers import Server

TWO_DAYS_SECONDS = 172_800


class Sandbox:
    """A sandbox, its operator, and a partner with a key."""

    def __init__(self, server: Server, url: str) -> None:
        self._server = server
        self._url = url
        self.partner = self.opened()["username"]
        app = self.run("app", "create", f"--owner=@{self.partner}", "--name=Shop")
        self.client_id, self.key = app["client_id"], app["key"]

    def run(self, *arguments: str) -> Any:
        """Run a command on the sandbox's database."""
        return ousel(*arguments, "--json", database=self._url).json

    def opened(self) -> Any:
        """Open an account, and return its record."""
        name = unique()
        create = ("account", "create", f"--username={name}", f"--email={name}@example.com")
        return self.run(*create, "--name=Ada")

    def get(self, path: str, key: str) -> httpx2.Response:
        """Get a path of the interface with this key."""
        headers = {"Authorization": f"Bearer {key}"}
        return httpx2.get(f"{self._server.base_url}{path}", headers=headers, verify=False)

    def advanced(self, seconds: int) -> datetime:
        """Move the clock on, and return what it shows."""
        answer = httpx2.post(
            f"{self._server.base_url}/sandbox/clock",
            headers={"Authorization": f"Bearer {self.key}"},
            json={"advance": seconds},
            verify=False,
        )
        return datetime.fromisoformat(answer.json()["now"])


@pytest.fixture
def sandbox(server: Server, database_url: str) -> Sandbox:
    """A partner of its own for each test."""
    return Sandbox(server, database_url)


def test_a_key_rotated_by_a_command_has_its_overlap(sandbox: Sandbox) -> None:
    """The old key goes on for 24 hours of the sandbox's time, wherever that clock stands."""
    now = sandbox.advanced(TWO_DAYS_SECONDS)

    rotated = sandbox.run("key", "rotate", sandbox.key[:16])
    old, new = sandbox.run("key", "list", sandbox.client_id)

    assert sandbox.get("/me", sandbox.key).status_code == 200
    assert sandbox.get("/me", rotated["key"]).status_code == 200
    assert timedelta(hours=24) <= _moment(old, "ends_at") - now < timedelta(hours=24, minutes=1)
    assert _is_soon_after(now, _moment(new, "created_at"))


def test_whatever_commands_write_is_dated_by_the_sandbox(sandbox: Sandbox) -> None:
    """Accounts, money, apps and ended keys: nothing is older than what the server wrote before."""
    now = sandbox.advanced(TWO_DAYS_SECONDS)

    account = sandbox.opened()
    sandbox.run("account", "fund", f"@{sandbox.partner}", "5")
    (funding,) = sandbox.get("/transfers", sandbox.key).json()["data"]
    issued = sandbox.run("key", "issue", sandbox.client_id)
    revoked = sandbox.run("key", "revoke", issued["handle"])

    for record, name in (
        *((account, "created_at"), (funding, "created_at")),
        *((issued, "created_at"), (revoked, "ends_at")),
    ):
        assert _is_soon_after(now, _moment(record, name)), (record, name)


def _moment(record: Any, name: str) -> datetime:
    return datetime.fromisoformat(record[name])


def _is_soon_after(now: datetime, moment: datetime) -> bool:
    return now <= moment < now + timedelta(minutes=1)
