"""What a server does now and then: whatever goes wrong with it once, it is done the next time."""

import asyncio

import pytest
import structlog

from ousel.app import Ousel
from ousel.kernel.errors import DatabaseUnavailable
from ousel.kernel.settings import Settings


async def test_a_chore_outlives_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal is a warning, anything else an error with its traceback; both times it goes on."""
    written = structlog.testing.CapturingLogger()
    monkeypatch.setattr("ousel.app._log", written)
    api_errors = [DatabaseUnavailable("away"), KeyError("a defect"), TimeoutError()]
    done = asyncio.Event()

    async def chore() -> None:
        if api_errors:
            raise api_errors.pop(0)
        done.set()

    ousel = Ousel(Settings(database_url="unopened.db"))
    again = asyncio.create_task(ousel._again_and_again(0.001, chore))  # noqa: SLF001
    await asyncio.wait_for(done.wait(), timeout=5)
    again.cancel()

    assert [call.method_name for call in written.calls] == ["warning", "exception", "exception"]
    assert written.calls[0].kwargs == {"code": "database_unavailable"}


async def test_a_service_closes_its_database_whatever_happens(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A last chore that fails keeps neither the others nor the database open."""
    ousel = Ousel(Settings(database_url=database_url))
    tried = []

    async def fail() -> None:
        tried.append("failed")
        raise KeyError("a defect")

    async def succeed() -> None:
        tried.append("succeeded")

    async def close() -> None:
        tried.append("closed")
        await closing()

    closing = ousel.database.close
    monkeypatch.setattr(ousel.database, "close", close)
    monkeypatch.setattr(ousel._partner_keys, "record_uses", fail)  # noqa: SLF001
    monkeypatch.setattr(ousel._user_tokens, "record_uses", succeed)  # noqa: SLF001
    async with ousel.running():
        pass

    assert tried == ["failed", "succeeded", "closed"]
