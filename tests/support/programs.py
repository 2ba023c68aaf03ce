"""Finds the programs and libraries that tests need.

If the tests run as root, they install some with apt. Tests whose program is missing are skipped.
Run as a program, this module installs them, while the first tests run already.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.support.run_locks import first_in_run

ROOT = Path(__file__).parents[2]
INSTALL_SECONDS_MAX = 500.0  # in all


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
    "golang-go": (_program("go"), "checks by programs in Go"),
    "iproute2": (_program("ip"), "a cluster whose network is cut"),
}
OTHER_NAMES = {"chromium-headless-shell": ("chromium",)}  # not every release has the first
INSTALLED_BY_ROOT = ("chromium-headless-shell", "libatomic1", "curl", "faketime")
FONTS = ("fonts-dejavu-core", "fonts-liberation")  # the widths of pages depend on them


def program(package: str) -> str:
    """Return the path of a package's program or file; skip the test if it is not available."""
    if package in INSTALLED_BY_ROOT:
        install_missing()
    found = _find(package)
    if found is None:
        pytest.skip(f"{package} is not installed")
    return found


def report_missing_programs() -> list[str]:
    """Return a line that says which tests are skipped and which packages they need, or no line."""
    installable = INSTALLED_BY_ROOT if _may_install() else ()
    missing = [package for package in _missing(NEEDED) if package not in installable]
    if not missing:
        return []
    tests = ", ".join(dict.fromkeys(NEEDED[package][1] for package in missing))
    return [f"skipped: tests of {tests}; to run them: apt-get install {' '.join(missing)}"]


def start_installing() -> subprocess.Popen[bytes] | None:
    """Start to install what is missing, if root runs the tests; return the process that does."""
    if not _may_install() or not _missing(INSTALLED_BY_ROOT):
        return None
    return subprocess.Popen(
        [sys.executable, "-m", __name__],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def install_missing() -> None:
    """If root runs the tests, try to install what is missing, once in this run; others wait."""
    if not _may_install():
        return
    with first_in_run("apt") as is_first:
        if is_first and (missing := _missing(INSTALLED_BY_ROOT)):
            _install(missing)


def _find(package: str) -> str | None:
    """Return the path of the package's program or file or the name of its library, or None."""
    return NEEDED[package][0]()


def _missing(packages: Iterable[str]) -> list[str]:
    return [package for package in packages if _find(package) is None]


def _may_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def _install(packages: list[str]) -> None:
    """Install all at once, or each alone if one of the names is unknown to this release."""
    ends_at = time.monotonic() + INSTALL_SECONDS_MAX
    _run_apt(ends_at, "update")
    install = ("install", "-y", "--no-install-recommends")
    if _run_apt(ends_at, *install, *packages, *FONTS):
        return
    for package in packages:
        for name in (package, *OTHER_NAMES.get(package, ())):
            if _find(package) is None:
                _run_apt(ends_at, *install, name, *FONTS)


def _run_apt(ends_at: float, *command: str) -> bool:
    """Run apt-get until this time at most, and return whether it succeeded."""
    options = ("-qq", "-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::http::Timeout=20")
    try:
        done = subprocess.run(
            ["apt-get", *options, *command],
            env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
            check=False,
            capture_output=True,
            timeout=max(ends_at - time.monotonic(), 0),
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


if __name__ == "__main__":
    install_missing()
