"""The rules of the ledger, without I/O: what a posting does, or why it is refused."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import msgspec

from ousel.kernel.clock import MICROS_PER_SECOND
from ousel.kernel.errors import Refusal
from ousel.kernel.money import json_from_micros
from ousel.ledger.refusals import (
    AccountFrozen,
    AccountNotFound,
    BalanceLimitReached,
    EntryAheadOfClock,
    IdempotencyConflict,
    InsufficientBalance,
    SameAccount,
)

Kind = Literal["transfer", "charge_payment", "funding", "redemption"]
Status = Literal["active", "frozen"]

SYSTEM_ACCOUNT_ID: Final = "acct_00000000000000000000000000"  # issues and redeems money
BALANCE_MICROS_MAX: Final = 10**18
# How far an account's last entry may be ahead of the clock when another entry follows.
AHEAD_MICROS_MAX: Final = 60 * MICROS_PER_SECOND
FIRST_HASH: Final = "0" * 64  # the previous hash of an account's first entry


class Account(msgspec.Struct, gc=False):
    """An account as the ledger knows it: its public name, its balance and its last entry."""

    id: str
    username: str
    account_number: str
    display_name: str
    status: Status
    balance: int
    sequence: int
    head_hash: str
    created_at: int
    updated_at: int


class KeyCheck(msgspec.Struct, frozen=True, gc=False):
    """The partner key that a posting depends on: it must be valid when the posting is written."""

    account_id: str
    handle: str


class Posting(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A request to move money to an account, given by its id or by a normalized identifier."""

    transfer_id: str
    kind: Kind
    debit_account_id: str
    credit_account_id: str | None = None
    credit_identifier: str | None = None
    amount: int
    note: str | None = None
    charge_id: str | None = None  # the charge that it pays, which must have the status "created"
    idempotency_key: str | None = None
    key_check: KeyCheck | None = None
    notifies_recipient: bool = False  # with a message, written in the same transaction


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One side of a movement, in its account's own numbered sequence."""

    account_id: str
    sequence: int
    transfer_id: str
    kind: Kind
    amount: int  # negative for the sender
    balance_after: int
    counterparty_id: str
    note: str | None
    charge_id: str | None
    idempotency_key: str | None  # None for the recipient
    created_at: int
    hash: str


class Movement(msgspec.Struct, frozen=True, gc=False):
    """The posting moved money; these are its two entries."""

    debit: Entry
    credit: Entry


class Replay(msgspec.Struct, frozen=True, gc=False):
    """The same posting was made before with the same idempotency key; this is its debit entry."""

    debit: Entry


class Refused(msgspec.Struct, frozen=True):
    """The ledger's rules forbid the posting, or its deadline has passed.

    Once the refusal is raised, it refers to stack frames that refer to this struct, so the garbage
    collector must track it (no gc=False).
    """

    refusal: Refusal


class KeyRejected(msgspec.Struct, frozen=True, gc=False):
    """The partner key is no longer valid, although its last look-up found it valid."""


class ChargeClosed(msgspec.Struct, frozen=True, gc=False):
    """The charge cannot be paid: this is its final status, or None if it does not exist."""

    status: str | None


Outcome = Movement | Replay | Refused | KeyRejected | ChargeClosed
UsedIdempotencyKeys = dict[tuple[str, str], Entry]
ClosedCharges = dict[str, str | None]  # the final status, or None if there is no such charge


def decide(
    postings: Sequence[Posting],
    accounts: Mapping[str, Account],
    recipients: Mapping[str, str],
    used_idempotency_keys: UsedIdempotencyKeys,
    now: int,
    closed_charges: ClosedCharges | None = None,
) -> list[Outcome]:
    """Decide the postings in their order, and update accounts, keys and charges accordingly.

    `accounts` holds each account that a posting touches, `recipients` the account id of each
    identifier that exists, `used_idempotency_keys` the first entry of each key,
    `closed_charges` the charges that cannot be paid.
    """
    closed_charges = {} if closed_charges is None else closed_charges
    outcomes: list[Outcome] = []
    for posting in postings:
        credit_id = credit_account_id(posting, recipients)
        key = (posting.debit_account_id, posting.idempotency_key or "")
        first = used_idempotency_keys.get(key) if posting.idempotency_key is not None else None
        if first is not None:
            outcomes.append(_replay_or_conflict(posting, first, credit_id))
            continue
        outcome = _decide_new(posting, accounts, credit_id, now, closed_charges)
        outcomes.append(outcome)
        if posting.idempotency_key is not None and isinstance(outcome, Movement):
            used_idempotency_keys[key] = outcome.debit
    return outcomes


def credit_account_id(posting: Posting, recipients: Mapping[str, str]) -> str | None:
    """Return the id of the account that the posting credits, or None if it does not exist."""
    if posting.credit_identifier is None:
        return posting.credit_account_id
    return recipients.get(posting.credit_identifier)


