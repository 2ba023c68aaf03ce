"""Connections: calls that wait do not block others, and a closed client says what it knows."""

import asyncio
from decimal import Decimal

import httpx2
import pytest

from ousel_client import AsyncClient, Client, ConnectionFailed, RetryPolicy

WAITS = 101  # more than the connections that HTTP libraries open by default
BALANCE = (
    b'{"object":"balance","account_id":"acct_1","available":1.00,"currency":"OUSD",'
    b'"updated_at":"2026-01-31T12:00:00.000000Z"}'
)


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
