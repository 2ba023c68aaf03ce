"""What packages above the ledger do in the transaction of a batch.

The ledger cannot import those packages: `ousel.app.services` passes it their implementations.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from ousel.database.port import Transaction
from ousel.kernel.clock import Clock
from ousel.ledger.rules import Account, ClosedCharges, Movement


class ChargeLocks(msgspec.Struct, frozen=True):
    """The charges that cannot be paid, and those that another transaction has locked."""

    now: int | None  # the time that decided which have expired; None if no charge was locked
    closed: ClosedCharges
    blocked: Collection[str] = ()


class ChargeRows(Protocol):
    """The rows of the charges that postings pay."""

    async def wait(self, transaction: Transaction, charge_id: str) -> None:
        """Lock one charge; wait until no other transaction has locked it."""
        ...

    async def lock(
        self, transaction: Transaction, charge_ids: Collection[str], clock: Clock, *, waits: bool
    ) -> ChargeLocks:
        """Lock the charges; with `waits`, wait for those that are locked, else leave them out."""
        ...

    async def mark_paid(
        self, transaction: Transaction, payments: Sequence[Movement], now: int
    ) -> None:
        """Write that the charges of these movements are paid."""
        ...


class NoCharges:
    """The charge rows of a queue that takes no charge payments."""

    async def wait(self, _: Transaction, __: str) -> None:
        """Do nothing: there are no charges."""

    async def lock(
        self, _: Transaction, charge_ids: Collection[str], clock: Clock, *, waits: bool
    ) -> ChargeLocks:
        """Report that none of these charges exists, so that none is paid."""
        del clock, waits
        return ChargeLocks(None, dict.fromkeys(charge_ids))

    async def mark_paid(self, _: Transaction, __: Sequence[Movement], ___: int) -> None:
        """Do nothing: no charge can be paid."""


class RecipientNotices(Protocol):
    """Messages to people who receive money."""

    async def write(
        self,
        transaction: Transaction,
        movements: Sequence[Movement],
        involved: Mapping[str, Account],
    ) -> None:
        """Write a message to the recipient of each movement."""
        ...


class NoNotices:
    """The notices of a queue that writes none."""

    async def write(
        self, _: Transaction, __: Sequence[Movement], ___: Mapping[str, Account]
    ) -> None:
        """Do nothing."""
