"""Signing up, in and out; changing the password; second factors."""

import base64
import secrets
from typing import Final, Literal

import msgspec

from ousel.accounts import service as accounts
from ousel.accounts import store as holders
from ousel.accounts.service import NewHolder
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.errors import InvalidField, Refusal
from ousel.kernel.ids import new_secret, secret_hash
from ousel.ledger.refusals import AccountNotFound
from ousel.ledger.rules import Account
from ousel.people import rules, store
from ousel.people.attempts import Attempts
from ousel.people.audit import Trace, record
from ousel.people.passwords import Passwords

FACTOR_SECRET_BYTES: Final = 20
RECOVERY_CODE_BYTES: Final = 5


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


class SignedIn(msgspec.Struct, frozen=True):
    """A new session's secret, for the cookie, and whether a code is still owed."""

    secret: str
    seconds: int
    stage: store.Stage


class Door:
    """Lets people in: knows passwords, counts attempts, opens sessions."""

    def __init__(self, database: Database, clock: Clock) -> None:
        """Keep sessions in this database."""
        self._database = database
        self._clock = clock
        self._passwords = Passwords()
        self._attempts = Attempts(database, clock)

    async def sign_up(self, holder: NewHolder, password: str, trace: Trace) -> SignedIn:
        """Open an account and sign its holder in."""
        hashed = await self._passwords.hashed(rules.checked_password(password))
        secured = msgspec.structs.replace(holder, password_hash=hashed)

        async def work(transaction: Transaction) -> SignedIn:
            account = await accounts.open_account(transaction, secured, self._clock)
            await record(transaction, account.id, "signed_up", trace, self._clock)
            return await self._open_session(transaction, account.id, "signed_in", trace)

        return await self._database.write(work)

    async def sign_in(self, identifier: str, password: str, trace: Trace) -> SignedIn:
        """Sign in with a password; with a second factor, a code is still owed."""
        name = identifier.strip().lower()
        await self._attempts.check(name, trace)
        account_id, stored = await self._stored_password(name)
        if not await self._passwords.match(stored, password):
            await self._attempts.failed(name, trace, account_id)
            raise WrongPassword("The email, username or password is not right.")
        assert account_id is not None

        async def work(transaction: Transaction) -> SignedIn:
            factor = await store.second_factor_of(transaction, account_id)
            owes_code = factor is not None and factor.confirmed_at is not None
            if not owes_code:
                await record(transaction, account_id, "signed_in", trace, self._clock)
            stage: store.Stage = "awaits_code" if owes_code else "signed_in"
            return await self._open_session(transaction, account_id, stage, trace)

        return await self._database.write(work)

    async def give_code(self, secret: str, code: str, trace: Trace) -> SignedIn:
        """Finish a sign-in with a one-time code or a recovery code."""
        hash_, now = secret_hash(secret), self._clock()
        session = await self._database.read(
            lambda transaction: store.session_by_hash(transaction, hash_, now)
        )
        if session is None or session.stage != "awaits_code":
            raise WrongPassword("The sign-in took too long: begin again.")
        account_id = session.account_id
        await self._attempts.check(account_id, trace)

        async def work(transaction: Transaction) -> SignedIn | None:
            used = await self._use_code(transaction, account_id, code)
            if used is None:
                return None
            await store.end_session(transaction, account_id, hash_)
            if used == "recovery":
                await record(transaction, account_id, "recovery_code_used", trace, self._clock)
            await record(transaction, account_id, "signed_in", trace, self._clock)
            return await self._open_session(transaction, account_id, "signed_in", trace)

        signed_in = await self._database.write(work)
        if signed_in is None:
            await self._attempts.failed(account_id, trace, account_id)
            raise WrongCode("This code is not right. Each code works once.")
        return signed_in

    async def sign_out(self, account_id: str, session_hash: str, trace: Trace) -> None:
        """End the session that asks for it."""

        async def work(transaction: Transaction) -> None:
            await store.end_session(transaction, account_id, session_hash)
            await record(transaction, account_id, "signed_out", trace, self._clock)

        await self._database.write(work)

    async def change_password(
        self, account_id: str, session_hash: str, current: str, new: str, trace: Trace
    ) -> None:
        """Change the password and end all other sessions."""
        await self._attempts.check(account_id, trace)
        stored = await self._database.read(
            lambda transaction: holders.password_hash_of(transaction, account_id)
        )
        if not await self._passwords.match(stored, current):
            await self._attempts.failed(account_id, trace, account_id)
            raise InvalidField("This is not your current password.", param="current_password")
        try:
            hashed = await self._passwords.hashed(rules.checked_password(new))
        except InvalidField as refusal:
            raise InvalidField(refusal.detail, param="new_password") from refusal

        async def work(transaction: Transaction) -> None:
            await holders.set_password_hash(transaction, account_id, hashed)
            await store.end_other_sessions(transaction, account_id, session_hash)
            await record(transaction, account_id, "password_changed", trace, self._clock)

        await self._database.write(work)

    async def propose_factor(self, account_id: str) -> str:
        """Return the secret of a second factor that waits for its first code."""

        async def work(transaction: Transaction) -> str:
            factor = await store.second_factor_of(transaction, account_id)
            if factor is None:
                secret = base64.b32encode(secrets.token_bytes(FACTOR_SECRET_BYTES)).decode()
                await store.propose_factor(transaction, account_id, secret)
                return secret
            return factor.secret

        return await self._database.write(work)

    async def confirm_factor(self, account_id: str, code: str, trace: Trace) -> list[str]:
        """Turn the second factor on with its first code; return the recovery codes."""
        codes = [_recovery_code() for _ in range(rules.RECOVERY_CODES)]

        async def work(transaction: Transaction) -> None:
            if await self._use_code(transaction, account_id, code) != "one_time":
                raise InvalidField("This code is not right. Try the next one.", param="code")
            await store.replace_recovery_codes(
                transaction, account_id, [secret_hash(each) for each in codes]
            )
            await record(transaction, account_id, "second_factor_turned_on", trace, self._clock)

        await self._attempts.check(account_id, trace)
        try:
            await self._database.write(work)
        except InvalidField:
            await self._attempts.failed(account_id, trace, None)
            raise
        return codes

    async def remove_factor(self, account_id: str, code: str, trace: Trace) -> None:
        """Turn the second factor off, which takes a code."""

        async def work(transaction: Transaction) -> None:
            if await self._use_code(transaction, account_id, code) is None:
                raise InvalidField("This code is not right. Each code works once.", param="code")
            await store.remove_factor(transaction, account_id)
            await record(transaction, account_id, "second_factor_turned_off", trace, self._clock)

        await self._attempts.check(account_id, trace)
        try:
            await self._database.write(work)
        except InvalidField:
            await self._attempts.failed(account_id, trace, None)
            raise

    async def _use_code(
        self, transaction: Transaction, account_id: str, code: str
    ) -> Literal["one_time", "recovery"] | None:
        now = self._clock()
        factor = await store.second_factor_of(transaction, account_id)
        if factor is None:
            return None
        plain = code.replace(" ", "").replace("-", "").lower()
        step = rules.matching_step(factor.secret, plain, now, factor.last_step)
        if step is not None and await store.use_step(transaction, account_id, step, now):
            return "one_time"
        if await store.use_recovery_code(transaction, account_id, secret_hash(plain), now):
            return "recovery"
        return None

    async def _open_session(
        self, transaction: Transaction, account_id: str, stage: store.Stage, trace: Trace
    ) -> SignedIn:
        secret, now = new_secret("os_"), self._clock()
        seconds = rules.AWAITS_CODE_SECONDS if stage == "awaits_code" else rules.SESSION_SECONDS
        session = store.Session(
            hash=secret_hash(secret),
            account_id=account_id,
            stage=stage,
            created_at=now,
            last_used_at=now,
            expires_at=now + seconds * MICROS_PER_SECOND,
            address=trace.address,
            device=rules.device_name(trace.device),
        )
        await store.add_session(transaction, session)
        return SignedIn(secret, seconds, stage)

    async def _stored_password(self, name: str) -> tuple[str | None, str | None]:
        """Return the account that a name belongs to and its password's hash, if there is one."""
        identifier = name if "@" in name else f"@{name}"

        async def read(transaction: Transaction) -> tuple[Account, str | None]:
            account = await accounts.find(transaction, identifier, param="identifier")
            return account, await holders.password_hash_of(transaction, account.id)

        try:
            account, stored = await self._database.read(read)
        except AccountNotFound:
            return None, None
        return account.id, stored


def _recovery_code() -> str:
    return base64.b32encode(secrets.token_bytes(RECOVERY_CODE_BYTES)).decode().lower()
