"""The lookout: all that watches one process, put together as the settings ask."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

from ousel.api.health import Health
from ousel.api.observers import RequestObserver, RequestObservers
from ousel.database.addresses import is_postgres
from ousel.database.port import Database
from ousel.database.schema import SCHEMA_VERSION
from ousel.kernel.clock import Clock
from ousel.kernel.observers import PostingObserver
from ousel.kernel.settings import SettingError, Settings
from ousel.ledger.posting import PostingQueue
from ousel.observation.metrics import Metrics
from ousel.observation.request_log import RequestLog

if TYPE_CHECKING:
    from ousel.observation.admin import AdminPort
    from ousel.observation.spans import Spans


class Telemetry:
    """Watches requests, postings and charges; the admin port shows what it has seen."""

    def __init__(self, settings: Settings, clock: Clock, processes: int) -> None:
        """Watch as the settings ask, in one of so many processes."""
        self._settings = settings
        self._processes = processes
        self._spans = _spans() if settings.tracing else None
        self.metrics = Metrics()
        self.request_observers = self._make_request_observers(clock)
        self.postings = BatchObservers([self.metrics] + ([self._spans] if self._spans else []))

    @contextlib.asynccontextmanager
    async def open(
        self, database: Database, queue: PostingQueue, health: Health
    ) -> AsyncIterator[None]:
        """Show what is seen at the admin port, where there is to be one."""
        settings = self._settings
        try:
            if settings.admin_port is None:
                yield
                return
            ports = range(settings.admin_port, settings.admin_port + self._processes)
            admin = self._admin_port(database, queue, health)
            async with admin.listening(settings.admin_host, ports):
                yield
        finally:
            if self._spans is not None:
                await asyncio.to_thread(self._spans.close)

    def _admin_port(self, database: Database, queue: PostingQueue, health: Health) -> "AdminPort":
        from ousel.observation.admin import AdminPort
        from ousel.observation.gauges import GaugeReader
        from ousel.observation.prometheus import PrometheusText

        exposition = PrometheusText(self.metrics, _about(self._settings))
        return AdminPort(exposition, GaugeReader(database, queue), health)

    def _make_request_observers(self, clock: Clock) -> RequestObservers:
        observers: list[RequestObserver] = [self.metrics]
        if self._settings.request_log and self._settings.log_level in {"debug", "info"}:
            observers.append(RequestLog())
        tracer = None if self._spans is None else self._spans.trace_of
        return RequestObservers(clock, observers, tracer)


class BatchObservers:
    """Tells several observers of batches."""

    def __init__(self, observers: Sequence[PostingObserver]) -> None:
        """Tell these."""
        self._observers = observers

    def batch_written(self, postings: int, seconds: float) -> None:
        """Tell of a batch."""
        for observer in self._observers:
            observer.batch_written(postings, seconds)


def check_tracing(settings: Settings) -> None:
    """Raise SettingError where traces are asked for and what sends them is not installed."""
    if settings.tracing:
        try:
            import_module("ousel.observation.spans")
        except ModuleNotFoundError as missing:
            reason = "OUSEL_TRACING needs the extra: pip install 'ousel[otel]'."
            raise SettingError(reason) from missing


def _spans() -> "Spans":
    from ousel.observation.spans import Spans

    return Spans()


def _about(settings: Settings) -> dict[str, str]:
    return {
        "version": version("ousel"),
        "schema": SCHEMA_VERSION,
        "engine": "postgresql" if is_postgres(settings.database_url) else "sqlite",
        "mode": settings.secret_kind,
    }
