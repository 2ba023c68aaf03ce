"""Standard error, to which the log is written; the service does not wait for a reader of it."""

import contextlib
import os
import select
import stat
import sys
from typing import Final

import msgspec

from ousel.kernel.clock import system_clock, timestamp

# If a pipe can be written at all, it has room for this many bytes (`PIPE_BUF` of Linux).
PIECE_BYTES: Final = 4_096


class _LinesDropped(msgspec.Struct, frozen=True, kw_only=True):
    event: str = "lines of the log were dropped"
    level: str = "warning"
    timestamp: str
    count: int


class LogOutput:
    """Writes lines to standard error.

    Lines that cannot be written at once are dropped: on a full disk, and if whoever reads the pipe
    has stalled. When lines can be written again, one says how many were dropped.
    """

    def __init__(self) -> None:
        """Find out whether standard error has a reader, for whom a write may have to wait."""
        self._dropped = 0
        self._is_line_torn = False
        self._file = -1
        self._reader: select.poll | None = None
        self._piece_bytes: int | None = None
        with contextlib.suppress(OSError, AttributeError):  # there may be no standard error
            self._file = sys.stderr.fileno()
            mode = os.fstat(self._file).st_mode
            if stat.S_ISFIFO(mode):
                self._file = _open_again(self._file)
                self._piece_bytes = PIECE_BYTES if os.get_blocking(self._file) else None
            if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
                self._reader = select.poll()
                self._reader.register(self._file, select.POLLOUT)

    def write(self, line: bytes) -> None:
        """Write a line, which ends with a line feed, or drop it."""
        if self._dropped and self._write_all(self._notice()):
            self._dropped, self._is_line_torn = 0, False
        if not self._write_all(line):
            self._dropped += 1

    def _write_all(self, line: bytes) -> bool:
        """Write a line; return whether all of it was written."""
        written, piece_bytes = 0, self._piece_bytes or len(line)
        with contextlib.suppress(OSError):
            while written < len(line) and (self._reader is None or self._reader.poll(0)):
                written += os.write(self._file, line[written : written + piece_bytes])
        self._is_line_torn |= 0 < written < len(line)
        return written == len(line)

    def _notice(self) -> bytes:
        dropped = _LinesDropped(timestamp=timestamp(system_clock()), count=self._dropped)
        return b"\n" * self._is_line_torn + msgspec.json.encode(dropped) + b"\n"


def _open_again(pipe: int) -> int:
    """Open a pipe a second time, so that writes of this process alone do not wait.

    If that is refused, return the pipe itself: in a container, it may belong to another user.
    """
    try:
        return os.open(f"/proc/self/fd/{pipe}", os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return pipe
