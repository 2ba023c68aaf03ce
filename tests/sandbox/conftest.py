"""One sandbox server for each engine."""

from collections.abc import Iterator

import pytest

from tests.support.folder_scope import database_url, engine
from tests.support.server import Server

__all__ = ["database_url", "engine"]


@pytest.fixture(scope="package")
def server(database_url: str) -> Iterator[Server]:
    """A sandbox on the same database."""
    with Server(database_url, "--sandbox") as running:
        yield running
