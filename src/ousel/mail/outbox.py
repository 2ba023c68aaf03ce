"""The outbox: messages are written in the transaction that causes them, and sent after it."""

from typing import Final

from ousel.database.port import Database, Transaction
from ousel.database.sweeping import sweep
from ousel.kernel.clock import MICROS_PER_DAY, Clock
from ousel.kernel.ids import after_all_ids, new_id
from ousel.kernel.settings import Settings
from ousel.mail import store
from ousel.mail.layout import html_of, text_of
from ousel.mail.rules import Letter, Mail, OutboxFigures

KEPT_DAYS: Final = 30  # for the mail of a sandbox, and for mail that could not be sent
AFTER_ALL_MAIL: Final = after_all_ids("mail_")


class Outbox:
    """Takes messages to be sent; a sandbox sends none, and keeps them for its users to read."""

    def __init__(self, database: Database, clock: Clock, settings: Settings) -> None:
        """Write to this database, as the settings say."""
        self._database = database
        self._clock = clock
        self.portal_url = settings.portal_url
        self._keeps = settings.sandbox
        self.accepts_mail = settings.sandbox or settings.mail_url is not None

    async def add(
        self, transaction: Transaction, account_id: str, recipient: str, letter: Letter
    ) -> None:
        """Write a message about this account, which is sent once the transaction has committed.

        On a server without mail, nothing is written.
        """
        if self.accepts_mail:
            now = self._clock()
            due_at = None if self._keeps else now
            await store.add(transaction, self._mail(account_id, recipient, letter, now, due_at))

    async def add_decoy(self, transaction: Transaction, account_id: str, letter: Letter) -> None:
        """Do the work of `add` for a message that nobody gets, so that a caller sees no difference.

        The row has the oldest possible date, so the next sweep deletes it. A sandbox shows all its
        mail to everyone, so it has nothing to hide.
        """
        if self.accepts_mail and not self._keeps:
            await store.add(transaction, self._mail(account_id, "", letter, 0, None))

    async def newest(
        self, recipient: str | None = None, before: str = AFTER_ALL_MAIL, limit: int = 100
    ) -> list[Mail]:
        """Return the messages before this id, to everyone or to one address, newest first."""
        return await self._database.read(
            lambda transaction: store.newest(transaction, recipient, before, limit)
        )

    async def figures(self) -> OutboxFigures:
        """Return how many messages wait or were given up."""
        now = self._clock()
        return await self._database.read(lambda transaction: store.figures(transaction, now))

    async def sweep(self) -> int:
        """Delete old messages, which nobody will send any more; return how many."""
        before = self._clock() - KEPT_DAYS * MICROS_PER_DAY
        return await sweep(
            self._database, lambda transaction, limit: store.delete_old(transaction, before, limit)
        )

    def _mail(
        self, account_id: str, recipient: str, letter: Letter, created_at: int, due_at: int | None
    ) -> Mail:
        return Mail(
            account_id=account_id,
            id=new_id("mail_", self._clock),
            recipient=recipient,
            subject=letter.subject,
            text=text_of(letter, self.portal_url),
            html=html_of(letter, self.portal_url),
            created_at=created_at,
            due_at=due_at,
        )
