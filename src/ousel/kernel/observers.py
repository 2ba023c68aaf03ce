"""Observers: how packages report what they do, without knowing who receives it."""

from typing import Final, Protocol


class PostingObserver(Protocol):
    """An observer of batches."""

    def batch_written(self, postings: int, seconds: float) -> None:
        """Record how many postings a batch had, whatever their outcomes, and how long it took."""
        ...


class ChargeObserver(Protocol):
    """An observer of what happens to charges."""

    def charge_created(self) -> None:
        """Record that a charge was created."""
        ...

    def charge_paid(self, seconds: float) -> None:
        """Record that a charge was paid, this many seconds after it was created."""
        ...

    def charge_canceled(self) -> None:
        """Record that a charge was canceled."""
        ...

    def charges_expired(self, count: int) -> None:
        """Record that this many charges were marked as expired."""
        ...


class NoObserver:
    """Ignores everything."""

    def batch_written(self, postings: int, seconds: float) -> None:
        """Do nothing."""

    def charge_created(self) -> None:
        """Do nothing."""

    def charge_paid(self, seconds: float) -> None:
        """Do nothing."""

    def charge_canceled(self) -> None:
        """Do nothing."""

    def charges_expired(self, count: int) -> None:
        """Do nothing."""


NO_OBSERVER: Final = NoObserver()
