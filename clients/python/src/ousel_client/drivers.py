"""The two drivers, synchronous and asyncio, which send requests over HTTP and do nothing else."""

import asyncio
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlsplit

import httpx2

from ousel_client.exchange import Answer, Attempt, ClientClosed, Failure, Outcome, Steps
from ousel_client.records import Page

Result = TypeVar("Result")
Record = TypeVar("Record")
Http = TypeVar("Http", httpx2.Client, httpx2.AsyncClient)
PageSteps = Callable[[str | None], Steps[Page[Record]]]

# These errors occur before any byte of the request is sent.
_NOT_SENT: Final = (
    httpx2.ConnectError,
    httpx2.ConnectTimeout,
    httpx2.PoolTimeout,
    httpx2.UnsupportedProtocol,
)
_CLOSED: Final = Failure(ClientClosed("The client is closed."), sent=False)
_TIMEOUT_SECONDS_MAX: Final = 86_400.0  # a day
_DEFAULT_PORTS: Final = {"https": ":443", "http": ":80"}
# A call that waits holds its connection, and must not keep others from getting one.
_LIMITS: Final = httpx2.Limits(max_connections=None, max_keepalive_connections=20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """The address of the server, and how long to wait for each part of its answer."""

    base_url: str
    timeout_seconds: float

    def __post_init__(self) -> None:
        """Refuse a text that is not the address of a server, and a time that is no limit."""
        origin_of(self.base_url)
        if "?" in self.base_url or "#" in self.base_url:
            raise ValueError("The base URL must not contain a query or a fragment.")
        if not 0 < self.timeout_seconds <= _TIMEOUT_SECONDS_MAX:
            raise ValueError("The timeout_seconds must be positive, and at most a day.")

    @property
    def origin(self) -> str:
        """The address without its path, as browsers write it."""
        return origin_of(self.base_url)


def origin_of(url: str) -> str:
    """Return the address without its path, in lower case and without the default port.

    Refuse a text that is not the address of a server.
    """
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ValueError(f"{url!r} is not an address such as https://pay.example.com/v1.")
    if "@" in parts.netloc:  # it would replace the key, and be shown in the portal's addresses
        raise ValueError("An address must not contain a name or a password.")
    try:
        httpx2.URL(url)
    except httpx2.InvalidURL as error:  # such as a port that is no number, or a line end
        raise ValueError(f"{url!r} is not an address: {error}") from error
    host = parts.netloc.lower().removesuffix(_DEFAULT_PORTS[parts.scheme])
    return f"{parts.scheme}://{host}"


@cache
def _trusted_certificates() -> ssl.SSLContext:
    """Return the certificates of this machine, which all clients of a process share.

    It takes 20 milliseconds to load them.
    """
    return httpx2.create_ssl_context()


class _Connections(Generic[Http]):
    """The connections of one process.

    A process that was forked shares the open ones with its parent, and could read the answers to
    the parent's requests. So it opens its own.
    """

    def __init__(self, connect: Callable[[], Http]) -> None:
        """Connect in this way."""
        self._connect: Callable[[], Http] = connect
        self._http: Http = connect()
        self._process_id = os.getpid()

    @property
    def http(self) -> Http:
        """The connections of the current process."""
        if self._process_id != os.getpid() and not self._http.is_closed:
            # The old connections are not closed here: the parent uses them.
            self._http, self._process_id = self._connect(), os.getpid()
        return self._http


class SyncDriver:
    """Sends requests and blocks until they are answered. Threads may share it."""

    def __init__(self, address: Address, transport: httpx2.BaseTransport | None) -> None:
        """Connect to this address with the first request."""
        self._timeout_seconds = address.timeout_seconds
        connect = partial(
            httpx2.Client,
            base_url=address.base_url,
            transport=transport,
            verify=_trusted_certificates(),
            limits=_LIMITS,
        )
        self._connections = _Connections(connect)

    def run(self, steps: Steps[Result]) -> Result:
        """Send the requests of a call, and return its result."""
        attempt = next(steps)
        while True:
            try:
                outcome = self._outcome(attempt)
            except BaseException as error:
                steps.throw(error)
                raise
            try:
                attempt = steps.send(outcome)
            except StopIteration as end:
                result: Result = end.value
                return result

    def walk(self, page_after: PageSteps[Record]) -> Iterator[Record]:
        """Yield the records of all pages. Each page is read when it is needed."""
        cursor: str | None = None
        while True:
            page = self.run(page_after(cursor))
            yield from page.data
            cursor = page.next_cursor
            if cursor is None:
                return

    def close(self) -> None:
        """Close the connections."""
        self._connections.http.close()

    def _outcome(self, attempt: Attempt) -> Outcome:
        time.sleep(attempt.delay_seconds)
        http = self._connections.http
        if http.is_closed:
            return _CLOSED
        try:
            return _answer(http.request(**_arguments(attempt, self._timeout_seconds)))
        except httpx2.InvalidURL as error:
            raise ValueError("An identifier, an id or a filter is too long.") from error
        except (httpx2.RequestError, RuntimeError) as error:
            return _failure(error)


class AsyncDriver:
    """Sends requests and awaits the answers. Tasks of one event loop may share it."""

    def __init__(self, address: Address, transport: httpx2.AsyncBaseTransport | None) -> None:
        """Connect to this address with the first request."""
        self._timeout_seconds = address.timeout_seconds
        connect = partial(
            httpx2.AsyncClient,
            base_url=address.base_url,
            transport=transport,
            verify=_trusted_certificates(),
            limits=_LIMITS,
        )
        self._connections = _Connections(connect)

    async def run(self, steps: Steps[Result]) -> Result:
        """Send the requests of a call, and return its result."""
        attempt = next(steps)
        while True:
            try:
                outcome = await self._outcome(attempt)
            except BaseException as error:
                steps.throw(error)
                raise
            try:
                attempt = steps.send(outcome)
            except StopIteration as end:
                result: Result = end.value
                return result

    async def walk(self, page_after: PageSteps[Record]) -> AsyncIterator[Record]:
        """Yield the records of all pages. Each page is read when it is needed."""
        cursor: str | None = None
        while True:
            page = await self.run(page_after(cursor))
            for record in page.data:
                yield record
            cursor = page.next_cursor
            if cursor is None:
                return

    async def close(self) -> None:
        """Close the connections."""
        await self._connections.http.aclose()

    async def _outcome(self, attempt: Attempt) -> Outcome:
        await asyncio.sleep(attempt.delay_seconds)
        http = self._connections.http
        if http.is_closed:
            return _CLOSED
        try:
            return _answer(await http.request(**_arguments(attempt, self._timeout_seconds)))
        except httpx2.InvalidURL as error:
            raise ValueError("An identifier, an id or a filter is too long.") from error
        except (httpx2.RequestError, RuntimeError) as error:
            return _failure(error)


def _arguments(attempt: Attempt, timeout_seconds: float) -> dict[str, Any]:
    """Return the arguments for the HTTP library."""
    request = attempt.request
    headers = {"Accept": "application/json", **request.headers}
    if request.credential is not None:
        headers["Authorization"] = f"Bearer {request.credential.text}"
    if request.body is not None:
        headers["Content-Type"] = "application/json"
    return {
        "method": request.method,
        "url": request.path,
        "params": dict(request.query) or None,
        "headers": headers,
        "content": request.body,
        "timeout": timeout_seconds + request.held_seconds,
    }


def _answer(response: httpx2.Response) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, headers, response.content)


def _failure(error: httpx2.RequestError | RuntimeError) -> Failure:
    # A RuntimeError, such as "Event loop is closed", may occur after the bytes were sent.
    return Failure(error, sent=not isinstance(error, _NOT_SENT))
