"""Everything that observes one process, set up according to the settings."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from ousel.api.health import Health
from ousel.api.observers import RequestObserver, RequestObservers
from ousel.database.addresses import is_postgres
from ousel.database.schema import SCHEMA_VERSION
from ousel.kernel.clock import Clock
from ousel.kernel.observers import ChargeObserver, MailObserver, PostingObserver
from ousel.kernel.settings import SettingError, Settings
from ousel.kernel.threads import run_on_thread
from ousel.observation.gauges import GaugeReader
from ousel.observation.metrics import Metrics
from ousel.observation.request_log import RequestLog

if TYPE_CHECKING:
    from ousel.observation.admin import AdminPort
    from ousel.observation.spans import SpanRecorder

LAST_SPANS_SECONDS_MAX: Final = 5.0


class Telemetry:
    """The observers of requests, postings, charges and mail, and the admin port that shows them."""

    def __init__(self, settings: Settings, clock: Clock, processes: int) -> None:
        """Set up the observers; `processes` is the number of serving processes."""
        self._settings = settings
        self._processes = processes
        self._span_recorder = _make_span_recorder() if settings.tracing else None
        self._metrics = Metrics()
        self.request_observers = self._make_request_observers(clock)
        self.posting_observer = self._make_posting_observer()
        self.charge_observer: ChargeObserver = self._metrics.charges
        self.mail_observer: MailObserver = self._metrics.mail

    @contextlib.asynccontextmanager
    async def open(self, gauge_reader: GaugeReader, health: Health) -> AsyncIterator[None]:
        """Serve the admin port, if the settings name one, until the block ends.

        Then send the last spans. A collector that cannot be reached delays the end only briefly.
        """
        settings = self._settings
        try:
            if settings.admin_port is None:
                yield
                return
            ports = range(settings.admin_port, settings.admin_port + self._processes)
            admin = self._make_admin_port(gauge_reader, health)
            async with admin.listen(settings.admin_host, ports):
                yield
        finally:
            if self._span_recorder is not None:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LAST_SPANS_SECONDS_MAX):
                        await run_on_thread("spans", self._span_recorder.close)

    def _make_admin_port(self, gauge_reader: GaugeReader, health: Health) -> "AdminPort":
        from ousel.observation.admin import AdminPort
        from ousel.observation.prometheus import PrometheusExporter

        exporter = PrometheusExporter(self._metrics, _build_info(self._settings))
        return AdminPort(exporter, gauge_reader, health)

    def _make_request_observers(self, clock: Clock) -> RequestObservers:
        observers: list[RequestObserver] = [self._metrics.requests]
        if self._settings.request_log and self._settings.log_level in {"debug", "info"}:
            observers.append(RequestLog())
        tracer = None if self._span_recorder is None else self._span_recorder.record_request
        return RequestObservers(clock, observers, tracer)

    def _make_posting_observer(self) -> PostingObserver:
        metrics = self._metrics.postings
        return (
            metrics
            if self._span_recorder is None
            else PostingObservers([metrics, self._span_recorder])
        )


class PostingObservers:
    """Passes each batch on to several observers."""

    def __init__(self, observers: Sequence[PostingObserver]) -> None:
        """Notify these observers."""
        self._observers = observers

    def batch_written(self, postings: int, seconds: float) -> None:
        """Notify all observers of a batch."""
        for observer in self._observers:
            observer.batch_written(postings, seconds)


def check_tracing(settings: Settings) -> None:
    """Raise SettingError if tracing is on but its dependencies are not installed."""
    if settings.tracing:
        try:
            import_module("ousel.observation.spans")
        except ModuleNotFoundError as missing:
            reason = "OUSEL_TRACING needs the extra: pip install 'ousel[otel]'."
            raise SettingError(reason) from missing


def _make_span_recorder() -> "SpanRecorder":
    from ousel.observation.spans import SpanRecorder

    return SpanRecorder()


def _build_info(settings: Settings) -> dict[str, str]:
    return {
        "version": version("ousel"),
        "schema": SCHEMA_VERSION,
        "engine": "postgresql" if is_postgres(settings.database_url) else "sqlite",
        "mode": settings.mode,
    }
