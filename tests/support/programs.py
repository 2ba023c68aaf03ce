"""Programs and libraries that tests need: found, installed with apt by root, or else skipped."""

import ctypes
import fcntl
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import pytest

# By the package that has them: programs, of which one will do, and libraries.
PROGRAMS = {
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "curl": ("curl",),
    "faketime": ("faketime",),
}
LIBRARIES = {"libatomic1": "libatomic.so.1"}  # the Node.js of Playwright is linked to it

LOCK = Path(tempfile.gettempdir()) / "ousel-tests-apt.lock"  # for all clones on this machine


def program(package: str) -> str:
    """Return the path of a package's program; skip the test if it is not available."""
    found = _found(package) or _found_once_installed(package)
    if found is None:
        pytest.skip(f"{package} is not installed")
    return found


def check_library(package: str) -> None:
    """Skip the test if a package's library is missing and cannot be installed."""
    if not (_found(package) or _found_once_installed(package)):
        pytest.skip(f"{package} is not installed")


def missing_programs() -> list[str]:
    """Return a line that names what is missing and cannot be installed, or no line."""
    missing = [package for package in (*PROGRAMS, *LIBRARIES) if not _found(package)]
    if not missing or _may_install():
        return []
    names = " ".join(missing)
    return [f"tests that need these are skipped: {names}; run 'sudo apt-get install {names}'"]


def _found(package: str) -> str | None:
    """Return the path of the package's program or the name of its library, or None."""
    if package in PROGRAMS:
        return next(filter(None, map(shutil.which, PROGRAMS[package])), None)
    try:
        ctypes.CDLL(LIBRARIES[package])
    except OSError:
        return None
    return LIBRARIES[package]


def _may_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


@cache
def _found_once_installed(package: str) -> str | None:
    """Install a package if allowed; only one process installs at a time."""
    if not _may_install():
        return None
    with LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in (["update"], ["install", "-y", package]):
            if _found(package) is None:
                subprocess.run(
                    ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=300", *command],
                    env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
                    check=False,
                    capture_output=True,
                )
    return _found(package)
