"""What the machine lacks is said at the start of a run, and no test fails for it."""

import os
import tempfile
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
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(
        programs,
        "NEEDED",
        {package: (lambda: None, tests) for package, (_, tests) in programs.NEEDED.items()},
    )
    return asked


def test_one_line_names_what_is_missing(failing_apt: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An ordinary user installs nothing."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    [line] = programs.report_missing_programs()

    assert line.startswith("skipped: tests of the browser, the commands in documents, ")
    assert "apt-get install chromium-headless-shell libatomic1 curl" in line
    assert programs.start_installing() is None
    with pytest.raises(pytest.skip.Exception, match="curl is not installed"):
        programs.program("curl")
    assert not failing_apt.exists()


def test_root_tries_once_to_install_the_rest(
    failing_apt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All packages at once; then each alone, in case that one of the names is unknown."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    [line] = programs.report_missing_programs()
    assert "chromium" not in line
    assert "faketime" not in line
    assert not failing_apt.exists()
    for package in programs.INSTALLED_BY_ROOT:
        with pytest.raises(pytest.skip.Exception, match=f"{package} is not installed"):
            programs.program(package)

    asked = failing_apt.read_text().splitlines()
    assert asked[0].endswith(" update")
    assert " ".join((*programs.INSTALLED_BY_ROOT, *programs.FONTS)) in asked[1]
    assert len(asked) == 2 + len(programs.INSTALLED_BY_ROOT) + len(programs.OTHER_NAMES)


@pytest.mark.slow
def test_another_process_installs_beside_the_first_tests(
    failing_apt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks apt only if root has started it."""
    is_root = os.geteuid() == 0
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    process = programs.start_installing()

    assert process is not None
    assert process.wait() == 0
    assert failing_apt.exists() is is_root
