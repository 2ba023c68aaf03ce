"""Second factors: an authenticator app's one-time codes, and recovery codes.

Passkeys are second factors too. The recovery codes replace whichever factor was lost.
"""

import base64
import os
from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeVar

from ousel.accounts import service as accounts
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock
from ousel.kernel.errors import InvalidField
from ousel.kernel.ids import secret_hash
from ousel.kernel.texts import with_ascii_digits
from ousel.passkeys import service as passkeys
from ousel.passkeys.service import has_passkey
from ousel.people import factor_store, rules, store
from ousel.people.attempts import AttemptCounter, SignInAttempt
from ousel.people.audit import EventSource, record_event, record_failed_sign_in
from ousel.people.factor_secrets import FactorSecrets
from ousel.people.notices import EventNotices
from ousel.people.secret_file import SecretFileUnusable

FACTOR_SECRET_BYTES: Final = 20
RECOVERY_CODE_BYTES: Final = 10

CodeKind = Literal["one_time", "recovery"]
CodePurpose = Literal["check", "turn_on", "turn_off"]  # what a code is given for
Result = TypeVar("Result")


async def has_second_factor(transaction: Transaction, account_id: str) -> bool:
    """Return whether signing in with the password requires a code or a passkey too."""
    return await has_authenticator_app(transaction, account_id) or await has_passkey(
        transaction, account_id
    )


async def has_authenticator_app(transaction: Transaction, account_id: str) -> bool:
    """Return whether codes of an authenticator app can be used to sign in to the account."""
    app = await factor_store.authenticator_app_of(transaction, account_id)
    return app is not None and app.is_confirmed


async def make_recovery_codes(transaction: Transaction, account_id: str) -> list[str]:
    """Return new recovery codes, which replace earlier ones."""
    codes = [_new_recovery_code() for _ in range(rules.RECOVERY_CODES)]
    hashes = [secret_hash(_normalize_code(each)) for each in codes]
    await factor_store.replace_recovery_codes(transaction, account_id, hashes)
    return codes


async def remove_useless_recovery_codes(transaction: Transaction, account_id: str) -> None:
    """Remove the recovery codes if the account has no second factor any more."""
    if not await has_second_factor(transaction, account_id):
        await factor_store.remove_recovery_codes(transaction, account_id)


async def remove_second_factors(transaction: Transaction, account_id: str) -> None:
    """Remove the authenticator app, all passkeys and the recovery codes."""
    await factor_store.remove_authenticator_app(transaction, account_id)
    await passkeys.remove_all(transaction, account_id)
    await factor_store.remove_recovery_codes(transaction, account_id)


_SET_UP_ALREADY: Final = (
    "An authenticator app is set up already. If you have not seen its recovery codes, turn it off"
    " and on again: then you get new ones."
)
_PROPOSAL_REPLACED: Final = (
    "This page was opened in another session of your account since, so the secret was replaced."
    " Add the new one to your app."
)


class _AppIsOffError(Exception):
    """The authenticator app was to be turned off, but is off already."""


