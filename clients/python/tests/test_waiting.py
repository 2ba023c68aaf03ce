"""Waiting for a charge, with answers that the server delays, or by polling."""

import math
from typing import Any

import pytest

from clients.python.tests.scripts import Script, charge_json, lost, said
from ousel_client import Charge, ConnectionFailed, OuselError, ServerError, WaitTimedOut
from ousel_client.exchange import Answer, Outcome, Request
from ousel_client.waiting import HELD_SECONDS_MAX, wait_until_final

GET = Request(method="GET", path="/charges/ch_1")


def charge(status: str = "created") -> Answer:
    """Return an answer with a charge that has this status."""
    return said(200, charge_json(status=status))


def wait(script: Script, timeout_seconds: float = 60.0, **policy: Any) -> Charge:
    """Wait for the charge; the script provides the answers."""
    return script.play(wait_until_final(script.settings(**policy), GET, timeout_seconds))


def holding(script: Script, answer: Answer) -> Any:
    """Return an outcome that arrives after the delay that the request asked for."""

    def hold() -> Outcome:
        script.clock.now += script.requests[-1].held_seconds
        return answer

    return hold


def preferred(script: Script) -> list[str | None]:
    """Return the Prefer header of each request."""
    return [request.headers.get("Prefer") for request in script.requests]


@pytest.mark.parametrize("status", ["paid", "canceled", "expired"])
def test_a_final_charge_is_returned_at_once(status: str) -> None:
    """A charge that is paid, canceled or expired is returned after one request."""
    script = Script([charge(status)])

    assert wait(script).status == status
    assert preferred(script) == [f"wait={HELD_SECONDS_MAX}"]


def test_a_server_that_delays_its_answers_is_asked_again_at_once() -> None:
    """If the server delays its answers, the next request follows without a pause."""
    script = Script([])
    script.outcomes = [holding(script, charge()), holding(script, charge()), charge("paid")]

    assert wait(script, 70).status == "paid"
    assert preferred(script) == ["wait=25", "wait=25", "wait=20"]
    assert script.delays == [0.0, 0.0, 0.0]


def test_a_server_that_does_not_delay_its_answers_is_polled() -> None:
    """If the server answers at once, the client polls, with longer and longer pauses."""
    script = Script([*[charge()] * 5, charge("paid")])

    assert wait(script, 600).status == "paid"
    assert preferred(script) == ["wait=25", None, None, None, None, None]
    assert script.delays == [0.0, 0.5, 1.0, 2.0, 4.0, 5.0]


def test_jitter_leaves_at_least_half_of_a_pause() -> None:
    """Jitter never shortens a pause to less than half of its length."""
    script = Script([*[charge()] * 2, charge("paid")])

    wait(script, 600, random_share=0.0)

    assert script.delays == [0.0, 0.25, 0.5]


@pytest.mark.parametrize("outcome", [lost(), said(504), said(429), said(503)])
def test_a_request_without_a_delay_follows_one_that_fails(outcome: Outcome) -> None:
    """A gateway may have cut the delayed answer. Then the client asks for delays again."""
    script = Script([])
    held = holding(script, charge())
    script.outcomes = [outcome, charge(), held, outcome, charge(), charge("paid")]

    assert wait(script, 600).status == "paid"
    assert preferred(script) == ["wait=25", None, "wait=25"] * 2
    assert [delay > 0 for delay in script.delays] == [False, True, False] * 2


def test_a_server_that_does_not_delay_its_answers_after_a_failure_is_polled() -> None:
    """It answers at once although it was asked to wait, so there is nothing to wait for."""
    script = Script([said(503), *[charge()] * 4, charge("paid")])

    assert wait(script, 600).status == "paid"
    assert preferred(script) == ["wait=25", None, "wait=25", None, None, None]
    assert [delay > 0 for delay in script.delays] == [False, True, False, True, True, True]


def test_the_last_second_is_not_filled_with_requests() -> None:
    """Too little time is left for a delayed answer: the charge is read once more, at the end."""
    script = Script([])
    script.outcomes = [holding(script, charge()), charge()]

    with pytest.raises(WaitTimedOut):
        wait(script, 10.25)
    assert preferred(script) == ["wait=10", None]
    assert sum(script.delays) == 0.25


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_asks_for_a_pause_gets_it(status: int) -> None:
    """The pause is not longer than the time that is left."""
    asked = said(status, retry_after="30")
    script = Script([asked, charge("paid")])
    wait(script, 60)
    assert script.delays == [0.0, 30.0]

    script = Script([asked, charge("paid")])
    wait(script, 20)
    assert script.delays == [0.0, 20.0]


def test_polling_retries_as_every_call_does() -> None:
    """A poll is retried as the policy says; after the last attempt, its error is raised."""
    script = Script([charge(), lost(), charge("paid")])
    assert wait(script).status == "paid"

    script = Script([charge(), *[said(503)] * 2])
    with pytest.raises(ServerError):
        wait(script, attempts_max=2)
    script = Script([lost(), lost()])
    with pytest.raises(ConnectionFailed):
        wait(script, attempts_max=1)


def test_the_charge_is_read_a_last_time_at_the_time_limit() -> None:
    """The charge is read a last time at the time limit, and WaitTimedOut contains it."""
    script = Script([charge(), *[charge()] * 3])

    with pytest.raises(WaitTimedOut, match="still created") as raised:
        wait(script, 3)

    assert raised.value.charge.id == "ch_1"
    assert sum(script.delays) == 3.0
    assert isinstance(raised.value, TimeoutError)
    assert isinstance(raised.value, OuselError)


def test_a_wait_can_be_without_a_time_limit() -> None:
    """An infinite time limit is allowed, because every charge is final after two hours."""
    script = Script([charge(), charge("expired")])

    assert wait(script, math.inf).status == "expired"
    assert preferred(script) == [f"wait={HELD_SECONDS_MAX}", None]


def test_without_time_the_charge_is_read_once() -> None:
    """With a time limit of zero, the charge is read once, without a delayed answer."""
    script = Script([charge()])

    with pytest.raises(WaitTimedOut):
        wait(script, 0)

    assert preferred(script) == [None]
