"""The lab gives full marks to a good client, and fails each wrong client for the right reason."""

from typing import Any

import httpx2
import pytest

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


@pytest.mark.parametrize(
    "rehearsal", [*SENDING, "paid-in-last-second", "charge-expires", "page-shifts", "forged-return"]
)
async def test_a_good_client_gets_full_marks(lab: Lab, rehearsal: str) -> None:
    """No rule is broken, and the rules of the rehearsal are shown to be kept."""
    for _ in range(3):
        await lab.http.post("/sandbox/fund", json={"to": "@shop", "amount": 1})

    record = await run(lab, lab.client(GoodClient), rehearsal)

    assert (record["status"], record["result"], failed_rules(record)) == ("ended", "passed", set())


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
