"""What one durable write costs on a disk, with nothing around it."""

import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

PAGE: Final = b"\0" * 4096
FLUSHES: Final = 200


def flush_seconds(folder: Path) -> float:
    """Return the median time to append a page to a file in this folder and flush it."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        return median(_flushed(file.fileno()) for _ in range(FLUSHES))


def _flushed(file: int) -> float:
    started = time.perf_counter()
    os.write(file, PAGE)
    os.fdatasync(file)
    return time.perf_counter() - started
