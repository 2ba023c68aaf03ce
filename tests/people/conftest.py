"""A door to come in by, at a clock set by hand."""

import pytest

from ousel.database.port import Database
from ousel.people.service import Door
from tests.people.members import Member
from tests.support.clocks import ManualClock
from tests.support.passwords import hash_quickly


@pytest.fixture(autouse=True)
def _quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    hash_quickly(monkeypatch)


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still until it is moved."""
    return ManualClock()


@pytest.fixture
def door(database: Database, clock: ManualClock) -> Door:
    """The door of a fresh database."""
    return Door(database, clock, wall=clock)


@pytest.fixture
async def ada(door: Door, database: Database, clock: ManualClock) -> Member:
    """Ada, who has signed up."""
    member = Member(door, database, clock)
    await member.sign_up()
    return member
