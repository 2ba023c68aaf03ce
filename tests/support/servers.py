"""Real server processes, started as an operator starts them."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx2

START_SECONDS_MAX = 20.0
ESTABLISHED = "01"  # in the kernel's table of connections


class Server:
    """One `ousel serve` process."""

    def __init__(self, database_url: str, *options: str, **environment: str) -> None:
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
            **environment,
        }
        self.process: subprocess.Popen[bytes]
        self._written = ""

    def __enter__(self) -> Self:
        # A pipe that nobody reads would stop a server that has much to say.
        self._log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(self._command, env=self._environment, stderr=self._log)
        deadline = time.monotonic() + START_SECONDS_MAX
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the server did not start: {self.stopped()}")
            time.sleep(0.05)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stopped()

    def stopped(self, by: signal.Signals = signal.SIGTERM) -> str:
        """Stop the server, and return what it wrote to its log."""
        if self.process.poll() is None:
            self.process.send_signal(by)
        self.process.wait(timeout=60)
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
            timeout=30,
            verify=False,  # plain HTTP: certificates would be loaded for nothing
        )

    def answers(self) -> bool:
        """Say whether the server is ready."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=START_SECONDS_MAX)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == HTTPStatus.OK
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()

    def bytes_unread(self) -> int:
        """Return how much has been sent to the server that it has not read, as the kernel says."""
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        sockets = [line.split() for line in lines]
        return sum(
            int(queues.partition(":")[2], 16)
            for _, local, _, state, queues, *_ in sockets
            if local.endswith(f":{self.port:04X}") and state == ESTABLISHED
        )


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def two_free_ports() -> int:
    """Return a free port whose next is free as well, where no client's own port comes to lie."""
    while True:
        port = 20_000 + secrets.randbelow(10_000)
        with socket.socket() as one, socket.socket() as next_one, suppress(OSError):
            one.bind(("127.0.0.1", port))
            next_one.bind(("127.0.0.1", port + 1))
            return port
