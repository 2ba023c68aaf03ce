"""A connection to an application that echoes, for tests of what goes over the wire."""

from collections.abc import AsyncIterator

import pytest

from tests.web.echoes import Bench, Line


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """A server of the echo, in the test's own process."""
    bench = Bench()
    async with bench.running():
        yield bench


@pytest.fixture
async def line(bench: Bench) -> AsyncIterator[Line]:
    """A connection to it."""
    async with bench.line() as line:
        yield line
