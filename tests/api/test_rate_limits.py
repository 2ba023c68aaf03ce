"""The rate limit of each key: refilled steadily, and stated in every answer."""

import re
from collections.abc import AsyncIterator

import httpx2
import pytest

from ousel.api.rate_limits import BUCKETS_MAX, RateLimiter
from ousel.database.port import Database
from ousel.kernel.errors import RateLimited
from ousel.kernel.ids import handle_of, secret_hash
from ousel.kernel.settings import RateLimit
from tests.support.accounts import app_with_key, partner, unique_name
from tests.support.in_process import in_process_client
from tests.support.problems import assert_problem
from tests.support.raw_sql import RawSql

LEFT = re.compile(r'"default";r=(\d+);t=(\d+)')


class Seconds:
    """A clock for the limiter, moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_empties_and_refills_steadily() -> None:
    """Ten a second: ten at once, then one each tenth of a second, and never more than ten."""
    seconds = Seconds()
    limiter = RateLimiter(RateLimit(10, 1), seconds)

    assert _taken(limiter, "key", 15) == 10
    seconds.now += 0.1
    assert _taken(limiter, "key", 5) == 1
    seconds.now += 0.55
    assert _taken(limiter, "key", 10) == 5
    seconds.now += 3600
    assert _taken(limiter, "key", 100) == 10


def test_each_key_has_a_bucket_of_its_own() -> None:
    """The limit of one key does not affect another key."""
    limiter = RateLimiter(RateLimit(3, 60), Seconds())

    assert _taken(limiter, "one", 5) == 3
    assert _taken(limiter, "other", 5) == 3


def test_the_refusal_says_when_to_come_back() -> None:
    """Retry-After is whole seconds, at least one, and then the request is taken."""
    seconds = Seconds()
    limiter = RateLimiter(RateLimit(9, 3600), seconds)
    assert _taken(limiter, "key", 9) == 9

    with pytest.raises(RateLimited) as refused:
        limiter.take("key")
    assert refused.value.retry_after_seconds == 400
    seconds.now += 399
    assert _taken(limiter, "key", 1) == 0
    seconds.now += 1
    assert _taken(limiter, "key", 2) == 1


def test_the_headers_say_what_is_left_and_when_the_bucket_is_full() -> None:
    """In the form of the IETF draft: the policy, then what remains of it."""
    limiter = RateLimiter(RateLimit(100, 1), Seconds())
    limiter.take("key")

    assert limiter.headers("key") == (
        (b"ratelimit-policy", b'"default";q=100;w=1'),
        (b"ratelimit", b'"default";r=99;t=1'),
    )


def test_a_busy_key_is_not_forgotten_for_new_ones() -> None:
    """When there are too many buckets, those go that were not used for longest."""
    limiter = RateLimiter(RateLimit(2, 3600), Seconds())
    assert _taken(limiter, "busy", 2) == 2
    limiter.take("idle")

    for number in range(BUCKETS_MAX - 2):
        limiter.take(f"key-{number}")
    assert _taken(limiter, "busy", 1) == 0
    limiter.take("one more")

    assert _taken(limiter, "busy", 1) == 0
    assert _taken(limiter, "idle", 3) == 2


@pytest.fixture
async def limited(database_url: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a service that takes five requests an hour."""
    async with in_process_client(database_url, rate_limit=RateLimit(5, 3600)) as client:
        yield client


@pytest.fixture
async def keys(database: Database) -> list[dict[str, str]]:
    """The headers of two keys of one account."""
    account, _, key = await partner(database, unique_name(), "10")
    _, other = await app_with_key(database, account)
    return [{"Authorization": f"Bearer {each}"} for each in (key, other)]


