"""Metrics: what this process counts of its own work."""

from typing import Final

from ousel.api.observers import AnsweredRequest
from ousel.observation.histograms import Histogram, RouteMetrics

REQUEST_SECONDS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
    60,  # as long as a partner may wait for a charge
)
BATCH_POSTINGS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)
TRANSACTION_SECONDS: Final = (
    *(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
PAYMENT_SECONDS: Final = (5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)
CHARGE_OUTCOMES: Final = ("created", "paid", "canceled", "expired")
UNMATCHED: Final = "unmatched"  # one name for every address that is none, or the names never end


class Metrics:
    """Counts requests, batches and charges, for whoever asks."""

    def __init__(self) -> None:
        """Begin with nothing counted."""
        self.routes: dict[tuple[str, str], RouteMetrics] = {}
        self.refusals: dict[str, int] = {}
        self.batch_postings = Histogram(BATCH_POSTINGS)
        self.transaction_seconds = Histogram(TRANSACTION_SECONDS)
        self.charges = dict.fromkeys(CHARGE_OUTCOMES, 0)
        self.payment_seconds = Histogram(PAYMENT_SECONDS)

    def request_answered(self, request: AnsweredRequest) -> None:
        """Count a request by its route and status, and a refusal by its code."""
        route = request.route
        key = (UNMATCHED, UNMATCHED) if route is None else (route.method, route.path)
        figures = self.routes.get(key)
        if figures is None:
            figures = self.routes[key] = RouteMetrics(*key, REQUEST_SECONDS)
        figures.count(request.status, request.seconds)
        code = request.code
        if code is not None:
            self.refusals[code] = self.refusals.get(code, 0) + 1

    def batch_written(self, postings: int, seconds: float) -> None:
        """Count a batch by its size and its time."""
        self.batch_postings.observe(postings)
        self.transaction_seconds.observe(seconds)

    def charge_created(self) -> None:
        """Count a new charge."""
        self.charges["created"] += 1

    def charge_paid(self, seconds: float) -> None:
        """Count a payment, and how long it took to come."""
        self.charges["paid"] += 1
        self.payment_seconds.observe(seconds)

    def charge_canceled(self) -> None:
        """Count a cancellation."""
        self.charges["canceled"] += 1

    def charges_expired(self, count: int) -> None:
        """Count charges that were found expired."""
        self.charges["expired"] += count
