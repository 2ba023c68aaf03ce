"""Metrics in the text format that Prometheus reads."""

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

from ousel.kernel.clock import MICROS_PER_SECOND
from ousel.kernel.money import MICROS_PER_UNIT
from ousel.observation.gauges import Gauges
from ousel.observation.histograms import Histogram
from ousel.observation.metrics import Metrics

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"


class PrometheusExporter:
    """Renders the metrics of this process for Prometheus."""

    def __init__(self, metrics: Metrics, build_info: dict[str, str]) -> None:
        """Export these metrics, and the labels that describe this build."""
        self._metrics = metrics
        self._build_info = build_info

    def render(self, gauges: Gauges) -> bytes:
        """Return the metrics and these gauges as text; any thread may call this."""
        registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        registry.register(_OuselCollector(self._metrics, gauges, self._build_info))
        return generate_latest(registry)


class _OuselCollector(Collector):
    """Yields all metric families with their current values."""

    def __init__(self, metrics: Metrics, gauges: Gauges, build_info: dict[str, str]) -> None:
        self._metrics = metrics
        self._gauges = gauges
        self._build_info = build_info

    @override
    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily("ousel_build", "The version that runs.", value=self._build_info)
        yield from self._requests()
        yield from self._postings()
        yield from self._charges()
        yield from self._mail()
        yield from self._log()
        yield from self._ledger()
        yield GaugeMetricFamily(
            "ousel_clock_skew_seconds",
            "By how much the clock of this host is ahead of the database's.",
            value=self._gauges.clock_skew_micros / MICROS_PER_SECOND,
        )

    def _requests(self) -> Iterator[Metric]:
        labels = ["method", "route"]
        requests = CounterMetricFamily(
            "ousel_http_requests",
            "Requests answered, or given up by the client (status 499).",
            labels=[*labels, "status"],
        )
        durations = HistogramMetricFamily(
            "ousel_http_request_duration_seconds",
            "Time from the arrival of a complete request to the start of its answer.",
            labels=labels,
        )
        for route in list(self._metrics.requests.routes.values()):
            values = [route.method, route.path]
            for status, count in list(route.statuses.items()):
                requests.add_metric([*values, str(status)], count)
            durations.add_metric(values, list(route.durations.buckets()), route.durations.total)
        yield requests
        yield durations
        refusals = CounterMetricFamily(
            "ousel_refusals", "Requests refused, by error code.", labels=["code"]
        )
        for code, count in list(self._metrics.requests.refusals.items()):
            refusals.add_metric([code], count)
        yield refusals

    def _postings(self) -> Iterator[Metric]:
        yield _histogram(
            "ousel_posting_batch_postings",
            "Postings in the batch of one transaction, whatever their outcomes.",
            self._metrics.postings.batch_postings,
        )
        yield _histogram(
            "ousel_posting_transaction_seconds",
            "Time to write a batch until its commit has ended, with waits and repeated attempts.",
            self._metrics.postings.transaction_seconds,
        )
        yield GaugeMetricFamily(
            "ousel_posting_queue_length",
            "Postings that wait for the next batch.",
            value=self._gauges.queue_length,
        )
        yield GaugeMetricFamily(
            "ousel_posting_queue_limit",
            "Postings that may wait; further ones are refused.",
            value=self._gauges.queue_limit,
        )
        connections = GaugeMetricFamily(
            "ousel_database_connections", "Connections to the database.", labels=["state"]
        )
        connections.add_metric(["in_use"], self._gauges.connections.in_use)
        connections.add_metric(["idle"], self._gauges.connections.idle)
        yield connections
        yield GaugeMetricFamily(
            "ousel_database_abandoned_commits",
            "Commits that were abandoned and still wait in the database server.",
            value=self._gauges.connections.abandoned_commits,
        )
        yield GaugeMetricFamily(
            "ousel_database_writes_suspended",
            "1 if all writes are refused at present, because commits fail or hang; otherwise 0.",
            value=self._gauges.connections.writes_suspended,
        )

    def _charges(self) -> Iterator[Metric]:
        charges = CounterMetricFamily("ousel_charges", "Charges, by outcome.", labels=["outcome"])
        for outcome, count in self._metrics.charges.outcomes.items():
            charges.add_metric([outcome], count)
        yield charges
        yield _histogram(
            "ousel_charge_payment_seconds",
            "Time from a charge's creation to its payment.",
            self._metrics.charges.payment_seconds,
        )

    def _mail(self) -> Iterator[Metric]:
        attempts = CounterMetricFamily(
            "ousel_mail_attempts", "Attempts to send mail, by outcome.", labels=["outcome"]
        )
        for outcome, count in self._metrics.mail.outcomes.items():
            attempts.add_metric([outcome], count)
        yield attempts
        mail = self._gauges.mail
        if mail is None:
            return
        for name, meaning, value in (
            ("waiting", "Messages that wait to be sent.", mail.waiting),
            ("failed", "Messages of the last 30 days that were given up.", mail.failed),
            (
                "oldest_waiting_seconds",
                "How long the oldest of the waiting messages has waited.",
                self._gauges.oldest_mail_seconds,
            ),
        ):
            yield GaugeMetricFamily(f"ousel_mail_{name}", meaning, value=value)

    def _log(self) -> Iterator[Metric]:
        if self._gauges.oldest_unsealed_seconds is not None:
            yield GaugeMetricFamily(
                "ousel_log_oldest_unsealed_seconds",
                "How long the oldest movement that is not yet in the sealed log has waited.",
                value=self._gauges.oldest_unsealed_seconds,
            )

    def _ledger(self) -> Iterator[Metric]:
        totals = self._gauges.totals
        if totals is None:  # the database cannot be read: no values are better than old ones
            return
        for name, meaning, value in (
            ("entries", "Entries in the journal.", totals.entries),
            ("accounts", "Accounts, including the system account.", totals.accounts),
            ("issued_ousd", "Money in circulation.", totals.issued / MICROS_PER_UNIT),
            (
                "balances_sum_millionths",
                "The sum of all balances, which must be 0.",
                totals.balances_sum,
            ),
            (
                "read_timestamp_seconds",
                "When these ledger totals were read.",
                self._gauges.totals_read_at,
            ),
        ):
            yield GaugeMetricFamily(f"ousel_ledger_{name}", meaning, value=value)


def _histogram(name: str, meaning: str, histogram: Histogram) -> Metric:
    return HistogramMetricFamily(
        name, meaning, buckets=list(histogram.buckets()), sum_value=histogram.total
    )
