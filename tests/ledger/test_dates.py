"""Verification finds entries that are dated in the future."""

import msgspec
import pytest

from ousel.kernel.clock import timestamp
from ousel.ledger.dates import DateVerifier
from ousel.ledger.rules import AHEAD_MICROS_MAX, Entry, Movement
from ousel.ledger.verify import VerificationFailed
from tests.ledger.examples import NOW, MemoryLedger, account, posting


def entries_dated(*dates: int) -> list[Entry]:
    """Return one account's entries with these dates."""
    ledger = MemoryLedger(account("ada", 100), account("bob"))
    moved = ledger.decide(*(posting("ada", "@bob") for _ in dates))
    return [
        msgspec.structs.replace(each.debit, created_at=date)
        for each, date in zip(moved, dates, strict=True)
        if isinstance(each, Movement)
    ]


def test_a_date_that_a_posting_made_now_could_have_is_in_order() -> None:
    """The clock may have stepped back by as much as a posting tolerates."""
    verifier = DateVerifier(NOW)

    verifier.add_entries(entries_dated(NOW - 1, NOW, NOW + AHEAD_MICROS_MAX))

    verifier.finish()


def test_the_first_entry_ahead_of_the_clock_is_named_and_all_are_counted() -> None:
    """The entries may arrive in several pages."""
    verifier = DateVerifier(NOW)
    ahead = NOW + AHEAD_MICROS_MAX + 1

    verifier.add_entries(entries_dated(NOW, ahead, ahead + 1))
    verifier.add_entries(entries_dated(ahead + 2))

    with pytest.raises(VerificationFailed) as failed:
        verifier.finish()
    assert str(failed.value) == (
        f"entry 2 of account ada is dated {timestamp(ahead)}, which is ahead of the clock;"
        " 3 such entries were found"
    )
