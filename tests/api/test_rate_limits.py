"""The rate limit of each key: refilled steadily, and stated in every answer."""

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from ousel.api.rate_limits import BUCKETS_MAX, RateLimiter
from ousel.database.addresses import database_at
from ousel.kernel.errors import RateLimited
from ousel.kernel.settings import RateLimit
from tests.support.accounts import app_with_key, partner, unique_name
from tests.support.engines import Engines
from tests.support.problems import assert_problem
from tests.support.server import Server

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


@pytest.fixture(scope="module")
def limited(
    engines: Engines, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, str]]:
    """A server that takes five requests a minute, and its database."""
    url = engines.fresh_url("sqlite", Path(tmp_path_factory.mktemp("limited")))
    with Server(url, OUSEL_RATE_LIMIT="5/minute") as running:
        yield running, url


@pytest.fixture
async def keys(limited: tuple[Server, str]) -> AsyncIterator[tuple[str, str]]:
    """Two keys of one account."""
    database = database_at(limited[1])
    await database.open()
    account, _, key = await partner(database, unique_name(), "10")
    _, other = await app_with_key(database, account)
    yield key, other
    await database.close()


async def test_too_many_requests_are_refused_with_what_a_client_needs(
    limited: tuple[Server, str], keys: tuple[str, str]
) -> None:
    """The sixth request of a minute is a 429 with Retry-After; another key is served."""
    server, _ = limited
    async with server.client(keys[0]) as client, server.client(keys[1]) as other:
        served = [await client.get("/balance") for _ in range(5)]
        refused = await client.get("/balance")
        spared = await other.get("/balance")

    assert [answer.status_code for answer in served] == [200] * 5
    assert [_left(answer) for answer in served] == [4, 3, 2, 1, 0]
    assert_problem(refused, 429, "rate_limited")
    assert 1 <= int(refused.headers["Retry-After"]) <= 12
    assert _left(refused) == 0
    assert spared.status_code == 200
    assert _left(spared) == 4
    for answer in (*served, refused):
        assert answer.headers["RateLimit-Policy"] == '"default";q=5;w=60'


async def test_a_refused_request_counts_and_moves_nothing(
    limited: tuple[Server, str], keys: tuple[str, str]
) -> None:
    """A wrong request uses up its share; over the limit, a right one does not happen."""
    server, _ = limited
    async with server.client(keys[0]) as client, server.client(keys[1]) as other:
        wrong = [await client.get("/accounts/nobody") for _ in range(5)]
        body = {"to": "@whoever", "amount": 1}
        over = await client.post("/transfers", json=body, headers={"Idempotency-Key": "k"})
        balance = await other.get("/balance")

    for answer in wrong:
        assert_problem(answer, 404, "account_not_found", "identifier")
    assert [_left(answer) for answer in wrong] == [4, 3, 2, 1, 0]
    assert_problem(over, 429, "rate_limited")
    assert balance.json()["available"] == 10


async def test_strangers_and_probes_are_not_counted(limited: tuple[Server, str]) -> None:
    """Requests without a key are not limited."""
    server, _ = limited
    async with server.client() as client:
        strangers = [await client.get("/me") for _ in range(10)]
        probes = [await client.get(f"{server.origin}/healthz") for _ in range(10)]

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
