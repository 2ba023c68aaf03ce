"""Files are written as a whole, on file systems that cannot flush a folder too."""

import errno
import os
import stat
from pathlib import Path
from unittest.mock import Mock

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


@pytest.mark.parametrize(
    ("before", "after"), [(0o640, 0o640), (0o600, 0o600), (0o440, 0o440), (0o666, 0o660)]
)
def test_a_file_keeps_its_permissions_when_it_is_replaced(
    tmp_path: Path, before: int, after: int
) -> None:
    """A group that could read the old key can read the new one; others never can."""
    path = tmp_path / "key"
    path.touch()
    path.chmod(before)
    write_durably(path, b"new", for_owner_only=True)
    assert stat.S_IMODE(path.stat().st_mode) == after
    assert path.read_bytes() == b"new"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_another_group_does_not_get_the_permissions_of_the_former_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """If the group cannot be kept, only the owner can read the new file."""
    path = tmp_path / "key"
    path.touch()
    os.chown(path, 10_001, 10_002)
    path.chmod(0o640)
    monkeypatch.setattr(os, "fchown", Mock(side_effect=PermissionError))
    write_durably(path, b"new", for_owner_only=True)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.skipif(os.geteuid() != 0, reason="only root creates files of another group")
def test_a_member_of_the_group_keeps_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Servers may read the file through a group that is not the first one of its owner."""
    path = tmp_path / "key"
    path.touch()
    os.chown(path, -1, 10_002)
    path.chmod(0o640)
    monkeypatch.setattr(os, "geteuid", lambda: 1_000)
    write_durably(path, b"new", for_owner_only=True)
    replaced = path.stat()
    assert (replaced.st_gid, stat.S_IMODE(replaced.st_mode)) == (10_002, 0o640)


def test_the_file_behind_a_link_is_replaced(tmp_path: Path) -> None:
    """A server that reads the file by its own name gets the new content, and the link stays."""
    for folder in ("etc", "mounted"):
        (tmp_path / folder).mkdir()
    file = tmp_path / "mounted" / "key"
    file.write_bytes(b"old")
    file.chmod(0o640)
    link = tmp_path / "etc" / "key"
    link.symlink_to("../mounted/key")
    write_durably(link, b"new", for_owner_only=True)
    assert (link.is_symlink(), file.read_bytes()) == (True, b"new")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert {each.name for each in tmp_path.rglob("*")} == {"etc", "mounted", "key"}


def test_a_new_file_is_not_created_behind_a_link(tmp_path: Path) -> None:
    """Whoever owns the folder cannot make root create a file elsewhere."""
    (tmp_path / "key").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError):
        write_durably(tmp_path / "key", b"new", replaces=False)
    assert not (tmp_path / "elsewhere").exists()


def test_a_disk_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nobody knows whether the file survives a crash."""
    fail_for_folders(monkeypatch, errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        write_durably(tmp_path / "key", b"new")


def test_an_error_names_the_file_and_not_the_temporary_one(tmp_path: Path) -> None:
    """Commands print the name, and operators know only that of the file."""
    file = tmp_path / "no" / "key"

    with pytest.raises(FileNotFoundError) as failed:
        write_durably(file, b"key")

    assert failed.value.filename == str(file)
