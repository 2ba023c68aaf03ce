"""Metrics: what this process counts about its own work."""

from collections.abc import Sequence
from typing import Final

from ousel.api.observers import AnsweredRequest
from ousel.observation.histograms import Histogram

BATCH_POSTINGS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
TRANSACTION_SECONDS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
REQUEST_SECONDS: Final = (*TRANSACTION_SECONDS, 60)  # the longest wait with `Prefer: wait`
PAYMENT_SECONDS: Final = (5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)
CHARGE_OUTCOMES: Final = ("created", "paid", "canceled", "expired")
MAIL_OUTCOMES: Final = ("sent", "postponed", "failed")
UNMATCHED: Final = "unmatched"  # one label for all unknown paths, so that labels stay few


class RouteMetrics:
    """The answers of one route, by status and duration."""

    __slots__ = ("durations", "method", "path", "statuses")

    def __init__(self, method: str, path: str, bounds: Sequence[float]) -> None:
        """Begin with nothing counted."""
        self.method = method
        self.path = path
        self.durations = Histogram(bounds)
        self.statuses: dict[int, int] = {}

    def count(self, status: int, seconds: float) -> None:
        """Count an answer."""
        self.durations.observe(seconds)
        self.statuses[status] = self.statuses.get(status, 0) + 1


class RequestMetrics:
    """Counts requests by route, and refusals by code."""

    def __init__(self) -> None:
        """Begin with nothing counted."""
        self.routes: dict[tuple[str, str], RouteMetrics] = {}
        self.refusals: dict[str, int] = {}

    def request_answered(self, request: AnsweredRequest) -> None:
        """Count a request by its route and status, and a refusal by its code."""
        route = request.route
        key = (UNMATCHED, UNMATCHED) if route is None else (route.method, route.path)
        route_metrics = self.routes.get(key)
        if route_metrics is None:
            route_metrics = self.routes[key] = RouteMetrics(*key, REQUEST_SECONDS)
        route_metrics.count(request.status, request.seconds)
        code = request.code
        if code is not None:
            self.refusals[code] = self.refusals.get(code, 0) + 1


class PostingMetrics:
    """Counts batches of postings by size and duration."""

    def __init__(self) -> None:
        """Begin with nothing counted."""
        self.batch_postings = Histogram(BATCH_POSTINGS)
        self.transaction_seconds = Histogram(TRANSACTION_SECONDS)

    def batch_written(self, postings: int, seconds: float) -> None:
        """Count a batch."""
        self.batch_postings.observe(postings)
        self.transaction_seconds.observe(seconds)


class ChargeMetrics:
    """Counts charges by outcome, and how long payments took."""

    def __init__(self) -> None:
        """Begin with nothing counted."""
        self.outcomes = dict.fromkeys(CHARGE_OUTCOMES, 0)
        self.payment_seconds = Histogram(PAYMENT_SECONDS)

    def charge_created(self) -> None:
        """Count a new charge."""
        self.outcomes["created"] += 1

    def charge_paid(self, seconds: float) -> None:
        """Count a payment, and the time since the charge was created."""
        self.outcomes["paid"] += 1
        self.payment_seconds.observe(seconds)

    def charge_canceled(self) -> None:
        """Count a cancellation."""
        self.outcomes["canceled"] += 1

    def charges_expired(self, count: int) -> None:
        """Count charges that were marked as expired."""
        self.outcomes["expired"] += count


class MailMetrics:
    """Counts attempts to send mail by outcome."""

    def __init__(self) -> None:
        """Begin with nothing counted."""
        self.outcomes = dict.fromkeys(MAIL_OUTCOMES, 0)

    def mail_sent(self) -> None:
        """Count a message that was sent."""
        self.outcomes["sent"] += 1

    def mail_postponed(self) -> None:
        """Count an attempt that failed and will be repeated."""
        self.outcomes["postponed"] += 1

    def mail_failed(self) -> None:
        """Count a message that was given up."""
        self.outcomes["failed"] += 1


class Metrics:
    """All metrics of this process."""

    def __init__(self) -> None:
        """Begin with nothing counted."""
        self.requests = RequestMetrics()
        self.postings = PostingMetrics()
        self.charges = ChargeMetrics()
        self.mail = MailMetrics()
