"""The log is written to standard error, but a reader that stalls stops nobody."""

import fcntl
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ousel.observation import log_output
from ousel.observation.log_output import LogOutput

LINE = b"x" * 999 + b"\n"
PIPE_BYTES = 65_536


@contextmanager
def piped_output(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[LogOutput, int]]:
    """Yield an output into a pipe, and the end of the pipe that is read."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb") as pipe:
        monkeypatch.setattr(sys, "stderr", pipe)
        yield LogOutput(), reading


def read_all(reading: int) -> bytes:
    """Return what the pipe holds."""
    return os.read(reading, 1 << 20)


def test_lines_that_a_stalled_reader_does_not_take_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When it reads again, it learns how many there were, and gets what follows."""
    with piped_output(monkeypatch) as (output, reading):
        for _ in range(1_000):
            output.write(LINE)
        taken = read_all(reading)
        output.write(LINE)
        notice, _, rest = read_all(reading).partition(b"\n")

    assert taken == LINE * (len(taken) // len(LINE))
    told = json.loads(notice)
    assert told.pop("timestamp").endswith("Z")
    assert told == {
        "event": "lines of the log were dropped",
        "level": "warning",
        "count": 1_000 - len(taken) // len(LINE),
    }
    assert rest == LINE


@pytest.mark.parametrize("may_open_again", [True, False])
def test_a_long_line_that_is_torn_spoils_no_other(
    monkeypatch: pytest.MonkeyPatch, *, may_open_again: bool
) -> None:
    """The next line begins on its own, whatever was written of the long one.

    A pipe that belongs to another user cannot be opened again.
    """
    if not may_open_again:
        monkeypatch.setattr(log_output, "_open_again", lambda pipe: pipe)
    with piped_output(monkeypatch) as (output, reading):
        output.write(b"y" * 2 * PIPE_BYTES + b"\n")
        torn = read_all(reading)
        output.write(LINE)
        empty, notice, line, end = read_all(reading).split(b"\n")

    assert torn == b"y" * len(torn)
    assert json.loads(notice)["count"] == 1
    assert (empty, line, end) == (b"", LINE.strip(), b"")


def test_lines_that_a_full_disk_does_not_take_are_counted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """When there is room again, the log says how many are missing."""
    with (tmp_path / "log").open("wb") as file, Path("/dev/full").open("wb") as full:
        monkeypatch.setattr(sys, "stderr", full)
        output = LogOutput()
        output.write(LINE)
        output.write(LINE)
        os.dup2(file.fileno(), full.fileno())
        output.write(LINE)

    notice, line, end = (tmp_path / "log").read_bytes().split(b"\n")
    assert json.loads(notice)["count"] == 2
    assert (line, end) == (LINE.strip(), b"")


def test_a_long_line_is_written_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """To a file, and to a pipe that has room for it."""
    line = b"z" * (PIPE_BYTES // 2) + b"\n"
    with piped_output(monkeypatch) as (output, reading):
        output.write(line)
        assert read_all(reading) == line
    with (tmp_path / "log").open("wb") as file:
        monkeypatch.setattr(sys, "stderr", file)
        LogOutput().write(line)
    assert (tmp_path / "log").read_bytes() == line
