"""The service inside the test's process, with a clock and settings of the test's choice."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from typing_extensions import override

from ousel.app.ousel import Ousel
from ousel.http.messages import BODY_BYTES_MAX, AnswerDropped, Request, Responder
from ousel.kernel.clock import Clock, system_clock
from ousel.kernel.settings import Settings


class InProcessTransport(httpx2.AsyncBaseTransport):
    """Hands a client's requests to a responder, as if they came from this address."""

    def __init__(self, responder: Responder, address: str = "127.0.0.1") -> None:
        self._responder = responder
        self._address = address

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        path, _, query = request.url.raw_path.partition(b"?")
        arrived = Request(
            method=request.method,
            path=path.decode("ascii"),
            query=query,
            headers={name.lower(): value for name, value in request.headers.raw},
            body=body if len(body) <= BODY_BYTES_MAX else None,
            ip_address=self._address,
        )
        try:
            response = await self._responder.respond(arrived)
        except AnswerDropped as dropped:
            raise httpx2.RemoteProtocolError("The connection was closed.") from dropped
        content = b"" if request.method == "HEAD" else response.body
        if response.stream is not None:
            content += b"".join([piece async for piece in response.stream])
        lines = response.head.decode("latin-1").splitlines()
        headers = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
        return httpx2.Response(response.status, headers=headers, content=content)


@asynccontextmanager
async def in_process_client(
    database_url: str, clock: Clock = system_clock, **settings: Any
) -> AsyncIterator[httpx2.AsyncClient]:
    """Run the service on this database until the block ends, and yield a client of it."""
    wanted = Settings(**{"database_url": database_url, "rate_limit": None, **settings})
    ousel = Ousel(wanted, clock)
    transport = InProcessTransport(ousel)
    async with (
        ousel.running(),
        httpx2.AsyncClient(transport=transport, base_url=wanted.base_url) as client,
    ):
        yield client
