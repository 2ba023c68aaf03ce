"""Go, and programs in Go that others wrote, against which the tests compare Ousel."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.programs import program
from tests.support.run_locks import one_at_a_time

BUILD_SECONDS_MAX = 400.0
DOWNLOAD_SECONDS_MAX = 120.0
INSTALL_SECONDS_MAX = 250.0


def build(source: Path, target: Path, package: str = ".") -> Path:
    """Build a program from a module, and return its path; skip if the module cannot be loaded."""
    command = program("golang-go")
    try:
        downloaded = _go(command, source, DOWNLOAD_SECONDS_MAX, "mod", "download")
    except subprocess.TimeoutExpired:
        downloaded = None
    if downloaded is None or downloaded.returncode:
        pytest.skip("Go cannot download the modules of this test")
    with one_at_a_time("go-build"):  # the first compiles Go's own library for the others
        built = _go(command, source, BUILD_SECONDS_MAX, "build", "-o", str(target), package)
    assert built.returncode == 0, built.stderr
    return target


def install(package: str, folder: Path) -> Path:
    """Install the newest version of a program; skip the test if that is not possible."""
    try:
        done = subprocess.run(
            [program("golang-go"), "install", f"{package}@latest"],
            env=os.environ | {"GOBIN": str(folder), "GOFLAGS": ""},
            capture_output=True,
            timeout=INSTALL_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        done = None
    if done is None or done.returncode:
        pytest.skip(f"Go cannot install {package} from its module proxy")
    return folder / package.rpartition("/")[2]


def _go(
    command: str, folder: Path, seconds: float, *arguments: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [command, *arguments],
        cwd=folder,
        env=os.environ | {"GOFLAGS": "-mod=readonly -buildvcs=false"},
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
