"""A door to come in by, at a clock set by hand."""

import pytest

from ousel.database.port import Database
from ousel.people.service import SignInService
from tests.people.members import Member
from tests.support.clock import ManualClock
from tests.support.passwords import hash_quickly


@pytest.fixture(autouse=True)
def _quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    hash_quickly(monkeypatch)


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still until it is moved."""
    return ManualClock()


@pytest.fixture
def sign_in(database: Database, clock: ManualClock) -> SignInService:
    """The door of a fresh database."""
    return SignInService(database, clock, real_clock=clock)


@pytest.fixture
async def ada(sign_in: SignInService, database: Database, clock: ManualClock) -> Member:
    """Ada, who has signed up."""
    member = Member(sign_in, database, clock)
    await member.sign_up()
    return member
