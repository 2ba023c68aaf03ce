"""Signing in with a passkey: with nothing else, or after the password."""

from typing import Any

import msgspec

from ousel.database.port import Database, Transaction
from ousel.passkeys.rules import Passkey
from ousel.passkeys.service import has_passkey
from ousel.people.audit import EventSource
from ousel.people.passkeys import PasskeyService
from ousel.people.second_factor import has_authenticator_app
from ousel.people.sign_in import NewSession, SignInEnded, SignInService


class SecondStep(msgspec.Struct, frozen=True):
    """Which second factors can finish a sign-in, besides a recovery code."""

    by_app: bool
    by_passkey: bool


class PasskeySignInService:
    """Opens sessions for people who prove with a passkey who they are.

    An authenticator uses a passkey only after it has recognized its owner by a PIN, a finger or a
    face. So a passkey is both factors at once, and no code is asked for.
    """

    def __init__(
        self, database: Database, passkeys: PasskeyService, sign_in: SignInService
    ) -> None:
        """Open sessions by this service."""
        self._database = database
        self._passkeys = passkeys
        self._sign_in = sign_in
        self.site = passkeys.site

    async def options(self, source: EventSource) -> dict[str, Any]:
        """Return the options with which a browser asks for any passkey of this site."""
        return await self._passkeys.request_options("", source)

    async def sign_in(self, credential: str, source: EventSource) -> NewSession:
        """Sign in with a passkey, which names the account."""

        async def complete(transaction: Transaction, passkey: Passkey) -> NewSession:
            return await self._sign_in.complete_sign_in(
                transaction, passkey.account_id, source, _detail(passkey)
            )

        return await self._passkeys.with_passkey("", credential, source, complete)

    async def second_step(self, session_secret: str) -> SecondStep | None:
        """Return what can finish this sign-in, or None if it has ended."""
        try:
            account_id = await self._sign_in.account_of_waiting_sign_in(session_secret)
        except SignInEnded:
            return None

        async def read(transaction: Transaction) -> SecondStep:
            return SecondStep(
                await has_authenticator_app(transaction, account_id),
                await has_passkey(transaction, account_id),
            )

        return await self._database.read(read)

    async def second_step_options(self, session_secret: str, source: EventSource) -> dict[str, Any]:
        """Return the options with which a browser asks for a passkey after the password."""
        account_id = await self._sign_in.account_of_waiting_sign_in(session_secret)
        return await self._passkeys.request_options(account_id, source)

    async def finish(self, session_secret: str, credential: str, source: EventSource) -> NewSession:
        """Finish a sign-in with a passkey instead of a code."""
        account_id = await self._sign_in.account_of_waiting_sign_in(session_secret)

        async def finish(transaction: Transaction, passkey: Passkey) -> NewSession:
            return await self._sign_in.finish_waiting_sign_in(
                transaction, account_id, session_secret, source, _detail(passkey)
            )

        return await self._passkeys.with_passkey(account_id, credential, source, finish)


def _detail(passkey: Passkey) -> str:
    return f"With the passkey {passkey.name}"
