"""Helpers that let one test use both kinds of client, synchronous and asyncio."""

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2

from ousel_client import AsyncClient, Client, RetryPolicy

ClientKind = Literal["synchronous", "asyncio"]
CLIENT_KINDS: tuple[ClientKind, ...] = ("synchronous", "asyncio")
QUICK_RETRIES = RetryPolicy(first_delay_seconds=0.01, delay_seconds_max=0.05)


@asynccontextmanager
async def client_of(
    kind: ClientKind, key: str, base_url: str, **options: Any
) -> AsyncIterator[Any]:
    """Yield a client of this kind, and close it at the end of the block."""
    wanted = {"base_url": base_url, "retry": QUICK_RETRIES, **options}
    # The tests use plain HTTP. Loading certificates takes long and would be useless.
    if kind == "synchronous":
        wanted.setdefault("transport", httpx2.HTTPTransport(verify=False))
        with Client(key, **wanted) as client:
            yield client
    else:
        wanted.setdefault("transport", httpx2.AsyncHTTPTransport(verify=False))
        async with AsyncClient(key, **wanted) as async_client:
            yield async_client


async def result_of(result: Any) -> Any:
    """Return the result of a call to either kind of client."""
    return await result if inspect.isawaitable(result) else result


async def all_of(records: Any) -> list[Any]:
    """Return all records of a list of either kind of client."""
    if hasattr(records, "__aiter__"):
        return [record async for record in records]
    return list(records)
