"""One sandbox server for each engine and module."""

from collections.abc import Iterator

import pytest

from tests.support.module_scope import database_url, engine
from tests.support.server import Server

__all__ = ["database_url", "engine"]


@pytest.fixture(scope="module")
def server(database_url: str) -> Iterator[Server]:
    """A sandbox on the same database."""
    with Server(database_url, "--sandbox") as running:
        yield running
