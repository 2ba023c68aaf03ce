"""Servers for all tests that keep to accounts of their own: one on each engine, for a whole run."""

from pathlib import Path

from tests.support.engines import Engine, Engines
from tests.support.servers import Server


class SharedServers:
    """Starts each server when it is first asked for; none may be made to fail inside."""

    def __init__(self, engines: Engines, folder: Path) -> None:
        self._engines = engines
        self._folder = folder
        self._running: dict[Engine, tuple[Server, str]] = {}

    def on(self, engine: Engine) -> tuple[Server, str]:
        """Return the server on this engine, and the address of its database."""
        if engine not in self._running:
            url = self._engines.fresh_url(engine, self._folder)
            self._running[engine] = Server(url, OUSEL_LOG_LEVEL="error").__enter__(), url
        return self._running[engine]

    def close(self) -> None:
        """Stop them, and see that nothing failed inside any of them."""
        logs = [server.stopped() for server, _ in self._running.values()]
        for log in logs:
            assert "internal error" not in log, log
            assert "Traceback" not in log, log
