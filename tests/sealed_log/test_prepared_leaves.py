"""Leaves that are computed before their transaction are used for the batch that they stand for."""

import pytest

from ousel.ledger.places import encode_places
from ousel.ledger.recent_movements import RecentMovements
from ousel.ledger.rules import Entry, Movement
from ousel.sealed_log import prepared_leaves
from ousel.sealed_log.prepared_leaves import PreparedLeaves

HASH = "00" * 32


def movement(transfer_id: str, sequence: int = 1, date: int = 1) -> Movement:
    """Return a movement from one account to another, with this number and date."""
    debit = Entry(
        *("acct_a", sequence, transfer_id, "transfer", -1, 0, "acct_b"),
        *(None, None, None, date, HASH),
    )
    credit = Entry(
        *("acct_b", sequence, transfer_id, "transfer", 1, 1, "acct_a"),
        *(None, None, None, date, HASH),
    )
    return Movement(debit, credit)


async def prepared(*batches: list[Movement]) -> PreparedLeaves:
    """Return the leaves of these batches."""
    recent = RecentMovements()
    for batch in batches:
        recent.add(batch[0].debit.transfer_id, batch)
    leaves = PreparedLeaves(recent)
    await leaves.prepare(1_000)
    return leaves


async def test_leaves_are_found_for_the_same_places_only() -> None:
    """A database that has lost history may have written the same transfers at other places."""
    batch = [movement("tr_1", 1), movement("tr_2", 2)]
    leaves = await prepared(batch)
    row = leaves.find("tr_1", encode_places(batch))

    assert row is not None
    assert len(row.hashes) == len(set(row.hashes)) == 2
    assert leaves.find("tr_1", encode_places([movement("tr_1", 2), movement("tr_2", 3)])) is None
    assert leaves.find("tr_2", encode_places(batch)) is None
    leaves.discard(["tr_1", "tr_2"])
    assert leaves.find("tr_1", encode_places(batch)) is None


async def test_a_batch_with_several_dates_is_not_kept() -> None:
    """Its leaves need several rows, so the sealer reads it again."""
    batch = [movement("tr_1", 1), movement("tr_2", 2, date=2)]
    assert (await prepared(batch)).find("tr_1", encode_places(batch)) is None


async def test_leaves_that_nobody_asks_for_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process has sealed them."""
    monkeypatch.setattr(prepared_leaves, "PREPARED_BATCHES_MAX", 2)
    batches = [[movement(f"tr_{number}", number)] for number in (1, 2, 3)]
    leaves = await prepared(*batches)

    found = [leaves.find(each[0].debit.transfer_id, encode_places(each)) for each in batches]
    assert [row is not None for row in found] == [False, True, True]
