"""Requests to servers that may be hostile: witnesses, and logs that are audited."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import StreamRequestHandler, TCPServer, ThreadingTCPServer
from threading import Thread

import pytest
from typing_extensions import override

from ousel.sealed_log import remote
from ousel.sealed_log.remote import RemoteLog, RemoteUnreachable, request

REDIRECTS = (301, 302, 303, 307, 308)


class Redirects(BaseHTTPRequestHandler):
    """Answers with the redirect that the path names, to an address that answers too."""

    def do_GET(self) -> None:
        """Redirect, unless the path says otherwise."""
        _, status, target = self.path.split("/", 2)
        self.send_response(int(status))
        self.send_header("Location", f"http://{target}")
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"here")

    def do_POST(self) -> None:
        """Read the body, and do the same."""
        self.rfile.read(int(self.headers["Content-Length"]))
        self.do_GET()

    @override
    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def running(server: TCPServer) -> Iterator[str]:
    """Run the server, and yield its address."""
    with server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a server that redirects."""
    with running(ThreadingHTTPServer(("127.0.0.1", 0), Redirects)) as address:
        yield address


@pytest.mark.parametrize("body", [None, b"a checkpoint"])
@pytest.mark.parametrize("status", REDIRECTS)
def test_a_redirect_is_not_followed(address: str, status: int, body: bytes | None) -> None:
    """It is an answer like any other, wherever it leads."""
    for target in (f"{address}/200/x", "[", "a..b/", ""):
        answer = request(f"http://{address}/{status}/{target}", body)
        assert (answer.status, answer.content) == (status, b"here")


def test_a_log_that_redirects_is_not_read(address: str) -> None:
    """The auditor says with which status it answers."""
    with pytest.raises(RemoteUnreachable, match="answers with status 302"):
        RemoteLog(f"http://{address}/302/elsewhere").checkpoint()


@pytest.mark.parametrize("url", ["http://a..b/", "http://127.0.0.1:1/\u00e9", "http://[", "x"])
def test_an_address_that_makes_no_sense_is_unreachable(url: str) -> None:
    """The message says so; nothing else is raised."""
    with pytest.raises(RemoteUnreachable):
        request(url)


ENDLESS = {  # what a server sends first, and what it sends from then on
    "/status": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "/content": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n"),
    "/refusal": (b"HTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"a: b\r\n"),
}


class EndlessAnswers(StreamRequestHandler):
    """Sends the answer that the path names, until the client hangs up."""

    @override
    def handle(self) -> None:
        first, more = ENDLESS[self.rfile.readline().decode().split()[1]]
        with suppress(OSError):
            self.wfile.write(first)
            while True:
                self.wfile.write(more)


@pytest.mark.slow
@pytest.mark.parametrize("path", ENDLESS)
def test_an_answer_without_end_is_given_up(monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    """Otherwise a server could keep an auditor waiting for years, one byte at a time."""
    monkeypatch.setattr(remote, "ANSWER_SECONDS_MAX", 0.1)
    with (
        running(ThreadingTCPServer(("127.0.0.1", 0), EndlessAnswers)) as endless,
        pytest.raises(RemoteUnreachable),
    ):
        request(f"http://{endless}{path}")
