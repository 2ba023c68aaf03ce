"""Both kinds of client in one test: what the one returns, the other is awaited for."""

import inspect
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import httpx2

from ousel_client import AsyncClient, Client, RetryPolicy

Manner = Literal["waiting", "awaiting"]
MANNERS: tuple[Manner, ...] = ("waiting", "awaiting")
HURRIED = RetryPolicy(first_delay_seconds=0.01, delay_seconds_max=0.05)


@asynccontextmanager
async def client_of(manner: Manner, key: str, base_url: str, **options: Any) -> AsyncIterator[Any]:
    """Return a client of one kind for the length of a block."""
    wanted = {"base_url": base_url, "retry": HURRIED, **options}
    # Plain HTTP: certificates would be loaded for nothing, and that takes long.
    if manner == "waiting":
        wanted.setdefault("transport", httpx2.HTTPTransport(verify=False))
        with Client(key, **wanted) as client:
            yield client
    else:
        wanted.setdefault("transport", httpx2.AsyncHTTPTransport(verify=False))
        async with AsyncClient(key, **wanted) as async_client:
            yield async_client


async def done(result: Any) -> Any:
    """Return the result of a call to either kind of client."""
    return await result if inspect.isawaitable(result) else result


async def listed(records: Any) -> list[Any]:
    """Return all records of a list of either kind of client."""
    if hasattr(records, "__aiter__"):
        return [record async for record in records]
    return list(records)
