"""The watch at the edge: whoever observes requests is told of each when it is answered."""

from collections.abc import Callable, Sequence
from typing import Final, Protocol

import msgspec

from ousel.api.callers import Partner, User
from ousel.api.route_table import Routed
from ousel.api.traces import Trace, TraceParent, continue_trace, parse_trace_parent
from ousel.http.messages import Answer, Request
from ousel.kernel.clock import Clock
from ousel.kernel.ids import new_id


class AnsweredRequest(msgspec.Struct, gc=False, kw_only=True):
    """A request, by what may be told of it, and how it was answered."""

    request_id: str
    method: str
    route: Routed | None
    caller: Partner | User | None
    status: int
    code: str | None  # of the refusal, where it was refused
    seconds: float
    trace: Trace | None = None


class RequestObserver(Protocol):
    """Watches requests being answered."""

    def request_answered(self, request: AnsweredRequest) -> None:
        """Know that a request was answered."""
        ...


Tracer = Callable[[AnsweredRequest, TraceParent | None], Trace | None]


class RequestObservers:
    """Gives every request its id, and tells the observers, in their order, of its answer."""

    def __init__(
        self,
        clock: Clock,
        observers: Sequence[RequestObserver] = (),
        tracer: Tracer | None = None,
    ) -> None:
        """Tell these; a tracer records requests, else a caller's own trace only passes through."""
        self._clock = clock
        self._observers: Final = tuple(observers)
        self._tracer: Final = tracer

    def new_request_id(self) -> str:
        """Return the id of a request that has arrived."""
        return new_id("req_", self._clock)

    def notify(
        self, request: Request, answer: Answer, request_id: str, seconds: float
    ) -> Trace | None:
        """Tell the observers how a request was answered; return the trace that it belongs to."""
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
