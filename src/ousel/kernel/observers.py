"""Observation: what rooms tell of their work, without knowing who watches it."""

from typing import Final, Protocol


class PostingObserver(Protocol):
    """Watches batches being written."""

    def batch_written(self, postings: int, seconds: float) -> None:
        """Know that so many postings were settled by one transaction, which took so long."""
        ...


class ChargeObserver(Protocol):
    """Watches what becomes of charges."""

    def charge_created(self) -> None:
        """Know that a charge was created."""
        ...

    def charge_paid(self, seconds: float) -> None:
        """Know that a charge was paid, so long after it was created."""
        ...

    def charge_canceled(self) -> None:
        """Know that a charge was canceled."""
        ...

    def charges_expired(self, count: int) -> None:
        """Know that so many charges were found expired, and written down so."""
        ...


class NoObserver:
    """Nobody watches."""

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
