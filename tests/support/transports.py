"""A way to a responder inside the test's own process, for clients that speak HTTP."""

import httpx2
from typing_extensions import override

from ousel.http.messages import BODY_BYTES_MAX, Request, Responder


class InsideTransport(httpx2.AsyncBaseTransport):
    """Hands a client's requests to a responder, as if they came from this address."""

    def __init__(self, responder: Responder, address: str = "127.0.0.1") -> None:
        """Let this responder answer."""
        self._responder = responder
        self._address = address

    @override
    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body = await request.aread()
        path, _, query = request.url.raw_path.partition(b"?")
        response = await self._responder.respond(
            Request(
                method=request.method,
                path=path.decode("ascii"),
                query=query,
                headers={name.lower(): value for name, value in request.headers.raw},
                body=body if len(body) <= BODY_BYTES_MAX else None,
                address=self._address,
            )
        )
        content = b"" if request.method == "HEAD" else response.body
        if response.stream is not None:
            content += b"".join([piece async for piece in response.stream])
        lines = response.head.decode("latin-1").splitlines()
        headers = [(name, value) for name, _, value in (line.partition(": ") for line in lines)]
        return httpx2.Response(response.status, headers=headers, content=content)
