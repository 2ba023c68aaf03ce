"""What the tests of commands share: a database on which a server runs at the same time."""

import httpx2
import pytest

from tests.cli.commands import Outcome, ousel
from tests.support.accounts import unique_name
from tests.support.server import Server


class Operator:
    """Runs commands on the database of a running server, and calls that server."""

    def __init__(self, server: Server, url: str) -> None:
        self.server = server
        self.url = url

    def run(self, *arguments: str, stdin: bytes = b"") -> Outcome:
        """Run a command on the server's database."""
        return ousel(*arguments, database=self.url, stdin=stdin)

    def opened(self, funds: str | None = None) -> str:
        """Open an account with a name of its own, and return that."""
        username = unique_name()
        email = f"{username}@example.com"
        self.run(*("account", "create", "--username", username, "--email", email, "--name", "Ada"))
        if funds is not None:
            assert self.run("account", "fund", f"@{username}", funds).exit_code == 0
        return username

    def get(self, path: str, key: str) -> httpx2.Response:
        """Get a path of the interface with this key."""
        headers = {"Authorization": f"Bearer {key}"}
        return httpx2.get(f"{self.server.base_url}{path}", headers=headers, verify=False)

    def send(self, key: str, to: str, amount: float) -> httpx2.Response:
        """Post a transfer with this key."""
        return httpx2.post(
            f"{self.server.base_url}/transfers",
            headers={"Authorization": f"Bearer {key}"},
            json={"to": to, "amount": amount},
            verify=False,
        )


@pytest.fixture
def operator(shared_server: Server) -> Operator:
    """An operator at work while the server runs."""
    return Operator(shared_server, shared_server.database_url)
