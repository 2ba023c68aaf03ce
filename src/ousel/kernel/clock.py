"""Time: whole microseconds since 1970 in UTC, from a clock that callers pass in."""

import re
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Protocol

from ousel.kernel.errors import InvalidField

MICROS_PER_SECOND: Final = 1_000_000
MICROS_PER_DAY: Final = 24 * 3600 * MICROS_PER_SECOND

_RFC_3339: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})"
)


class Clock(Protocol):
    """Tells the time in microseconds, without asking the database."""

    def __call__(self) -> int:
        """Return the present moment."""
        ...

    def from_database(self, reading: int) -> int:
        """Return the present moment, given what the database's clock shows now."""
        ...


class SystemClock:
    """The clock of this host, whatever the database's clock shows."""

    def __call__(self) -> int:
        """Return the present moment by this host's clock."""
        return time.time_ns() // 1_000

    def from_database(self, _: int) -> int:
        """Return the present moment by this host's clock."""
        return self()


system_clock: Final = SystemClock()


@lru_cache(maxsize=1024)  # rows written together have the same time
def timestamp(micros: int) -> str:
    """Return a time as RFC 3339 in UTC, with microseconds and Z."""
    seconds, fraction = divmod(micros, MICROS_PER_SECOND)
    return f"{_whole_seconds(seconds)}.{fraction:06d}Z"


def utc_text(micros: int) -> str:
    """Return a time to the minute, such as 2026-01-31 12:00 UTC."""
    utc = timestamp(micros)
    return f"{utc[:10]} {utc[11:16]} UTC"


def micros_from_timestamp(text: str, *, param: str) -> int:
    """Return the time of an RFC 3339 text with a zone, or refuse the text."""
    written = text.upper()
    try:
        moment = datetime.fromisoformat(written) if _RFC_3339.fullmatch(written) else None
    except ValueError:  # such as February 30
        moment = None
    if moment is None:
        raise InvalidField(
            f"{param} must be an RFC 3339 time with a zone, such as 2026-01-31T12:00:00Z.",
            param=param,
        )
    elapsed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (elapsed.days * 86_400 + elapsed.seconds) * MICROS_PER_SECOND + elapsed.microseconds


@lru_cache(maxsize=1024)
def _whole_seconds(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")
