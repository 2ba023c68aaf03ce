"""Finds texts that occur twice in a sequence of any length, with little memory.

Each text's hash is written to one of many temporary files, which is chosen by the hash, so equal
hashes are in the same file. Each file is small enough to be read as a whole.
"""

from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from tempfile import SpooledTemporaryFile
from typing import Final, Self

from ousel.kernel.errors import OperatorError

PARTS: Final = 256
PART_BYTES_IN_MEMORY: Final = 64 * 1024  # a larger part goes to the disk
HASHES_WRITTEN_AT_ONCE: Final = 1_024

_MASK: Final = (1 << 64) - 1


@contextmanager
def _disk_errors_reported() -> Iterator[None]:
    """Report an error of the disk as one. A database takes every OSError for a lost connection."""
    try:
        yield
    except OSError as error:
        reason = error.strerror
        raise OperatorError(f"temporary files cannot be written or read: {reason}") from error


class DuplicateFinder:
    """Takes texts one after the other, and then says which may have occurred twice."""

    def __init__(self) -> None:
        """Start without any text."""
        self._parts = [
            SpooledTemporaryFile(PART_BYTES_IN_MEMORY)  # noqa: SIM115 - closed by __exit__
            for _ in range(PARTS)
        ]
        self._unwritten = [array("Q") for _ in range(PARTS)]

    def __enter__(self) -> Self:
        """Return this object, which removes its temporary files at the end of the block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the temporary files."""
        for part in self._parts:
            with suppress(OSError):  # nobody needs what could not be written
                part.close()

    def add(self, text: str) -> None:
        """Take another text."""
        number = hash(text) & _MASK
        unwritten = self._unwritten[number % PARTS]
        unwritten.append(number)
        if len(unwritten) == HASHES_WRITTEN_AT_ONCE:
            with _disk_errors_reported():
                self._parts[number % PARTS].write(unwritten.tobytes())
            del unwritten[:]

    def suspects(self) -> set[int]:
        """Return the hashes that occurred twice; two texts rarely have the same hash."""
        twice: set[int] = set()
        for part, unwritten in zip(self._parts, self._unwritten, strict=True):
            with _disk_errors_reported():
                part.seek(0)
                numbers = array("Q", part.read()) + unwritten
            once = set(numbers)
            if len(once) < len(numbers):
                twice.update(number for number in once if numbers.count(number) > 1)
        return twice

    @staticmethod
    def is_suspect(text: str, suspects: set[int]) -> bool:
        """Return whether the text is one of those that may have occurred twice."""
        return hash(text) & _MASK in suspects
