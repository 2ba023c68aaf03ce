"""A small disk that can be filled up and emptied."""

import contextlib
import subprocess
import tempfile
from pathlib import Path
from typing import Self

import pytest

MEBIBYTES = 64


class SmallDisk:
    """A small file system mounted at a folder; skips the test if the user may not mount."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="ousel-faults-"))
        self._filler = self.folder / "filler"

    def __enter__(self) -> Self:
        options = f"size={MEBIBYTES}m,mode=0777"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)]
        if subprocess.run(command, check=False, capture_output=True).returncode != 0:
            self.folder.rmdir()
            pytest.skip("this user may not mount a small disk")
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)
        self.folder.rmdir()

    def fill(self) -> None:
        """Fill the disk up, while others write to it."""
        with self._filler.open("wb", buffering=0) as filler:
            for size in (1 << 20, 1 << 12):
                with contextlib.suppress(OSError):
                    while filler.write(bytes(size)):
                        pass

    def make_room(self) -> None:
        """Free the space again."""
        self._filler.unlink()
