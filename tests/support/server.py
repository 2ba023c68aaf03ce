"""Real server processes, started as an operator starts them."""

import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Self

import httpx2

from ousel.database.addresses import is_postgres
from ousel.sealed_log.keys import new_key, write_key
from tests.support.engines import Engine, Engines
from tests.support.ports import free_port
from tests.support.secret_files import secret_file_for
from tests.support.waiting import wait_until

START_SECONDS_MAX = 240.0  # long, because the machine may be busy
ESTABLISHED = "01"  # in the kernel's table of connections


class Server:
    """One `ousel serve` process."""

    ready_path = "/readyz"

    def __init__(self, database_url: str, *options: str, **environment: str) -> None:
        self.database_url = database_url
        self.port = free_port()
        self.is_sandbox = "--sandbox" in options
        self.origin = f"http://127.0.0.1:{self.port}"
        self.base_url = f"{self.origin}/v1"
        self._command = [
            str(Path(sys.executable).parent / "ousel"),
            "serve",
            "--database",
            database_url,
            "--port",
            str(self.port),
            *options,
        ]
        self._environment = os.environ | {
            "OUSEL_RATE_LIMIT": "off",
            "OUSEL_BASE_URL": self.base_url,
            "OUSEL_PORTAL_URL": self.origin,
            "OUSEL_SECRET_FILE": str(secret_file_for(database_url) or "off"),
            **environment,
        }
        self.process: subprocess.Popen[bytes]
        self._written = ""

    def __enter__(self) -> Self:
        # A full pipe that nobody reads would block a server that logs a lot.
        self._log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(self._command, env=self._environment, stderr=self._log)
        with suppress(AssertionError):
            wait_until(
                lambda: self.process.poll() is not None or self.is_ready(), START_SECONDS_MAX
            )
        if not self.is_ready():
            raise AssertionError(f"the server did not start: {self.stop()}")
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self, by: signal.Signals = signal.SIGTERM) -> str:
        """Stop the server, and return its log."""
        if self.process.poll() is None:
            self.process.send_signal(by)
        self.process.wait(timeout=START_SECONDS_MAX)
        if not self._log.closed:
            self._log.seek(0)
            self._written = self._log.read().decode()
            self._log.close()
        return self._written

    def client(self, key: str | None = None) -> httpx2.AsyncClient:
        """Return a client that calls with this key."""
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        limits = httpx2.Limits(max_connections=200)
        return httpx2.AsyncClient(
            base_url=self.base_url,
            headers=headers,
            limits=limits,
            timeout=60,
            verify=False,  # plain HTTP: certificates would be loaded for nothing
        )

    def is_ready(self) -> bool:
        """Return whether the server is ready."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=START_SECONDS_MAX)
        try:
            connection.request("GET", self.ready_path)
            return connection.getresponse().status == HTTPStatus.OK
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    @property
    def engine(self) -> Engine:
        """The engine of the server's database."""
        return "postgresql" if is_postgres(self.database_url) else "sqlite"

    def bytes_unread(self) -> int:
        """Return how many bytes the kernel has received that the server has not read yet."""
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        sockets = [line.split() for line in lines]
        return sum(
            int(queues.partition(":")[2], 16)
            for _, local, _, state, queues, *_ in sockets
            if local.endswith(f":{self.port:04X}") and state == ESTABLISHED
        )


class SharedServers:
    """Servers for tests that use only their own accounts; each starts when it is first needed."""

    def __init__(self, engines: Engines, folder: Path) -> None:
        self._engines = engines
        self._folder = folder
        self._running: dict[tuple[str, ...], Server] = {}

    def on(self, engine: Engine, *options: str) -> Server:
        """Return the server on this engine with these options."""
        key = (engine, *options)
        if key not in self._running:
            url = self._engines.fresh_url(engine, self._folder)
            environment = {"OUSEL_LOG_LEVEL": "error"}
            if engine != "sqlite":  # beside an SQLite file, Ousel creates its key by itself
                log_key = self._folder / f"log-key-{len(self._running)}"
                write_key(log_key, new_key("tests.example/log"))
                environment["OUSEL_LOG_KEY_FILE"] = str(log_key)
            self._running[key] = Server(url, *options, **environment).__enter__()
        return self._running[key]

    def close(self) -> None:
        """Stop the servers, and check that none of them had an internal error."""
        logs = [server.stop() for server in self._running.values()]
        for log in logs:
            assert "internal error" not in log, log
            assert "Traceback" not in log, log


def wait_for_http(url: str, seconds_max: float = START_SECONDS_MAX) -> None:
    """Wait until something answers at this address."""

    def answers() -> bool:
        with suppress(httpx2.TransportError):
            return bool(httpx2.get(url, verify=False))
        return False

    wait_until(answers, seconds_max)