def may_change_account(identifier: str) -> bool:
    """Return whether an identifier may later name another account: only an email may."""
    return "@" in identifier[1:]


def transfer_refusal(debit: Account, credit: Account, amount: int) -> Refusal | None:
    """Return why this amount cannot move from one account to the other, or None if it can."""
    if credit.id == debit.id:
        return SameAccount("The recipient must not be the sender.", param="to")
    if debit.status == "frozen":
        return AccountFrozen("The sender's account is frozen.")
    refusal = recipient_refusal(credit)
    if refusal is not None:
        return refusal
    if debit.id == SYSTEM_ACCOUNT_ID:
        short = debit.balance - amount < -BALANCE_MICROS_MAX
    else:
        short = debit.balance < amount
    if short:
        return InsufficientBalance(
            f"The balance is {json_from_micros(debit.balance)} "
            f"and the amount is {json_from_micros(amount)}.",
            param="amount",
        )
    if credit.balance + amount > BALANCE_MICROS_MAX:
        return BalanceLimitReached("The recipient's balance would be too large.", param="amount")
    return None


def recipient_refusal(credit: Account) -> Refusal | None:
    """Return why this account cannot receive anything from anyone, or None if it can."""
    if credit.status == "frozen":
        return AccountFrozen("The recipient's account is frozen.", param="to")
    return None


def entry_hash(previous_hash: str, entry: Entry) -> str:
    """Return SHA-256 over the previous entry's hash and this entry's canonical bytes.

    The canonical bytes are the JSON array of the entry's fields in their order, without the
    hash. So nobody can change an entry without changing every later hash of the account.
    """
    return _chain_hash(
        previous_hash,
        (
            entry.account_id,
            entry.sequence,
            entry.transfer_id,
            entry.kind,
            entry.amount,
            entry.balance_after,
            entry.counterparty_id,
            entry.note,
            entry.charge_id,
            entry.idempotency_key,
            entry.created_at,
        ),
    )


def _chain_hash(previous_hash: str, fields: tuple[object, ...]) -> str:
    return hashlib.sha256(previous_hash.encode() + _canonical(fields)).hexdigest()


_canonical = msgspec.json.Encoder().encode


def _replay_or_conflict(posting: Posting, first: Entry, credit_id: str | None) -> Outcome:
    same = (
        first.counterparty_id == credit_id
        and first.amount == -posting.amount
        and first.note == posting.note
        and first.kind == posting.kind
    )
    if same:
        return Replay(first)
    return Refused(
        IdempotencyConflict(
            f"This idempotency key was used for transfer {first.transfer_id}, "
            "which has another recipient, amount or note.",
            param="idempotency_key",
            members={"transfer_id": first.transfer_id},
        )
    )


def _decide_new(
    posting: Posting,
    accounts: Mapping[str, Account],
    credit_id: str | None,
    now: int,
    closed_charges: ClosedCharges,
) -> Outcome:
    charge_id = posting.charge_id
    if charge_id is not None and charge_id in closed_charges:
        return ChargeClosed(closed_charges[charge_id])
    debit = accounts[posting.debit_account_id]
    if credit_id is None:
        return Refused(AccountNotFound("No account has the identifier in `to`.", param="to"))
    credit = accounts[credit_id]
    refusal = transfer_refusal(debit, credit, posting.amount)
    # The dates of an account never go back, even if the clock does.
    created_at = max(now, debit.updated_at, credit.updated_at)
    if refusal is None and created_at - now > AHEAD_MICROS_MAX:
        refusal = _ahead_of_clock("sender" if created_at == debit.updated_at else "recipient")
    if refusal is not None:
        return Refused(refusal)
    if charge_id is not None:
        closed_charges[charge_id] = "paid"
    return _move(posting, debit, credit, created_at)


def _ahead_of_clock(role: str) -> EntryAheadOfClock:
    """Return the refusal of a posting that would have to be dated in the future.

    An account's dates never go back, so every later entry would need such a date as well.
    """
    return EntryAheadOfClock(
        f"The last entry of the {role}'s account is dated in the future.", retry_after_seconds=60
    )


def _move(posting: Posting, debit: Account, credit: Account, created_at: int) -> Movement:
    outgoing = _entry(posting, debit, credit.id, -posting.amount, created_at)
    incoming = _entry(posting, credit, debit.id, posting.amount, created_at)
    assert outgoing.amount + incoming.amount == 0
    return Movement(outgoing, incoming)


def _entry(
    posting: Posting, account: Account, counterparty_id: str, amount: int, created_at: int
) -> Entry:
    account.balance += amount
    account.sequence += 1
    account.updated_at = created_at
    fields = (
        account.id,
        account.sequence,
        posting.transfer_id,
        posting.kind,
        amount,
        account.balance,
        counterparty_id,
        posting.note,
        posting.charge_id,
        posting.idempotency_key if amount < 0 else None,
        created_at,
    )
    account.head_hash = _chain_hash(account.head_hash, fields)
    return Entry(*fields, account.head_hash)
