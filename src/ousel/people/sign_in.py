"""Signing up, in and out, and changing the password."""

from contextlib import suppress
from typing import Final

import msgspec

from ousel.accounts import service as accounts
from ousel.accounts.service import NewHolder
from ousel.database.port import Database, Transaction
from ousel.emails.service import PendingConfirmations
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.errors import FieldChecks, InvalidField, Refusal
from ousel.kernel.ids import new_secret, secret_hash
from ousel.ledger.refusals import AccountNotFound
from ousel.people import rules, store
from ousel.people.attempts import AttemptCounter, SignInAttempt, TooManyAttempts
from ousel.people.audit import EventSource, record_decoy, record_event, record_failed_sign_in
from ousel.people.notices import EventNotices
from ousel.people.password_change import replace_password
from ousel.people.password_check import PasswordCheck, password_subject
from ousel.people.passwords import PasswordService
from ousel.people.rules import Session, Stage
from ousel.people.second_factor import SecondFactorService, has_second_factor
from ousel.resets import service as resets

COOKIE_SECONDS_MIN: Final = 3600


class WrongPassword(Refusal):
    """The username, email or password is not right; the answer does not say which."""

    status = 400
    code = "wrong_password"
    title = "Sign-in failed"
    cure = "Check the email or username and the password."


class SignInEnded(WrongPassword):
    """The sign-in took too long, or was finished before."""

    def __init__(self) -> None:
        """Ask the person to begin again."""
        super().__init__("The sign-in took too long, or was finished before: begin again.")


class WrongCode(Refusal):
    """The one-time code is not right, or was used before."""

    status = 400
    code = "wrong_code"
    title = "The code is not right"
    cure = "Wait for the next code of the authenticator app, or use a recovery code."


class NewSession(msgspec.Struct, frozen=True):
    """A new session's secret, for the cookie, and whether the second factor is still needed."""

    secret: str
    seconds: int  # how long the browser keeps the cookie
    stage: Stage


