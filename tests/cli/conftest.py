"""Fixtures for tests of commands."""

from pathlib import Path

import pytest

from tests.cli.commands import Operator
from tests.support.engines import Engine, Engines
from tests.support.server import Server


@pytest.fixture
def operator(shared_server: Server) -> Operator:
    """An operator who runs commands while the server runs."""
    return Operator(shared_server)


@pytest.fixture
def elsewhere(engine: Engine, engines: Engines, tmp_path: Path) -> str:
    """The address of an empty database."""
    return engines.empty_url(engine, tmp_path)
