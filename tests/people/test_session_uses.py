"""When a session was last used is written later: nobody who reads a page waits for a write."""

import pytest

from ousel.database.port import Database
from ousel.kernel.errors import DatabaseUnavailable
from ousel.people import store
from ousel.people.session_lookup import SessionLookup
from ousel.people.sign_in import SignInService
from tests.people.members import HOME, Member
from tests.support.clock import ManualClock
from tests.support.visitor import PASSWORD


async def refused(*_: object, **__: object) -> None:
    """Write nothing."""
    raise DatabaseUnavailable("Writes are suspended.")


async def test_a_session_is_found_while_nothing_can_be_written(
    ada: Member,
    sign_in: SignInService,
    database: Database,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its last use is written once that is possible again."""
    secret = (await sign_in.sign_in("ada", PASSWORD, HOME)).secret
    sessions = SessionLookup(database, clock)
    clock.advance(seconds=120)
    with monkeypatch.context() as patch:
        patch.setattr(database, "write", refused)
        person = await sessions.person(secret)
        with pytest.raises(DatabaseUnavailable):
            await sessions.record_uses()
    await sessions.record_uses()

    assert person is not None
    assert person.account_id == ada.account_id
    [stored] = await database.read(
        lambda transaction: store.sessions_by_hash(transaction, [person.session_hash])
    )
    assert stored.last_used_at == clock.now
