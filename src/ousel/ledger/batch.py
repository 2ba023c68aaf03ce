"""A batch of postings in one transaction: look up, lock, decide, write."""

from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

from ousel.database.port import Transaction
from ousel.kernel.clock import Clock
from ousel.ledger import journal, partner_key_check
from ousel.ledger.rules import (
    Account,
    ClosedCharges,
    Entry,
    KeyRejected,
    Movement,
    Outcome,
    Posting,
    Replay,
    credit_account_id,
    decide,
)


class ChargeRows(Protocol):
    """The rows of the charges that postings pay; `ousel.app` passes the implementation."""

    async def lock(
        self, transaction: Transaction, charge_ids: Collection[str], now: int
    ) -> ClosedCharges:
        """Lock the charges and return those that cannot be paid."""
        ...

    async def mark_paid(
        self, transaction: Transaction, payments: Sequence[Movement], now: int
    ) -> None:
        """Write that the charges of these movements are paid."""
        ...


class NoCharges:
    """The charge rows of a queue that takes no charge payments."""

    async def lock(self, _: Transaction, charge_ids: Collection[str], __: int) -> ClosedCharges:
        """Return all of them: none of these charges exists."""
        return dict.fromkeys(charge_ids)

    async def mark_paid(self, _: Transaction, __: Sequence[Movement], ___: int) -> None:
        """Do nothing: no charge can be paid."""


class PostingResult(msgspec.Struct, frozen=True):
    """The outcome of a posting, with both accounts if money moved now or before."""

    outcome: Outcome
    debit_account: Account | None = None
    credit_account: Account | None = None


class PostingBatch:
    """The postings of one transaction."""

    def __init__(
        self,
        postings: Sequence[Posting],
        recipients: dict[str, str],
        charge_rows: ChargeRows,
        clock: Clock,
    ) -> None:
        """Write these postings; `recipients` caches the account id of each identifier."""
        self._postings = postings
        self._recipients = recipients
        self._charge_rows = charge_rows
        self._clock = clock
        self._sequences: dict[str, int] = {}  # by account id, the lowest that an attempt found

    async def write(self, transaction: Transaction) -> list[PostingResult]:
        """Decide the postings on the current ledger, and write the movements."""
        now = self._clock()
        await self._look_up_recipients(transaction)
        closed_charges = await self._lock_charges(transaction, now)
        ledger = await journal.lock_accounts(transaction, self._account_ids(), self._postings, now)
        outcomes = await self._outcomes_before(transaction, ledger)
        postings = [each for each in self._postings if each.transfer_id not in outcomes]
        decided = decide(
            postings,
            ledger.accounts,
            self._recipients,
            ledger.used_idempotency_keys,
            now,
            closed_charges,
        )
        await self._write_movements(transaction, decided, ledger.accounts, now)
        outcomes |= zip((each.transfer_id for each in postings), decided, strict=True)
        return [_result(outcomes[each.transfer_id], ledger.accounts) for each in self._postings]

    async def _look_up_recipients(self, transaction: Transaction) -> None:
        unknown = {
            posting.credit_identifier
            for posting in self._postings
            if posting.credit_identifier is not None
            and posting.credit_identifier not in self._recipients
        }
        if unknown:
            self._recipients |= await journal.find_account_ids(transaction, unknown)

    async def _lock_charges(self, transaction: Transaction, now: int) -> ClosedCharges:
        """Lock the charges to be paid: charges are always locked before accounts."""
        ids = {each.charge_id for each in self._postings if each.charge_id is not None}
        return await self._charge_rows.lock(transaction, ids, now) if ids else {}

    def _account_ids(self) -> set[str]:
        ids = {posting.debit_account_id for posting in self._postings}
        for posting in self._postings:
            credit_id = credit_account_id(posting, self._recipients)
            if credit_id is not None:
                ids.add(credit_id)
        return ids

    async def _outcomes_before(
        self, transaction: Transaction, ledger: journal.LockedLedger
    ) -> dict[str, Outcome]:
        """Return the outcomes, by transfer id, of postings that the rules need not decide."""
        outcomes: dict[str, Outcome] = {}
        if ledger.rejected_partner_keys:
            for posting in self._postings:
                if partner_key_check.is_rejected(posting.key_check, ledger.rejected_partner_keys):
                    outcomes[posting.transfer_id] = KeyRejected()
        for account in ledger.accounts.values():
            lowest = self._sequences.get(account.id, account.sequence)
            self._sequences[account.id] = min(account.sequence, lowest)
        if transaction.follows_unknown_commit:
            outcomes |= await self._movements_written_before(transaction)
        return outcomes

    async def _movements_written_before(self, transaction: Transaction) -> dict[str, Movement]:
        """Return the movements of an earlier attempt whose commit got no answer, by transfer id.

        This transaction holds the accounts' locks, so the earlier ones have committed or rolled
        back. Each attempt writes behind the sequence numbers that it found. They are lower than
        those of the attempt before if the database has lost history since, as at a switch to a
        replica that lags; the lowest are the ones to search behind.
        """
        own = {posting.transfer_id for posting in self._postings}
        sides: dict[str, dict[bool, Entry]] = {}
        for entry in await journal.entries_of_transfers(transaction, own, self._sequences):
            sides.setdefault(entry.transfer_id, {})[entry.amount < 0] = entry
        return {id_: Movement(pair[True], pair[False]) for id_, pair in sides.items()}

    async def _write_movements(
        self,
        transaction: Transaction,
        outcomes: Sequence[Outcome],
        accounts: dict[str, Account],
        now: int,
    ) -> None:
        movements = [outcome for outcome in outcomes if isinstance(outcome, Movement)]
        if not movements:
            return
        await journal.write_movements(transaction, movements, accounts)
        payments = [each for each in movements if each.debit.charge_id is not None]
        if payments:
            await self._charge_rows.mark_paid(transaction, payments, now)


def _result(outcome: Outcome, accounts: dict[str, Account]) -> PostingResult:
    match outcome:
        case Movement(debit=debit) | Replay(debit=debit):
            return PostingResult(
                outcome, accounts[debit.account_id], accounts[debit.counterparty_id]
            )
        case _:
            return PostingResult(outcome)
