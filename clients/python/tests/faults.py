"""An HTTP proxy that loses, delays, cuts, doubles or refuses messages, like a failing network."""

import asyncio
import contextlib
import json
import random
from collections import Counter
from typing import Literal, Self, cast, get_args

Fault = Literal[
    "request lost",
    "answer lost",
    "answer cut",
    "request doubled",
    "delayed",
    "429 before",
    "503 before",
    "502 after",
    "answer late",
]
DELAY_SECONDS_MAX = 0.02
LATE_SECONDS = 6.0  # unless the client hangs up before
# The faults that occur at random. A late answer takes long, so it occurs only if it is planned.
FAULTS: tuple[Fault, ...] = tuple(fault for fault in get_args(Fault) if fault != "answer late")

Wire = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class FaultProxy:
    """Forwards HTTP to a port on this host; each request meets a fault with this probability."""

    def __init__(self, port: int, *, seed: int, chance: float = 0.4) -> None:
        self._port = port
        self._random = random.Random(seed)
        self._chance = chance
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._wires: set[asyncio.StreamWriter] = set()
        self.met: Counter[Fault] = Counter()
        self.planned: list[Fault | None] = []  # for the next requests, before random faults
        self.requests = 0
        self.base_url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.base_url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for wire in self._wires:
            wire.transport.abort()
        await asyncio.gather(*self._serving)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._serving.add(task)
        upstream = await asyncio.open_connection("127.0.0.1", self._port)
        wires = {writer, upstream[1]}
        self._wires |= wires
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while answer := await self._answer(await _message(reader), reader, upstream):
                writer.write(answer)
                await writer.drain()
                if _is_cut(answer):
                    break
        for wire in wires:
            wire.transport.abort()
        self._wires -= wires
        self._serving.discard(task)

    async def _answer(self, request: bytes, client: asyncio.StreamReader, upstream: Wire) -> bytes:
        """Return the answer to the client, or nothing if the connection is to break."""
        fault = self._fault()
        if fault in _INSTEAD:
            return _INSTEAD[fault]
        if fault == "delayed":
            await asyncio.sleep(self._random.uniform(0, DELAY_SECONDS_MAX))
        if fault == "request doubled":
            await _forwarded(request, upstream)
        answer = await _forwarded(request, upstream)
        if fault == "answer late":
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(client.read(1), LATE_SECONDS)
        if fault == "answer cut":
            return answer[:-7]
        return _AFTERWARDS.get(fault, answer)

    def _fault(self) -> Fault | None:
        self.requests += 1
        if self.planned:
            fault = self.planned.pop(0)
        else:
            fault = self._random.choice(FAULTS) if self._random.random() < self._chance else None
        if fault is not None:
            self.met[fault] += 1
        return fault


async def _forwarded(request: bytes, upstream: Wire) -> bytes:
    reader, writer = upstream
    writer.write(request)
    return await _message(reader)


async def _message(reader: asyncio.StreamReader) -> bytes:
    """Return one whole request or answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    return head + await reader.readexactly(_length(head))


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.partition(b":")[2])
    return 0


def _is_cut(answer: bytes) -> bool:
    head, _, body = answer.partition(b"\r\n\r\n")
    return len(body) < _length(head)


def _response(status: str, body: bytes, headers: str = "") -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    return head.encode() + body


_PROBLEM = {"title": "No", "detail": "Not now.", "request_id": "req_of_the_proxy"}
_THROTTLED = json.dumps(_PROBLEM | {"status": 429, "code": "rate_limited"}).encode()
_UNAVAILABLE = json.dumps(_PROBLEM | {"status": 503, "code": "queue_full"}).encode()

# The answers to requests that do not reach the server.
_INSTEAD: dict[Fault | None, bytes] = {
    "request lost": b"",
    "429 before": _response("429 Too Many Requests", _THROTTLED, "Retry-After: 0\r\n"),
    "503 before": _response("503 Service Unavailable", _UNAVAILABLE),
}
# The answers to requests that the server has carried out, instead of its own answers.
_AFTERWARDS: dict[Fault | None, bytes] = {
    "answer lost": b"",
    "502 after": _response("502 Bad Gateway", b"<html>Bad Gateway</html>"),
}
