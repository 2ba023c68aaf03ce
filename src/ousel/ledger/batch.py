"""A batch of postings in one transaction: look up, lock, decide, write."""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence

import msgspec

from ousel.database.batching import WaitingItem
from ousel.database.port import Transaction
from ousel.kernel.clock import Clock
from ousel.kernel.deadlines import NO_DEADLINE, check_deadline, deadline_exceeded
from ousel.ledger import journal, partner_key_check
from ousel.ledger.interfaces import ChargeRows, RecipientNotices
from ousel.ledger.rules import (
    Account,
    ClosedCharges,
    Entry,
    KeyRejected,
    Movement,
    Outcome,
    Posting,
    Refused,
    Replay,
    credit_account_id,
    decide,
    may_change_account,
)


class PostingResult(msgspec.Struct, frozen=True):
    """The outcome of a posting, with both accounts if money has moved, now or earlier."""

    outcome: Outcome
    debit_account: Account | None = None
    credit_account: Account | None = None


class Blocked(msgspec.Struct, frozen=True):
    """Nothing was decided: another transaction has locked a row that the posting needs."""

    row_id: str  # of an account or a charge


WaitingPosting = WaitingItem[Posting, PostingResult | Blocked]


class PostingBatch:
    """The postings of one transaction.

    Rows that other transactions have locked are left out, with the postings that need them, so
    the batch waits for nobody. There are two exceptions, and neither allows a deadlock. The
    `awaited` row is waited for before any other is locked. And after a commit whose outcome
    is unknown, the batch waits for all its rows in the order of their ids, because it must see what
    it has written.
    """

    def __init__(
        self,
        members: Sequence[WaitingPosting],
        recipients: dict[str, str],
        charge_rows: ChargeRows,
        notices: RecipientNotices,
        clock: Clock,
        awaited: str | None = None,
    ) -> None:
        """Write these postings; `recipients` caches which account each identifier names.

        Emails are not cached, since an email may later name another account.
        """
        self._members = members
        self._postings = [member.item for member in members]
        self._cached_recipients = recipients
        self._recipients: dict[str, str] = {}  # of this batch, since others change the cache
        self._charge_rows = charge_rows
        self._notices = notices
        self._notifying = {each.transfer_id for each in self._postings if each.notifies_recipient}
        self.movements: list[Movement] = []  # those that the last attempt has written
        self.id = ""  # of the row that names these movements
        self._clock = clock
        self._awaited = awaited
        self._blocked: dict[str, Blocked] = {}  # by transfer id
        self._earliest_deadline = NO_DEADLINE  # of the postings that this attempt decides
        self._droppable: list[WaitingPosting] = []  # those that no attempt may have written
        self._attempts = 0  # to write movements
        self._sequences: dict[str, int] = {}  # the lowest that any attempt found, by account id

    def check_callers(self) -> None:
        """Raise DeadlineExceeded if a posting to be written is overdue, or nobody waits for it."""
        check_deadline(self._earliest_deadline)
        if any(member.answer.done() for member in self._droppable):
            raise deadline_exceeded()

    async def write(self, transaction: Transaction) -> list[PostingResult | Blocked]:
        """Decide the postings by the current state of the ledger, and write the movements."""
        if not transaction.follows_unknown_commit:
            self._blocked.clear()
            if self._awaited is not None:
                await self._wait_for_row(transaction, self._awaited)
        await self._look_up_recipients(transaction)
        closed_charges, now = await self._lock_charges(transaction)
        ledger = await self._lock_accounts(transaction)
        if now is None:
            now = self._clock.from_database(ledger.database_time)
        outcomes = await self._outcomes_before(transaction, ledger)
        undecided = self._undecided_postings(outcomes)
        self._droppable = [] if transaction.follows_unknown_commit else undecided
        postings = [member.item for member in undecided]
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
        return [
            self._blocked.get(each.transfer_id)
            or _result(outcomes[each.transfer_id], ledger.accounts)
            for each in self._postings
        ]

    async def _wait_for_row(self, transaction: Transaction, row_id: str) -> None:
        """Wait for this row before any charge is locked.

        If no posting pays a charge, do nothing: `lock_accounts` then begins with this wait.
        """
        charge_ids = {each.charge_id for each in self._postings if each.charge_id is not None}
        if row_id in charge_ids:
            await self._charge_rows.wait(transaction, row_id)
        elif charge_ids:
            await journal.wait_for_account(transaction, row_id)

    async def _look_up_recipients(self, transaction: Transaction) -> None:
        """Look up the recipients that are not cached.

        After a commit whose outcome is unknown, an email is not looked up again: the batch uses the
        account that the first attempt found, so that it locks the account to which it may have sent
        the money.
        """
        known = self._recipients if transaction.follows_unknown_commit else self._cached_recipients
        names = {name for each in self._postings if (name := each.credit_identifier) is not None}
        self._recipients = {name: known[name] for name in names if name in known}
        if len(self._recipients) < len(names):
            found = await journal.find_account_ids(transaction, names - self._recipients.keys())
            self._recipients |= found
            self._cached_recipients |= {
                name: id_ for name, id_ in found.items() if not may_change_account(name)
            }

    async def _lock_charges(self, transaction: Transaction) -> tuple[ClosedCharges, int | None]:
        """Lock the charges to be paid, before all accounts except the one that is waited for.

        The time that decides whether they have expired is also the time of their payments.
        """
        postings = self._unblocked_postings()
        ids = {each.charge_id for each in postings if each.charge_id is not None}
        if not ids:
            return {}, None
        locks = await self._charge_rows.lock(
            transaction, ids, self._clock, waits=transaction.follows_unknown_commit
        )
        if locks.blocked:
            self._leave_out(postings, locks.blocked)
        return locks.closed, locks.now

    async def _lock_accounts(self, transaction: Transaction) -> journal.LockedLedger:
        postings = self._unblocked_postings()
        ids = {posting.debit_account_id for posting in postings}
        for posting in postings:
            credit_id = credit_account_id(posting, self._recipients)
            if credit_id is not None:
                ids.add(credit_id)
        ledger = await journal.lock_accounts(
            transaction,
            ids,
            postings,
            self._clock(),
            awaited=self._awaited,
            waits=transaction.follows_unknown_commit,
        )
        if len(ledger.accounts) < len(ids):
            self._leave_out(postings, ids - ledger.accounts.keys())
        return ledger

    def _unblocked_postings(self) -> Sequence[Posting]:
        if not self._blocked:
            return self._postings
        return [each for each in self._postings if each.transfer_id not in self._blocked]

    def _leave_out(self, postings: Sequence[Posting], missing: Collection[str]) -> None:
        """Leave out the postings that need a missing row; the awaited row must not be missing.

        An awaited account can only be missing if the database has lost it, as after a switch to a
        server that lacked the newest transactions. Its name may belong to another account soon.
        """
        if self._awaited in missing:
            for name, account_id in list(self._cached_recipients.items()):
                if account_id == self._awaited:
                    del self._cached_recipients[name]
            raise KeyError(self._awaited)
        for posting in postings:
            needed = [row for row in rows_of(posting, self._recipients) if row in missing]
            if needed:
                self._blocked[posting.transfer_id] = Blocked(needed[0])

    def _undecided_postings(self, outcomes: dict[str, Outcome]) -> list[WaitingPosting]:
        """Return the postings to be decided now.

        Refuse those that are overdue or whose callers have given up.
        """
        time = asyncio.get_running_loop().time()
        self._earliest_deadline = NO_DEADLINE
        undecided: list[WaitingPosting] = []
        for member in self._members:
            transfer_id = member.item.transfer_id
            if transfer_id in outcomes or transfer_id in self._blocked:
                continue
            if member.is_wanted(time):
                undecided.append(member)
                self._earliest_deadline = min(self._earliest_deadline, member.deadline)
            else:
                outcomes[transfer_id] = Refused(deadline_exceeded())
        return undecided

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

        This transaction has locked the accounts, so all earlier attempts have committed or rolled
        back. Each attempt writes its entries after the sequence numbers that it found. If the
        database has lost history since, because a lagging replica took over, a later attempt finds
        lower numbers. So the search starts after the lowest number that any attempt found.
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
        self.movements = movements
        if not movements:
            return
        # Each attempt gives the batch another id: on Citus the id chooses the server of its row,
        # and that server may be dead.
        self.id = f"{movements[0].debit.transfer_id}{self._attempts or ''}"
        self._attempts += 1
        await journal.write_movements(transaction, movements, accounts, self.id)
        payments = [each for each in movements if each.debit.charge_id is not None]
        if payments:
            await self._charge_rows.mark_paid(transaction, payments, now)
        if self._notifying:
            with_notice = [each for each in movements if each.debit.transfer_id in self._notifying]
            if with_notice:
                await self._notices.write(transaction, with_notice, accounts)


def rows_of(posting: Posting, recipients: Mapping[str, str]) -> Iterator[str]:
    """Yield the ids of the rows that the posting needs: its charge, then its accounts in order."""
    if posting.charge_id is not None:
        yield posting.charge_id
    credit_id = credit_account_id(posting, recipients)
    if credit_id is None:
        yield posting.debit_account_id
    else:
        yield from sorted((posting.debit_account_id, credit_id))


def _result(outcome: Outcome, accounts: dict[str, Account]) -> PostingResult:
    match outcome:
        case Movement(debit=debit) | Replay(debit=debit):
            return PostingResult(
                outcome, accounts[debit.account_id], accounts[debit.counterparty_id]
            )
        case _:
            return PostingResult(outcome)
