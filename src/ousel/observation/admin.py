"""The admin port: metrics and health checks on a port for the operator."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import Final

from ousel.api.health import Health
from ousel.http.connection import Connection, OwnServerState
from ousel.http.listeners import listen
from ousel.http.messages import Answer, Request, Response, answer_head, json_answer
from ousel.kernel.errors import Refusal
from ousel.kernel.logs import EventLogger
from ousel.observation.gauges import GaugeReader
from ousel.observation.prometheus import CONTENT_TYPE, PrometheusExporter

IDLE_SECONDS_MAX: Final = 75
CONNECTIONS_WAITING_MAX: Final = 16

Handler = Callable[[], Awaitable[Answer]]

_NOT_FOUND: Final = Answer(404, b"There are /metrics, /healthz and /readyz here.\n", b"text/plain")
_NOT_ALLOWED: Final = Answer(405, b"", b"text/plain", ((b"allow", b"GET, HEAD"),))

_log = EventLogger()


class AdminPort:
    """Answers requests for metrics and health."""

    def __init__(
        self, exporter: PrometheusExporter, gauge_reader: GaugeReader, health: Health
    ) -> None:
        """Answer from these sources."""
        self._exporter = exporter
        self._gauge_reader = gauge_reader
        self._handlers: dict[str, Handler] = {
            "/metrics": self._metrics,
            "/healthz": health.alive,
            "/readyz": health.ready,
        }

    async def respond(self, request: Request) -> Response:
        """Return the response to a request."""
        if request.refusal is None:
            answer = await self._answer(request.method, request.path)
        else:
            reason = f"{request.refusal.title}.\n".encode()
            answer = Answer(request.refusal.status, reason, b"text/plain")
        return Response(answer.status, answer_head(answer), answer.body)

    def give_up(self, request: Request) -> None:
        """Do nothing: nobody counts the requests to this port."""

    @contextlib.asynccontextmanager
    async def listen(self, host: str, ports: Iterable[int]) -> AsyncIterator[None]:
        """Listen on the first of these ports that is free, until the block ends.

        If none is free, the block runs without an admin port: serving matters more than metrics.
        """
        listener = listen_on_first_free(host, ports)
        if listener is None:
            _log.error("no admin port is free", host=host, ports=list(ports))
            yield
            return
        state = OwnServerState()
        server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self, state, IDLE_SECONDS_MAX), sock=listener
        )
        _log.info("admin port opened", host=host, port=listener.getsockname()[1])
        try:
            yield
        finally:
            server.close()
            for connection in list(state.connections):
                connection.shutdown()

    async def _answer(self, method: str, path: str) -> Answer:
        handler = self._handlers.get(path)
        if handler is None:
            return _NOT_FOUND
        if method not in {"GET", "HEAD"}:
            return _NOT_ALLOWED
        try:
            return await handler()
        except Refusal as refusal:
            reason = {"status": "unavailable", "code": refusal.code, "detail": refusal.detail}
            return json_answer(reason, status=refusal.status)

    async def _metrics(self) -> Answer:
        gauges = await self._gauge_reader.read()
        text = await asyncio.to_thread(self._exporter.render, gauges)
        return Answer(HTTPStatus.OK, text, CONTENT_TYPE)


def listen_on_first_free(host: str, ports: Iterable[int]) -> socket.socket | None:
    """Return a socket that listens on the first of these ports that is free, or None."""
    for port in ports:
        with contextlib.suppress(OSError):
            listener = listen(host, port, CONNECTIONS_WAITING_MAX)
            listener.settimeout(0)
            return listener
    return None
