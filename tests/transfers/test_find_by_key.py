"""GET /transfers?idempotency_key=…: what became of a transfer whose answer was lost."""

import asyncio
from typing import Any

import pytest

from ousel.database.citus_statements import for_citus
from ousel.database.port import Database
from ousel.database.statements import for_postgres, for_sqlite
from ousel.ledger.history import HISTORY_OF_KEY
from tests.support.accounts import partner, person
from tests.support.engines import Engine
from tests.support.in_process import in_process_client
from tests.support.raw_sql import RawSql
from tests.support.waiting import assert_none_ends

MANY = 2_000


async def test_a_key_finds_the_one_transfer_that_used_it(
    database: Database, database_url: str
) -> None:
    """The list of a key has its one transfer; of a key that moved nothing, it is empty."""
    _, _, key = await partner(database, "harbour", "100")
    await person(database, "ada")

    async with in_process_client(database_url) as client:
        client.headers["Authorization"] = f"Bearer {key}"
        for name in ("first", "second~!", "third"):
            await client.post(
                "/transfers",
                json={"to": "@ada", "amount": 1, "note": name},
                headers={"Idempotency-Key": name},
            )
        found = await client.get("/transfers", params={"idempotency_key": "second~!"})
        missing = await client.get("/transfers", params={"idempotency_key": "fourth"})

    assert [each["note"] for each in found.json()["data"]] == ["second~!"]
    assert found.json()["has_more"] is False
    assert missing.json()["data"] == []


async def test_a_key_finds_nothing_for_anyone_but_its_sender(
    database: Database, database_url: str
) -> None:
    """The recipient, who may use the same words as keys, does not find the sender's transfer."""
    _, _, sender_key = await partner(database, "harbour", "100")
    _, _, recipient_key = await partner(database, "market")

    async with in_process_client(database_url) as client:
        await client.post(
            "/transfers",
            json={"to": "@market", "amount": 1},
            headers={"Authorization": f"Bearer {sender_key}", "Idempotency-Key": "ours"},
        )
        answer = await client.get(
            "/transfers",
            params={"idempotency_key": "ours"},
            headers={"Authorization": f"Bearer {recipient_key}"},
        )

    assert answer.status_code == 200
    assert answer.json()["data"] == []


FITTING = (
    {"direction": "out"},
    {"kind": "transfer"},
    {"created_after": "2001-01-01T00:00:00Z"},
)
UNFITTING = (
    {"direction": "in"},
    {"kind": "funding"},
    {"created_before": "2001-01-01T00:00:00Z"},
)


async def test_a_key_narrows_the_other_filters(database: Database, database_url: str) -> None:
    """With other filters, the transfer must fit them as well."""
    _, _, key = await partner(database, "harbour", "100")
    await person(database, "ada")

    async with in_process_client(database_url) as client:
        client.headers["Authorization"] = f"Bearer {key}"
        body = {"to": "@ada", "amount": 1, "idempotency_key": "ours"}
        await client.post("/transfers", json=body)
        found = [
            (await client.get("/transfers", params=filters | {"idempotency_key": "ours"})).json()
            for filters in (*FITTING, *UNFITTING)
        ]

    assert [len(page["data"]) for page in found] == [1, 1, 1, 0, 0, 0]


async def test_a_key_that_is_being_written_is_not_reported_as_unused(
    database: Database, database_url: str, engine: Engine
) -> None:
    """A commit that hangs is invisible: the look-up waits until it has taken effect or failed."""
    account, _, key = await partner(database, "harbour", "100")
    await person(database, "ada")
    async with in_process_client(database_url) as client, RawSql(database_url) as hanging:
        client.headers["Authorization"] = f"Bearer {key}"
        body = {"to": "@ada", "amount": 1, "idempotency_key": "ours"}
        await client.post("/transfers", json=body)
        await hanging.run("BEGIN IMMEDIATE" if engine == "sqlite" else "BEGIN")
        await hanging.run("UPDATE accounts SET updated_at = 1 WHERE id = ?", account.id)
        await hanging.run(
            "UPDATE entries SET idempotency_key = 'theirs' WHERE idempotency_key = 'ours'"
        )
        looking = asyncio.create_task(
            client.get("/transfers", params={"idempotency_key": "theirs"})
        )
        await assert_none_ends(looking, seconds=0.2)
        await hanging.run("COMMIT")
        found = await looking

    assert [each["idempotency_key"] for each in found.json()["data"]] == ["theirs"]


