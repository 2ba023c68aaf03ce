"""Go, and programs in Go that others wrote, against which the tests compare Ousel."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.programs import program

BUILD_SECONDS_MAX = 550.0
DOWNLOAD_SECONDS_MAX = 120.0


def build(source: Path, target: Path, package: str = ".") -> Path:
    """Build a program from a module, and return its path; skip if the module cannot be loaded."""
    command = program("golang-go")
    if _go(command, source, DOWNLOAD_SECONDS_MAX, "mod", "download").returncode:
        pytest.skip("Go cannot download the modules of this test")
    built = _go(command, source, BUILD_SECONDS_MAX, "build", "-o", str(target), package)
    assert built.returncode == 0, built.stderr
    return target


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
