"""A program that Ousel starts ends with the block that needs it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from ousel.kernel.programs import program

WAIT = [sys.executable, "-c", "import time; time.sleep(600)"]


class Stopped(Exception):
    """What a handler of SIGTERM raises."""


@pytest.fixture(autouse=True)
def _raising_handler() -> Iterator[None]:
    def stop(number: int, _: object) -> None:
        raise Stopped(number)

    before = signal.signal(signal.SIGTERM, stop)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_program_ends_with_the_block() -> None:
    """It has ended and was waited for, so that no process is left."""
    with program(WAIT, stdin=subprocess.PIPE) as process:
        assert process.poll() is None

    assert process.returncode == -signal.SIGKILL


def test_a_program_that_ended_by_itself_keeps_its_status() -> None:
    """Nothing is killed then."""
    with program([sys.executable, "-c", "raise SystemExit(3)"]) as process:
        process.wait()

    assert process.returncode == 3


def test_a_signal_while_a_program_is_started_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The program runs already, but nobody knows yet which process it is."""
    started = []

    class Interrupted(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self)
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    with pytest.raises(Stopped), program(WAIT):
        pytest.fail("the block began")

    [process] = started
    assert process.returncode == -signal.SIGKILL
