"""Reading movements: by their places, with the entries before them, and those not yet sealed."""

from functools import partial

import msgspec
import pytest

from ousel.database.port import Transaction
from ousel.database.retries import RowsLocked
from ousel.kernel.clock import system_clock
from ousel.kernel.ids import new_id, time_of_id
from ousel.ledger import movements
from ousel.ledger.places import Place, decode_places
from ousel.ledger.rules import Movement
from tests.ledger.conftest import LedgerWorld
from tests.ledger.examples import posting

# On Citus, a missing row may be one that is being moved to another server.
ALREADY_DELETED = (
    "^(somebody else has sealed these movements|Other transactions keep rows locked.)$"
)


async def test_movements_are_found_at_their_places(
    world: LedgerWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are in the order of the places; where an entry is missing, there is None.

    Many places are looked up in several steps.
    """
    monkeypatch.setattr(movements, "PLACES_PER_READ", 2)
    moved = [await move(world, amount) for amount in (1, 2, 3)]
    places = [place_of(each) for each in reversed(moved)]
    places.insert(1, Place(world.ada.id, 9, world.bob.id, 9))

    async def read(transaction: Transaction) -> None:
        found = await movements.movements_at(transaction, places)
        assert found == [moved[2], None, moved[1], moved[0]]
        assert await movements.movements_at(transaction, []) == []

    await world.database.read(read)


async def test_an_entry_follows_the_entry_with_the_number_before(world: LedgerWorld) -> None:
    """Of entries that are the first of their accounts, none is found."""
    first, second = await move(world, 1), await move(world, 2)

    async def read(transaction: Transaction) -> None:
        followed = [second.debit, first.credit, second.credit]
        assert await movements.entries_before(transaction, followed) == {
            (world.ada.id, second.debit.sequence): first.debit,
            (world.bob.id, second.credit.sequence): first.credit,
        }
        assert await movements.entries_before(transaction, [first.credit]) == {}

    await world.database.read(read)


async def test_batches_stay_unsealed_until_they_are_deleted(world: LedgerWorld) -> None:
    """They are read oldest first; nobody can delete one twice."""
    moved = [await move(world, amount) for amount in (1, 2)]

    async def read(transaction: Transaction) -> dict[str, str]:
        batches = await movements.unsealed_batches(transaction, 10)
        assert list(batches) == sorted(batches)
        for each in moved:
            assert decode_places(batches[each.debit.transfer_id]) == [place_of(each)]
        [oldest] = await movements.unsealed_batches(transaction, 1)
        assert oldest == min(batches)
        assert await movements.oldest_unsealed_at(transaction) == time_of_id(oldest)
        return batches

    async def read_none(transaction: Transaction) -> None:
        assert await movements.unsealed_batches(transaction, 10) == {}
        assert await movements.oldest_unsealed_at(transaction) is None

    batches = await world.database.read(read)
    delete = partial(movements.delete_unsealed, ids=list(batches))
    await world.database.write(delete)
    await world.database.read(read_none)
    with pytest.raises((AssertionError, RowsLocked), match=ALREADY_DELETED):
        await world.database.write(delete)


async def test_accounts_are_found_by_their_ids(world: LedgerWorld) -> None:
    """The others are left out."""
    accounts = await world.database.read(
        lambda transaction: movements.accounts_with_ids(transaction, {world.bob.id})
    )

    assert accounts == {world.bob.id: world.bob}


async def move(world: LedgerWorld, amount: int) -> Movement:
    """Send money from Ada to Bob."""
    wanted = posting(world.ada.id, "@bob", amount)
    wanted = msgspec.structs.replace(wanted, transfer_id=new_id("tr_", system_clock))
    outcome = (await world.queue.post(wanted)).outcome
    assert isinstance(outcome, Movement)
    return outcome


def place_of(movement: Movement) -> Place:
    """Return where the entries of a movement are."""
    debit, credit = movement.debit, movement.credit
    return Place(debit.account_id, debit.sequence, credit.account_id, credit.sequence)
