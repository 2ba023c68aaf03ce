"""Histories: what each client asked, what it was answered, and when; and what the ledger says."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import msgspec

Action = Literal["transfer", "balance", "lookup", "charge"]
Outcome = Literal["ok", "fail", "unknown"]


class Operation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request of one client and its answer.

    An outcome is `ok` when the server answered the question, `fail` when it said that nothing
    was written, and `unknown` when it said neither, or nothing at all.
    """

    group: int
    action: Action
    account: str  # who asks: the sender, the reader, the owner of the charge
    invoked: float
    returned: float
    outcome: Outcome
    intent: str = ""  # what may happen once at most: the transfer's note, and its idempotency key
    recipient: str = ""
    amount: int = 0
    result: str | int | None = None  # a transfer's id, a balance, a charge's status

    @property
    def is_refused(self) -> bool:
        """Whether the sender's balance was too low for this transfer."""
        return self.action == "transfer" and self.outcome == "ok" and self.result is None


class Entry(msgspec.Struct, frozen=True):
    """One entry of an account, as the ledger has it in the end."""

    transfer_id: str
    intent: str
    amount: int
    balance_after: int


class Group(msgspec.Struct, frozen=True):
    """Accounts that send money only to each other, with all that happened to them."""

    number: int
    operations: list[Operation]
    opening: dict[str, int]  # each account's balance when the history begins
    entries: dict[str, list[Entry]]  # each account's entries since then, in their order


def save(groups: Iterable[Group], path: Path) -> None:
    """Write each group as one line of JSON."""
    path.write_bytes(b"".join(msgspec.json.encode(group) + b"\n" for group in groups))
