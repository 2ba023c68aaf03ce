"""Requests to servers that may be hostile: witnesses, and logs that are audited."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from typing_extensions import override

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


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a server that redirects."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Redirects) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


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
