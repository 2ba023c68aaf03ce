"""Floods a server, from a process of its own: its arguments are kind, port, key and path.

It prints a line when each of its connections has sent a request, and at SIGTERM how many requests
were sent in all. Real floods come from other machines. So, where speed is measured, this process
gets only the processor time that others leave.
"""

import asyncio
import contextlib
import os
import signal
import sys
from collections import Counter
from typing import NoReturn

from tests.faults.sizes import FULL

CONNECTIONS = {"headers": 8, "chunks": 8, "searches": 32, "waits": 500}
PAUSE_SECONDS = 0.05
BEGUN = "begun\n"

HEADERS = b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"a:\r\n" * 15_500 + b"\r\n"
CHUNKS = (
    b"POST /v1/transfers HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"1\r\na\r\n" * 40_000
    + b"0\r\n\r\n"
)
GET = "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nPrefer: wait=25\r\n\r\n"


async def flood(kind: str, port: int, key: str, path: str) -> None:
    """Send requests on many connections, hang up soon after each of them, and never stop."""
    request = {"headers": HEADERS, "chunks": CHUNKS}.get(
        kind, GET.format(path=path, key=key).encode()
    )
    connections = [asyncio.Event() for _ in range(CONNECTIONS[kind])]
    sent = Counter[str]()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, _print_and_end, sent)
    async with asyncio.TaskGroup() as tasks:
        for has_sent in connections:
            tasks.create_task(_repeat(port, request, has_sent, sent))
        for has_sent in connections:
            await has_sent.wait()
        print(BEGUN, end="", flush=True)


def _print_and_end(sent: Counter[str]) -> NoReturn:
    print(sent["requests"], flush=True)
    os._exit(0)


async def _repeat(port: int, request: bytes, has_sent: asyncio.Event, sent: Counter[str]) -> None:
    while True:
        with contextlib.suppress(OSError, TimeoutError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            has_sent.set()
            sent["requests"] += 1
            async with asyncio.timeout(PAUSE_SECONDS):
                await reader.read(1)
            writer.close()
        await asyncio.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    if FULL:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    asyncio.run(flood(sys.argv[1], int(sys.argv[2]), *sys.argv[3:5]))
