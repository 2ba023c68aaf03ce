"""Fixtures for the tests of generated clients: a sandbox, as the Python client's tests have it."""

from clients.python.tests.conftest import sandbox, seeded_servers
from tests.conftest import engines, shared_servers

__all__ = ["engines", "sandbox", "seeded_servers", "shared_servers"]
