"""Spans: requests and batches told to an OpenTelemetry collector, where that is asked for.

This is the one module that imports OpenTelemetry, which comes with the extra `ousel[otel]`.
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


class Spans:
    """Makes a span of each request and of each batch, when it is over."""

    def __init__(self) -> None:
        """Send them where the standard OTEL_ variables say."""
        named = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: "ousel"}
        about = Resource.create({SERVICE_VERSION: version("ousel"), **named})
        self._provider = TracerProvider(resource=about, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("ousel")

    def trace_of(self, request: AnsweredRequest, parent: TraceParent | None) -> Trace | None:
        """Make the span of a request, and return the trace that it became a part of."""
        route = request.route
        ended_at = time.time_ns()
        span = self._tracer.start_span(
            request.method if route is None else f"{route.method} {route.path}",
            context=_context(parent),
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
        """Make the span of a batch, which belongs to no one request."""
        ended_at = time.time_ns()
        span = self._tracer.start_span(
            "posting batch",
            context=Context(),
            attributes={"ousel.postings": postings},
            start_time=ended_at - int(seconds * _NANOS_PER_SECOND),
        )
        span.end(ended_at)

    def close(self) -> None:
        """Send what is left; this waits for the collector."""
        self._provider.shutdown()


def _context(parent: TraceParent | None) -> Context:
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
    """Return what may be told of a request, in OpenTelemetry's own words."""
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
