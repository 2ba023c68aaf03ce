"""Adding, naming and removing passkeys, and using them to prove one's identity."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

import msgspec

from ousel.accounts import service as accounts
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock
from ousel.kernel.errors import Refusal
from ousel.kernel.texts import isolated
from ousel.passkeys import service as passkeys
from ousel.passkeys.ceremony import BrowserAnswer, read_answer
from ousel.passkeys.rules import Owner, Passkey, parse_name
from ousel.passkeys.service import PasskeyChallenges, PasskeyNotAccepted
from ousel.people import store
from ousel.people.attempts import AttemptCounter, SignInAttempt
from ousel.people.audit import EventSource, record_event, record_failed_sign_in
from ousel.people.notices import EventNotices
from ousel.people.rules import PASSKEY_LIMIT
from ousel.people.second_factor import (
    has_second_factor,
    make_recovery_codes,
    remove_useless_recovery_codes,
)

Result = TypeVar("Result")


class PasskeyNotFound(Refusal):
    """The account has no such passkey, or no longer has it."""

    status = 404
    code = "passkey_not_found"
    title = "There is no such passkey"
    cure = "Open the settings again."


class _Refused(msgspec.Struct, frozen=True):
    """Why a passkey was not accepted, in a sentence for the person."""

    detail: str


class _AnsweredChallenge(msgspec.Struct, frozen=True):
    """When the challenge was issued, and the passkey that the browser's answer names."""

    asked_at: int
    passkey: Passkey | None


UNKNOWN: Final = _Refused("This passkey is not known here. It may have been removed.")
OUTDATED: Final = _Refused("The password was changed in the meantime. Try again.")
SENT_TWICE: Final = _Refused("This took too long, or was sent twice. Try again.")
ADDED_BEFORE: Final = _Refused(
    "This passkey was added already. If you have not seen its recovery codes, remove the passkey"
    " and add it again to get new ones."
)


