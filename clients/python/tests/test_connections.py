"""Connections: calls that wait do not block others, and a closed client says what it knows."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest
from typing_extensions import override

from clients.python.tests.client_kinds import ClientKind, client_of, result_of
from ousel_client import AsyncClient, Client, ConnectionFailed, RetryPolicy
from tests.support.seeded import SeededServer

WAITS = 101  # more than the connections that HTTP libraries open by default
BALANCE = (
    b'{"object":"balance","account_id":"acct_1","available":1.00,"currency":"OUSD",'
    b'"updated_at":"2026-01-31T12:00:00.000000Z"}'
)

FORKING_PROGRAM = """
import asyncio, inspect, os, sys
from ousel_client import AsyncClient, Client

kind = {"synchronous": Client, "asyncio": AsyncClient}[sys.argv[1]]
client = kind("sk_test_any", base_url=sys.argv[2])

async def awaited(result):
    return await result

def ask():
    result = client.balance()
    return asyncio.run(awaited(result)) if inspect.isawaitable(result) else result

ask()
child = os.fork()
if child == 0:
    ask()
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

TWO_LOOPS_PROGRAM = """
import asyncio, sys
from ousel_client import AsyncClient

client = AsyncClient(sys.argv[1], base_url=sys.argv[2])

async def send():
    transfer = await client.transfers.send(to="@ada", amount=1)
    return transfer.balance_after

before = asyncio.run(client.balance()).available
after = asyncio.run(send())
print(before - after)
"""


class BalanceServer(ThreadingHTTPServer):
    """Answers every request with a balance, and records the connection of each request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _BalanceHandler)
        self.connections: list[int] = []  # the client's port of each request

    @property
    def base_url(self) -> str:
        """The base URL of the server's API."""
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


class _BalanceHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open
    server: BalanceServer

    def do_GET(self) -> None:
        self.server.connections.append(self.client_address[1])
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(BALANCE)))
        self.end_headers()
        self.wfile.write(BALANCE)

    @override
    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def balance_server() -> Iterator[BalanceServer]:
    """A server that runs during the test."""
    with BalanceServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.slow
def test_a_process_does_not_use_the_connections_of_its_parent(
    balance_server: BalanceServer, client_kind: ClientKind
) -> None:
    """Both would read from the same connection, and one would get the answer to the other."""
    program = [sys.executable, "-c", FORKING_PROGRAM, client_kind, balance_server.base_url]

    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 0, done.stderr
    assert len(balance_server.connections) == 2
    assert len(set(balance_server.connections)) == 2


@pytest.mark.slow
def test_a_transfer_in_a_second_event_loop_is_made_once(live: SeededServer) -> None:
    """The connection belongs to the first loop, but the bytes are sent before it is noticed."""
    program = [sys.executable, "-c", TWO_LOOPS_PROGRAM, live.key, live.base_url]
    with Client(live.key, base_url=live.base_url) as client:
        before = client.balance().available

        done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=60)

        assert done.returncode == 0, done.stderr
        assert Decimal(done.stdout) == 1
        assert client.balance().available == before - 1


async def test_a_runtime_error_gives_the_key_and_the_doubt(client_kind: ClientKind) -> None:
    """Nobody knows whether the request was sent before the error."""
    attempts: list[httpx2.Request] = []

    def fail(request: httpx2.Request) -> httpx2.Response:
        attempts.append(request)
        raise RuntimeError("Event loop is closed")

    async with client_of(
        client_kind,
        "sk_test_any",
        "http://pay.example/v1",
        transport=httpx2.MockTransport(fail),
        retry=RetryPolicy(attempts_max=3, first_delay_seconds=0),
    ) as client:
        with pytest.raises(ConnectionFailed) as failed:
            await result_of(client.transfers.send(to="@ada", amount=1))
        assert len(attempts) == 3
        with pytest.raises(ConnectionFailed):
            await result_of(client.sandbox.fund(to="@ada", amount=1))
        assert len(attempts) == 4  # a request that must not be repeated is not

    assert failed.value.idempotency_key
    assert failed.value.in_doubt is True


async def test_calls_that_wait_do_not_keep_others_waiting() -> None:
    """A server lets a partner wait for thousands of charges at once."""
    handlers: list[asyncio.Task[object]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.append(task)
        head = await reader.readuntil(b"\r\n\r\n")
        if b"prefer:" in head.lower():
            await reader.read()  # until the client hangs up
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
            writer.write(b"Content-Length: %d\r\n\r\n%b" % (len(BALANCE), BALANCE))
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with AsyncClient("sk_test_any", base_url=f"http://127.0.0.1:{port}/v1") as client:
            waits = [asyncio.create_task(client.charges.wait(f"ch_{n}")) for n in range(WAITS)]
            await asyncio.sleep(0.1)  # they ask for their connections first
            balance = await asyncio.wait_for(client.balance(), 20)  # each wait takes 25 seconds
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        await asyncio.gather(*handlers, return_exceptions=True)
    assert balance.available == Decimal(1)


def test_a_client_that_is_closed_during_a_call_gives_its_key_and_the_doubt() -> None:
    """The transfer may have been made before its answer was lost."""

    def lose_answer(request: httpx2.Request) -> httpx2.Response:
        client.close()
        raise httpx2.ReadError("lost", request=request)

    client = Client(
        "sk_test_any",
        base_url="http://pay.example/v1",
        transport=httpx2.MockTransport(lose_answer),
        retry=RetryPolicy(first_delay_seconds=0),
    )
    with pytest.raises(ConnectionFailed) as failed:
        client.transfers.send(to="@ada", amount=1)
    assert failed.value.idempotency_key
    assert failed.value.in_doubt is True
    assert failed.value.attempts == 2  # nothing can be sent any more


def test_a_client_that_is_closed_ends_what_follows_and_waits() -> None:
    """They would otherwise try again and again."""
    page = b'{"object":"list","data":[],"has_more":false,"next_cursor":"1"}'

    def close_then_answer(_: httpx2.Request) -> httpx2.Response:
        client.close()
        return httpx2.Response(200, content=page, headers={"Content-Type": "application/json"})

    client = Client(
        "sk_test_any",
        base_url="http://pay.example/v1",
        transport=httpx2.MockTransport(close_then_answer),
    )
    for call in (
        lambda: next(iter(client.transfers.follow())),
        lambda: client.charges.wait("ch_1"),
    ):
        with pytest.raises(ConnectionFailed, match="closed"):
            call()
