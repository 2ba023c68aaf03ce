"""Codes live 10 minutes and tokens 30 days, to the microsecond."""

from collections.abc import AsyncIterator

import httpx2
import pytest

from ousel.database.port import Database, Transaction
from ousel.database.statements import Statement
from ousel.database.sweeping import SWEEP_ROWS_MAX
from ousel.oauth import service, store
from ousel.oauth.connect import ConnectRequest, issue_code
from ousel.oauth.token_lookup import UserTokenLookup
from tests.oauth.consents import Consent, bearer
from tests.support.clock import ManualClock
from tests.support.in_process import in_process_client

CODE_SECONDS = 600
TOKEN_SECONDS = 2_592_000

CODES_LEFT = Statement("codes left", "SELECT COUNT(*) FROM authorization_codes WHERE app_id = :id")
TOKENS_LEFT = Statement("tokens left", "SELECT COUNT(*) FROM user_tokens WHERE app_id = :id")


@pytest.fixture
async def client(database_url: str, clock: ManualClock) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a service whose clock stands still."""
    async with in_process_client(database_url, clock) as opened:
        yield opened


async def test_a_code_is_valid_until_the_last_microsecond(
    database: Database, client: httpx2.AsyncClient, clock: ManualClock
) -> None:
    """At 10 minutes less one microsecond a code is good; at 10 minutes it is not."""
    consent = await Consent.of_new_people(database)
    in_time, too_late = await consent.code(clock), await consent.code(clock)

    clock.advance(seconds=CODE_SECONDS, micros=-1)
    good = await client.post("/oauth/token", json=consent.exchange(in_time))
    clock.advance(micros=1)
    bad = await client.post("/oauth/token", json=consent.exchange(too_late))

    assert good.status_code == 200
    assert (bad.status_code, bad.json()["error"]) == (400, "invalid_grant")
    assert "expired" in bad.json()["error_description"]


async def test_a_token_is_valid_until_the_last_microsecond(
    database: Database, client: httpx2.AsyncClient, clock: ManualClock
) -> None:
    """At 30 days less one microsecond a token is good; at 30 days it is not."""
    consent = await Consent.of_new_people(database)
    token = await consent.token(client, clock)

    clock.advance(seconds=TOKEN_SECONDS, micros=-1)
    good = await client.get("/user/me", headers=bearer(token))
    clock.advance(micros=1)
    bad = await client.get("/user/me", headers=bearer(token))

    assert good.status_code == 200
    assert bad.status_code == 401
    assert bad.headers["WWW-Authenticate"] == 'Bearer error="invalid_token"'


async def test_a_replay_is_recognized_as_long_as_the_token_is_valid(
    database: Database, client: httpx2.AsyncClient, clock: ManualClock
) -> None:
    """A used code that comes again after weeks, and after a sweep, still ends its token."""
    consent = await Consent.of_new_people(database)
    code = await consent.code(clock)
    first = await client.post("/oauth/token", json=consent.exchange(code))
    token = first.json()["access_token"]

    clock.advance(seconds=TOKEN_SECONDS, micros=-1)
    await UserTokenLookup(database, clock, mode="live").sweep()
    before = await client.get("/user/me", headers=bearer(token))
    replay = await client.post("/oauth/token", json=consent.exchange(code))
    after = await client.get("/user/me", headers=bearer(token))

    assert (before.status_code, after.status_code) == (200, 401)
    assert replay.json()["error"] == "invalid_grant"


async def test_an_ended_token_stays_ended_on_a_host_whose_clock_is_behind(
    database: Database, client: httpx2.AsyncClient, clock: ManualClock
) -> None:
    """Revoked, disconnected, or ended by its code's second use, on a host whose clock is ahead."""
    consent = await Consent.of_new_people(database)
    credentials = {"client_id": consent.app.id, "client_secret": consent.key}
    code = await consent.code(clock)
    first = await client.post("/oauth/token", json=consent.exchange(code))
    tokens = [first.json()["access_token"]]
    tokens += [await consent.token(client, clock) for _ in range(2)]

    await client.post("/oauth/token", json=consent.exchange(code))
    await client.post("/oauth/revoke", json={"token": tokens[1], **credentials})
    await database.write(
        lambda transaction: service.disconnect(transaction, consent.user.id, consent.app.id)
    )
    clock.advance(seconds=-CODE_SECONDS)
    answers = [await client.get("/user/me", headers=bearer(token)) for token in tokens]

    assert [answer.status_code for answer in answers] == [401, 401, 401]


async def test_a_sweep_removes_what_has_ended_and_nothing_else(
    database: Database, client: httpx2.AsyncClient, clock: ManualClock
) -> None:
    """Unused codes go at 10 minutes, tokens and their codes at 30 days: not sooner, all of them."""
    consent = await Consent.of_new_people(database)
    tokens = UserTokenLookup(database, clock, mode="live")
    await consent.code(clock)
    await consent.token(client, clock)

    async def left(statement: Statement) -> int:
        async def count(transaction: Transaction) -> int:
            return int((await transaction.fetch(statement, id=consent.app.id))[0][0])

        return await database.read(count)

    async def all_left() -> tuple[int, int]:
        return await left(CODES_LEFT), await left(TOKENS_LEFT)

    clock.advance(seconds=CODE_SECONDS, micros=-1)
    await tokens.sweep()
    assert await all_left() == (2, 1)
    clock.advance(micros=1)
    await tokens.sweep()
    assert await all_left() == (1, 1)
    clock.advance(seconds=TOKEN_SECONDS - CODE_SECONDS, micros=-1)
    await tokens.sweep()
    assert await all_left() == (1, 1)
    clock.advance(micros=1)
    await tokens.sweep()
    assert await all_left() == (0, 0)


async def test_a_sweep_removes_everything_in_small_steps(
    database: Database, clock: ManualClock
) -> None:
    """One step removes no more than its size; a sweep removes everything."""
    consent = await Consent.of_new_people(database)
    request = await consent.request()
    assert isinstance(request, ConnectRequest)

    async def grant_many(transaction: Transaction) -> None:
        for _ in range(SWEEP_ROWS_MAX * 2 + 1):
            await issue_code(transaction, request, consent.user.id, clock)

    await database.write(grant_many)
    clock.advance(seconds=CODE_SECONDS)
    step = await database.write(
        lambda transaction: store.sweep(transaction, clock(), SWEEP_ROWS_MAX)
    )
    swept = await UserTokenLookup(database, clock, mode="live").sweep()

    assert SWEEP_ROWS_MAX <= step <= 2 * SWEEP_ROWS_MAX
    assert swept >= SWEEP_ROWS_MAX
    assert (
        await database.write(lambda transaction: store.sweep(transaction, clock(), SWEEP_ROWS_MAX))
        == 0
    )


async def test_a_connection_ends_with_its_last_token(
    database: Database, client: httpx2.AsyncClient, clock: ManualClock
) -> None:
    """An app whose tokens have all expired is connected no more, and not counted."""
    consent = await Consent.of_new_people(database)
    await consent.token(client, clock)

    async def connected(transaction: Transaction) -> tuple[int, int]:
        now = clock()
        found = await service.list_connections(transaction, consent.user.id, now)
        return len(found), await service.count_users(transaction, consent.app.id, now)

    clock.advance(seconds=TOKEN_SECONDS, micros=-1)
    before = await database.read(connected)
    clock.advance(micros=1)
    after = await database.read(connected)

    assert before == (1, 1)
    assert after == (0, 0)
