"""Sending money as a person: who receives it, whether it was sent before, and sending it."""

import msgspec

from ousel.accounts import service as accounts
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock
from ousel.kernel.errors import Refusal
from ousel.kernel.ids import new_id
from ousel.ledger.history import HistoryQuery, page_of_entries
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import (
    Account,
    Entry,
    Movement,
    Posting,
    Refused,
    Replay,
    transfer_refusal,
)


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """What a person has decided to send; its idempotency key lets it move money only once."""

    to: str  # an identifier of the recipient
    amount: int
    note: str | None
    idempotency_key: str


class IntentReview(msgspec.Struct, frozen=True, kw_only=True):
    """Both accounts of an intent, and its entry in the sender's account if it was carried out."""

    sender: Account
    recipient: Account
    entry: Entry | None

    def refusal(self, amount: int) -> Refusal | None:
        """Return why this amount cannot be sent now, or None if it can."""
        return transfer_refusal(self.sender, self.recipient, amount)

    def was_sent(self, amount: int, note: str | None) -> bool:
        """Return whether the intent's key was used, and for exactly this transfer."""
        return self.entry is not None and (
            (self.entry.counterparty_id, self.entry.amount, self.entry.note)
            == (self.recipient.id, -amount, note)
        )


class SentIntent(msgspec.Struct, frozen=True):
    """The sender's entry of an intent, made now or earlier."""

    entry: Entry
    replayed: bool


class SendService:
    """Reviews and carries out what people send."""

    def __init__(self, database: Database, queue: PostingQueue, clock: Clock) -> None:
        """Read from this database, and send through this queue."""
        self._database = database
        self._queue = queue
        self._clock = clock

    async def review(self, sender_id: str, to: str, idempotency_key: str) -> IntentReview:
        """Return the accounts and the entry of an intent, or raise AccountNotFound."""
        query = HistoryQuery(account_id=sender_id, limit=1, idempotency_key=idempotency_key)

        async def read(transaction: Transaction) -> IntentReview:
            recipient = await accounts.find_account(transaction, to, param="to")
            used = await page_of_entries(transaction, query)
            return IntentReview(
                sender=await accounts.account_by_id(transaction, sender_id),
                recipient=recipient,
                entry=used[0][0] if used else None,
            )

        return await self._database.read(read)

    async def find_sent(self, sender_id: str, idempotency_key: str) -> tuple[Intent, Entry] | None:
        """Return what this account has sent with this key, and its own entry, or None."""
        query = HistoryQuery(account_id=sender_id, limit=1, idempotency_key=idempotency_key)
        found = await self._database.read(lambda transaction: page_of_entries(transaction, query))
        if not found:
            return None
        entry, recipient = found[0]
        intent = Intent(
            to=recipient.account_number,
            amount=-entry.amount,
            note=entry.note,
            idempotency_key=idempotency_key,
        )
        return intent, entry

    async def send(self, sender_id: str, intent: Intent) -> SentIntent:
        """Send the money unless that was done earlier, or raise the refusal.

        The posting depends on no partner key: the caller has checked the sender's session.
        """
        posting = Posting(
            transfer_id=new_id("tr_", self._clock),
            kind="transfer",
            debit_account_id=sender_id,
            credit_identifier=intent.to,
            amount=intent.amount,
            note=intent.note,
            idempotency_key=intent.idempotency_key,
            notifies_recipient=True,
        )
        outcome = (await self._queue.post(posting)).outcome
        if isinstance(outcome, Refused):
            raise outcome.refusal
        assert isinstance(outcome, Movement | Replay), "it depends on no partner key and no charge"
        return SentIntent(outcome.debit, replayed=isinstance(outcome, Replay))
