"""Look-ups of sessions: which person a cookie belongs to."""

from typing import Final

import msgspec

from ousel.accounts import service as accounts
from ousel.database.batching import SharedReads
from ousel.database.last_uses import LastUseRecorder
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.ids import secret_hash
from ousel.people import store
from ousel.people.rules import Session
from ousel.site.visits import Person

USE_RECORDED_MICROS: Final = 60 * MICROS_PER_SECOND  # precision of a session's last use
SECRET_CHARACTERS_MAX: Final = 100


class _OpenSession(msgspec.Struct, frozen=True):
    """A session, and the person who opened it."""

    session: Session
    person: Person


class SessionLookup:
    """Finds who is signed in, as stored at the time of the call."""

    def __init__(self, database: Database, clock: Clock) -> None:
        """Read sessions from this database; concurrent look-ups share one query."""
        self._clock = clock
        self._opened = SharedReads(database, _open_sessions)
        self._uses = LastUseRecorder(database, store.record_session_uses)

    async def person(self, secret: str) -> Person | None:
        """Return the person whose session this is, or None if it is unknown or has expired."""
        if len(secret) > SECRET_CHARACTERS_MAX:
            return None
        hash_ = secret_hash(secret)
        opened, now = await self._opened.get(hash_), self._clock()
        if opened is None or not opened.session.is_valid_at(now):
            return None
        if now - opened.session.last_used_at > USE_RECORDED_MICROS:
            self._uses.unwritten[opened.person.account_id, hash_] = now
        if opened.session.is_recently_checked_at(now):
            return msgspec.structs.replace(opened.person, is_recently_checked=True)
        return opened.person

    async def record_uses(self) -> None:
        """Write when sessions were last used, in one transaction."""
        await self._uses.record()


async def _open_sessions(
    transaction: Transaction, hashes: list[str]
) -> dict[str, _OpenSession | None]:
    sessions = await store.sessions_by_hash(transaction, hashes)
    signed_in = [session for session in sessions if session.stage == "signed_in"]
    opened: dict[str, _OpenSession | None] = dict.fromkeys(hashes)
    if not signed_in:
        return opened
    holders = await accounts.accounts_by_id(
        transaction, [session.account_id for session in signed_in]
    )
    for session in signed_in:
        account = holders[session.account_id]
        person = Person(account.id, account.username, account.display_name, session.hash)
        opened[session.hash] = _OpenSession(session, person)
    return opened
