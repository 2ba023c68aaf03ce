"""Identity checks: signed-in people prove again who they are, before an action that matters.

A session records when its last check succeeded. Signing in is a check too.
"""

from typing import Any, Literal, assert_never

from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock
from ousel.kernel.errors import IdentityCheckNeeded
from ousel.passkeys.rules import Passkey
from ousel.passkeys.service import has_passkey
from ousel.people import store
from ousel.people.audit import EventSource
from ousel.people.passkeys import PasskeyService
from ousel.people.password_check import PasswordCheck
from ousel.people.second_factor import SecondFactorService, has_authenticator_app

Way = Literal["password", "code", "passkey"]  # how people prove who they are


class IdentityCheckService:
    """Checks what people give to prove who they are, and counts wrong answers."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        password_check: PasswordCheck,
        second_factors: SecondFactorService,
        passkeys: PasskeyService,
    ) -> None:
        """Record checks in the sessions of this database."""
        self._database = database
        self._clock = clock
        self._password_check = password_check
        self._second_factors = second_factors
        self._passkeys = passkeys
        self.site = passkeys.site

    async def ways(self, account_id: str) -> list[Way]:
        """Return the ways in which the holder of the account can prove who they are.

        If they have only passkeys, the code is a recovery code.
        """

        async def read(transaction: Transaction) -> list[Way]:
            if await has_passkey(transaction, account_id):
                return ["passkey", "code"]
            has_app = await has_authenticator_app(transaction, account_id)
            return ["code"] if has_app else ["password"]

        return await self._database.read(read)

    async def passkey_options(self, account_id: str, source: EventSource) -> dict[str, Any]:
        """Return the options with which a browser asks for a passkey of the account."""
        return await self._passkeys.request_options(account_id, source)

    async def check(self, way: Way, account_id: str, given: str, source: EventSource) -> bool:
        """Return whether what was given is right, and record the check in the source's session.

        A passkey that is not right is refused with the reason.
        """
        if way not in await self.ways(account_id):
            # Above all, this refuses the code of a second factor that was only proposed.
            raise IdentityCheckNeeded("You can no longer use this method to confirm your identity.")
        match way:
            case "password":
                return await self._check_password(account_id, given, source)
            case "code":
                return await self._check_code(account_id, given, source)
            case "passkey":
                return await self._check_passkey(account_id, given, source)
            case _:
                assert_never(way)

    async def _check_password(self, account_id: str, password: str, source: EventSource) -> bool:
        compared = await self._password_check.compare(account_id, password, source)
        return await self._database.write(
            lambda transaction: self._password_check.confirm(transaction, compared)
        )

    async def _check_code(self, account_id: str, code: str, source: EventSource) -> bool:
        async def record(transaction: Transaction) -> bool:
            return await store.record_identity_check(
                transaction, account_id, source.session_hash, self._clock()
            )

        return bool(await self._second_factors.with_code(account_id, code, source, record))

    async def _check_passkey(self, account_id: str, credential: str, source: EventSource) -> bool:
        async def record(transaction: Transaction, _: Passkey) -> bool:
            return await store.record_identity_check(
                transaction, account_id, source.session_hash, self._clock()
            )

        return await self._passkeys.with_passkey(account_id, credential, source, record)
