"""Fixtures for tests of the sealed log."""

from pathlib import Path

import pytest

from ousel.database.port import Database
from tests.sealed_log.logs import Log


@pytest.fixture
async def log(database: Database, tmp_path: Path) -> Log:
    """An empty log."""
    return Log(database, tmp_path)