@pytest.mark.one_engine
async def test_too_many_requests_are_refused_with_what_a_client_needs(
    limited: httpx2.AsyncClient, keys: list[dict[str, str]]
) -> None:
    """The sixth request of an hour is a 429 with Retry-After; another key is served."""
    served = [await limited.get("/balance", headers=keys[0]) for _ in range(5)]
    refused = await limited.get("/balance", headers=keys[0])
    spared = await limited.get("/balance", headers=keys[1])

    assert [answer.status_code for answer in served] == [200] * 5
    assert [_left(answer) for answer in served] == [4, 3, 2, 1, 0]
    assert_problem(refused, 429, "rate_limited")
    assert 1 <= int(refused.headers["Retry-After"]) <= 3600 / 5
    assert _left(refused) == 0
    assert spared.status_code == 200
    assert _left(spared) == 4
    for answer in (*served, refused):
        assert answer.headers["RateLimit-Policy"] == '"default";q=5;w=3600'


@pytest.mark.one_engine
async def test_requests_from_a_refused_origin_count_too(
    limited: httpx2.AsyncClient, keys: list[dict[str, str]]
) -> None:
    """So a page elsewhere cannot ask without limit, and uses up the limit of its key."""
    headers = keys[0] | {"Origin": "https://elsewhere.example"}
    refused = [await limited.get("/balance", headers=headers) for _ in range(5)]
    limited_too = await limited.get("/balance", headers=headers)

    for answer in refused:
        assert_problem(answer, 403, "origin_not_allowed")
    assert [_left(answer) for answer in refused] == [4, 3, 2, 1, 0]
    assert_problem(limited_too, 429, "rate_limited")


@pytest.mark.one_engine
async def test_keys_of_two_accounts_with_one_handle_do_not_share_a_limit(
    limited: httpx2.AsyncClient, database: Database, raw_sql: RawSql
) -> None:
    """A handle is public, and somebody might make a key of their own with the same one."""
    _, _, key = await partner(database, unique_name(), "10")
    twin_owner, _, other = await partner(database, unique_name(), "10")
    twin = handle_of(key) + other.removeprefix(handle_of(other))
    await raw_sql.run(
        "UPDATE partner_keys SET handle = ?, hash = ? WHERE account_id = ?",
        handle_of(twin),
        secret_hash(twin),
        twin_owner.id,
    )

    for _ in range(6):
        await limited.get("/balance", headers={"Authorization": f"Bearer {key}"})
    spared = await limited.get("/balance", headers={"Authorization": f"Bearer {twin}"})

    assert (spared.status_code, _left(spared)) == (200, 4)


@pytest.mark.one_engine
async def test_a_refused_request_counts_and_moves_nothing(
    limited: httpx2.AsyncClient, keys: list[dict[str, str]]
) -> None:
    """A wrong request uses up its share; over the limit, a right one does not happen."""
    wrong = [await limited.get("/accounts/nobody", headers=keys[0]) for _ in range(5)]
    body = {"to": "@whoever", "amount": 1}
    headers = {**keys[0], "Idempotency-Key": "k"}
    over = await limited.post("/transfers", json=body, headers=headers)
    balance = await limited.get("/balance", headers=keys[1])

    for answer in wrong:
        assert_problem(answer, 404, "account_not_found", "identifier")
    assert [_left(answer) for answer in wrong] == [4, 3, 2, 1, 0]
    assert_problem(over, 429, "rate_limited")
    assert balance.json()["available"] == 10


@pytest.mark.one_engine
async def test_strangers_and_probes_are_not_counted(limited: httpx2.AsyncClient) -> None:
    """Requests without a key are not limited."""
    strangers = [await limited.get("/me") for _ in range(10)]
    probe = limited.base_url.copy_with(path="/healthz")
    probes = [await limited.get(probe) for _ in range(10)]

    assert {answer.status_code for answer in strangers} == {401}
    assert {answer.status_code for answer in probes} == {200}
    assert all("RateLimit" not in answer.headers for answer in (*strangers, *probes))


def _taken(limiter: RateLimiter, key: str, attempts: int) -> int:
    """Return how many of so many attempts the limiter lets through."""
    taken = 0
    for _ in range(attempts):
        try:
            limiter.take(key)
        except RateLimited:
            continue
        taken += 1
    return taken


def _left(answer: httpx2.Response) -> int:
    left = LEFT.fullmatch(answer.headers["RateLimit"])
    assert left is not None, answer.headers["RateLimit"]
    return int(left[1])
