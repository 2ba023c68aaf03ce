"""Older versions of Ousel, taken from the history of this clone."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MIGRATIONS = "src/ousel/database/migrations/versions"


def code_before_the_last_migration() -> str:
    """Return the last commit before the schema was changed for the last time."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no clone: there is no history to take older code from")
    changed = _git("log", "-1", "--format=%H", "--", f"{MIGRATIONS}/*.py").decode().strip()
    before = f"{changed}^"
    known = subprocess.run(
        ["git", "rev-parse", "--quiet", "--verify", before],
        cwd=ROOT,
        check=False,
        capture_output=True,
    )
    assert known.returncode == 0, "the history is cut off: run 'git fetch --unshallow'"
    return known.stdout.decode().strip()


def checked_out(commit: str, folder: Path) -> Path:
    """Return the folder with the files of a commit in it; the clone itself is not touched."""
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", commit))) as archive:
        # Of Python 3.11 the first versions know no filters, and trust an archive as it is.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    return folder


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout
