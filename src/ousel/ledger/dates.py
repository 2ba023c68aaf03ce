"""Verification of dates: no entry is dated in the future."""

from collections.abc import Iterable

from ousel.kernel.clock import timestamp
from ousel.ledger.rules import AHEAD_MICROS_MAX, Entry
from ousel.ledger.verify import VerificationFailed, describe_entry


class DateVerifier:
    """Finds entries that are dated in the future.

    They are reported last, after all other errors: on their own they only show that a clock was
    wrong.
    """

    def __init__(self, now: int) -> None:
        """Tolerate dates up to a minute ahead of now, which the ledger's rules allow."""
        self._latest = now + AHEAD_MICROS_MAX
        self._ahead = 0
        self._first: Entry | None = None

    def add_entries(self, entries: Iterable[Entry]) -> None:
        """Compare the dates of these entries with the clock."""
        for entry in entries:
            if entry.created_at > self._latest:
                self._ahead += 1
                self._first = self._first or entry

    def finish(self) -> None:
        """Raise an error if entries were dated in the future."""
        if self._first is not None:
            raise VerificationFailed(
                f"{describe_entry(self._first)} is dated {timestamp(self._first.created_at)},"
                f" which is ahead of the clock; {self._ahead} such entries were found"
            )
