"""Asks people who are signed in for their password, before they change what protects them."""

import msgspec

from ousel.accounts import service as accounts
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock
from ousel.kernel.errors import IdentityCheckNeeded
from ousel.people import rules, store
from ousel.people.attempts import AttemptCounter, SignInAttempt
from ousel.people.audit import EventSource, record_failed_sign_in
from ousel.people.passwords import PasswordService
from ousel.people.second_factor import has_second_factor


class ComparedPassword(msgspec.Struct, frozen=True):
    """A password that was compared with the stored one."""

    attempt: SignInAttempt
    account_id: str
    stored: str | None
    is_right: bool


class PasswordCheck:
    """Checks the passwords of people who are signed in, and counts wrong ones."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        attempts: AttemptCounter,
        passwords: PasswordService,
    ) -> None:
        """Compare with the passwords in this database."""
        self._database = database
        self._clock = clock
        self._attempts = attempts
        self._passwords = passwords

    async def compare(
        self, account_id: str, password: str, source: EventSource
    ) -> ComparedPassword:
        """Compare a password, which takes a while; `confirm` then decides."""
        attempt = SignInAttempt(
            password_subject(account_id), account_id, source, rules.ACCOUNT_LIMIT
        )
        await self._attempts.check(attempt)
        stored = await self._database.read(
            lambda transaction: accounts.password_hash_of(transaction, account_id)
        )
        is_right = await self._passwords.matches(stored, password, source.ip_address)
        return ComparedPassword(attempt, account_id, stored, is_right)

    async def confirm(
        self, transaction: Transaction, compared: ComparedPassword, purpose: str = ""
    ) -> bool:
        """Return whether the password was right and has not changed since; count a wrong one.

        If an identity check is needed as well, the person is told for which purpose.
        """
        attempt, account_id = compared.attempt, compared.account_id
        await self._attempts.count_attempt(transaction, attempt)
        # The password may have changed while it was compared; the lock rules out later changes.
        current = (await accounts.lock_holder(transaction, account_id)).password_hash
        if not compared.is_right or current != compared.stored:
            await record_failed_sign_in(
                transaction, account_id, "current password", attempt.source, self._clock
            )
            return False
        await self._attempts.uncount_attempt(transaction, attempt)
        await self._record_check(transaction, account_id, attempt.source.session_hash, purpose)
        return True

    async def _record_check(
        self, transaction: Transaction, account_id: str, session_hash: str, purpose: str
    ) -> None:
        """Count the password as an identity check, unless the account has a second factor.

        With a second factor, a code or a passkey must have been given recently as well.
        """
        now = self._clock()
        if not await has_second_factor(transaction, account_id):
            await store.record_identity_check(transaction, account_id, session_hash, now)
            return
        found = await store.sessions_by_hash(transaction, [session_hash])
        if not any(each.is_recently_checked_at(now) for each in found):
            raise IdentityCheckNeeded(
                "This needs a code or a passkey as well as your password.", purpose=purpose
            )


def password_subject(account_id: str) -> str:
    """Return the name that attempts at an account's password are counted under.

    Codes are counted separately: the right password must not reset the count of wrong codes.
    """
    return f"password of {account_id}"
