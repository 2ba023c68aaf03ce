"""What every run of the tests does at its start and at its end."""

import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from ousel.cli.proxies import bypass_proxies_on_this_machine
from tests.support.citus_cluster import ABSENT, is_citus_installed
from tests.support.programs import report_missing_programs, start_installing
from tests.support.run_folder import RunFolder
from tests.support.run_locks import first_in_run

RUN_FOLDER = pytest.StashKey[RunFolder]()
INSTALLING = pytest.StashKey[subprocess.Popen[bytes] | None]()


def pytest_configure(config: pytest.Config) -> None:
    """Create a temporary folder that all workers of the run share, and bypass proxies."""
    bypass_proxies_on_this_machine()
    if not hasattr(config, "workerinput"):
        config.stash[RUN_FOLDER] = RunFolder()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import files without slow tests if only slow tests run."""
    if config.getoption("markexpr") != "slow" or not collection_path.match("test_*.py"):
        return None
    return "pytest.mark.slow" not in collection_path.read_text() or None


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Begin to install what slow tests need, and say which tests are skipped without a program."""
    lines = report_missing_programs()
    if config.getoption("markexpr") == "not slow":
        return lines
    config.stash[INSTALLING] = start_installing()
    if not is_citus_installed():
        lines.append(f"skipped: tests on Citus, because {ABSENT}")
    return lines


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Let one worker compile the tests; the others wait, and then read the kept bytecode."""
    if hasattr(session.config, "workerinput") and not sys.dont_write_bytecode:
        with first_in_run("collection") as is_first:
            if is_first:
                return (yield)
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Fail if tests have left processes behind. The run's guard stops them in any case."""
    yield
    if installing := session.config.stash.get(INSTALLING, None):
        installing.wait()
    folder = session.config.stash.get(RUN_FOLDER, None)
    if folder and session.exitstatus == pytest.ExitCode.OK and (left := folder.processes_left()):
        print("\nleft behind:", *left, sep="\n")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
