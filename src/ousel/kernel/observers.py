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


class MailObserver(Protocol):
    """An observer of attempts to send mail."""

    def mail_sent(self) -> None:
        """Record that the mail server has taken a message over."""
        ...

    def mail_postponed(self) -> None:
        """Record that a message could not be sent and will be tried again."""
        ...

    def mail_failed(self) -> None:
        """Record that a message was given up."""
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

    def mail_sent(self) -> None:
        """Do nothing."""

    def mail_postponed(self) -> None:
        """Do nothing."""

    def mail_failed(self) -> None:
        """Do nothing."""


NO_OBSERVER: Final = NoObserver()
