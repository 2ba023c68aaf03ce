"""Older versions of Ousel, taken from the history of this clone."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MIGRATIONS = "src/ousel/database/migrations/versions"


def code_before_the_last_migration() -> str:
    """Return the last commit that does not have the newest migration yet."""
    try:
        newest = ("log", "-1", "--diff-filter=A", "--format=%H", "--", f"{MIGRATIONS}/*.py")
        added = _git(*newest).decode().strip()
        return _git("rev-parse", "--quiet", "--verify", f"{added}^").decode().strip()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no history, or a part of it, to take older code from")


def checked_out(commit: str, folder: Path) -> Path:
    """Return the folder with the files of a commit in it; the clone itself is not touched."""
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", commit))) as archive:
        # Of Python 3.11 the first versions know no filters, and trust an archive as it is.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)
    return folder


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout
