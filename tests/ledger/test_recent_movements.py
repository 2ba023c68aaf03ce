"""A process remembers the movements that it has written, up to a limit, until they are sealed."""

import pytest

from ousel.ledger import recent_movements
from ousel.ledger.recent_movements import RecentMovements
from ousel.ledger.rules import Entry, Movement


def movement(transfer_id: str) -> Movement:
    """Return a movement of this transfer."""
    debit = Entry("acct_a", 1, transfer_id, "transfer", -1, 0, "acct_b", None, None, None, 1, "")
    credit = Entry("acct_b", 1, transfer_id, "transfer", 1, 1, "acct_a", None, None, None, 1, "")
    return Movement(debit, credit)


def test_batches_are_taken_in_the_order_in_which_they_were_written() -> None:
    """Each is taken once; a batch without movements is not kept."""
    recent, batch = RecentMovements(), [movement("tr_1"), movement("tr_2")]
    recent.add("empty", [])
    recent.add("first", batch)
    recent.add("second", [movement("tr_3")])

    assert "first" in recent
    assert "empty" not in recent
    assert recent.take_oldest() == ("first", batch)
    assert "first" not in recent
    assert recent.take_oldest() == ("second", [movement("tr_3")])
    assert recent.take_oldest() is None


def test_the_oldest_batches_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that were taken no longer count; a batch above the limit is not kept at all."""
    monkeypatch.setattr(recent_movements, "MOVEMENTS_KEPT_MAX", 3)
    recent = RecentMovements()
    for transfer_id in ("tr_1", "tr_2", "tr_3", "tr_4"):
        recent.add(transfer_id, [movement(transfer_id)])
    assert recent.take_oldest() == ("tr_2", [movement("tr_2")])
    for transfer_id in ("tr_5", "tr_6"):
        recent.add(transfer_id, [movement(transfer_id)])

    for transfer_id in ("tr_4", "tr_5", "tr_6"):
        assert recent.take_oldest() == (transfer_id, [movement(transfer_id)])
    recent.add("tr_7", [movement("tr_7")] * 4)
    assert recent.take_oldest() is None
