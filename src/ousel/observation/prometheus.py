"""Exposition: the figures of this moment in Prometheus's own words."""

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from ousel.kernel.money import MICROS_PER_UNIT
from ousel.observation.gauges import Gauges
from ousel.observation.histograms import Histogram
from ousel.observation.metrics import Metrics

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"


class PrometheusText:
    """Writes the metrics of this process as a text that Prometheus reads."""

    def __init__(self, metrics: Metrics, about: dict[str, str]) -> None:
        """Expose these metrics, and what is to be said about this process."""
        self._metrics = metrics
        self._about = about

    def text(self, gauges: Gauges) -> bytes:
        """Return the whole text; any thread may ask for it."""
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        registry.register(_Moment(self._metrics, gauges, self._about))
        return generate_latest(registry)


class _Moment(Collector):
    """All families of metrics, with their values at one moment."""

    def __init__(self, metrics: Metrics, gauges: Gauges, about: dict[str, str]) -> None:
        self._metrics = metrics
        self._gauges = gauges
        self._about = about

    @override
    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("ousel_build", "The version that runs.", value=self._about)
        yield from self._requests()
        yield from self._postings()
        yield from self._charges()
        yield from self._ledger()

    def _requests(self) -> Iterator[Metric]:
        labels = ["method", "route"]
        requests = CounterMetricFamily(
            "ousel_http_requests", "Requests answered.", labels=[*labels, "status"]
        )
        durations = HistogramMetricFamily(
            "ousel_http_request_duration_seconds",
            "Time from a request's head to the beginning of its answer.",
            labels=labels,
        )
        for figures in list(self._metrics.routes.values()):
            names = [figures.method, figures.path]
            for status, count in list(figures.statuses.items()):
                requests.add_metric([*names, str(status)], count)
            durations.add_metric(names, list(figures.durations.buckets()), figures.durations.total)
        yield requests
        yield durations
        refusals = CounterMetricFamily(
            "ousel_refusals", "Requests refused, by error code.", labels=["code"]
        )
        for code, count in list(self._metrics.refusals.items()):
            refusals.add_metric([code], count)
        yield refusals

    def _postings(self) -> Iterator[Metric]:
        yield _histogram(
            "ousel_posting_batch_postings",
            "Postings settled by one transaction.",
            self._metrics.batch_postings,
        )
        yield _histogram(
            "ousel_posting_transaction_seconds",
            "Time to write a batch, from its begin to its commit.",
            self._metrics.transaction_seconds,
        )
        yield GaugeMetricFamily(
            "ousel_posting_queue_length",
            "Postings that wait for the next batch.",
            value=self._gauges.queue_length,
        )
        yield GaugeMetricFamily(
            "ousel_posting_queue_limit",
            "Postings that may wait before further ones are refused.",
            value=self._gauges.queue_limit,
        )
        connections = GaugeMetricFamily(
            "ousel_database_connections", "Connections to the database.", labels=["state"]
        )
        connections.add_metric(["in_use"], self._gauges.connections.in_use)
        connections.add_metric(["idle"], self._gauges.connections.idle)
        yield connections

    def _charges(self) -> Iterator[Metric]:
        charges = CounterMetricFamily(
            "ousel_charges", "Charges, by what became of them.", labels=["outcome"]
        )
        for outcome, count in self._metrics.charges.items():
            charges.add_metric([outcome], count)
        yield charges
        yield _histogram(
            "ousel_charge_payment_seconds",
            "Time from a charge's creation to its payment.",
            self._metrics.payment_seconds,
        )

    def _ledger(self) -> Iterator[Metric]:
        totals = self._gauges.totals
        if totals is None:  # the database is away: say nothing rather than something old
            return
        for name, meaning, value in (
            ("entries", "Entries in the journal.", totals.entries),
            ("accounts", "Accounts, the system's own among them.", totals.accounts),
            ("issued_ousd", "Money in circulation.", totals.issued / MICROS_PER_UNIT),
            (
                "balances_sum_millionths",
                "The sum of all balances: anything but 0 is an alarm.",
                totals.balances_sum,
            ),
            (
                "read_timestamp_seconds",
                "When these figures of the ledger were read.",
                self._gauges.totals_read_at,
            ),
        ):
            yield GaugeMetricFamily(f"ousel_ledger_{name}", meaning, value=value)


def _histogram(name: str, meaning: str, histogram: Histogram) -> Metric:
    return HistogramMetricFamily(
        name, meaning, buckets=list(histogram.buckets()), sum_value=histogram.total
    )
