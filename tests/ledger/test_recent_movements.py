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


def test_a_batch_is_found_once_by_its_first_transfer() -> None:
    """An unknown batch, and a batch without movements, has none."""
    recent, batch = RecentMovements(), [movement("tr_1"), movement("tr_2")]
    recent.add([])
    recent.add(batch)

    assert recent.take("tr_1") == batch
    assert not recent.take("tr_1")
    assert not recent.take("tr_2")


def test_the_oldest_batches_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches that were taken no longer count; a batch above the limit is not kept at all."""
    monkeypatch.setattr(recent_movements, "MOVEMENTS_KEPT_MAX", 3)
    recent = RecentMovements()
    for transfer_id in ("tr_1", "tr_2", "tr_3"):
        recent.add([movement(transfer_id)])
    recent.take("tr_2")
    recent.add([movement("tr_4")])
    recent.add([movement("tr_5")])

    assert not recent.take("tr_1")
    assert all(recent.take(each) for each in ("tr_3", "tr_4", "tr_5"))
    recent.add([movement("tr_6")] * 4)
    assert not recent.take("tr_6")
