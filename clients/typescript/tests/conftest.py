"""Fixtures for the tests of the TypeScript client: the servers of the Python client's tests."""

from clients.python.tests.conftest import engine, live, sandbox, seeded_servers
from tests.conftest import engines, shared_servers

__all__ = ["engine", "engines", "live", "sandbox", "seeded_servers", "shared_servers"]
