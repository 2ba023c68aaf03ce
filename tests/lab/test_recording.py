"""What the lab records: the calls of the app that rehearses, up to a limit, whatever they are."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from ousel.database.port import Database, Transaction
from ousel.http.messages import Answer
from ousel.kernel.clock import timestamp
from ousel.kernel.deadlines import set_deadline
from ousel.kernel.errors import DatabaseUnavailable
from ousel.lab import store
from ousel.lab.recording import record_answer
from ousel.lab.rules import CALLS_MAX, REHEARSALS_MAX, RecordedCall, Rehearsal
from tests.lab.conftest import REDIRECT_URI, Lab
from tests.support.accounts import app_with_key, partner
from tests.support.raw_sql import RawSql
from tests.support.waiting import until_async


@asynccontextmanager
async def called_with(lab: Lab, key: str) -> AsyncIterator[httpx2.AsyncClient]:
    """Let the client call with another key."""
    own, lab.http.headers["Authorization"] = lab.http.headers["Authorization"], f"Bearer {key}"
    yield lab.http
    lab.http.headers["Authorization"] = own


async def test_calls_that_arrive_together_are_all_recorded(lab: Lab) -> None:
    """Each has its own number, and calls below /sandbox have none."""
    started = await lab.start("slow")

    await asyncio.gather(*(lab.http.get("/me") for _ in range(8)))
    await lab.http.get("/sandbox/mail")

    calls = (await lab.finish(started))["calls"]
    assert [call["sequence"] for call in calls] == list(range(1, 9))
    assert {call["status"] for call in calls} == {200}


async def test_the_answer_stands_although_the_deadline_has_passed_since(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some answers are slow: what was committed in time is not answered with a refusal."""
    started = await lab.start("key-revoked")

    def record_too_late(
        call: RecordedCall, answer: Answer, created_charges: Sequence[str]
    ) -> RecordedCall:
        set_deadline(0.0)
        return record_answer(call, answer, created_charges)

    monkeypatch.setattr("ousel.lab.server.record_answer", record_too_late)
    sent = await lab.http.post("/transfers", json={"to": "@ada", "amount": 1})

    assert sent.status_code == 201, sent.text
    [call] = (await lab.finish(started))["calls"]
    assert call["status"] == 201


