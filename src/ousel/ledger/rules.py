"""The rules of the books, pure: what a posting does to the accounts, and what it may not do."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from ousel.kernel.errors import Refusal
from ousel.kernel.money import json_from_micros
from ousel.ledger.refusals import (
    AccountFrozen,
    AccountNotFound,
    BalanceLimitReached,
    IdempotencyConflict,
    InsufficientBalance,
    SameAccount,
)

Kind = Literal["transfer", "charge_payment", "funding"]
Status = Literal["active", "frozen"]

SYSTEM_ACCOUNT_ID: Final = "acct_00000000000000000000000000"  # money is issued from here
BALANCE_MICROS_MAX: Final = 10**18
FIRST_HASH: Final = "0" * 64  # what an account's first entry follows


class Account(msgspec.Struct, gc=False):
    """An account as the books know it: its public name, its balance and its last entry."""

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


Reason = Callable[[], Refusal]


class Claim(msgspec.Struct, frozen=True, gc=False):
    """What a posting takes and no other may take after it, and what those others are told."""

    name: str
    reason: Reason


class KeyCheck(msgspec.Struct, frozen=True, gc=False):
    """The key by which a sender asks: it must hold when it is posted, or that is the answer."""

    account_id: str
    handle: str
    ended: Reason


class Posting(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A wish to move money; the recipient is named by a normalized identifier."""

    transfer_id: str
    kind: Kind
    debit_account_id: str
    credit_identifier: str
    amount: int
    note: str | None = None
    charge_id: str | None = None
    idempotency_key: str | None = None
    key_check: KeyCheck | None = None
    claim: Claim | None = None


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One side of a movement, in its account's own numbered sequence."""

    account_id: str
    sequence: int
    transfer_id: str
    kind: Kind
    amount: int  # negative where money leaves
    balance_after: int
    counterparty_id: str
    note: str | None
    charge_id: str | None
    idempotency_key: str | None  # on the sender's side alone
    created_at: int
    hash: str


class Movement(msgspec.Struct, frozen=True, gc=False):
    """The posting took place: its two entries."""

    debit: Entry
    credit: Entry


class Replay(msgspec.Struct, frozen=True, gc=False):
    """The posting took place before, under the same key: the sender's entry of that time."""

    debit: Entry


class Refused(msgspec.Struct, frozen=True):
    """The posting may not take place.

    A refusal that is raised holds frames that hold this: the garbage collector must see it.
    """

    refusal: Refusal


Outcome = Movement | Replay | Refused
KnownKeys = dict[tuple[str, str], Entry]
Closed = dict[str, Reason]


def decide(
    postings: Sequence[Posting],
    accounts: Mapping[str, Account],
    recipients: Mapping[str, str],
    known_keys: KnownKeys,
    now: int,
    closed: Closed | None = None,
) -> list[Outcome]:
    """Decide the postings in their order, and bring accounts, keys and claims up to date.

    `accounts` holds each account that a posting touches, `recipients` the account id of each
    identifier that exists, `known_keys` the first entry of each key that was used before,
    `closed` the claims that can be taken no more.
    """
    closed = {} if closed is None else closed
    outcomes: list[Outcome] = []
    for posting in postings:
        credit_id = recipients.get(posting.credit_identifier)
        key = (posting.debit_account_id, posting.idempotency_key or "")
        first = known_keys.get(key) if posting.idempotency_key is not None else None
        if first is not None:
            outcomes.append(_replay_or_conflict(posting, first, credit_id))
            continue
        outcome = _decide_new(posting, accounts, credit_id, now, closed)
        outcomes.append(outcome)
        if posting.idempotency_key is not None and isinstance(outcome, Movement):
            known_keys[key] = outcome.debit
    return outcomes


def transfer_refusal(debit: Account, credit: Account, amount: int) -> Refusal | None:
    """Return why this amount cannot move from one account to the other, or None if it can."""
    if credit.id == debit.id:
        return SameAccount("The recipient must be another account than the sender.", param="to")
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
            f"The balance is {json_from_micros(debit.balance)}, "
            f"the amount {json_from_micros(amount)}.",
            param="amount",
        )
    if credit.balance + amount > BALANCE_MICROS_MAX:
        return BalanceLimitReached("The recipient's balance would pass its limit.", param="amount")
    return None


def recipient_refusal(credit: Account) -> Refusal | None:
    """Return why this account cannot receive anything from anyone, or None if it can."""
    if credit.status == "frozen":
        return AccountFrozen("The recipient's account is frozen.", param="to")
    return None


def entry_hash(previous_hash: str, entry: Entry) -> str:
    """Return SHA-256 over the previous entry's hash and this entry's canonical bytes.

    The canonical bytes are the JSON array of the entry's fields in their order, without the
    hash: an account's history cannot be changed without changing every hash after it.
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
            "whose recipient, amount or note differ.",
            param="idempotency_key",
            members={"transfer_id": first.transfer_id},
        )
    )


def _decide_new(
    posting: Posting,
    accounts: Mapping[str, Account],
    credit_id: str | None,
    now: int,
    closed: Closed,
) -> Outcome:
    claim = posting.claim
    if claim is not None and claim.name in closed:
        return Refused(closed[claim.name]())
    debit = accounts[posting.debit_account_id]
    if credit_id is None:
        return Refused(AccountNotFound("No account has the identifier in `to`.", param="to"))
    credit = accounts[credit_id]
    refusal = transfer_refusal(debit, credit, posting.amount)
    if refusal is not None:
        return Refused(refusal)
    if claim is not None:
        closed[claim.name] = claim.reason
    return _move(posting, debit, credit, now)


def _move(posting: Posting, debit: Account, credit: Account, now: int) -> Movement:
    created_at = max(now, debit.updated_at, credit.updated_at)  # a clock may step back, books not
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
