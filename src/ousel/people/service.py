"""Signing up, in and out; changing the password; second factors."""

import base64
import secrets
from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeVar

import msgspec

from ousel.accounts import service as accounts
from ousel.accounts.service import NewHolder
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.errors import InvalidField, Refusal
from ousel.kernel.ids import new_secret, secret_hash
from ousel.ledger.refusals import AccountNotFound
from ousel.people import rules, store
from ousel.people.attempts import AttemptCounter
from ousel.people.audit import EventSource, record_event
from ousel.people.passwords import PasswordService
from ousel.people.rules import Session, Stage

FACTOR_SECRET_BYTES: Final = 20
RECOVERY_CODE_BYTES: Final = 10

CodeKind = Literal["one_time", "recovery"]
Result = TypeVar("Result")


class WrongPassword(Refusal):
    """The username, email or password is not right; which of them is not told."""

    status = 400
    code = "wrong_password"
    title = "Sign-in failed"
    cure = "Check the email or username and the password."


class WrongCode(Refusal):
    """The one-time code is not right, or was used before."""

    status = 400
    code = "wrong_code"
    title = "The code is not right"
    cure = "Wait for the next code of the authenticator app, or use a recovery code."


class NewSession(msgspec.Struct, frozen=True):
    """A new session's secret, for the cookie, and whether a code is still owed."""

    secret: str
    seconds: int
    stage: Stage


