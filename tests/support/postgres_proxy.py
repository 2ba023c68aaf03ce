"""A proxy to PostgreSQL that can cut one connection at a commit, or all connections."""

import asyncio
import contextlib
from collections import deque
from typing import Literal, Self, cast
from urllib.parse import parse_qs, urlsplit

# When the connection is cut. After the commit, the server has committed, but its answer is lost.
Cut = Literal["before the commit", "after the commit"]

CHUNK_BYTES = 65_536
READY_FOR_QUERY = b"Z\0\0\0\5"  # the beginning of the message that ends an answer


class PostgresProxy:
    """Listens on a TCP port, and forwards connections to the server at this address."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
        self._database = parts.path
        self.cuts: deque[Cut] = deque()  # when to cut the next commits
        self.stalls = 0  # how many of the next commits are held back, with their connections open
        self.delay_seconds = 0.0  # added to every message to the server
        self.round_trips = 0  # how often the server has answered and was ready again
        self._server: asyncio.Server | None = None
        self._wires: set[asyncio.StreamWriter] = set()
        self._forwarding: set[asyncio.Task[None]] = set()
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"postgresql://postgres@127.0.0.1:{port}{self._database}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Cut every connection, and accept no new ones."""
        assert self._server is not None
        self._server.close()
        for wire in self._wires:
            wire.transport.abort()
        await self._server.wait_closed()
        await asyncio.gather(*self._forwarding)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._forwarding.add(cast("asyncio.Task[None]", asyncio.current_task()))
        back_reader, back_writer = await asyncio.open_unix_connection(self._socket)
        self._wires |= {writer, back_writer}
        answers = asyncio.create_task(self._pump(back_reader, writer))
        try:
            while data := await reader.read(CHUNK_BYTES):
                if self.stalls and b"COMMIT" in data:
                    self.stalls -= 1
                    while await reader.read(CHUNK_BYTES):
                        pass
                    break
                if self.cuts and b"COMMIT" in data:
                    cut = self.cuts.popleft()
                    await _stopped(answers)
                    if cut == "after the commit":
                        back_writer.write(data)
                        await back_reader.read(CHUNK_BYTES)
                    break
                await asyncio.sleep(self.delay_seconds)
                back_writer.write(data)
                await back_writer.drain()
        except OSError:
            pass
        finally:
            await _stopped(answers)
            for wire in (writer, back_writer):
                wire.transport.abort()
            self._wires -= {writer, back_writer}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                self.round_trips += data.count(READY_FOR_QUERY)
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


async def _stopped(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
