"""Cases for parsers: noise, and texts that are put together from what a parser looks for."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from ousel.kernel.errors import Refusal

# `make fuzz` asks for the full size: more than a million cases in all.
FULL = os.environ.get("OUSEL_FUZZ") == "full"
PARSER_CASES = 65_000 if FULL else 100
REQUEST_CASES = 25_000 if FULL else 150
CASE_SECONDS_MAX = 0.5  # of processor time: nothing that somebody sends may keep us busy

Test = Callable[..., Any]


def cases(count: int) -> Callable[[Test], Test]:
    """Return the decorator that lets a test run on so many cases."""
    return settings(
        max_examples=count,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def made_of(*pieces: bytes, length: int = 24) -> st.SearchStrategy[bytes]:
    """Return texts of these pieces, with a little noise between them, and noise alone."""
    piece = st.sampled_from(pieces) | st.binary(max_size=2)
    return st.lists(piece, max_size=length).map(b"".join) | st.binary(max_size=60)


def texts_of(*pieces: str, length: int = 24) -> st.SearchStrategy[str]:
    """Return the same as texts, with any characters between them."""
    piece = st.sampled_from(pieces) | st.text(max_size=2)
    return st.lists(piece, max_size=length).map("".join) | st.text(max_size=60)


@contextmanager
def quickly() -> Iterator[None]:
    """Fail where a case takes much longer than any case should, however it ends."""
    started = time.process_time()
    try:
        yield
    finally:
        took = time.process_time() - started
        assert took < CASE_SECONDS_MAX, f"a case took {took:.1f} seconds"


@contextmanager
def refused_at_most() -> Iterator[None]:
    """Let a case pass that is refused with a 4xx and a sentence; it is quick either way."""
    with quickly():
        try:
            yield
        except Refusal as refusal:
            if not (400 <= refusal.status < 500 and refusal.detail):
                raise