class SignInService:
    """Opens and ends sessions: checks passwords and codes, and counts attempts."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        attempts: AttemptCounter,
        second_factors: SecondFactorService,
        pending_confirmations: PendingConfirmations,
        notices: EventNotices,
    ) -> None:
        """Store sessions in this database."""
        self._database = database
        self._clock = clock
        self._attempts = attempts
        self._second_factors = second_factors
        self._pending_confirmations = pending_confirmations
        self._notices = notices
        self.passwords = PasswordService()
        self.password_check = PasswordCheck(database, clock, attempts, self.passwords)

    async def sign_up(self, holder: NewHolder, password: str, source: EventSource) -> NewSession:
        """Open an account, send a message to confirm its email, and sign its holder in.

        If the form is sent twice, the second one signs in to the account that the first one opened.
        """
        checks = FieldChecks()
        accounts.check_holder(holder, checks)
        checks.value(lambda: rules.parse_password(password), "password")
        if checks.errors and "username" not in checks.errors:
            await self._check_username(holder.username, checks, source)
        checks.finish()
        await self._attempts.count_sign_up(source)
        hashed = await self.passwords.hash_password(password, source.ip_address)
        new_holder = msgspec.structs.replace(holder, password_hash=hashed, email_is_confirmed=False)

        async def work(transaction: Transaction) -> NewSession:
            account = await accounts.open_account(transaction, new_holder, self._clock)
            await record_event(transaction, account.id, "signed_up", source, self._clock)
            await self._start_confirmation(transaction, account.id, source)
            return await self._open_session(transaction, account.id, "signed_in", source)

        try:
            return await self._database.write(work)
        except accounts.IdentifierInUse:
            # A known browser goes on to sign in. A stranger just learns that the username is in
            # use, which does not count as a failed sign-in.
            if await self._is_browser_of(holder.username, source):
                with suppress(WrongPassword):
                    return await self.sign_in(holder.username, password, source)
            raise

    async def sign_in(self, identifier: str, password: str, source: EventSource) -> NewSession:
        """Sign in with a password; if the account has a second factor, it must follow."""
        name = _sign_in_name(identifier)
        account_id = await self._account_id(name)
        subject = name if account_id is None else password_subject(account_id)
        attempt = SignInAttempt(subject, account_id, source, rules.ACCOUNT_LIMIT)
        await self._attempts.check(attempt)
        stored = await self._stored_password(account_id or "")
        is_right = await self.passwords.matches(stored, password, source.ip_address)

        async def work(transaction: Transaction) -> NewSession | None:
            await self._attempts.count_attempt(transaction, attempt)
            # The password may have changed while it was compared; the lock rules out later changes.
            # For a name that nobody has, the same statements run, so that time reveals nothing.
            current = (await accounts.lock_holder(transaction, account_id or "")).password_hash
            if account_id is None:
                await record_decoy(transaction, source)
                return None
            if not is_right or current != stored:
                await record_failed_sign_in(
                    transaction, account_id, "password", source, self._clock
                )
                return None
            await self._attempts.uncount_attempt(transaction, attempt)
            return await self._start_session(transaction, account_id, source)

        signed_in = await self._database.write(work)
        if signed_in is None:
            raise WrongPassword("The email, username or password is not right.")
        return signed_in

    async def sign_in_with_code(
        self, session_secret: str, code: str, source: EventSource
    ) -> NewSession:
        """Finish a sign-in with a one-time code or a recovery code."""
        account_id = await self.account_of_waiting_sign_in(session_secret)

        async def finish(transaction: Transaction) -> NewSession:
            return await self.finish_waiting_sign_in(
                transaction, account_id, session_secret, source
            )

        signed_in = await self._second_factors.with_code(account_id, code, source, finish)
        if signed_in is None:
            raise WrongCode("This code is not right. Each code works once.", param="code")
        return signed_in

    async def account_of_waiting_sign_in(self, session_secret: str) -> str:
        """Return the account of a sign-in that waits for its second factor, or refuse."""
        hash_, now = secret_hash(session_secret), self._clock()
        found = await self._database.read(
            lambda transaction: store.sessions_by_hash(transaction, [hash_])
        )
        for session in found:
            if session.stage == "awaits_code" and session.is_valid_at(now):
                return session.account_id
        raise SignInEnded

    async def finish_waiting_sign_in(
        self,
        transaction: Transaction,
        account_id: str,
        session_secret: str,
        source: EventSource,
        detail: str = "",
    ) -> NewSession:
        """Open the session of a sign-in whose second factor was right.

        The caller has locked the password, a change of which ends this sign-in.
        """
        if not await store.end_session(transaction, account_id, secret_hash(session_secret)):
            raise SignInEnded
        return await self.complete_sign_in(transaction, account_id, source, detail)

    async def complete_sign_in(
        self, transaction: Transaction, account_id: str, source: EventSource, detail: str = ""
    ) -> NewSession:
        """Open a session.

        Notify the holder if the account does not know the browser, or if the browser has not signed
        in since the password was reset.
        """
        if await store.has_signed_in_since_reset(transaction, account_id, source.browser_hash):
            await record_event(transaction, account_id, "signed_in", source, self._clock, detail)
        else:
            await self._notices.record(transaction, account_id, "signed_in", source, detail)
        return await self._open_session(transaction, account_id, "signed_in", source)

    async def sign_out(self, account_id: str, session_hash: str, source: EventSource) -> None:
        """End this session."""

        async def work(transaction: Transaction) -> None:
            await store.end_session(transaction, account_id, session_hash)
            await record_event(transaction, account_id, "signed_out", source, self._clock)

        await self._database.write(work)

    async def change_password(
        self, account_id: str, current: str, new: str, source: EventSource
    ) -> None:
        """Change the password and end all sessions but the source's."""
        rules.parse_password(new, param="new_password")
        compared = await self.password_check.compare(account_id, current, source)
        hashed = ""
        if compared.is_right:
            hashed = await self.passwords.hash_password(new, source.ip_address)

        async def work(transaction: Transaction) -> bool:
            if not await self.password_check.confirm(transaction, compared, "change your password"):
                return False
            await replace_password(
                transaction,
                account_id,
                hashed,
                session_hash=source.session_hash,
                browser_hash=source.browser_hash,
            )
            await resets.end_links_of(transaction, account_id)
            await self._notices.record(transaction, account_id, "password_changed", source)
            return True

        if not await self._database.write(work):
            raise InvalidField("This is not your current password.", param="current_password")

    async def _start_confirmation(
        self, transaction: Transaction, account_id: str, source: EventSource
    ) -> None:
        """Send a link and a code.

        Nothing is sent if too many were sent to this mailbox or asked for from this IP address.
        """
        if not self._pending_confirmations.accepts_mail:
            return
        email = await accounts.email_of(transaction, account_id)
        with suppress(TooManyAttempts):  # the page lets the person ask again later
            await self._attempts.count_mail(transaction, account_id, email.address, source)
            await self._pending_confirmations.start(transaction, account_id, email.address)

    async def _start_session(
        self, transaction: Transaction, account_id: str, source: EventSource
    ) -> NewSession:
        if await has_second_factor(transaction, account_id):
            return await self._open_session(transaction, account_id, "awaits_code", source)
        return await self.complete_sign_in(transaction, account_id, source)

    async def _open_session(
        self, transaction: Transaction, account_id: str, stage: Stage, source: EventSource
    ) -> NewSession:
        secret, now = new_secret("os_"), self._clock()
        seconds = rules.AWAITS_CODE_SECONDS if stage == "awaits_code" else rules.SESSION_SECONDS
        session = Session(
            hash=secret_hash(secret),
            account_id=account_id,
            stage=stage,
            created_at=now,
            last_used_at=now,
            expires_at=now + seconds * MICROS_PER_SECOND,
            ip_address=source.ip_address,
            device=rules.device_name(source.device),
            identity_checked_at=now if stage == "signed_in" else 0,
        )
        await store.add_session(transaction, session)
        if stage == "signed_in" and source.browser_hash:
            await store.remember_browser(transaction, account_id, source.browser_hash, now)
        # A cookie that outlives a sign-in lets the server say that the code came too late.
        return NewSession(secret, max(seconds, COOKIE_SECONDS_MIN), stage)

    async def _check_username(
        self, username: str, checks: FieldChecks, source: EventSource
    ) -> None:
        """If the username is in use, report this together with the other fields that are wrong."""
        await self._attempts.count_sign_up(source)  # else anyone could find out which names exist
        is_free = await self._database.read(
            lambda transaction: accounts.is_username_free(transaction, username)
        )
        if not is_free:
            checks.errors["username"] = f"@{username.lower().removeprefix('@')} is in use."

    async def _is_browser_of(self, username: str, source: EventSource) -> bool:
        """Return whether this browser was ever used to sign in to the account of this username."""

        async def read(transaction: Transaction) -> bool:
            name = _sign_in_name(username)
            account_id = await accounts.find_account_id(transaction, name, param="username")
            return await store.is_known_browser(transaction, account_id or "", source.browser_hash)

        return await self._database.read(read)

    async def _account_id(self, name: str) -> str | None:
        """Return the id of the account that has this name, or None if there is none."""
        try:
            return await self._database.read(
                lambda transaction: accounts.find_account_id(transaction, name, param="identifier")
            )
        except AccountNotFound:  # the name is malformed
            return None

    async def _stored_password(self, account_id: str) -> str | None:
        return await self._database.read(
            lambda transaction: accounts.password_hash_of(transaction, account_id)
        )


def _sign_in_name(identifier: str) -> str:
    """Return the normalized identifier: an email, or @ and a username."""
    name = identifier.strip().lower()
    return name if "@" in name else f"@{name}"


async def end_all_sessions_and_reset_links(transaction: Transaction) -> int:
    """End the sessions and reset links of all accounts; return how many sessions there were."""
    await resets.end_all_links(transaction)
    return await store.end_all_sessions(transaction)
