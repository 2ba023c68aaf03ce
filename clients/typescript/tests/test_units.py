"""What the client does without a server, and that its classes of errors are complete."""

import subprocess
from pathlib import Path

import pytest

from clients.typescript.tests import refusals
from tests.support.node import NODE


@pytest.mark.slow
def test_the_client_alone() -> None:
    """The tests that need no server pass: amounts, retries, waiting, answers, connecting."""
    tests = sorted((Path(__file__).parent / "unit").glob("*.test.mjs"))
    count = sum(path.read_text().count("\ntest(") for path in tests)
    options = ("--test", "--test-isolation=none", "--test-reporter=spec")
    done = subprocess.run(
        [NODE, *options, *tests], check=False, capture_output=True, text=True, timeout=300
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"pass {count}\n" in done.stdout


@pytest.mark.slow
def test_the_time_limit_survives_the_garbage_collector() -> None:
    """If the limit were collected while a request runs, the request could hang."""
    options = ("--expose-gc", "--always-turbofan")
    program = Path(__file__).parent / "programs" / "limit.mjs"
    done = subprocess.run(
        [NODE, *options, program], check=False, capture_output=True, text=True, timeout=300
    )

    assert (done.stdout, done.stderr) == ("true\n", "")


def test_each_error_code_has_the_class_that_python_has() -> None:
    """The file of refusals has the classes that its generator writes today, in any order."""
    written = set(refusals.PATH.read_text().strip().split("\n\n"))
    expected = set(refusals.render().strip().split("\n\n"))

    assert written == expected, f"run python -m {refusals.__name__}"
