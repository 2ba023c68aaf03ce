"""Every write has the deadline of its request; reads have none."""

import pytest

from ousel.database.port import Database
from tests.support.accounts import balance, partner, person
from tests.support.in_process import in_process_client
from tests.support.portal import open_portal
from tests.support.problems import assert_problem
from tests.support.raw_sql import RawSql


async def test_a_call_that_is_late_writes_nothing(
    database: Database, database_url: str, raw_sql: RawSql
) -> None:
    """Transfers, charges and cancellations are refused with 503 and Retry-After; reads work."""
    account, _, key = await partner(database, "harbour", "100")
    await person(database, "ada")
    headers = {"Authorization": f"Bearer {key}"}
    async with in_process_client(database_url) as client:
        charge = (await client.post("/charges", json={"amount": 1}, headers=headers)).json()

    async with in_process_client(database_url, deadline_seconds=0) as late:
        late.headers.update(headers)
        answers = [
            await late.post("/transfers", json={"to": "@ada", "amount": 1}),
            await late.post("/charges", json={"amount": 1}),
            await late.post(f"/charges/{charge['id']}/cancel"),
        ]
        paths = ("/balance", "/transfers", f"/charges/{charge['id']}")
        reads = [await late.get(path) for path in paths]

    for answer in answers:
        assert_problem(answer, 503, "deadline_exceeded")
        assert answer.headers["Retry-After"] == "1"
    assert [each.status_code for each in reads] == [200] * 3
    assert reads[2].json()["status"] == "created"
    assert await balance(database, account) == 100_000_000
    assert (await raw_sql.run("SELECT COUNT(*) FROM charges"))[0][0] == 1


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_a_read_that_locks_has_no_deadline(
    database: Database, database_url: str, method: str
) -> None:
    """To look up a key that was never used locks the account, but writes nothing."""
    _, _, key = await partner(database, "harbour")
    async with in_process_client(database_url, deadline_seconds=0) as late:
        late.headers["Authorization"] = f"Bearer {key}"
        answer = await late.request(method, "/transfers", params={"idempotency_key": "unused"})

    assert answer.status_code == 200


async def test_a_form_that_is_late_writes_nothing(database_url: str, raw_sql: RawSql) -> None:
    """The forms of pages have the same deadline as calls."""
    async with open_portal(database_url, deadline_seconds=0) as late:
        answer = await late.visitor().sign_up("ada")

    assert answer.status_code == 503
    assert await raw_sql.run("SELECT username FROM accounts WHERE username = 'ada'") == []
