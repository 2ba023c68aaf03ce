"""Parsing of the requests that arrive on a connection, within limits.

A request that could be read in two ways is refused, so nobody can hide one request in another.
"""

import asyncio
from abc import ABC, abstractmethod
from typing import Final

import httptools
from typing_extensions import override

from ousel.http.messages import BODY_BYTES_MAX, Request
from ousel.http.refusals import HeadTooLarge, MalformedRequest
from ousel.kernel.errors import Refusal

HEAD_BYTES_MAX: Final = 64 * 1024  # everything except the body
HEADERS_MAX: Final = 100  # trailers included
CHUNKS_MAX: Final = 1_024

_PIECE_BYTES_MAX: Final = 16 * 1024  # a longer segment is parsed in pieces, to measure the head
# When a head is complete, `_head_bytes` (see below) is too low by up to two pieces. The piece that
# is being parsed is added only afterwards. The piece in which the previous request ended, and this
# one began, is not added at all. So if `_head_bytes` is at most the following number, the head is
# within its limit, and need not be measured exactly.
_UNMEASURED_BYTES_MAX: Final = HEAD_BYTES_MAX - 2 * _PIECE_BYTES_MAX
_SEPARATOR_BYTES: Final = len(b": \r\n")


class RequestParser(asyncio.Protocol, ABC):
    """The reading half of a connection; a subclass answers the requests."""

    _address: str

    def __init__(self) -> None:
        """Wait for the first request."""
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._request: Request | None = None  # set once its head has arrived
        self._is_incomplete = False  # a request has begun to arrive and is not complete
        # How many bytes of this request have arrived, without the current piece of input. `on_body`
        # takes the later parts of the body out of this number. The first part, `request.body`,
        # stays in it, and `_check_unfinished_head` subtracts it.
        self._head_bytes = 0
        self._body_rest = bytearray()  # the later parts of the body
        self._is_ignoring_input = False  # the connection will be closed
        self._last_active_at = self._loop.time()

    @abstractmethod
    def _handle_request(self, request: Request) -> None:
        """Answer the request, or queue it behind those before it."""

    @abstractmethod
    def _send_continue(self, request: Request) -> None:
        """Tell a client that sent `Expect: 100-continue` to send its body."""

    @abstractmethod
    def _close_when_answered(self) -> None:
        """Close the connection once every request is answered."""

    @override
    def data_received(self, data: bytes) -> None:
        if self._is_ignoring_input:
            return
        if len(data) > _PIECE_BYTES_MAX:
            for start in range(0, len(data), _PIECE_BYTES_MAX):
                RequestParser.data_received(self, data[start : start + _PIECE_BYTES_MAX])
            return
        try:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                self._ignore_upgrade(offer, memoryview(data))
        except httptools.HttpParserError as error:
            self._refuse(_parse_refusal(error))
            return
        if self._is_incomplete:
            self._check_unfinished_head(len(data))
        else:
            self._head_bytes = 0

    def on_message_begin(self) -> None:
        """Begin a new request."""
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._other_headers = 0  # those that are not counted in `_headers`
        self._joined_bytes = 0  # names and separators dropped when repeated headers were joined
        self._request = None
        self._is_incomplete = True
        self._last_active_at = self._loop.time()

    def on_url(self, url: bytes) -> None:
        """Add a piece of the URL."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; repeated headers become one list (RFC 9110, section 5.3)."""
        name = name.lower()
        value = value.rstrip()  # the parser has removed leading whitespace
        headers = self._headers
        if name not in headers:
            headers[name] = value
        elif name == b"host":
            raise MalformedRequest("A request must have exactly one Host header.")
        else:
            # Some proxies split the Cookie header of HTTP/2 (RFC 9113, section 8.2.3).
            headers[name] += (b"; " if name == b"cookie" else b", ") + value
            self._other_headers += 1
            self._joined_bytes += len(name) + _SEPARATOR_BYTES - len(b", ")
        if len(headers) + self._other_headers > HEADERS_MAX:
            raise HeadTooLarge(f"A request must have at most {HEADERS_MAX} headers.")

    def on_headers_complete(self) -> None:
        """Create the request; if its announced body is too large, answer without waiting for it."""
        if self._head_bytes > _UNMEASURED_BYTES_MAX:
            self._check_finished_head()
        parser = self._parser
        method = parser.get_method()
        if parser.should_upgrade():
            _check_upgrade(method)
            return  # `_ignore_upgrade` parses the request again
        headers = self._headers
        if b"host" not in headers and parser.get_http_version() == "1.1":
            raise MalformedRequest("HTTP/1.1 requires a Host header.")
        path, query = _path_and_query(self._url)
        request = self._request = Request(
            method=method.decode("ascii"),
            path=path.decode("ascii"),
            query=query,
            headers=headers,
            body=b"",
            ip_address=self._address,
        )
        if b"content-length" in headers:
            if int(headers[b"content-length"]) > BODY_BYTES_MAX:
                request.body = None
                self._handle_request(request)
                return
        elif b"transfer-encoding" in headers:
            self._expect_chunks(headers)
        if b"expect" in headers:
            self._send_continue(request)

    def _expect_chunks(self, headers: dict[bytes, bytes]) -> None:
        if headers[b"transfer-encoding"].lower() != b"chunked":
            raise MalformedRequest("The only Transfer-Encoding that is accepted is chunked.")
        self._headers = {}  # trailers go here: they are never taken for headers
        self._other_headers += len(headers)
        self._chunk_count = -1  # the last chunk, which is empty, does not count

    def on_chunk_header(self) -> None:
        """Count a chunk of the body."""
        self._chunk_count += 1
        if self._chunk_count > CHUNKS_MAX:
            raise HeadTooLarge(f"A body must have at most {CHUNKS_MAX} chunks.")

    def on_body(self, body: bytes) -> None:
        """Add a piece of the body; drop a body that becomes too large."""
        request = self._request
        assert request is not None
        if request.body == b"":
            request.body = body
            return
        self._head_bytes -= len(body)
        if request.body is None:
            return
        self._body_rest += body
        if len(request.body) + len(self._body_rest) > BODY_BYTES_MAX:
            self._body_rest.clear()
            self._head_bytes -= len(request.body)
            request.body = None
            self._handle_request(request)

    def on_message_complete(self) -> None:
        """Hand the complete request on, unless it was refused earlier for its size."""
        request = self._request
        self._is_incomplete = False
        # The rest of this piece may begin the next request, and `_check_unfinished_head` will add
        # the length of the whole piece. To make up for that, the count starts below zero.
        self._head_bytes = -_PIECE_BYTES_MAX
        if request is not None and request.body is not None:
            if self._body_rest:
                request.body += self._body_rest
                self._body_rest.clear()
            self._handle_request(request)

    def _ignore_upgrade(self, offer: Exception, data: memoryview) -> None:
        """Parse a request again as if it offered no other protocol (RFC 9110, section 7.8).

        The parser treats everything after such a head as the other protocol, even a body.
        """
        while True:
            data = data[offer.args[0] :]
            del self._headers[b"upgrade"]
            lines = [b"%b: %b\r\n" % header for header in self._headers.items()]
            method, version = self._parser.get_method(), self._parser.get_http_version().encode()
            first = b"%b %b HTTP/%b\r\n" % (method, self._url, version)
            # After a head with `Connection: close`, the old parser would refuse any other.
            self._parser = httptools.HttpRequestParser(self)
            self._parser.feed_data(first + b"".join(lines) + b"\r\n")
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as another:
                offer = another
            else:
                return

    def _check_unfinished_head(self, piece_bytes: int) -> None:
        """Refuse a head that is too long, or a body with too many bytes around its chunks."""
        self._head_bytes += piece_bytes
        request = self._request
        first = b"" if request is None else request.body or b""
        if self._head_bytes - len(first) > HEAD_BYTES_MAX:
            self._refuse(_head_too_large())

    def _check_finished_head(self) -> None:
        """Refuse a head that became too long with its last piece."""
        lines = [len(name) + len(value) for name, value in self._headers.items()]
        head_bytes = len(self._url) + sum(lines) + len(lines) * _SEPARATOR_BYTES
        if head_bytes + self._joined_bytes > HEAD_BYTES_MAX:
            raise _head_too_large()

    def _refuse(self, refusal: Refusal) -> None:
        """Queue a refusal for a request that cannot be read, and ignore everything after it.

        A request whose body is too large has been answered already.
        """
        arriving = self._request if self._is_incomplete else None
        self._is_incomplete = self._is_ignoring_input = True
        if arriving is None or arriving.body is not None:
            self._handle_request(
                Request(
                    method="",
                    path="",
                    query=b"",
                    headers={},
                    body=b"",
                    ip_address=self._address,
                    is_last=True,
                    refusal=refusal,
                )
            )
        else:
            self._close_when_answered()


def _check_upgrade(method: bytes) -> None:
    """Refuse CONNECT, which asks this server to be a proxy; other upgrades are ignored."""
    if method == b"CONNECT":
        raise MalformedRequest("This server is not a proxy.")


def _head_too_large() -> HeadTooLarge:
    return HeadTooLarge(
        f"The head, or the framing of a body's chunks, must be at most {HEAD_BYTES_MAX} bytes."
    )


def _parse_refusal(error: httptools.HttpParserError) -> Refusal:
    """Return the refusal that one of our callbacks raised, or a general one."""
    cause = error.__context__
    return cause if isinstance(cause, Refusal) else MalformedRequest("The request is not valid.")


def _path_and_query(url: bytes) -> tuple[bytes, bytes]:
    """Return the path and query of a request target, which is a whole URL if meant for a proxy."""
    if url.startswith(b"/") and b"#" not in url:
        path, _, query = url.partition(b"?")
        return path, query
    parsed = httptools.parse_url(url)
    return parsed.path or b"/", parsed.query or b""
