"""The lab gives full marks to a good client, and fails each wrong client for the right reason."""

from typing import Any

import httpx2
import pytest

from ousel.charges.service import ChargeService
from ousel.kernel.clock import timestamp
from ousel.kernel.errors import DatabaseUnavailable
from tests.lab import clients
from tests.lab.clients import GoodClient
from tests.lab.conftest import Lab

pytestmark = pytest.mark.one_engine

SENDING = [
    "answer-lost-after-commit",
    "answer-lost-before-commit",
    "unavailable",
    "unavailable-retry-after",
    "rate-limited",
]


def failed_rules(record: Any) -> set[str]:
    """Return the rules that were broken."""
    return {grade["rule"] for grade in record["grades"] if grade["verdict"] == "failed"}


async def run(lab: Lab, client: GoodClient, rehearsal: str) -> Any:
    """Let the client do what the rehearsal needs, and return the record with the grades."""
    started = await lab.start(rehearsal)
    match rehearsal:
        case "paid-in-last-second" | "charge-expires":
            await client.create_charge_and_wait()
        case "page-shifts":
            await client.list_transfers()
        case "forged-return":
            redirect = await lab.http.get(started["return_url"])
            await client.handle_return(redirect.headers["location"], lab.app.id, lab.key)
        case _:
            await client.send()
    return await lab.finish(started)


@pytest.mark.slow
@pytest.mark.parametrize(
    "rehearsal", [*SENDING, "paid-in-last-second", "charge-expires", "page-shifts", "forged-return"]
)
async def test_a_good_client_gets_full_marks(lab: Lab, rehearsal: str) -> None:
    """No rule is broken, and the rules of the rehearsal are shown to be kept."""
    for _ in range(3):
        await lab.http.post("/sandbox/fund", json={"to": "@shop", "amount": 1})

    record = await run(lab, lab.client(GoodClient), rehearsal)

    assert (record["status"], record["result"], failed_rules(record)) == ("ended", "passed", set())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "rehearsal", "broken"),
    [
        (clients.WithoutKey, "answer-lost-after-commit", {"key_sent"}),
        (
            clients.NewKeyOnEachTry,
            "answer-lost-after-commit",
            {"same_key_on_retry", "no_new_key_for_old_intent"},
        ),
        (clients.WithoutBackoff, "unavailable", {"backed_off"}),
        (clients.IgnoresRetryAfter, "unavailable-retry-after", {"honoured_retry_after"}),
        (clients.FloatAmounts, "answer-lost-before-commit", {"exact_amounts"}),
        (clients.PollsAfterFinal, "paid-in-last-second", {"stopped_when_final"}),
        (clients.StateUnchecked, "forged-return", {"checked_state"}),
        (clients.SecretInPage, "answer-lost-after-commit", {"kept_secret_on_server"}),
    ],
)
async def test_a_wrong_client_fails_for_its_own_fault(
    lab: Lab, kind: type[GoodClient], rehearsal: str, broken: set[str]
) -> None:
    """Each wrong client differs from the good one in one habit, and breaks no other rule."""
    record = await run(lab, lab.client(kind), rehearsal)

    assert (record["result"], failed_rules(record)) == ("failed", broken)
    assert all(grade["calls"] for grade in record["grades"] if grade["verdict"] == "failed")


async def test_each_call_says_what_happened_and_what_to_do(lab: Lab) -> None:
    """The calls are listed in their order, with the answer that the client got."""
    record = await run(lab, lab.client(GoodClient), "answer-lost-after-commit")

    first, _, third = record["calls"]
    assert (first["status"], first["path"]) == (None, "/v1/transfers")
    assert first["happened"] == "carried out, and the answer was lost"
    assert "same key" in first["next_step"]
    assert third["status"] == 200
    assert (await lab.http.get("/balance")).json()["available"] == 99.70


async def test_a_lost_refusal_is_not_said_to_be_carried_out(lab: Lab) -> None:
    """The answer is lost too, and the page says which code it had."""
    started = await lab.start("answer-lost-after-commit")
    with pytest.raises(httpx2.RemoteProtocolError):
        await lab.http.post("/transfers", json={"to": "@ada", "amount": 1_000})

    [call] = (await lab.finish(started))["calls"]

    assert call["happened"] == "refused with insufficient_balance, and the answer was lost"