class PasskeyService:
    """Changes the passkeys of accounts, checks them, and records what happened."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        attempts: AttemptCounter,
        challenges: PasskeyChallenges,
        notices: EventNotices,
    ) -> None:
        """Work on this database, and notify people of what happens to their passkeys."""
        self._database = database
        self._clock = clock
        self._attempts = attempts
        self._challenges = challenges
        self._notices = notices
        self.site = challenges.site

    async def find(self, account_id: str, passkey_id: str) -> Passkey:
        """Return one of the account's passkeys, or refuse."""
        return await self._database.read(
            lambda transaction: _find(transaction, account_id, passkey_id)
        )

    async def creation_options(self, owner: Owner, source: EventSource) -> dict[str, Any]:
        """Return the options with which a browser makes a passkey."""

        async def work(transaction: Transaction) -> dict[str, Any]:
            await self._attempts.count_challenge(transaction, source)
            return await self._challenges.creation_options(transaction, owner, source.browser_hash)

        return await self._database.write(work)

    async def request_options(self, account_id: str, source: EventSource) -> dict[str, Any]:
        """Return the options with which a browser asks for a passkey, of this account or of any."""

        async def work(transaction: Transaction) -> dict[str, Any]:
            await self._attempts.count_challenge(transaction, source)
            return await self._challenges.request_options(
                transaction, account_id, source.browser_hash
            )

        return await self._database.write(work)

    async def add(
        self, account_id: str, name: str, credential: str, source: EventSource
    ) -> list[str] | None:
        """Add a passkey; return recovery codes if it is the account's first second factor.

        Return None if the session has ended meanwhile: it may not leave a way in behind.
        """
        name = parse_name(name)
        answer = _read(credential)
        await self._use_challenge(answer, account_id, source, is_new=True)
        checked = await self._challenges.check_new(answer)
        if checked is None:
            raise PasskeyNotAccepted("The passkey was not accepted. Try again.")

        async def work(transaction: Transaction) -> list[str] | None:
            await accounts.lock_holder(transaction, account_id)
            if not await store.lock_session(transaction, account_id, source.session_hash):
                return None
            is_first = not await has_second_factor(transaction, account_id)
            await passkeys.add(transaction, account_id, name, checked, self._clock)
            await self._notices.record(transaction, account_id, "passkey_added", source, name)
            return await make_recovery_codes(transaction, account_id) if is_first else []

        return await self._database.write(work)

    async def rename(
        self, account_id: str, passkey_id: str, name: str, source: EventSource
    ) -> None:
        """Change the name of a passkey."""
        new_name = parse_name(name)

        async def work(transaction: Transaction) -> None:
            before = await _find(transaction, account_id, passkey_id)
            if before.name == new_name:
                return
            await passkeys.rename(transaction, account_id, passkey_id, new_name)
            detail = f"{isolated(before.name)} → {isolated(new_name)}"
            await record_event(
                transaction, account_id, "passkey_renamed", source, self._clock, detail
            )

        await self._database.write(work)

    async def remove(self, account_id: str, passkey_id: str, source: EventSource) -> None:
        """Remove a passkey; with the last second factor, the recovery codes are removed too."""

        async def work(transaction: Transaction) -> None:
            await accounts.lock_holder(transaction, account_id)
            removed = await _find(transaction, account_id, passkey_id)
            await passkeys.remove(transaction, account_id, passkey_id)
            await remove_useless_recovery_codes(transaction, account_id)
            await self._notices.record(
                transaction, account_id, "passkey_removed", source, removed.name
            )

        await self._database.write(work)

    async def with_passkey(
        self,
        account_id: str,
        credential: str,
        source: EventSource,
        then: Callable[[Transaction, Passkey], Awaitable[Result]],
    ) -> Result:
        """Check a passkey of this account, or of any, and run `then` in the transaction of its use.

        If the passkey is not accepted, count a failed attempt and refuse.
        """
        answer = _read(credential)
        answered = await self._use_challenge(answer, account_id, source)
        passkey = answered.passkey
        attempt = SignInAttempt(
            f"passkey {answer.credential_id}",
            None if passkey is None else passkey.account_id,
            source,
            PASSKEY_LIMIT,
        )
        await self._attempts.check(attempt)
        sign_count = None
        if passkey is not None:
            sign_count = await self._challenges.check_signature(answer, passkey)

        async def work(transaction: Transaction) -> Result | _Refused:
            await self._attempts.count_attempt(transaction, attempt)
            if passkey is None:
                return UNKNOWN
            # A new password ends all sessions, and also those that were about to be opened.
            await accounts.lock_holder(transaction, passkey.account_id)
            if await store.has_new_password(transaction, passkey.account_id, answered.asked_at):
                return OUTDATED
            refused = await self._use(transaction, passkey, sign_count, source)
            if refused is not None:
                return refused
            await self._attempts.uncount_attempt(transaction, attempt)
            return await then(transaction, passkey)

        result = await self._database.write(work)
        if isinstance(result, _Refused):
            raise PasskeyNotAccepted(result.detail)
        return result

    async def _use(
        self,
        transaction: Transaction,
        passkey: Passkey,
        sign_count: int | None,
        source: EventSource,
    ) -> _Refused | None:
        """Record the use of a passkey, or that it was refused, and why."""
        account_id = passkey.account_id
        if sign_count is None:
            await record_failed_sign_in(transaction, account_id, "passkey", source, self._clock)
            return _Refused("The passkey was not accepted. Try again.")
        if await passkeys.record_use(transaction, passkey, sign_count, self._clock()):
            return None
        if not await passkeys.is_stored(transaction, passkey):  # it was removed during the check
            return UNKNOWN
        await self._notices.record(transaction, account_id, "passkey_refused", source, passkey.name)
        return _Refused(
            "This passkey was refused, because it may have been copied: each use raises its"
            " counter, but the counter was not higher than last time."
            " Sign in another way, and remove it in the settings."
        )

    async def _use_challenge(
        self, answer: BrowserAnswer, account_id: str, source: EventSource, *, is_new: bool = False
    ) -> _AnsweredChallenge:
        """Use up the challenge, even if the answer is wrong; return its time, and the passkey.

        This is a transaction of its own: the check of the answer follows on a thread, and no
        transaction may wait for a thread.
        """

        async def work(transaction: Transaction) -> _AnsweredChallenge | _Refused:
            asked_at = await self._challenges.use_challenge(
                transaction, answer, account_id, source.browser_hash
            )
            passkey = await passkeys.find_passkey_of_answer(transaction, answer, account_id)
            if asked_at is None:
                return ADDED_BEFORE if is_new and passkey is not None else SENT_TWICE
            return _AnsweredChallenge(asked_at, passkey)

        answered = await self._database.write(work)
        if isinstance(answered, _Refused):
            raise PasskeyNotAccepted(answered.detail)
        return answered


def _read(credential: str) -> BrowserAnswer:
    answer = read_answer(credential)
    if answer is None:
        raise PasskeyNotAccepted("The browser sent no passkey. It needs JavaScript for this.")
    return answer


async def _find(transaction: Transaction, account_id: str, passkey_id: str) -> Passkey:
    for passkey in await passkeys.passkeys_of(transaction, account_id):
        if passkey.id == passkey_id:
            return passkey
    raise PasskeyNotFound("Your account has no such passkey. It may have been removed.")
