"""Observers of requests, which are notified of every answer."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from ousel.api.callers import Partner, User
from ousel.api.route_table import RouteLike
from ousel.api.traces import Trace, TraceParent, continue_trace, parse_trace_parent
from ousel.http.messages import Answer, Request
from ousel.kernel.clock import Clock
from ousel.kernel.ids import new_id


class AnsweredRequest(msgspec.Struct, gc=False, kw_only=True):
    """What observers learn about a request and its answer."""

    request_id: str
    method: str
    route: RouteLike | None
    caller: Partner | User | None
    status: int
    code: str | None  # of the refusal, if there was one
    seconds: float
    trace: Trace | None = None


class RequestObserver(Protocol):
    """An observer of answered requests."""

    def request_answered(self, request: AnsweredRequest) -> None:
        """Record that a request was answered."""
        ...


Tracer = Callable[[AnsweredRequest, TraceParent | None], Trace | None]


class RequestObservers:
    """Gives every request an id, and notifies the observers of its answer, in their order."""

    def __init__(
        self,
        clock: Clock,
        observers: Sequence[RequestObserver] = (),
        tracer: Tracer | None = None,
    ) -> None:
        """Notify these observers; without a tracer, traces are passed on but not recorded."""
        self._clock = clock
        self._observers: Final = tuple(observers)
        self._tracer: Final = tracer

    def new_request_id(self) -> str:
        """Return an id for a request that has arrived."""
        return new_id("req_", self._clock)

    def notify(
        self, request: Request, answer: Answer, request_id: str, seconds: float
    ) -> Trace | None:
        """Notify the observers of an answer, and return the trace that the request belongs to."""
        answered = AnsweredRequest(
            request_id=request_id,
            method=request.method,
            route=request.route,
            caller=request.caller,
            status=answer.status,
            code=answer.code,
            seconds=seconds,
        )
        header = request.headers.get(b"traceparent")
        if self._tracer is not None:
            answered.trace = self._tracer(answered, parse_trace_parent(header))
        elif header is not None:
            answered.trace = continue_trace(parse_trace_parent(header))
        for observer in self._observers:
            observer.request_answered(answered)
        return answered.trace
