"""Runs `ousel` commands: inside the test's own process, which is quick, or as an operator would."""

import io
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec

from ousel.cli.console import run_commands
from ousel.cli.main import commands

PROCESS_SECONDS_MAX = 60
OUSEL = Path(sys.executable).parent / "ousel"


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
        mock.patch.object(sys, "stdin", streams[0]),
        mock.patch.object(sys, "stdout", streams[1]),
        mock.patch.object(sys, "stderr", streams[2]),
        mock.patch.dict(os.environ, {**environment, "OUSEL_DATABASE_URL": database}),
    ):
        exit_code = run_commands(commands)
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


def assert_fails(outcome: Outcome, says: str, exit_code: int = 1) -> None:
    """Make sure that a command failed with one clear line on standard error, and nothing else."""
    assert outcome.exit_code == exit_code, outcome
    assert outcome.output == ""
    assert outcome.errors.startswith("ousel: ")
    assert outcome.errors.count("\n") == 1, outcome.errors
    assert outcome.errors.endswith("\n")
    assert says in outcome.errors
