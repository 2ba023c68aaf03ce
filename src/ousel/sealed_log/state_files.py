"""Files that keep the last checkpoint of a log, and survive a crash."""

import os
from pathlib import Path


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file as a whole: after a crash, it has the old content or the new."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    with unfinished.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def read_if_there(path: Path) -> bytes | None:
    """Return the content of a file, or None if there is no such file."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
