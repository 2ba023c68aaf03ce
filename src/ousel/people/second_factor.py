"""Second factors: an authenticator app's one-time codes, and recovery codes."""

import base64
import secrets
from collections.abc import Awaitable, Callable
from typing import Final, Literal, TypeVar

from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock
from ousel.kernel.errors import InvalidField
from ousel.kernel.ids import secret_hash
from ousel.people import rules, store
from ousel.people.attempts import AttemptCounter, Guess
from ousel.people.audit import EventSource, record_failed_sign_in
from ousel.people.notices import EventNotices

FACTOR_SECRET_BYTES: Final = 20
RECOVERY_CODE_BYTES: Final = 10

CodeKind = Literal["one_time", "recovery"]
Result = TypeVar("Result")


async def has_second_factor(transaction: Transaction, account_id: str) -> bool:
    """Return whether signing in to the account requires a code."""
    factor = await store.second_factor_of(transaction, account_id)
    return factor is not None and factor.confirmed_at is not None


class SecondFactorService:
    """Turns second factors on and off, and checks codes."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        real_clock: Clock,
        attempts: AttemptCounter,
        notices: EventNotices,
    ) -> None:
        """Check one-time codes by the real clock, as phones do, even in a sandbox."""
        self._database = database
        self._clock = clock
        self._real_clock = real_clock
        self._attempts = attempts
        self._notices = notices

    async def is_on(self, account_id: str) -> bool:
        """Return whether signing in to the account requires a code."""
        return await self._database.read(
            lambda transaction: has_second_factor(transaction, account_id)
        )

    async def propose(self, account_id: str) -> str:
        """Return a secret for the authenticator app; its first code turns the factor on."""
        secret = base64.b32encode(secrets.token_bytes(FACTOR_SECRET_BYTES)).decode()
        return await self._database.write(
            lambda transaction: store.propose_factor(transaction, account_id, secret)
        )

    async def confirm(self, account_id: str, code: str, source: EventSource) -> list[str]:
        """Turn the second factor on with its first code; return the recovery codes."""
        if await self.is_on(account_id):
            raise InvalidField("Two-factor sign-in is on already.", param="code")
        recovery_codes = [_new_recovery_code() for _ in range(rules.RECOVERY_CODES)]

        async def turn_on(transaction: Transaction, _: CodeKind) -> list[str]:
            hashes = [secret_hash(_normalize_code(each)) for each in recovery_codes]
            await store.replace_recovery_codes(transaction, account_id, hashes)
            await self._notices.record(transaction, account_id, "second_factor_turned_on", source)
            return recovery_codes

        shown = await self.with_code(account_id, code, source, turn_on)
        if shown is None:
            raise InvalidField("This code is not right. Try the next one.", param="code")
        return shown

    async def remove(self, account_id: str, code: str, source: EventSource) -> None:
        """Turn the second factor off, which requires a code."""

        async def turn_off(transaction: Transaction, _: CodeKind) -> bool:
            await store.remove_factor(transaction, account_id)
            await self._notices.record(transaction, account_id, "second_factor_turned_off", source)
            return True

        if not await self.with_code(account_id, code, source, turn_off):
            raise InvalidField("This code is not right. Each code works once.", param="code")

    async def with_code(
        self,
        account_id: str,
        code: str,
        source: EventSource,
        then: Callable[[Transaction, CodeKind], Awaitable[Result]],
    ) -> Result | None:
        """Use up the code and run `then` in the same transaction.

        If the code is wrong, count a failed attempt and return None.
        """
        guess = Guess(account_id, account_id, source, rules.CODE_LIMIT, rules.KNOWN_CODE_LIMIT)

        async def work(transaction: Transaction) -> Result | None:
            await self._attempts.count_attempt(transaction, guess)
            kind = await self._use_code(transaction, account_id, code)
            if kind is None:
                await record_failed_sign_in(transaction, account_id, "code", source, self._clock)
                return None
            await self._attempts.forgive(transaction, guess)
            return await then(transaction, kind)

        return await self._database.write(work)

    async def _use_code(
        self, transaction: Transaction, account_id: str, code: str
    ) -> CodeKind | None:
        now = self._clock()
        factor = await store.second_factor_of(transaction, account_id)
        if factor is None:
            return None
        normalized = _normalize_code(code)
        step = rules.matching_step(factor.secret, normalized, self._real_clock(), factor.last_step)
        if step is not None and await store.use_step(transaction, account_id, step, now):
            return "one_time"
        if await store.use_recovery_code(transaction, account_id, secret_hash(normalized), now):
            return "recovery"
        return None


def _new_recovery_code() -> str:
    """Return a code in groups of four; 80 random bits, so that its hash cannot be reversed."""
    letters = base64.b32encode(secrets.token_bytes(RECOVERY_CODE_BYTES)).decode().lower()
    return "-".join(letters[start : start + 4] for start in range(0, len(letters), 4))


def _normalize_code(code: str) -> str:
    """Return the code without grouping and in lower case, for comparison."""
    return code.replace(" ", "").replace("-", "").lower()
