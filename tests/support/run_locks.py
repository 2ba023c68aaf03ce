"""What the processes of one run of the tests do one after the other, or once for all of them.

The run's folder holds the locks. A process that ends frees its locks, even if it was killed.
"""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def one_at_a_time(name: str) -> Iterator[None]:
    """Let one process of this run into the block at a time; the others wait."""
    with _path(name).open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def first_in_run(name: str) -> Iterator[bool]:
    """Yield whether no process of this run has done what the block does; the others wait.

    If the block fails, the next process is the first.
    """
    with _path(name).open("a") as done:
        fcntl.flock(done, fcntl.LOCK_EX)
        is_first = os.fstat(done.fileno()).st_size == 0
        yield is_first
        done.write("done\n" if is_first else "")


def mark_done(name: str) -> None:
    """Let no process of this run be the first to do this."""
    _path(name).write_text("done\n")


def _path(name: str) -> Path:
    return Path(tempfile.gettempdir()) / f"{name}.lock"
