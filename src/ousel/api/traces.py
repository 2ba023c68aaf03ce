"""Trace context: continues a caller's trace through this service (W3C Trace Context)."""

import re
from os import urandom
from typing import Final

import msgspec

_TRACEPARENT: Final = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)
_SAMPLED: Final = 1


class TraceParent(msgspec.Struct, frozen=True, gc=False):
    """The caller's span that this request belongs to."""

    trace_id: str
    span_id: str
    is_sampled: bool


class Trace(msgspec.Struct, frozen=True, gc=False):
    """The trace of a request, and this service's span in it."""

    trace_id: str
    span_id: str
    is_sampled: bool

    @property
    def response_header(self) -> bytes:
        """The value of the traceresponse header."""
        return f"00-{self.trace_id}-{self.span_id}-{self.is_sampled:02x}".encode()


def parse_trace_parent(header: bytes | None) -> TraceParent | None:
    """Return the content of a traceparent header, or None if it is invalid."""
    match = _TRACEPARENT.fullmatch(header) if header is not None else None
    if match is None:
        return None
    version, trace_id, span_id, flags, rest = match.groups()
    if version == b"00" and rest is not None:  # only later versions may have more fields
        return None
    return TraceParent(trace_id.decode(), span_id.decode(), bool(int(flags, 16) & _SAMPLED))


def continue_trace(parent: TraceParent | None) -> Trace | None:
    """Return the caller's trace with a new span id; the span is not recorded."""
    if parent is None:
        return None
    return Trace(parent.trace_id, urandom(8).hex(), is_sampled=False)
