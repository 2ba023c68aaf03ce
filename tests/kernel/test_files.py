"""Files are written as a whole, on file systems that cannot flush a folder too."""

import errno
import os
import stat
from pathlib import Path

import pytest

from ousel.kernel.files import write_durably


def fail_for_folders(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Let the flush of a folder fail with this error."""
    flush = os.fsync

    def fsync(file: int) -> None:
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(number, os.strerror(number))
        flush(file)

    monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EACCES])
@pytest.mark.parametrize("replaces", [True, False])
def test_a_file_system_that_cannot_flush_folders_is_enough(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int, *, replaces: bool
) -> None:
    """The file is there, so nobody is told that it is not."""
    fail_for_folders(monkeypatch, number)
    write_durably(tmp_path / "key", b"new", replaces=replaces)
    assert [each.name for each in tmp_path.iterdir()] == ["key"]
    assert (tmp_path / "key").read_bytes() == b"new"


def test_a_disk_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody knows whether the file survives a crash."""
    fail_for_folders(monkeypatch, errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        write_durably(tmp_path / "key", b"new")
