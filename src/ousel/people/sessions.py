"""Sessions: the person behind a cookie."""

from typing import Final

from ousel.accounts import service as accounts
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.ids import secret_hash
from ousel.people import store
from ousel.web.callers import Person

USE_NOTED_MICROS: Final = 60 * MICROS_PER_SECOND  # a session's last use is true to a minute
SECRET_CHARACTERS_MAX: Final = 100


class Sessions:
    """Knows who is signed in, as the database has it at that moment."""

    def __init__(self, database: Database, clock: Clock) -> None:
        """Read sessions from this database."""
        self._database = database
        self._clock = clock

    async def person(self, secret: str) -> Person | None:
        """Return the person whose session this is, if it is still good."""
        if len(secret) > SECRET_CHARACTERS_MAX:
            return None
        hash_, now = secret_hash(secret), self._clock()

        async def read(transaction: Transaction) -> tuple[store.Session, Person] | None:
            session = await store.session_by_hash(transaction, hash_, now)
            if session is None or session.stage != "signed_in":
                return None
            account = await accounts.by_id(transaction, session.account_id)
            return session, Person(account.id, account.username, account.display_name, hash_)

        found = await self._database.read(read)
        if found is None:
            return None
        session, person = found
        if now - session.last_used_at > USE_NOTED_MICROS:
            await self._database.write(lambda transaction: store.note_use(transaction, hash_, now))
        return person
