"""A clock that tests set by hand."""

from ousel.kernel.clock import MICROS_PER_SECOND, system_clock

TIME_MICROS_MAX = 253_402_300_799_999_999  # the last microsecond of the year 9999


class ManualClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now: int | None = None) -> None:
        self.now = system_clock() if now is None else now

    def __call__(self) -> int:
        return self.now

    def from_database(self, _: int) -> int:
        return self.now

    def advance(self, *, seconds: int = 0, micros: int = 0) -> None:
        """Move the clock forward."""
        self.now += seconds * MICROS_PER_SECOND + micros
