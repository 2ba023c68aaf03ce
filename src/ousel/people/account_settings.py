"""What people see and change under Settings: their sessions and the account's audit events."""

from typing import Final

import msgspec

from ousel.accounts import service as accounts
from ousel.accounts.rules import HolderEmail
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock
from ousel.kernel.ids import after_all_ids
from ousel.ledger.rules import Account
from ousel.passkeys.rules import Passkey
from ousel.passkeys.service import passkeys_of
from ousel.people import factor_store, store
from ousel.people.audit import EventSource, record_event
from ousel.people.rules import AuditEvent, AuthenticatorApp, Session

SESSIONS_SHOWN: Final = 100
RECENT_EVENTS_SHOWN: Final = 5
AFTER_ALL_EVENTS: Final = after_all_ids("ev_")


class AccountSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the settings page shows of an account."""

    account: Account
    email: HolderEmail
    sessions: list[Session]
    authenticator_app: AuthenticatorApp | None
    passkeys: list[Passkey]
    recovery_codes_left: int
    wants_money_notices: bool
    events: list[AuditEvent]

    @property
    def may_have_more_sessions(self) -> bool:
        """Whether there may be sessions that are not listed."""
        return len(self.sessions) == SESSIONS_SHOWN

    @property
    def last_factor_is_passkey(self) -> bool:
        """Whether the only second factor is one passkey."""
        has_app = self.authenticator_app is not None and self.authenticator_app.is_confirmed
        return len(self.passkeys) == 1 and not has_app


class AccountSettingsService:
    """Reads an account's settings and audit events, and ends sessions."""

    def __init__(self, database: Database, clock: Clock) -> None:
        """Work on this database."""
        self._database = database
        self._clock = clock

    async def read(self, account_id: str) -> AccountSettings:
        """Return the account's settings with its latest events."""

        async def read(transaction: Transaction) -> AccountSettings:
            return AccountSettings(
                account=await accounts.account_by_id(transaction, account_id),
                email=await accounts.email_of(transaction, account_id),
                sessions=await store.sessions_of(
                    transaction, account_id, self._clock(), SESSIONS_SHOWN
                ),
                authenticator_app=await factor_store.authenticator_app_of(transaction, account_id),
                passkeys=await passkeys_of(transaction, account_id),
                recovery_codes_left=await factor_store.recovery_codes_left(transaction, account_id),
                wants_money_notices=await accounts.wants_money_notices(transaction, account_id),
                events=await store.events_before(
                    transaction, account_id, AFTER_ALL_EVENTS, RECENT_EVENTS_SHOWN
                ),
            )

        return await self._database.read(read)

    async def events_before(self, account_id: str, event_id: str, limit: int) -> list[AuditEvent]:
        """Return what happened to the account before this event, newest first."""
        return await self._database.read(
            lambda transaction: store.events_before(transaction, account_id, event_id, limit)
        )

    async def set_money_notices(self, account_id: str, *, are_wanted: bool) -> None:
        """Turn the notices about received money on or off."""
        off_since = None if are_wanted else self._clock()
        await self._database.write(
            lambda transaction: accounts.set_money_notices(transaction, account_id, off_since)
        )

    async def end_session(self, account_id: str, session_hash: str, source: EventSource) -> None:
        """End one of the account's sessions."""

        async def work(transaction: Transaction) -> None:
            if await store.end_session(transaction, account_id, session_hash):
                await record_event(transaction, account_id, "session_ended", source, self._clock)

        await self._database.write(work)