class SecondFactorService:
    """Turns authenticator apps on and off; checks one-time and recovery codes."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        real_clock: Clock,
        attempts: AttemptCounter,
        notices: EventNotices,
        secrets: FactorSecrets,
    ) -> None:
        """Check one-time codes by the real clock, as phones do, even in a sandbox."""
        self._database = database
        self._clock = clock
        self._real_clock = real_clock
        self._attempts = attempts
        self._notices = notices
        self._secrets = secrets

    async def has_authenticator_app(self, account_id: str) -> bool:
        """Return whether codes of an authenticator app can be used to sign in to the account."""
        return await self._database.read(
            lambda transaction: has_authenticator_app(transaction, account_id)
        )

    async def propose(self, account_id: str, session_hash: str) -> str | None:
        """Return a secret for the authenticator app; its first code turns the app on.

        Each session gets a secret of its own, since another session may be a stranger's. Return
        None if the session has ended meanwhile, or an app was turned on. A new password ends
        sessions and removes what was proposed in them: nobody may propose anything afterwards.
        """

        async def work(transaction: Transaction) -> str | None:
            # Wait until no code is being checked: it belongs to the secret that is there now.
            await accounts.lock_holder(transaction, account_id)
            if not await store.lock_session(transaction, account_id, session_hash):
                return None
            if await has_authenticator_app(transaction, account_id):
                return None
            secret = base64.b32encode(os.urandom(FACTOR_SECRET_BYTES)).decode()
            encrypted = await self._secrets.encrypt(transaction, account_id, secret)
            stored = await factor_store.propose_authenticator_app(
                transaction, account_id, encrypted, session_hash
            )
            proposed = self._secrets.decrypt(account_id, stored)
            if proposed is None:  # its key is lost
                await factor_store.remove_proposed_authenticator_app(transaction, account_id)
                await factor_store.propose_authenticator_app(
                    transaction, account_id, encrypted, session_hash
                )
            return proposed or secret

        return await self._database.write(work)

    async def confirm(self, account_id: str, code: str, source: EventSource) -> list[str]:
        """Turn the authenticator app on with its first code; return the recovery codes."""
        if await self.has_authenticator_app(account_id):
            raise InvalidField(_SET_UP_ALREADY, param="code")

        async def turn_on(transaction: Transaction) -> list[str]:
            if not await store.lock_session(transaction, account_id, source.session_hash):
                raise InvalidField("Your session has ended.", param="code")
            await self._notices.record(transaction, account_id, "second_factor_turned_on", source)
            return await make_recovery_codes(transaction, account_id)

        shown = await self.with_code(account_id, code, source, turn_on, "turn_on")
        if shown is None:
            app = await self._database.read(
                lambda transaction: factor_store.authenticator_app_of(transaction, account_id)
            )
            if app is not None and app.is_confirmed:  # the same form was sent twice at once
                reason = _SET_UP_ALREADY
            elif app is not None and app.proposed_by != source.session_hash:
                reason = _PROPOSAL_REPLACED
            else:
                reason = "This code is not right. Try the next one."
            raise InvalidField(reason, param="code")
        return shown

    async def remove(self, account_id: str, code: str, source: EventSource) -> None:
        """Turn the authenticator app off, which requires a code; do nothing if it is off."""

        async def turn_off(transaction: Transaction) -> bool:
            await factor_store.remove_authenticator_app(transaction, account_id)
            await remove_useless_recovery_codes(transaction, account_id)
            await self._notices.record(
                transaction, account_id, "second_factor_turned_off", source, "the authenticator app"
            )
            return True

        try:
            is_off = await self.with_code(account_id, code, source, turn_off, "turn_off")
        except _AppIsOffError:
            return
        if not is_off:
            raise InvalidField("This code is not right. Each code works once.", param="code")

    async def with_code(
        self,
        account_id: str,
        code: str,
        source: EventSource,
        then: Callable[[Transaction], Awaitable[Result]],
        purpose: CodePurpose = "check",
    ) -> Result | None:
        """Use up the code, record it if it is a recovery code, and run `then`; in one transaction.

        If the code is wrong, count a failed attempt and return None. Only the code that turns an
        authenticator app on may come from a secret that is not confirmed.
        """
        attempt = SignInAttempt(
            account_id, account_id, source, rules.CODE_LIMIT, rules.KNOWN_CODE_LIMIT
        )

        async def work(transaction: Transaction) -> Result | None:
            await self._attempts.count_attempt(transaction, attempt)
            # No secret is proposed, and no factor added or removed, until this transaction ends.
            await accounts.lock_holder(transaction, account_id)
            if purpose == "turn_off" and not await has_authenticator_app(transaction, account_id):
                raise _AppIsOffError  # which neither counts the attempt nor uses up a code
            use = self._use_one_time_code if purpose == "turn_on" else self._use_code
            kind = await use(transaction, account_id, code)
            if kind is None:
                if purpose != "turn_on":  # a mistyped first code is no attempt to sign in
                    await record_failed_sign_in(
                        transaction, account_id, "code", source, self._clock
                    )
                return None
            await self._attempts.uncount_attempt(transaction, attempt)
            if kind == "recovery":
                await record_event(
                    transaction, account_id, "recovery_code_used", source, self._clock
                )
            return await then(transaction)

        return await self._database.write(work)

    async def _use_code(
        self, transaction: Transaction, account_id: str, code: str
    ) -> CodeKind | None:
        unusable: SecretFileUnusable | None = None
        if await has_authenticator_app(transaction, account_id):
            try:
                if await self._use_one_time_code(transaction, account_id, code):
                    return "one_time"
            except SecretFileUnusable as refusal:  # a recovery code needs no secret file
                unusable = refusal
        hash_ = secret_hash(_normalize_code(code))
        if await factor_store.use_recovery_code(transaction, account_id, hash_, self._clock()):
            return "recovery"
        if unusable is not None:
            raise unusable
        return None

    async def _use_one_time_code(
        self, transaction: Transaction, account_id: str, code: str
    ) -> CodeKind | None:
        """Use a one-time code; the first one that is right confirms the secret."""
        app = await factor_store.authenticator_app_of(transaction, account_id)
        if app is None:
            return None
        secret = self._secrets.decrypt(account_id, app.secret)
        if secret is None:  # the key is lost, or this server has the wrong file or none
            await self._secrets.require_key(transaction)
            return None
        step = rules.matching_step(secret, _normalize_code(code), self._real_clock(), app.last_step)
        if step is None:
            return None
        is_unused = await factor_store.use_step(transaction, account_id, step, self._clock())
        return "one_time" if is_unused else None


def _new_recovery_code() -> str:
    """Return a code in groups of four; 80 random bits, so that its hash cannot be reversed."""
    letters = base64.b32encode(os.urandom(RECOVERY_CODE_BYTES)).decode().lower()
    return "-".join(letters[start : start + 4] for start in range(0, len(letters), 4))


def _normalize_code(code: str) -> str:
    """Return the code in ASCII digits, without grouping and in lower case, for comparison."""
    return with_ascii_digits(code.replace(" ", "").replace("-", "").lower())