async def test_a_revoked_key_is_refused_and_another_key_works(lab: Lab) -> None:
    """The first call passes. A client that stops at the 401 passes; one that insists does not."""
    started = await lab.start("key-revoked")

    answers = [await lab.http.get("/me") for _ in range(2)]
    passed = await lab.get(started)
    answers += [await lab.http.get("/me") for _ in range(3)]
    failed = await lab.finish(started)

    assert [answer.status_code for answer in answers] == [200, 401, 401, 401, 401]
    assert (passed["result"], failed["result"]) == ("passed", "failed")
    assert failed_rules(failed) == {"stopped_when_final"}
    assert (await lab.http.get("/me")).status_code == 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "broken"),
    [
        ("/transfers?order=oldest", {"asked_for_outcome"}),
        ("/charges?status=paid", {"asked_for_outcome"}),
        ("/charges?status=expired", set()),
        ("/charges", set()),
    ],
)
async def test_an_expiry_is_learned_only_from_what_shows_it(
    lab: Lab, path: str, broken: set[str]
) -> None:
    """It is not a transfer, and it is not in a list of the charges that are paid."""
    started = await lab.start("charge-expires")
    await lab.http.post("/charges", json={"amount": 1}, headers={"Idempotency-Key": "order"})
    for _ in range(3):
        await lab.http.get(path)

    assert failed_rules(await lab.finish(started)) == broken


@pytest.mark.parametrize("rehearsal", ["paid-in-last-second", "charge-expires"])
async def test_a_charge_that_is_closed_already_does_not_move_the_clock(
    lab: Lab, rehearsal: str
) -> None:
    """The calls do not say that the lab closed it, and its status shows the outcome."""
    started = await lab.start(rehearsal)
    charge = (await lab.http.post("/charges", json={"amount": 1})).json()
    await lab.http.get(f"/charges/{charge['id']}")
    await lab.http.post(f"/charges/{charge['id']}/cancel")
    await lab.http.get(f"/charges/{charge['id']}")

    record = await lab.finish(started)

    now = (await lab.http.post("/sandbox/clock", json={"advance": 0})).json()["now"]
    assert now == timestamp(lab.clock())
    assert record["calls"][-1]["happened"] == "200, charge canceled; the charge was closed already"


async def test_a_charge_that_could_not_be_paid_is_not_said_to_be_paid(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is still open, so the next read of the charge tries to pay it again."""
    pay = ChargeService.pay

    async def fail_once(*_: object) -> None:
        monkeypatch.setattr(ChargeService, "pay", pay)
        raise DatabaseUnavailable("The database is away.", retry_after_seconds=1)

    monkeypatch.setattr(ChargeService, "pay", fail_once)
    started = await lab.start("paid-in-last-second")
    charge = (await lab.http.post("/charges", json={"amount": 1})).json()
    for _ in range(3):
        await lab.http.get(f"/charges/{charge['id']}")

    happened = [call["happened"] for call in (await lab.finish(started))["calls"]]
    assert happened[-2:] == [
        "200, charge created",
        "200, charge paid; the charge was paid before this answer",
    ]


async def test_what_a_client_never_did_counts_when_the_rehearsal_has_ended(lab: Lab) -> None:
    """While it runs, a retry may still come. Without any call, nothing is shown."""
    started = await lab.start("answer-lost-after-commit")
    with pytest.raises(httpx2.RemoteProtocolError):
        await lab.http.post(
            "/transfers", json={"to": "@ada", "amount": 1}, headers={"Idempotency-Key": "k"}
        )

    running, ended = await lab.get(started), await lab.finish(started)
    idle = await lab.finish(await lab.start("unavailable"))

    assert [record["result"] for record in (running, ended, idle)] == [
        "incomplete",
        "failed",
        "incomplete",
    ]
    assert failed_rules(ended) == {"same_key_on_retry"}
