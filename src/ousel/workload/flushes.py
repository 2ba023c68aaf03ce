"""How long one durable write takes on a disk."""

import os
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

PAGE: Final = b"\0" * 4096
FLUSHES: Final = 200


def flush_seconds(folder: Path) -> float:
    """Return the median time to append 4 KiB to a file in this folder and flush it."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        return median(_time_flush(file.fileno()) for _ in range(FLUSHES))


def _time_flush(file: int) -> float:
    started = time.perf_counter()
    os.write(file, PAGE)
    os.fdatasync(file)
    return time.perf_counter() - started
