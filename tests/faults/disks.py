"""A small disk that can be filled up and emptied."""

import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

MEBIBYTES = 64


class SmallDisk:
    """A file system of its own at a folder, for whoever may mount one."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        folder.chmod(0o755)
        self.folder = folder
        self._filler = folder / "filler"

    def __enter__(self) -> Self:
        options = f"size={MEBIBYTES}m,mode=0777"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)]
        if subprocess.run(command, check=False, capture_output=True).returncode != 0:
            pytest.skip("this user may not mount a small disk")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)

    def fill(self) -> None:
        """Leave no room at all."""
        room = os.statvfs(self.folder)
        with self._filler.open("wb") as filler:
            os.posix_fallocate(filler.fileno(), 0, room.f_bavail * room.f_frsize)

    def make_room(self) -> None:
        """Leave room again."""
        self._filler.unlink()