class SignInService:
    """Lets people in: knows passwords, counts attempts, opens sessions."""

    def __init__(self, database: Database, clock: Clock, real_clock: Clock) -> None:
        """Keep sessions in this database.

        One-time codes and attempts go by the clock on the wall, which is right for phones and
        which nobody who guesses can move.
        """
        self._database = database
        self._clock = clock
        self._system_clock = real_clock
        self._passwords = PasswordService()
        self.attempts = AttemptCounter(database, real_clock)

    async def sign_up(self, holder: NewHolder, password: str, source: EventSource) -> NewSession:
        """Open an account and sign its holder in."""
        rules.parse_password(password)
        accounts.check_holder(holder)
        await self.attempts.count_sign_up(source)
        hashed = await self._passwords.hash_password(password, source.address)
        secured = msgspec.structs.replace(holder, password_hash=hashed)

        async def work(transaction: Transaction) -> NewSession:
            account = await accounts.open_account(transaction, secured, self._clock)
            await record_event(transaction, account.id, "signed_up", source, self._clock)
            return await self._open_session(transaction, account.id, "signed_in", source)

        return await self._database.write(work)

    async def sign_in(self, identifier: str, password: str, source: EventSource) -> NewSession:
        """Sign in with a password; with a second factor, a code is still owed."""
        name = _sign_in_name(identifier)
        account_id = await self._account_id(name)
        counted = name if account_id is None else _password_subject(account_id)
        await self.attempts.check(counted, source)
        stored = await self._stored_password(account_id or "")
        is_right = await self._passwords.matches(stored, password, source.address)

        async def work(transaction: Transaction) -> NewSession | None:
            await self.attempts.count_attempt(transaction, counted, source)
            if account_id is None:
                return None
            # The password may have been changed while it was compared, but not from now on.
            current = await accounts.lock_password_hash(transaction, account_id)
            if not is_right or current != stored:
                await self._record_failure(transaction, account_id, source, "password")
                return None
            await self.attempts.forgive(transaction, counted, source)
            return await self._start_session(transaction, account_id, source)

        signed_in = await self._database.write(work)
        if signed_in is None:
            raise WrongPassword("The email, username or password is not right.")
        return signed_in

    async def sign_in_with_code(self, secret: str, code: str, source: EventSource) -> NewSession:
        """Finish a sign-in with a one-time code or a recovery code."""
        hash_, now = secret_hash(secret), self._clock()
        found = await self._database.read(
            lambda transaction: store.sessions_by_hash(transaction, [hash_])
        )
        begun = [each for each in found if each.stage == "awaits_code" and each.is_valid_at(now)]
        if not begun:
            raise WrongPassword("The sign-in took too long: begin again.")
        account_id = begun[0].account_id

        async def finish(transaction: Transaction, used: CodeKind) -> NewSession:
            # A change of the password, which ends this sign-in, is over by now or waits.
            await accounts.lock_password_hash(transaction, account_id)
            if not await store.end_session(transaction, account_id, hash_):
                raise WrongPassword("The sign-in took too long: begin again.")
            if used == "recovery":
                await record_event(
                    transaction, account_id, "recovery_code_used", source, self._clock
                )
            await record_event(transaction, account_id, "signed_in", source, self._clock)
            return await self._open_session(transaction, account_id, "signed_in", source)

        signed_in = await self._with_code(account_id, code, source, finish)
        if signed_in is None:
            raise WrongCode("This code is not right. Each code works once.")
        return signed_in

    async def sign_out(self, account_id: str, session_hash: str, source: EventSource) -> None:
        """End the session that asks for it."""

        async def work(transaction: Transaction) -> None:
            await store.end_session(transaction, account_id, session_hash)
            await record_event(transaction, account_id, "signed_out", source, self._clock)

        await self._database.write(work)

    async def change_password(
        self, account_id: str, session_hash: str, current: str, new: str, source: EventSource
    ) -> None:
        """Change the password and end all other sessions."""
        rules.parse_password(new, param="new_password")
        counted = _password_subject(account_id)
        await self.attempts.check(counted, source)
        stored = await self._stored_password(account_id)
        is_right = await self._passwords.matches(stored, current, source.address)
        hashed = await self._passwords.hash_password(new, source.address) if is_right else ""

        async def work(transaction: Transaction) -> bool:
            await self.attempts.count_attempt(transaction, counted, source)
            # The password may have been changed while it was compared, but not from now on.
            before = await accounts.lock_password_hash(transaction, account_id)
            if not is_right or before != stored:
                await self._record_failure(transaction, account_id, source, "current password")
                return False
            await self.attempts.forgive(transaction, counted, source)
            await accounts.set_password_hash(transaction, account_id, hashed)
            await store.end_other_sessions(transaction, account_id, session_hash)
            await store.forget_proposal(transaction, account_id)
            await record_event(transaction, account_id, "password_changed", source, self._clock)
            return True

        if not await self._database.write(work):
            raise InvalidField("This is not your current password.", param="current_password")

    async def propose_factor(self, account_id: str) -> str:
        """Return the secret of a second factor that waits for its first code."""
        secret = base64.b32encode(secrets.token_bytes(FACTOR_SECRET_BYTES)).decode()
        return await self._database.write(
            lambda transaction: store.propose_factor(transaction, account_id, secret)
        )

    async def confirm_factor(self, account_id: str, code: str, source: EventSource) -> list[str]:
        """Turn the second factor on with its first code; return the recovery codes."""
        factor = await self._database.read(
            lambda transaction: store.second_factor_of(transaction, account_id)
        )
        if factor is not None and factor.confirmed_at is not None:
            raise InvalidField("Two-factor sign-in is on already.", param="code")
        codes = [_recovery_code() for _ in range(rules.RECOVERY_CODES)]

        async def turn_on(transaction: Transaction, _: CodeKind) -> list[str]:
            hashes = [secret_hash(_normalize_code(each)) for each in codes]
            await store.replace_recovery_codes(transaction, account_id, hashes)
            await record_event(
                transaction, account_id, "second_factor_turned_on", source, self._clock
            )
            return codes

        shown = await self._with_code(account_id, code, source, turn_on)
        if shown is None:
            raise InvalidField("This code is not right. Try the next one.", param="code")
        return shown

    async def remove_factor(self, account_id: str, code: str, source: EventSource) -> None:
        """Turn the second factor off, which takes a code."""

        async def turn_off(transaction: Transaction, _: CodeKind) -> bool:
            await store.remove_factor(transaction, account_id)
            await record_event(
                transaction, account_id, "second_factor_turned_off", source, self._clock
            )
            return True

        if not await self._with_code(account_id, code, source, turn_off):
            raise InvalidField("This code is not right. Each code works once.", param="code")

    async def _with_code(
        self,
        account_id: str,
        code: str,
        source: EventSource,
        then: Callable[[Transaction, CodeKind], Awaitable[Result]],
    ) -> Result | None:
        """Use the code up and do what it allows; a wrong one is counted, and nothing is done."""

        async def work(transaction: Transaction) -> Result | None:
            await self.attempts.count_attempt(transaction, account_id, source)
            used = await self._use_code(transaction, account_id, code)
            if used is None:
                await self._record_failure(transaction, account_id, source, "code")
                return None
            await self.attempts.forgive(transaction, account_id, source)
            return await then(transaction, used)

        return await self._database.write(work)

    async def _use_code(
        self, transaction: Transaction, account_id: str, code: str
    ) -> CodeKind | None:
        now = self._clock()
        factor = await store.second_factor_of(transaction, account_id)
        if factor is None:
            return None
        plain = _normalize_code(code)
        step = rules.matching_step(factor.secret, plain, self._system_clock(), factor.last_step)
        if step is not None and await store.use_step(transaction, account_id, step, now):
            return "one_time"
        if await store.use_recovery_code(transaction, account_id, secret_hash(plain), now):
            return "recovery"
        return None

    async def _record_failure(
        self, transaction: Transaction, account_id: str, source: EventSource, what: str
    ) -> None:
        await record_event(
            transaction, account_id, "sign_in_failed", source, self._clock, f"Wrong {what}"
        )

    async def _start_session(
        self, transaction: Transaction, account_id: str, source: EventSource
    ) -> NewSession:
        factor = await store.second_factor_of(transaction, account_id)
        if factor is not None and factor.confirmed_at is not None:
            return await self._open_session(transaction, account_id, "awaits_code", source)
        await record_event(transaction, account_id, "signed_in", source, self._clock)
        return await self._open_session(transaction, account_id, "signed_in", source)

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
            address=source.address,
            device=rules.device_name(source.device),
        )
        await store.add_session(transaction, session)
        return NewSession(secret, seconds, stage)

    async def _account_id(self, name: str) -> str | None:
        """Return whose name it is; nobody's costs one statement as well."""
        try:
            return await self._database.read(
                lambda transaction: accounts.find_account_id(transaction, name, param="identifier")
            )
        except AccountNotFound:  # it cannot be a name
            return None

    async def _stored_password(self, account_id: str) -> str | None:
        return await self._database.read(
            lambda transaction: accounts.password_hash_of(transaction, account_id)
        )


def _sign_in_name(identifier: str) -> str:
    """Return the one spelling of a name: an email, or @ and a username."""
    name = identifier.strip().lower()
    return name if "@" in name else f"@{name}"


def _password_subject(account_id: str) -> str:
    """Return what guesses at an account's password are counted under; codes are counted apart.

    Whoever has the password must not begin to guess codes anew by giving it again.
    """
    return f"password of {account_id}"


def _recovery_code() -> str:
    """Return a code in groups of four; 80 random bits, so that its hash cannot be reversed."""
    letters = base64.b32encode(secrets.token_bytes(RECOVERY_CODE_BYTES)).decode().lower()
    return "-".join(letters[start : start + 4] for start in range(0, len(letters), 4))


def _normalize_code(code: str) -> str:
    """Return a code as it is compared, however it was grouped."""
    return code.replace(" ", "").replace("-", "").lower()
