"""Notices by mail: each is written in the same transaction as the event that it is about.

They go to the confirmed email of the account. An account without one gets none.
"""

from collections.abc import Mapping, Sequence

from ousel.accounts import service as accounts
from ousel.database.port import Transaction
from ousel.kernel.clock import Clock, utc_text
from ousel.kernel.money import money_text
from ousel.ledger.rules import Account, Movement
from ousel.mail.outbox import Outbox
from ousel.people import letters
from ousel.people.attempts import AttemptCounter
from ousel.people.audit import EventSource, record_event
from ousel.people.letters import NoticeKind
from ousel.people.rules import device_name


class EventNotices:
    """Records events of which the account's holder is notified."""

    def __init__(
        self, outbox: Outbox, clock: Clock, attempts: AttemptCounter | None = None
    ) -> None:
        """Write the notices to this outbox, as often as the counter allows.

        Without a limit, one person could make the mail of all others late. Notices of what the
        operator does have no limit, so they need no counter.
        """
        self._outbox = outbox
        self._clock = clock
        self._attempts = attempts

    async def record(
        self,
        transaction: Transaction,
        account_id: str,
        kind: NoticeKind,
        source: EventSource,
        detail: str = "",
    ) -> None:
        """Record the event; write a notice, unless there were too many of its kind today."""
        await record_event(transaction, account_id, kind, source, self._clock, detail)
        email = await accounts.email_of(transaction, account_id)
        if not email.is_confirmed:
            return
        attempts = self._attempts
        if attempts and not await attempts.may_send_notice(transaction, account_id, kind):
            return
        username = (await accounts.account_by_id(transaction, account_id)).username
        letter = letters.notice_letter(
            kind, username, detail, self._occasion(source), self._outbox.portal_url
        )
        await self._outbox.add(transaction, account_id, email.address, letter)

    def _occasion(self, source: EventSource) -> str:
        """Return when something happens, and from where, as a line of a message."""
        when = f"When: {utc_text(self._clock())}."
        if source.by_operator:
            return f"{when} By: the operator of this server."
        return f"{when} From: {device_name(source.device)}, IP address {source.ip_address}."


class MoneyNotices:
    """Notifies people by mail that somebody has sent them money; the ledger calls it."""

    def __init__(self, outbox: Outbox, attempts: AttemptCounter) -> None:
        """Write to this outbox, as often as the counter allows."""
        self._outbox = outbox
        self._attempts = attempts

    async def write(
        self,
        transaction: Transaction,
        movements: Sequence[Movement],
        involved: Mapping[str, Account],
    ) -> None:
        """Write a notice to the recipient of each movement, unless they do not want notices."""
        if not self._outbox.accepts_mail:
            return
        recipients = {movement.credit.account_id for movement in movements}
        emails = await accounts.money_notice_emails(transaction, recipients)
        portal_url = self._outbox.portal_url
        for movement in movements:
            recipient, credit = involved[movement.credit.account_id], movement.credit
            email = emails.get(recipient.id)
            if email is None:
                continue
            if not await self._attempts.may_send_notice(transaction, recipient.id, "money"):
                continue
            letter = letters.money_letter(
                recipient.username,
                money_text(credit.amount),
                involved[credit.counterparty_id].username,
                f"{portal_url}/activity/{credit.sequence}",
                f"{portal_url}/settings",
            )
            await self._outbox.add(transaction, recipient.id, email, letter)
