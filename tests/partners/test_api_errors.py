"""The refused calls of an app are kept as long as the app itself."""

import pytest

from ousel.database.port import Database, Transaction
from ousel.partners import store
from ousel.partners.rules import ApiError, App
from tests.support.accounts import partner

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