@pytest.mark.parametrize("engine", ["postgresql"])  # on SQLite, there is one writer at a time
async def test_look_ups_that_wait_for_a_locked_account_delay_nobody_else(
    database: Database, database_url: str
) -> None:
    """However many keys their partner looks up, there are connections left for all others."""
    account, _, key = await partner(database, "harbour", "100")
    _, _, other_key = await partner(database, "market", "100")
    await person(database, "ada")
    async with in_process_client(database_url) as client, RawSql(database_url) as holder:
        await holder.run("BEGIN")
        await holder.run("SELECT 1 FROM accounts WHERE id = ? FOR UPDATE", account.id)
        looking = [
            asyncio.create_task(
                client.get(
                    "/transfers",
                    params={"idempotency_key": f"unused-{number}"},
                    headers={"Authorization": f"Bearer {key}"},
                )
            )
            for number in range(60)
        ]
        await assert_none_ends(*looking, seconds=0.2)
        sent = await client.post(
            "/transfers",
            json={"to": "@ada", "amount": 1},
            headers={"Authorization": f"Bearer {other_key}"},
        )
        await holder.run("COMMIT")
        await asyncio.gather(*looking)

    assert sent.status_code == 201, sent.text


async def test_what_cannot_be_a_key_is_refused(database: Database, database_url: str) -> None:
    """A key that no transfer can have is a mistake of the caller, not an empty list."""
    _, _, key = await partner(database, "harbour")

    async with in_process_client(database_url) as client:
        client.headers["Authorization"] = f"Bearer {key}"
        for wrong in ("", "a b", "\u00e9", "k" * 256):
            answer = await client.get("/transfers", params={"idempotency_key": wrong})

            assert answer.status_code == 400, answer.text
            assert answer.json()["code"] == "invalid_field"
            assert answer.json()["param"] == "idempotency_key"


async def test_the_index_finds_a_key_in_a_long_history(
    database: Database, database_url: str, engine: Engine
) -> None:
    """A key is found by its index: the rest of the account's history is not read."""
    account, _, _ = await partner(database, "harbour", "100")
    values: dict[str, Any] = {
        "account_id": account.id,
        "first": 1,
        "before": 2**62,
        "amount_min": -(2**62),
        "amount_max": 2**62,
        "kinds": ["transfer"],
        "idempotency_key": "key-1",
    }

    async with RawSql(database_url) as raw_sql:
        await _many_entries(raw_sql, account.id)
        await raw_sql.run("ANALYZE")  # else the plan depends on what the server knows by chance
        plan = await _plan(raw_sql, engine, values)

    assert "entries_by_idempotency_key" in plan, plan


async def _many_entries(raw_sql: RawSql, account_id: str) -> None:
    columns = "account_id, sequence, transfer_id, kind, amount, balance_after, counterparty_id"
    await raw_sql.run(
        "WITH RECURSIVE numbers(number) AS"
        f" (SELECT 2 UNION ALL SELECT number + 1 FROM numbers WHERE number < {MANY})"
        f" INSERT INTO entries ({columns}, idempotency_key, created_at, hash)"
        f" SELECT '{account_id}', number, CAST(number AS TEXT), 'transfer', -1, 1,"
        f" '{account_id}', 'key-' || CAST(number AS TEXT), 1, '' FROM numbers"
    )


async def _plan(raw_sql: RawSql, engine: Engine, values: dict[str, Any]) -> str:
    if engine == "sqlite":
        text, prefix = for_sqlite(HISTORY_OF_KEY), "EXPLAIN QUERY PLAN"
    else:
        text, prefix = for_postgres(HISTORY_OF_KEY), "EXPLAIN"
    if engine == "citus":
        text = for_citus(HISTORY_OF_KEY).compiled
    rows = await raw_sql.run(f"{prefix} {text.text}", *text.arguments(values))
    return "\n".join(str(row) for row in rows)
