"""Another party's web site, with its own origin."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from typing_extensions import override


class Site(ThreadingHTTPServer):
    """Answers every request with one page, or redirects it."""

    daemon_threads = True

    def __init__(self, *, html: str = "", redirects_to: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.html = html
        self.redirects_to = redirects_to
        self.origin = f"http://127.0.0.1:{self.server_port}"

    @contextmanager
    def open(self) -> Iterator[Self]:
        """Serve until the block ends."""
        thread = threading.Thread(target=self.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self.shutdown()
            thread.join()
            self.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Site)
        body = self.server.html.encode()
        self.send_response(200 if self.server.redirects_to is None else 302)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if self.server.redirects_to is not None:
            self.send_header("Location", self.server.redirects_to)
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, *_: Any) -> None:
        """Log nothing."""
