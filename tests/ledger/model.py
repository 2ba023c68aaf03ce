"""The simplest possible ledger, with which the real one must agree."""

from typing import Any

import msgspec

from ousel.ledger.rules import BALANCE_MICROS_MAX, SYSTEM_ACCOUNT_ID, Posting


class ModelEntry(msgspec.Struct, frozen=True):
    """One side of a movement."""

    transfer_id: str
    amount: int
    balance_after: int
    counterparty: str
    note: str | None


class ModelAccount(msgspec.Struct):
    """An account, by its id."""

    balance: int = 0
    frozen: bool = False
    entries: list[ModelEntry] = msgspec.field(default_factory=list)


class Model:
    """Accounts, their identifiers, and the idempotency keys that were used."""

    def __init__(self) -> None:
        self.accounts: dict[str, ModelAccount] = {SYSTEM_ACCOUNT_ID: ModelAccount()}
        self.names: dict[str, str] = {}
        self.keys: dict[tuple[str, str | None], tuple[Any, ...]] = {}

    def open(self, account_id: str, names: tuple[str, ...]) -> None:
        """Open an account with these identifiers."""
        self.accounts[account_id] = ModelAccount()
        self.names |= dict.fromkeys(names, account_id)

    def post(self, posting: Posting) -> tuple[str, str]:
        """Return the posting's outcome, and the id of its transfer."""
        sender = posting.debit_account_id
        to = posting.credit_account_id or self.names.get(posting.credit_identifier or "")
        request = (to, posting.amount, posting.note, posting.kind)
        used = self.keys.get((sender, posting.idempotency_key))
        if posting.idempotency_key is not None and used is not None:
            return ("replayed" if used[1:] == request else "idempotency_conflict"), used[0]
        refusal = self._refusal(sender, to, posting.amount)
        if refusal is not None or to is None:
            return refusal or "account_not_found", ""
        self._enter(sender, -posting.amount, to, posting)
        self._enter(to, posting.amount, sender, posting)
        self.keys[sender, posting.idempotency_key] = (posting.transfer_id, *request)
        return "moved", posting.transfer_id

    def _refusal(self, sender: str, to: str | None, amount: int) -> str | None:
        if to is None:
            return "account_not_found"
        if to == sender:
            return "same_account"
        if self.accounts[sender].frozen or self.accounts[to].frozen:
            return "account_frozen"
        if sender != SYSTEM_ACCOUNT_ID and self.accounts[sender].balance < amount:
            return "insufficient_balance"
        if self.accounts[to].balance + amount > BALANCE_MICROS_MAX:
            return "balance_limit_reached"
        return None

    def _enter(self, account_id: str, amount: int, counterparty: str, posting: Posting) -> None:
        account = self.accounts[account_id]
        account.balance += amount
        account.entries.append(
            ModelEntry(posting.transfer_id, amount, account.balance, counterparty, posting.note)
        )
