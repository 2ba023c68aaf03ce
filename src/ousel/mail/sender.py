"""The sender: takes messages from the outbox and hands them over, in the background.

Each message is claimed for a while before it is sent, so that two processes never send it at once.
If the process crashes, the claim ends and the message is tried again. A message that the mail
server has accepted is deleted at once.
"""

import asyncio
from typing import Final, Protocol

from ousel.database.port import Database, Transaction
from ousel.kernel.cancellation import run_to_end
from ousel.kernel.clock import MICROS_PER_SECOND, Clock
from ousel.kernel.errors import Refusal
from ousel.kernel.logs import EventLogger
from ousel.kernel.observers import MailObserver
from ousel.mail import store
from ousel.mail.rules import Mail, is_too_old, next_attempt_at
from ousel.mail.smtp import NotSent

SEND_SECONDS: Final = 1.0  # between two polls of the outbox
FAILURES_MAX: Final = 20  # in one poll, so that a server that refuses everything is not flooded
DELIVERY_SECONDS_MAX: Final = 60.0
CLAIM_SECONDS: Final = 180
STOP_SECONDS_MAX: Final = 5.0  # how long a stop waits for the message that is being sent
RECORD_SECONDS: Final = 1.0  # between two attempts to record what became of a message
RECORD_ATTEMPTS_MAX: Final = 60  # all of them, and the delivery, end before the claim does

_log = EventLogger()


class MailClient(Protocol):
    """Hands a message over to a mail server."""

    async def send(self, mail: Mail, seconds_max: float) -> None:
        """Return once the server has taken the message over, or raise NotSent."""
        ...


class MailSender:
    """Sends what is in the outbox, one message after the other."""

    def __init__(
        self, database: Database, clock: Clock, client: MailClient, observer: MailObserver
    ) -> None:
        """Take messages from this database, and hand them over to this client."""
        self._database = database
        self._clock = clock
        self._client = client
        self._observer = observer

    async def send_due(self) -> None:
        """Send all messages that are due.

        Stop if the server cannot be reached, or has refused many messages. The next call continues.
        """
        failures = 0
        while failures < FAILURES_MAX and (mail := await self._claim()) is not None:
            if is_too_old(mail, self._clock()):  # it waited in a backup, or for a mail server
                await self._write(mail, NotSent("it is too old to be sent"))
                continue
            failure = await self._send(mail)
            if failure is not None:
                failures += 1 if failure.may_accept_others else FAILURES_MAX

    async def _claim(self) -> Mail | None:
        now = self._clock()
        if not await self._database.read(lambda each: store.is_any_due(each, now)):
            return None
        until = now + CLAIM_SECONDS * MICROS_PER_SECOND
        return await self._database.write(lambda each: store.claim(each, now, until))

    async def _send(self, mail: Mail) -> NotSent | None:
        """Send a claimed message and record the outcome; return None if it was sent."""
        sending = asyncio.ensure_future(self._client.send(mail, DELIVERY_SECONDS_MAX))
        try:
            await asyncio.wait({sending})
        except asyncio.CancelledError:  # this process is stopping
            await asyncio.wait({sending}, timeout=STOP_SECONDS_MAX)
            if sending.done():
                await run_to_end(self._record(mail, sending))
            sending.cancel()
            raise
        return await run_to_end(self._record(mail, sending))

    async def _record(self, mail: Mail, sending: "asyncio.Future[None]") -> NotSent | None:
        error = sending.exception()
        if error is None:
            await self._write(mail, None)
            self._observer.mail_sent()
            return None
        if not isinstance(error, NotSent):  # a defect of Ousel: meanwhile, the others are sent
            await self._write(mail, NotSent("an unexpected error"))
            raise error
        await self._write(mail, error)
        return error

    async def _write(self, mail: Mail, failure: NotSent | None) -> None:
        """Write the outcome, and try again while the database is unavailable.

        Otherwise a message that was sent would be sent again.
        """
        now = self._clock()
        due_at: int | None = None
        if failure is not None:
            due_at = next_attempt_at(mail, now, is_refused=failure.is_refused)
            self._report(mail, failure, is_given_up=due_at is None)

        async def work(transaction: Transaction) -> None:
            if failure is None:
                await store.delete_sent(transaction, mail)
            else:
                failed_at = now if due_at is None else None
                await store.postpone(transaction, mail, due_at, failed_at)

        for _ in range(RECORD_ATTEMPTS_MAX):
            try:
                return await self._database.write(work)
            except Refusal:
                await asyncio.sleep(RECORD_SECONDS)
        return await self._database.write(work)

    def _report(self, mail: Mail, failure: NotSent, *, is_given_up: bool) -> None:
        facts = {"mail": mail.id, "attempts": mail.attempts, "reason": str(failure)}
        if is_given_up:
            self._observer.mail_failed()
            _log.error("mail was given up", **facts)
        else:
            self._observer.mail_postponed()
            _log.warning("mail could not be sent and will be tried again", **facts)
