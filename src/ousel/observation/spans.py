"""Spans: requests and batches, sent to an OpenTelemetry collector if tracing is on.

Only this module imports OpenTelemetry, which the extra `ousel[otel]` installs.
"""

import os
import time
from http import HTTPStatus
from importlib.metadata import version
from typing import Final

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    format_span_id,
    format_trace_id,
    set_span_in_context,
)

from ousel.api.observers import AnsweredRequest
from ousel.api.traces import Trace, TraceParent

_NANOS_PER_SECOND: Final = 1_000_000_000


class SpanRecorder:
    """Records a span for each request and each batch when it has ended."""

    def __init__(self) -> None:
        """Send spans to the collector that the standard OTEL_ variables name."""
        name = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "ousel"}
        resource = Resource.create({SERVICE_VERSION: version("ousel"), **name})
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("ousel")

    def record_request(self, request: AnsweredRequest, parent: TraceParent | None) -> Trace | None:
        """Record the span of a request, and return the trace that it belongs to."""
        route = request.route
        ended_at = time.time_ns()
        span = self._tracer.start_span(
            request.method if route is None else f"{route.method} {route.path}",
            context=_parent_context(parent),
            kind=SpanKind.SERVER,
            attributes=_attributes(request),
            start_time=ended_at - int(request.seconds * _NANOS_PER_SECOND),
        )
        if request.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            span.set_status(Status(StatusCode.ERROR))
        span.end(ended_at)
        context = span.get_span_context()
        return Trace(
            format_trace_id(context.trace_id),
            format_span_id(context.span_id),
            is_sampled=context.trace_flags.sampled,
        )

    def batch_written(self, postings: int, seconds: float) -> None:
        """Record the span of a batch, which belongs to no single request."""
        ended_at = time.time_ns()
        span = self._tracer.start_span(
            "posting batch",
            context=Context(),
            attributes={"ousel.postings": postings},
            start_time=ended_at - int(seconds * _NANOS_PER_SECOND),
        )
        span.end(ended_at)

    def close(self) -> None:
        """Send the remaining spans, and wait until the collector has them."""
        self._provider.shutdown()


def _parent_context(parent: TraceParent | None) -> Context:
    if parent is None:
        return Context()
    flags = TraceFlags.SAMPLED if parent.is_sampled else TraceFlags.DEFAULT
    span_context = SpanContext(
        int(parent.trace_id, 16),
        int(parent.span_id, 16),
        is_remote=True,
        trace_flags=TraceFlags(flags),
    )
    return set_span_in_context(NonRecordingSpan(span_context), Context())


def _attributes(request: AnsweredRequest) -> dict[str, str | int]:
    """Return what a span says about a request, named by OpenTelemetry's conventions."""
    attributes: dict[str, str | int] = {
        "http.request.method": request.method,
        "http.response.status_code": request.status,
        "ousel.request_id": request.request_id,
    }
    if request.route is not None:
        attributes["http.route"] = request.route.path
    if request.caller is not None:
        attributes["ousel.app_id"] = request.caller.client_id
    if request.code is not None:
        attributes["error.type"] = request.code
    return attributes
