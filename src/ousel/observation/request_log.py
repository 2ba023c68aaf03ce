"""The request log: one line for each answer, with nothing in it that is anybody's secret."""

import contextlib
import os
import sys
from typing import Final

import msgspec

from ousel.api.observers import AnsweredRequest
from ousel.kernel.clock import system_clock, timestamp
from ousel.observation.metrics import UNMATCHED

_MILLISECONDS: Final = 1_000
_encoder: Final = msgspec.json.Encoder()


class _Line(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """What is told of a request.

    The route, never the address itself: an address may name a person, and a query, a header or a
    body may hold a secret.
    """

    event: str = "request"
    level: str = "info"
    timestamp: str
    request_id: str
    method: str
    route: str
    status: int
    code: str | None
    ms: float
    app_id: str | None
    trace_id: str | None


class RequestLog:
    """Writes the lines among the others on standard error.

    They do not pass through the logger, which takes ten times as long for one.
    """

    def request_answered(self, request: AnsweredRequest) -> None:
        """Write the line of a request."""
        route, caller, trace = request.route, request.caller, request.trace
        line = _Line(
            timestamp=timestamp(system_clock()),
            request_id=request.request_id,
            method=request.method,
            route=UNMATCHED if route is None else route.path,
            status=request.status,
            code=request.code,
            ms=round(request.seconds * _MILLISECONDS, 3),
            app_id=None if caller is None else caller.client_id,
            trace_id=None if trace is None else trace.trace_id,
        )
        with contextlib.suppress(OSError):  # a full disk loses the line, not the answer
            os.write(sys.stderr.fileno(), _encoder.encode(line) + b"\n")
