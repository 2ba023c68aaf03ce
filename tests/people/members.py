"""Someone with an account, and how they sign in."""

import msgspec

from ousel.accounts.service import AccountService, NewHolder
from ousel.database.port import Database
from ousel.kernel.clock import MICROS_PER_SECOND
from ousel.people import store
from ousel.people.audit import EventSource
from ousel.people.rules import CODE_STEP_SECONDS, AuditEvent, one_time_code
from ousel.people.second_factor import SecondFactorService
from ousel.people.session_lookup import SessionLookup
from ousel.people.sign_in import NewSession, SignInService
from ousel.site.visits import Person
from tests.support.clock import ManualClock
from tests.support.visitor import PASSWORD

HOME = EventSource("192.0.2.1", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0")
OFFICE = EventSource("198.51.100.7", "Mozilla/5.0 (Windows NT 10.0) Chrome/140.0 Safari/537.36")
LAPTOP = EventSource("203.0.113.9", "Firefox", browser_hash="the hash of the laptop's cookie")


class Member:
    """Ada, with her account and, once turned on, her authenticator app."""

    def __init__(
        self,
        sign_in: SignInService,
        second_factors: SecondFactorService,
        database: Database,
        clock: ManualClock,
    ) -> None:
        self.sign_in = sign_in
        self.second_factors = second_factors
        self.database = database
        self.clock = clock
        self._sessions = SessionLookup(database, clock)
        self.account_id = ""
        self.session_hash = ""  # of the first session
        self.factor_secret = ""
        self.recovery_codes: list[str] = []

    async def sign_up(self) -> NewSession:
        """Open the account; the operator confirms its email."""
        holder = NewHolder(username="ada", email="ada@example.com", display_name="Ada")
        signed_in = await self.sign_in.sign_up(holder, PASSWORD, HOME)
        person = await self.person(signed_in.secret)
        self.account_id, self.session_hash = person.account_id, person.session_hash
        await AccountService(self.database, self.clock).confirm_email("@ada")
        return signed_in

    async def turn_on_factor(self) -> None:
        """Turn two-factor sign-in on, and let the code that did it pass."""
        await self.propose_factor()
        self.recovery_codes = await self.second_factors.confirm(
            self.account_id, self.code(), self.first_source
        )
        self.pass_a_code()

    async def propose_factor(self) -> str:
        """Give the authenticator app its secret."""
        proposed = await self.second_factors.propose(self.account_id, self.session_hash)
        assert proposed is not None
        self.factor_secret = proposed
        return proposed

    @property
    def first_source(self) -> EventSource:
        """Where the requests of the first session come from."""
        return msgspec.structs.replace(HOME, session_hash=self.session_hash)

    def pass_a_code(self) -> None:
        """Wait until the authenticator app shows another code."""
        self.clock.advance(seconds=CODE_STEP_SECONDS)

    def code(self) -> str:
        """Return what the authenticator app shows."""
        step = self.clock() // MICROS_PER_SECOND // CODE_STEP_SECONDS
        return one_time_code(self.factor_secret, step)

    async def find(self, secret: str) -> Person | None:
        """Return who is signed in by this secret, if anyone."""
        return await self._sessions.person(secret)

    async def person(self, secret: str) -> Person:
        """Return who is signed in by this secret."""
        found = await self.find(secret)
        assert found is not None
        return found

    async def source(self, session: NewSession, source: EventSource = HOME) -> EventSource:
        """Return where the requests of this session come from."""
        person = await self.person(session.secret)
        return msgspec.structs.replace(source, session_hash=person.session_hash)

    async def events(self) -> list[AuditEvent]:
        """Return what happened to the account, newest first."""
        return await self.database.read(
            lambda transaction: store.events_before(transaction, self.account_id, "ev_~", 100)
        )
