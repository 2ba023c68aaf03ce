"""Limits on attempts: failed sign-ins above all, but also mail, sign-ups and others.

Failed sign-ins are limited by account, by IP address, and by both together. A browser that has
signed in to the account before has a limit of its own instead. So strangers who guess from many
addresses lock themselves out, but not the account's holder.

At most 30 wrong codes can be tried on one account in a day: ten from browsers that the account
knows, ten from all others, and ten codes by mail.

Sign-ups are limited by IP address, since the server must hash a password for each. Messages by mail
are limited by account, mailbox and IP address, and notices by account and kind. Links that do not
work, and challenges for passkeys, are limited by IP address. Test money in a sandbox is limited by
account.
"""

import hashlib
from math import ceil
from typing import Final

import msgspec

from ousel.database.port import Database, Transaction
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.errors import Refusal
from ousel.people import store
from ousel.people.audit import EventSource
from ousel.people.rules import (
    ATTEMPT_LIMITS,
    BROWSER_LIMIT,
    CHALLENGE_LIMIT,
    EMAIL_CODE_LIMIT,
    IP_ADDRESS_LIMIT,
    LINK_LIMIT,
    MAIL_ACCOUNT_LIMIT,
    MAIL_IP_ADDRESS_LIMIT,
    MAIL_RECIPIENT_LIMIT,
    NOTICE_LIMIT,
    PAIR_LIMIT,
    RESET_LIMIT,
    SIGN_UP_LIMIT,
    TEST_MONEY_LIMIT,
    AttemptLimit,
    counted_address,
)

FAILED_MESSAGE: Final = "Too many attempts failed."


class TooManyAttempts(Refusal):
    """There were too many attempts of one kind, such as failed sign-ins or messages by mail.

    The kinds are failed sign-ins, wrong codes, links that do not work, sign-ups, messages by mail,
    challenges for passkeys, and requests for test money.
    """

    status = 429
    code = "too_many_attempts"
    title = "Too many attempts"
    cure = "Wait as long as the page says, then try again."


class SignInAttempt(msgspec.Struct, frozen=True):
    """An attempt to sign in or to confirm one's identity, and the limits that count it."""

    # What the failures are counted against: the password, code or passkey of an account. If no
    # account has the name that was typed, it is that name.
    subject: str
    account_id: str | None  # None if no account has the name
    source: EventSource
    everywhere: AttemptLimit  # for this subject from all addresses together
    known_browsers: AttemptLimit | None = None  # for this subject from all known browsers together


