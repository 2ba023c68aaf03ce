"""Runs `ousel` commands: inside the test's own process, which is quick, or as an operator would."""

import io
import logging
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import httpx2
import msgspec
from typer.main import get_command

from ousel.cli.console import run_commands
from ousel.cli.main import commands
from tests.support.accounts import unique_name
from tests.support.server import Server

PROCESS_SECONDS_MAX = 300  # a busy machine is not a defect
OUSEL = Path(sys.executable).parent / "ousel"
COMMAND = get_command(commands)  # Typer would build it again for every run


class Outcome(msgspec.Struct, frozen=True):
    """How a command ended and what it wrote."""

    exit_code: int
    output: str
    errors: str

    @property
    def json(self) -> Any:
        """What the command printed, which is nothing but JSON."""
        assert self.exit_code == 0, self.errors
        assert self.errors == ""
        return msgspec.json.decode(self.output)

    @property
    def rows(self) -> dict[str, str]:
        """What the command printed for people: a name and a value on each line."""
        assert self.exit_code == 0, self.errors
        lines = [re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in self.output.splitlines()]
        return {line[0]: line[1] if len(line) > 1 else "" for line in lines}


def ousel(
    *arguments: str, database: str, stdin: bytes = b"", environment: Mapping[str, str] = os.environ
) -> Outcome:
    """Run a command on this database."""
    streams = [io.TextIOWrapper(io.BytesIO(octets), "utf-8") for octets in (stdin, b"", b"")]
    with (
        mock.patch.object(sys, "argv", ["ousel", *arguments]),
        mock.patch.object(logging, "basicConfig"),  # else a server would set up the test's own log
        mock.patch.object(sys, "stdin", streams[0]),
        mock.patch.object(sys, "stdout", streams[1]),
        mock.patch.object(sys, "stderr", streams[2]),
        mock.patch.dict(os.environ, {**environment, "OUSEL_DATABASE_URL": database}),
    ):
        exit_code = run_commands(COMMAND)
    for stream in streams:
        stream.flush()
        stream.seek(0)
    return Outcome(exit_code, streams[1].read(), streams[2].read())


def ousel_process(*arguments: str | bytes, database: str, stdin: bytes = b"") -> Outcome:
    """Run a command on this database in a process of its own."""
    done = subprocess.run(
        [str(OUSEL), *arguments],
        input=stdin,
        env=os.environ | {"OUSEL_DATABASE_URL": database},
        capture_output=True,
        timeout=PROCESS_SECONDS_MAX,
        check=False,
    )
    return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


class Operator:
    """Runs commands on the database of a running server, and calls that server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.url = server.database_url

    def run(self, *arguments: str, stdin: bytes = b"") -> Outcome:
        """Run a command on the server's database."""
        return ousel(*arguments, database=self.url, stdin=stdin)

    def open_account(self, funds: str | None = None) -> str:
        """Open an account, and return its unique username."""
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


def assert_fails(outcome: Outcome, says: str, exit_code: int = 1) -> None:
    """Make sure that a command failed with one clear line on standard error, and nothing else."""
    assert outcome.exit_code == exit_code, outcome
    assert outcome.output == ""
    assert outcome.errors.startswith("ousel: ")
    assert outcome.errors.count("\n") == 1, outcome.errors
    assert outcome.errors.endswith("\n")
    assert says in outcome.errors
