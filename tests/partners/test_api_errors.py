"""The refused calls of an app are kept as long as the app itself."""

import asyncio
from typing import Any

import pytest
from typing_extensions import override

from ousel.api.callers import Partner
from ousel.api.route import Route
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import system_clock
from ousel.kernel.errors import DatabaseUnavailable, InvalidField
from ousel.partners import api_errors, store
from ousel.partners.api_errors import ApiErrorLog
from ousel.partners.rules import ApiError, App
from tests.support.accounts import partner
from tests.support.delegating_database import DelegatingDatabase

CALLS = 5


def refused_calls(app: App, start: int = 0) -> list[ApiError]:
    """Return some calls of an app that were refused."""
    return [
        ApiError(app.account_id, app.id, f"req_{number}", 400, "invalid_field", "GET", "/v1/me", 1)
        for number in range(start, start + CALLS)
    ]


@pytest.fixture
async def app(database: Database) -> App:
    """An app with refused calls."""
    _, created, _ = await partner(database, "shop")
    await database.write(lambda each: store.add_api_errors(each, refused_calls(created)))
    return created


async def kept(database: Database, app: App) -> int:
    """Return how many refused calls of an app are kept."""
    return len(await database.read(lambda each: store.api_errors_of(each, app)))


async def test_deleting_an_app_deletes_its_refused_calls(database: Database, app: App) -> None:
    """Nothing of a deleted app stays behind."""
    assert await kept(database, app) == CALLS

    await database.write(lambda each: store.remove_app(each, app))

    assert await kept(database, app) == 0


async def test_refused_calls_of_a_deleted_app_are_not_stored(database: Database, app: App) -> None:
    """Calls of a deleted app that a server still had in memory are dropped; others are stored."""
    _, other, _ = await partner(database, "bakery")
    late = [*refused_calls(app, CALLS), *refused_calls(other, CALLS)]

    async def work(transaction: Transaction) -> None:
        await store.remove_app(transaction, app)
        await store.add_api_errors(transaction, late)

    await database.write(work)

    assert await kept(database, app) == 0
    assert await kept(database, other) == CALLS


class DatabaseAway(DelegatingDatabase):
    """A database that cannot be written for a while."""

    is_away = True

    @override
    async def write(self, *arguments: Any, **options: Any) -> Any:
        if self.is_away:
            raise DatabaseUnavailable("The test says so.")
        return await self._database.write(*arguments, **options)


async def answer(_: Any) -> Any:
    """Answer nothing: the calls of this test are refused."""


def record(log: ApiErrorLog, app: App, request_id: str) -> None:
    """Record a refused call of the app."""
    route = Route(method="GET", path="/v1/me", endpoint=answer, name="getMe", summary="")
    caller = Partner(app.account_id, app.id, app.name, "sk_live_1")
    log.record(caller, route, InvalidField("It is wrong."), request_id)


async def test_refused_calls_outlast_a_write_that_is_canceled(database: Database, app: App) -> None:
    """A process that stops cancels what it writes just then."""
    log = ApiErrorLog(database, system_clock)
    record(log, app, "req_a")
    writing = asyncio.create_task(log.write())
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    await log.write()

    errors = await database.read(lambda each: store.api_errors_of(each, app))
    assert "req_a" in {each.request_id for each in errors}


async def test_refused_calls_outlast_a_database_that_is_away(
    database: Database, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are written when it is back; if there are too many, the newest are kept."""
    if database.is_distributed():
        pytest.skip("one dead server of a cluster must not keep back the calls of all others")
    monkeypatch.setattr(api_errors, "WAITING_MAX", 3)
    away = DatabaseAway(database)
    log = ApiErrorLog(away, system_clock)
    for request_id in ("req_a", "req_b", "req_c", "req_d"):
        record(log, app, request_id)
        with pytest.raises(DatabaseUnavailable):
            await log.write()

    away.is_away = False
    await log.write()

    errors = await database.read(lambda each: store.api_errors_of(each, app))
    assert {each.request_id for each in errors} > {"req_b", "req_c", "req_d"}
    assert "req_a" not in {each.request_id for each in errors}


async def test_an_app_with_many_refused_calls_does_not_push_out_those_of_others(
    database: Database, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two writes, the app that has the most loses its oldest ones."""
    monkeypatch.setattr(api_errors, "WAITING_MAX", 3)
    _, quiet, _ = await partner(database, "bakery")
    log = ApiErrorLog(database, system_clock)
    record(log, quiet, "req_quiet")
    for number in range(10):
        record(log, app, f"req_loud_{number}")

    await log.write()

    assert await kept(database, quiet) == 1
    assert await kept(database, app) == CALLS + 2