class AttemptCounter:
    """Counts attempts of all kinds in the database, so that all processes share one count."""

    def __init__(self, database: Database, clock: Clock) -> None:
        """Count by the real clock, also in a sandbox, whose clock can be advanced."""
        self._database = database
        self._clock = clock

    async def check(self, attempt: SignInAttempt) -> None:
        """Refuse a further attempt after too many failures, before any work is done for it."""

        async def read(transaction: Transaction) -> list[tuple[AttemptLimit, int, int]]:
            limits = await _limits(transaction, attempt)
            failures = await store.failures_of(transaction, limits)
            return [(limits[subject], *counted) for subject, counted in failures.items()]

        for limit, count, since in await self._database.read(read):
            self._check_limit(limit, count + 1, since, FAILED_MESSAGE)

    async def count_attempt(self, transaction: Transaction, attempt: SignInAttempt) -> None:
        """Count an attempt as failed until it is uncounted; refuse it if the limit is exceeded.

        Counting locks the rows, so that concurrent attempts cannot exceed the limit.
        """
        await self._count(transaction, await _limits(transaction, attempt), FAILED_MESSAGE)

    async def count_sign_up(self, source: EventSource) -> None:
        """Count a sign-up, successful or not; refuse it if the limit is exceeded."""
        limits = {f"sign-ups:{counted_address(source.ip_address)}": SIGN_UP_LIMIT}
        await self._database.write(
            lambda transaction: self._count(
                transaction, limits, "Too many accounts were requested from your address."
            )
        )

    async def count_test_money(self, account_id: str) -> None:
        """Count test money that an account asks for; refuse it if the limit is exceeded."""
        limits = {f"test money of:{account_id}": TEST_MONEY_LIMIT}
        await self._database.write(
            lambda transaction: self._count(
                transaction, limits, "Your account has asked for test money too often."
            )
        )

    async def count_mail(
        self, transaction: Transaction, account_id: str, recipient: str, source: EventSource
    ) -> None:
        """Count a message that somebody asked for; refuse it if a limit is exceeded.

        The limit for a mailbox counts the messages for all accounts together. Each message allows
        five wrong codes, so this also limits how often anybody can guess the code for an email.
        """
        limits = {
            f"mail of:{account_id}": MAIL_ACCOUNT_LIMIT,
            f"mail to:{_hashed_name(recipient)}": MAIL_RECIPIENT_LIMIT,
            f"mail from:{counted_address(source.ip_address)}": MAIL_IP_ADDRESS_LIMIT,
        }
        await self._count(transaction, limits, "Too many messages were requested.")

    async def count_mail_from(self, transaction: Transaction, source: EventSource) -> None:
        """Count a message that an IP address asked for; refuse it if the limit is exceeded."""
        limits = {f"mail from:{counted_address(source.ip_address)}": MAIL_IP_ADDRESS_LIMIT}
        await self._count(transaction, limits, "Too many messages were requested.")

    async def may_send_reset(
        self, transaction: Transaction, account_id: str, source: EventSource
    ) -> bool:
        """Count a reset link by mail; return whether it is within the limit.

        Each browser that the account knows has a limit of its own, so that strangers cannot keep
        the holder from getting a link.
        """
        is_known = await store.is_known_browser(transaction, account_id, source.browser_hash)
        asker = source.browser_hash if is_known else ""
        return await self._is_within(transaction, f"resets of:{account_id}:{asker}", RESET_LIMIT)

    async def may_send_notice(self, transaction: Transaction, account_id: str, kind: str) -> bool:
        """Count a notice of this kind; return whether it is within the limit."""
        return await self._is_within(transaction, f"{kind} notices of:{account_id}", NOTICE_LIMIT)

    async def count_email_code(self, transaction: Transaction, account_id: str) -> None:
        """Count a code by mail as wrong until it is uncounted; refuse it over the limit."""
        limits = {_email_code_subject(account_id): EMAIL_CODE_LIMIT}
        await self._count(transaction, limits, "Too many codes were wrong.")

    async def uncount_email_code(self, transaction: Transaction, account_id: str) -> None:
        """Stop counting a code that was not wrong."""
        await store.uncount_failure(transaction, [_email_code_subject(account_id)])

    async def count_wrong_link(self, transaction: Transaction, source: EventSource) -> None:
        """Count a link that does not work; refuse it if the limit is exceeded."""
        limits = {f"links:{counted_address(source.ip_address)}": LINK_LIMIT}
        await self._count(transaction, limits, "Too many links did not work.")

    async def count_challenge(self, transaction: Transaction, source: EventSource) -> None:
        """Count a challenge for a passkey; refuse it if the limit is exceeded."""
        limits = {f"challenges:{counted_address(source.ip_address)}": CHALLENGE_LIMIT}
        await self._count(transaction, limits, "Passkeys were asked for too often.")

    async def uncount_attempt(self, transaction: Transaction, attempt: SignInAttempt) -> None:
        """Stop counting an attempt, because it was successful.

        Also forget earlier failures at the same subject, from the same address or browser.
        """
        await store.uncount_failure(transaction, await _limits(transaction, attempt))
        for subject in (_pair_subject(attempt), _browser_subject(attempt)):
            await store.forget_failures(transaction, subject)

    async def sweep(self) -> int:
        """Delete attempts that no limit counts any more; return how many subjects had any."""
        longest = max(limit.window_seconds for limit in ATTEMPT_LIMITS)
        before = self._clock() - longest * MICROS_PER_SECOND
        return await self._database.write(
            lambda transaction: store.sweep_failures(transaction, before)
        )

    async def _count(
        self, transaction: Transaction, limits: dict[str, AttemptLimit], reason: str
    ) -> None:
        now = self._clock()
        for subject, limit in sorted(limits.items()):
            window_start = now - limit.window_seconds * MICROS_PER_SECOND
            await store.count_failure(transaction, subject, now, window_start)
        for subject, (count, since) in (await store.failures_of(transaction, limits)).items():
            self._check_limit(limits[subject], count, since, reason)

    async def _is_within(self, transaction: Transaction, subject: str, limit: AttemptLimit) -> bool:
        """Count one attempt; return whether it is within the limit, instead of refusing it."""
        try:
            await self._count(transaction, {subject: limit}, "")
        except TooManyAttempts:
            return False
        return True

    def _check_limit(self, limit: AttemptLimit, count: int, since: int, reason: str) -> None:
        micros_left = since + limit.window_seconds * MICROS_PER_SECOND - self._clock()
        if count > limit.attempts_max and micros_left > 0:
            seconds = ceil(micros_left / MICROS_PER_SECOND)
            raise TooManyAttempts(
                f"{reason} Try again in {_duration_text(seconds)}.",
                retry_after_seconds=seconds,
            )


async def _limits(transaction: Transaction, attempt: SignInAttempt) -> dict[str, AttemptLimit]:
    """Return the limits that count this attempt, by subject."""
    if await store.is_known_browser(
        transaction, attempt.account_id or "", attempt.source.browser_hash
    ):
        limits = {_browser_subject(attempt): BROWSER_LIMIT}
        if attempt.known_browsers is not None:
            limits[f"known browsers:{_hashed_name(attempt.subject)}"] = attempt.known_browsers
        return limits
    return {
        _pair_subject(attempt): PAIR_LIMIT,
        f"address:{counted_address(attempt.source.ip_address)}": IP_ADDRESS_LIMIT,
        f"account:{_hashed_name(attempt.subject)}": attempt.everywhere,
    }


def _email_code_subject(account_id: str) -> str:
    return f"email codes:{account_id}"


def _pair_subject(attempt: SignInAttempt) -> str:
    return f"pair:{_hashed_name(attempt.subject)}:{counted_address(attempt.source.ip_address)}"


def _browser_subject(attempt: SignInAttempt) -> str:
    return f"browser:{_hashed_name(attempt.subject)}:{attempt.source.browser_hash}"


def _hashed_name(name: str) -> str:
    """Return the name's hash: people sometimes type their password into the name field."""
    return hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()


def _duration_text(seconds: int) -> str:
    """Return the duration in words, rounded up: in hours, minutes or seconds."""
    units = {3600: "hour", 60: "minute", 1: "second"}
    length = next((each for each in units if seconds > each), 1)
    count = ceil(seconds / length)
    return f"{count} {units[length]}" if count == 1 else f"{count} {units[length]}s"
