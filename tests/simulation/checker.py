"""The checker: it observes every commit and every answer, and finds the first one that is wrong."""

from collections.abc import Callable

import msgspec

from ousel.ledger.batch import PostingResult
from ousel.ledger.rules import Movement, Posting, Replay
from tests.simulation.model import (
    FINAL,
    ChargeRow,
    Inconsistent,
    Model,
    Transfer,
    changes_of,
)
from tests.simulation.store import Commit, Store
from tests.simulation.trace import Trace

BOUND_SECONDS = 60.0  # a request that is older than this is never executed
DATE_AHEAD_MICROS_MAX = 60_000_000  # how far an entry may be ahead of a clock that was put back
TRANSACTION_SECONDS_MAX = 30.0  # between reading the clock and the commit
UNKNOWN_CODES = {"outcome_unknown"}


class PostingRecord(msgspec.Struct):
    """What is known of a posting from outside the ledger."""

    posting: Posting
    sent_at: float
    refused_with: str | None = None


class Checker:
    """Knows what was promised, and compares it with what is committed."""

    def __init__(
        self, store: Store, trace: Trace, now: Callable[[], float], stop: Callable[[], None]
    ) -> None:
        self._store = store
        self._trace = trace
        self._now = now
        self._stop = stop
        self.violation: str | None = None
        self.model = Model(store)
        self.postings: dict[str, PostingRecord] = {}
        self.acknowledged: dict[str, str] = {}  # the hash of the debit, by transfer id
        self.lost: set[str] = set()  # what a declared switch of the leader has undone
        self.never: dict[tuple[str, str], float] = {}  # keys that were looked up in vain
        self.exchanged: dict[str, int] = {}  # how often each code was exchanged
        self.tails_lost = 0
        self.database_clock: Callable[[], int] = lambda: 0
        self.estimated_clock: Callable[[], int] = lambda: 0  # what processes may take for it
        self._clock_high = 0
        self._earlier_times: list[
            tuple[float, int]
        ] = []  # when the clock was moved, and from where
        self._committed_at: dict[str, float] = {}  # by transfer id
        self._final_since: dict[str, float] = {}  # by charge id
        self._versions: dict[str, list[tuple[float, int]]] = {
            id_: [(0.0, account.balance)] for id_, account in self.model.accounts.items()
        }

    def fail(self, message: str) -> None:
        """Record the first violation, and end the simulation."""
        if self.violation is None:
            self.violation = message
            self._trace.add("VIOLATION", message)
            self._stop()

    # Commits

    def clock_moves(self) -> None:
        """Remember what the database's clock shows before it is moved."""
        self._clock_high = max(self._clock_high, self.database_clock())
        self._earlier_times.append((self._now(), self.database_clock()))

    def committed(self, commit: Commit) -> None:
        """Check a commit, of which the tables already contain the rows."""
        self._clock_high = max(self._clock_high, self.database_clock())
        try:
            self._check_commit(commit)
        except Inconsistent as error:
            self.fail(str(error))

    def tail_lost(self) -> None:
        """Accept that the last commits are undone: the tables say what is left."""
        before = self.model
        try:
            self.model = Model(self._store)
        except Inconsistent as error:
            self.fail(f"after a switch of the leader: {error}")
            return
        self.tails_lost += 1
        self.lost |= before.transfers.keys() - self.model.transfers.keys()
        self._trace.add("tail lost", len(before.transfers) - len(self.model.transfers), "transfers")
        for id_, account in self.model.accounts.items():
            self._add_version(id_, account.balance)

    def _check_commit(self, commit: Commit) -> None:
        changes, model = changes_of(commit), self.model
        transfers = model.add_entries(changes.entries)
        for head in changes.heads:
            model.check_head(*head)
            self._add_version(head[0], head[1])
        for transfer in transfers:
            self._check_transfer(transfer)
        charges = model.read_new_charges() if changes.inserts_charges else []
        charges += model.read_charges(changes.charge_ids) if changes.charge_ids else []
        for before, after in charges:
            self._check_charge(before, after)
        for transfer in transfers:
            self._check_payment(transfer)
        if changes.touches_codes and (again := model.read_codes()):
            raise Inconsistent(f"the code {again[0]} was used twice")
        if transfers:
            model.check_total()
        self._trace.add("commit", commit.origin, *(each.debit.transfer_id for each in transfers))

    def _add_version(self, account_id: str, balance: int) -> None:
        versions = self._versions[account_id]
        if versions[-1][1] != balance:
            versions.append((self._now(), balance))

    def _check_transfer(self, transfer: Transfer) -> None:
        debit, now = transfer.debit, self._now()
        id_ = debit.transfer_id
        self._committed_at[id_] = now
        self._check_date(debit.created_at, id_)
        record = self.postings.get(id_)
        if record is None:
            raise Inconsistent(f"nobody asked for {id_}")
        if record.refused_with is not None:
            raise Inconsistent(f"{id_} was refused with {record.refused_with}, and moved money")
        if now > record.sent_at + BOUND_SECONDS:
            raise Inconsistent(f"{id_} moved money {now - record.sent_at:.1f} s after it was sent")
        posting = record.posting
        if (debit.account_id, -debit.amount, debit.idempotency_key, debit.note) != (
            posting.debit_account_id,
            posting.amount,
            posting.idempotency_key,
            posting.note,
        ):
            raise Inconsistent(f"{id_} is not what was asked for: {debit} instead of {posting}")
        if debit.idempotency_key is not None:
            sought_at = self.never.get((debit.account_id, debit.idempotency_key))
            if sought_at is not None:
                raise Inconsistent(
                    f"{id_} moved money with a key that was not found at {sought_at:.3f}"
                )

    def _check_date(self, micros: int, what: str) -> None:
        ahead_micros = micros - self._clock_high
        if ahead_micros > 0:
            seconds = ahead_micros / 1e6
            raise Inconsistent(f"{what} is dated {seconds:.3f} s ahead of the database's clock")
        started_at = self._now() - TRANSACTION_SECONDS_MAX
        recent = [reading for moved_at, reading in self._earlier_times if moved_at >= started_at]
        ahead_micros = micros - max(self.database_clock(), *recent, 0)
        if ahead_micros > DATE_AHEAD_MICROS_MAX:
            seconds = ahead_micros / 1e6
            raise Inconsistent(
                f"{what} is dated {seconds:.3f} s ahead of a clock that was put back"
            )

    def _check_charge(self, before: ChargeRow | None, after: ChargeRow) -> None:
        if before is None:
            if after.created_at > max(self._clock_high, self.estimated_clock()):
                raise Inconsistent(f"{after.id} is dated ahead of the database's clock")
            if after.status != "created":
                raise Inconsistent(f"{after.id} is new and {after.status}")
        elif before.status in FINAL and before != after:
            raise Inconsistent(f"{after.id} was {before.status} and is {after.status}")
        if after.status in FINAL:
            self._final_since.setdefault(after.id, self._now())
        if after.status == "expired" and after.expires_at > self._clock_high:
            raise Inconsistent(f"{after.id} is expired before its time")
        self._check_date(max(after.paid_at or 0, after.canceled_at or 0), after.id)
        if (
            (after.status == "paid") != (after.paid_at is not None)
            or (after.status == "canceled") != (after.canceled_at is not None)
            or (after.status == "paid") != self._is_paid(after)
        ):
            raise Inconsistent(f"{after} contradicts itself")

    def _is_paid(self, charge: ChargeRow) -> bool:
        transfer = self.model.transfers.get(charge.transfer_id or "")
        return (
            transfer is not None
            and transfer.debit.charge_id == charge.id
            and transfer.credit.amount == charge.amount
            and transfer.debit.account_id == charge.paid_by
        )

    def _check_payment(self, transfer: Transfer) -> None:
        charge_id = transfer.debit.charge_id
        if charge_id is None:
            return
        charge = self.model.charges.get(charge_id)
        if charge is None or charge.transfer_id != transfer.debit.transfer_id:
            raise Inconsistent(f"{transfer.debit.transfer_id} pays {charge}, which does not say so")

    # Answers

    def posting_sent(self, posting: Posting, sent_at: float) -> None:
        """Record that a process has received a posting that was sent at this time."""
        self.postings[posting.transfer_id] = PostingRecord(posting, sent_at)

    def posting_answered(self, posting: Posting, result: PostingResult) -> None:
        """Check what the ledger answers."""
        outcome = result.outcome
        if not isinstance(outcome, Movement | Replay):
            self.posting_refused(posting, type(outcome).__name__)
            return
        id_ = outcome.debit.transfer_id
        self.acknowledged[id_] = outcome.debit.hash
        if isinstance(outcome, Movement) != (id_ == posting.transfer_id):
            self.fail(f"{posting.transfer_id} was answered with {id_}")
        self._check_acknowledged(id_)

    def posting_refused(self, posting: Posting, code: str) -> None:
        """Check that a refused posting has not moved money, and never will."""
        if code in UNKNOWN_CODES:
            return
        self.postings[posting.transfer_id].refused_with = code
        if posting.transfer_id in self.model.transfers:
            self.fail(f"{posting.transfer_id} was refused with {code}, but it has moved money")

    def key_found(self, account_id: str, key: str, transfer_id: str) -> None:
        """Check that a transfer that was found by its key exists."""
        known = self.model.keys.get((account_id, key))
        if known != transfer_id and transfer_id not in self.lost:
            self.fail(f"the key {key} finds {transfer_id}, but {known} is committed")

    def key_not_found(
        self, account_id: str, key: str, asked_at: float, last_used_at: float
    ) -> None:
        """Check that the key was unused; if its last use is long ago, it must remain so."""
        transfer_id = self.model.keys.get((account_id, key))
        if transfer_id is not None and self._committed_at[transfer_id] < asked_at:
            self.fail(f"the key {key} was not found, though {transfer_id} was committed before")
        if asked_at >= last_used_at + BOUND_SECONDS:
            self.never[account_id, key] = asked_at

    def balance_read(self, account_id: str, balance: int, asked_at: float) -> None:
        """Check that the account had this balance at some time since the question was asked."""
        for since, version in reversed(self._versions[account_id]):
            if version == balance:
                return
            if since <= asked_at:
                break
        self.fail(f"the balance of {account_id} was said to be {balance}, which it never was")

    def charge_answered(self, charge_id: str, status: str, asked_at: float) -> None:
        """Check that a final status is committed before anybody is told, and not forgotten."""
        charge = self.model.charges.get(charge_id)
        if self.tails_lost:
            return
        if status in FINAL and (charge is None or charge.status != status):
            self.fail(f"{charge_id} was said to be {status}, but it is {charge}")
        if status == "created" and self._final_since.get(charge_id, asked_at) < asked_at:
            self.fail(f"{charge_id} was said to be created, after it had become final")

    def code_exchanged(self, code: str, token_handle: str) -> None:
        """Check that a code is exchanged once."""
        self.exchanged[code] = self.exchanged.get(code, 0) + 1
        if self.exchanged[code] > 1 and not self.tails_lost:
            self.fail(
                f"the code {code[:11]} was exchanged twice, the second time for {token_handle}"
            )

    def finished(self) -> None:
        """Check all tables once more, and that every acknowledged transfer is in them."""
        try:
            stored = Model(self._store)
        except Inconsistent as error:
            self.fail(f"at the end: {error}")
            return
        for name in ("accounts", "transfers", "keys", "charges", "codes", "tokens"):
            if getattr(stored, name) != getattr(self.model, name):
                self.fail(f"the stored {name} are not those that were committed")
        for id_ in self.acknowledged:
            self._check_acknowledged(id_)

    def _check_acknowledged(self, id_: str) -> None:
        transfer = self.model.transfers.get(id_)
        if transfer is None:
            if id_ not in self.lost:
                self.fail(f"{id_} was acknowledged, but it is not in the ledger")
        elif transfer.debit.hash != self.acknowledged[id_] and id_ not in self.lost:
            self.fail(f"{id_} was acknowledged with other contents")
