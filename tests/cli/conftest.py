"""Fixtures for tests of commands."""

import pytest

from tests.cli.commands import Operator
from tests.support.server import Server


@pytest.fixture
def operator(shared_server: Server) -> Operator:
    """An operator who runs commands while the server runs."""
    return Operator(shared_server)