async def test_the_answer_stands_although_it_could_not_be_recorded(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, the answer would say that nothing was written."""
    await lab.start("key-revoked")

    async def fail(*_: object) -> None:
        raise DatabaseUnavailable("The database is away.", retry_after_seconds=1)

    monkeypatch.setattr("ousel.lab.store.change_call", fail)
    sent = await lab.http.post("/transfers", json={"to": "@ada", "amount": 1})

    assert sent.status_code == 201, sent.text


async def test_a_rehearsal_belongs_to_one_app(lab: Lab, database: Database) -> None:
    """Another app, of the same partner or of another, is not disturbed and cannot read it."""
    started = await lab.start("key-revoked")
    _, own_key = await app_with_key(database, lab.account, "test")
    other = await partner(database, "other", None, "test")

    for key in (own_key, other.key):
        async with called_with(lab, key) as http:
            assert [(await http.get("/me")).status_code for _ in range(3)] == [200] * 3
            read = await http.get(f"/sandbox/lab/{started['id']}")
            ended = await http.post(f"/sandbox/lab/{started['id']}/finish")
        assert (read.status_code, read.json()["code"]) == (404, "rehearsal_not_found")
        assert ended.status_code == 404

    record = await lab.get(started)
    assert (record["status"], record["calls"]) == ("running", [])


async def test_the_number_of_calls_and_of_rehearsals_is_limited(lab: Lab, raw_sql: RawSql) -> None:
    """After the last call, calls are no longer disturbed; the oldest rehearsals are deleted."""
    started = await lab.start("key-revoked")
    await lab.http.get("/me")
    await raw_sql.run(f"UPDATE rehearsals SET calls = {CALLS_MAX - 1}")

    assert [(await lab.http.get("/me")).status_code for _ in range(3)] == [401, 200, 200]
    ended = await lab.get(started)
    assert (ended["status"], ended["ends_at"]) == ("ended", timestamp(lab.clock()))
    for _ in range(REHEARSALS_MAX):
        lab.clock.advance(seconds=1)
        await lab.start("slow")
    assert await raw_sql.run("SELECT COUNT(*) FROM rehearsals") == [(REHEARSALS_MAX,)]
    assert await raw_sql.run("SELECT COUNT(*) FROM rehearsal_calls") == [(0,)]
    assert (await lab.http.get(f"/sandbox/lab/{started['id']}")).status_code == 404


async def test_a_running_rehearsal_is_kept_however_many_others_start(
    lab: Lab, database: Database
) -> None:
    """Each app of the account rehearses at the same time; the oldest goes on."""
    started = await lab.start("slow")
    await lab.http.get("/me")
    for _ in range(REHEARSALS_MAX):
        _, key = await app_with_key(database, lab.account, "test")
        lab.clock.advance(seconds=1)
        async with called_with(lab, key):
            await lab.start("slow")

    record = await lab.finish(started)

    assert (record["status"], len(record["calls"])) == ("ended", 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"nonsense", b'"\xff"', b"[" * 60_000, b'{"amount": ' + b"[" * 30_000, b"{" * 90],
    ids=["empty", "list", "no-json", "no-utf8", "nested", "nested-amount", "open"],
)
@pytest.mark.one_engine
async def test_a_body_that_cannot_be_read_is_recorded_with_its_refusal(
    lab: Lab, body: bytes
) -> None:
    """The answer is the same as without a rehearsal."""
    headers = {"Content-Type": "application/json"}
    before = await lab.http.post("/transfers", content=body, headers=headers)
    started = await lab.start("page-shifts")

    answer = await lab.http.post("/transfers", content=body, headers=headers)

    [call] = (await lab.finish(started))["calls"]
    assert (answer.status_code, answer.json()["code"]) == (400, before.json()["code"])
    assert (call["status"], call["code"]) == (400, answer.json()["code"])


async def test_different_questions_are_not_repetitions(lab: Lab) -> None:
    """After a 404, a client may look for other accounts, and list charges with other filters."""
    started = await lab.start("slow")
    for name in ("@nobody", "@noone", "@nemo", "@never"):
        assert (await lab.http.get(f"/accounts/{name}")).status_code == 404
    for status in ("a", "b", "c", "d"):
        assert (await lab.http.get("/charges", params={"status": status})).status_code == 400
    other = await lab.finish(started)

    started = await lab.start("slow")
    for _ in range(4):
        await lab.http.get("/accounts/@nobody")
    same = await lab.finish(started)

    assert "stopped_when_final" not in _failed_rules(other)
    assert "stopped_when_final" in _failed_rules(same)


async def test_a_follower_is_not_disturbed_by_shifting_pages(lab: Lab) -> None:
    """A list from the oldest on is not shifted by what is new, so there is nothing to rehearse."""
    started = await lab.start("page-shifts")
    page = (await lab.http.get("/transfers", params={"order": "oldest"})).json()
    for _ in range(2):
        page = (
            await lab.http.get(
                "/transfers", params={"order": "oldest", "cursor": page["next_cursor"]}
            )
        ).json()

    record = await lab.finish(started)

    assert page["data"] == []
    assert _failed_rules(record) == set()


def _failed_rules(record: Any) -> set[str]:
    return {grade["rule"] for grade in record["grades"] if grade["verdict"] == "failed"}


@pytest.mark.parametrize("sends", ["json", "data"])
async def test_a_forged_code_is_recognised_however_it_is_exchanged(lab: Lab, sends: str) -> None:
    """As JSON or as a form, with HTTP Basic; the code is not valid, so nobody is connected."""
    started = await lab.start("forged-return")
    returned = await lab.http.get(started["return_url"])
    url = httpx2.URL(returned.headers["location"])
    fields = {
        "grant_type": "authorization_code",
        "code": url.params["code"],
        "redirect_uri": REDIRECT_URI,
    }
    request: dict[str, Any] = {sends: fields}

    answer = await lab.http.post("/oauth/token", auth=(lab.app.id, lab.key), **request)

    assert str(url).startswith(REDIRECT_URI)
    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_grant")
    assert (await lab.get(started))["result"] == "failed"


async def test_an_unknown_rehearsal_and_a_lost_id_are_refused(lab: Lab) -> None:
    """A misspelt name starts nothing; a forged return opens only while its rehearsal runs."""
    unknown = await lab.http.post("/sandbox/lab", json={"rehearsal": "earthquake"})
    ended = await lab.start("forged-return")
    await lab.finish(ended)
    other = await lab.start("slow")

    assert (unknown.status_code, unknown.json()["param"]) == (400, "rehearsal")
    for url in (ended["return_url"], ended["return_url"].replace(ended["id"], other["id"])):
        assert (await lab.http.get(url)).status_code == 404
    for id_ in ("reh_none", "%00", "%F0%9F%90%A6"):
        assert (await lab.http.get(f"/sandbox/lab/{id_}")).status_code == 404


async def test_a_request_that_is_written_otherwise_is_the_same_request(lab: Lab) -> None:
    """Ousel compares by value, and so does the lab: 1.0 is 1.00, null is nothing, @Ada is @ada."""
    started = await lab.start("answer-lost-before-commit")
    headers = {"Content-Type": "application/json", "Idempotency-Key": "payout"}
    bodies = [
        b'{"to": "@ada", "amount": 1.0}',
        b'{"amount": 1.00, "to": "@Ada", "note": null}',
        b'{"to": "@\\u0061da", "amount": 1}',
    ]
    for body in bodies[:2]:
        with pytest.raises(httpx2.RemoteProtocolError):
            await lab.http.post("/transfers", content=body, headers=headers)
    sent = await lab.http.post("/transfers", content=bodies[2], headers=headers)

    record = await lab.finish(started)

    assert sent.status_code == 201
    assert (record["result"], _failed_rules(record)) == ("passed", set())


async def test_a_client_that_hangs_up_is_recorded(lab: Lab) -> None:
    """The call is over, and nobody waits for an answer to it."""
    started = await lab.start("slow")
    call = asyncio.create_task(lab.http.post("/transfers", json={"to": "@ada", "amount": 1}))

    async def has_arrived() -> bool:
        return bool((await lab.get(started))["calls"])

    await until_async(has_arrived)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call

    async def was_noticed() -> bool:
        [recorded] = (await lab.get(started))["calls"]
        return bool(recorded["happened"] == "no answer: the connection was closed")

    await until_async(was_noticed)


async def test_a_client_that_hangs_up_at_once_is_recorded(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may hang up before the lab has recorded that its call has arrived."""
    started = await lab.start("slow")
    add_call = store.add_call

    async def add_while_client_hangs_up(
        transaction: Transaction, rehearsal: Rehearsal, call: RecordedCall
    ) -> None:
        await add_call(transaction, rehearsal, call)
        calling.cancel()

    monkeypatch.setattr(store, "add_call", add_while_client_hangs_up)
    calling = asyncio.create_task(lab.http.post("/transfers", json={"to": "@ada", "amount": 1}))
    with pytest.raises(asyncio.CancelledError):
        await calling

    [recorded] = (await lab.get(started))["calls"]
    assert recorded["happened"] == "no answer: the connection was closed"


async def test_a_list_shows_the_outcome_of_the_charges_in_it(lab: Lab) -> None:
    """A client may also learn from a list of charges, or from its transfers, that it was paid."""
    for path in ("/charges", "/transfers"):
        started = await lab.start("paid-in-last-second")
        await lab.http.post("/charges", json={"amount": 1}, headers={"Idempotency-Key": path})
        for _ in range(2):
            await lab.http.get(path)

        record = await lab.finish(started)

        assert (record["result"], _failed_rules(record)) == ("passed", set()), record["grades"]
