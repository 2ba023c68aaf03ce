"""Examples for the ledger's tests: accounts and postings with all fields filled in."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from ousel.ledger.rules import (
    FIRST_HASH,
    SYSTEM_ACCOUNT_ID,
    Account,
    ClosedCharges,
    Outcome,
    Posting,
    Refused,
    Status,
    UsedIdempotencyKeys,
    decide,
)

NOW = 1_767_225_600_000_000

_numbers = itertools.count(1)


def account(
    name: str, balance: int = 0, *, status: Status = "active", updated_at: int = 0
) -> Account:
    """Return an account with no history."""
    return Account(
        id=name,
        username=name,
        account_number="",
        display_name=name.title(),
        status=status,
        balance=balance,
        sequence=0,
        head_hash=FIRST_HASH,
        created_at=0,
        updated_at=updated_at,
    )


def posting(
    sender: str,
    to: str,
    amount: int = 1,
    *,
    key: str | None = None,
    note: str | None = None,
    **fields: Any,
) -> Posting:
    """Return a posting with a new transfer id; `to` is a normalized identifier."""
    return Posting(
        transfer_id=f"tr_{next(_numbers):06d}",
        debit_account_id=sender,
        credit_identifier=to,
        amount=amount,
        note=note,
        idempotency_key=key,
        **{"kind": "transfer", **fields},
    )


class MemoryLedger:
    """A ledger in memory, which decides postings one batch after the other."""

    def __init__(self, *accounts: Account) -> None:
        self.accounts = {each.id: each for each in accounts}
        self.keys: UsedIdempotencyKeys = {}
        self.charges: ClosedCharges = {}

    def decide(self, *postings: Posting, now: int = NOW) -> list[Outcome]:
        """Decide the postings; the identifier of an account is `@` and its id."""
        names: Mapping[str, str] = {f"@{name}": name for name in self.accounts}
        return decide(postings, self.accounts, names, self.keys, now, self.charges)

    def balances(self) -> dict[str, int]:
        """Return each account's balance."""
        return {name: each.balance for name, each in self.accounts.items()}


def system(balance: int = 0) -> Account:
    """Return the account that money is issued from."""
    return account(SYSTEM_ACCOUNT_ID, balance)


def refusals(outcomes: Sequence[Outcome]) -> list[Any]:
    """Return the class of each refusal, and None for each posting that was not refused."""
    return [type(each.refusal) if isinstance(each, Refused) else None for each in outcomes]
