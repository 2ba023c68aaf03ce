"""Trace context: a caller's trace goes on through this service (W3C Trace Context)."""

import re
from os import urandom
from typing import Final

import msgspec

_TRACEPARENT: Final = re.compile(
    rb"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?"
)
_SAMPLED: Final = 1


class TraceParent(msgspec.Struct, frozen=True, gc=False):
    """The operation of the caller that this request belongs to."""

    trace_id: str
    span_id: str
    is_sampled: bool


class Trace(msgspec.Struct, frozen=True, gc=False):
    """The trace of a request, and this service's own part in it."""

    trace_id: str
    span_id: str
    is_sampled: bool

    @property
    def response(self) -> bytes:
        """The value of the header that tells the caller of it."""
        return f"00-{self.trace_id}-{self.span_id}-{self.is_sampled:02x}".encode()


def parse_trace_parent(header: bytes | None) -> TraceParent | None:
    """Return what a traceparent header says; one that is not valid counts as none."""
    match = _TRACEPARENT.fullmatch(header) if header is not None else None
    if match is None:
        return None
    version, trace_id, span_id, flags, rest = match.groups()
    if version == b"00" and rest is not None:  # only a later version may go on
        return None
    return TraceParent(trace_id.decode(), span_id.decode(), bool(int(flags, 16) & _SAMPLED))


def continue_trace(parent: TraceParent | None) -> Trace | None:
    """Return the caller's trace with a name for our part in it, of which nothing is recorded."""
    if parent is None:
        return None
    return Trace(parent.trace_id, urandom(8).hex(), is_sampled=False)
