"""What the machine lacks is said at the start of a run, and no test fails for it."""

import inspect
import os
from pathlib import Path

import pytest

from tests.support import programs


@pytest.fixture
def failing_apt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing installed, whose apt-get fails and notes what it was asked for."""
    asked = tmp_path / "asked"
    apt = tmp_path / "apt-get"
    apt.write_text(f'#!/bin/sh\necho "$@" >>{asked}\nexit 100\n')
    apt.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    # What fails here must not be remembered for other tests.
    monkeypatch.setattr(programs, "_install", inspect.unwrap(programs._install))  # noqa: SLF001
    monkeypatch.setattr(
        programs,
        "NEEDED",
        {package: (lambda: None, tests) for package, (_, tests) in programs.NEEDED.items()},
    )
    return asked


@pytest.mark.parametrize("user", [0, 1000])
def test_one_line_names_what_is_missing(
    failing_apt: Path, monkeypatch: pytest.MonkeyPatch, user: int
) -> None:
    """Root tries to install it first, and an ordinary user does not."""
    monkeypatch.setattr(os, "geteuid", lambda: user)

    [line] = programs.report_missing_programs(install=True)

    assert line.startswith("skipped: tests of the browser, the commands in documents, ")
    assert "apt-get install chromium-headless-shell libatomic1 curl" in line
    assert failing_apt.exists() == (user == 0)
    with pytest.raises(pytest.skip.Exception, match="curl is not installed"):
        programs.program("curl")


def test_quick_tests_install_nothing(failing_apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What root would install for slow tests is not missing for quick ones."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    [line] = programs.report_missing_programs(install=False)

    assert "chromium" not in line
    assert not failing_apt.exists()
