"""Waiting for a charge: held by the server where it can, polled where it cannot."""

from typing import Any

import pytest

from clients.python.tests.scripts import Script, charge_json, lost, said
from ousel_client import Charge, ConnectionFailed, OuselError, ServerError, WaitTimedOut
from ousel_client.exchange import Answer, Outcome, Request
from ousel_client.waiting import HELD_SECONDS_MAX, wait_until_final

GET = Request(method="GET", path="/charges/ch_1")


def charge(status: str = "created") -> Answer:
    """Return the answer with a charge in this status."""
    return said(200, charge_json(status=status))


def wait(script: Script, timeout_seconds: float = 60.0, **policy: Any) -> Charge:
    """Wait by the script."""
    return script.play(wait_until_final(script.call_policy(**policy), GET, timeout_seconds))


def holding(script: Script, answer: Answer) -> Any:
    """Return an outcome that comes when the server has held it for as long as it was asked."""

    def hold() -> Outcome:
        script.clock.now += script.requests[-1].held_seconds
        return answer

    return hold


def preferred(script: Script) -> list[str | None]:
    """Return what each request preferred."""
    return [request.headers.get("Prefer") for request in script.requests]


@pytest.mark.parametrize("status", ["paid", "canceled", "expired"])
def test_a_final_charge_is_returned_at_once(status: str) -> None:
    """All but created is final."""
    script = Script([charge(status)])

    assert wait(script).status == status
    assert preferred(script) == [f"wait={HELD_SECONDS_MAX}"]


def test_a_server_that_holds_its_answers_is_asked_again_without_a_pause() -> None:
    """The charge's end is known the moment that it comes, with few requests."""
    script = Script([])
    script.outcomes = [holding(script, charge()), holding(script, charge()), charge("paid")]

    assert wait(script, 70).status == "paid"
    assert preferred(script) == ["wait=25", "wait=25", "wait=20"]
    assert script.delays == [0.0, 0.0, 0.0]


def test_a_server_that_does_not_hold_is_polled_ever_more_rarely() -> None:
    """An answer that comes at once shows that the server does not wait: pauses lengthen."""
    script = Script([*[charge()] * 5, charge("paid")])

    assert wait(script, 600).status == "paid"
    assert preferred(script) == ["wait=25", None, None, None, None, None]
    assert script.delays == [0.0, 0.5, 1.0, 2.0, 4.0, 5.0]


def test_chance_shortens_a_pause_to_half_at_most() -> None:
    """Polling never becomes hammering."""
    script = Script([*[charge()] * 2, charge("paid")])

    wait(script, 600, chance=0.0)

    assert script.delays == [0.0, 0.25, 0.5]


@pytest.mark.parametrize("outcome", [lost(), said(504), said(429), said(503)])
def test_a_held_request_that_fails_is_followed_by_polling(outcome: Outcome) -> None:
    """Something on the way may not let a silent connection live: then it is polled."""
    script = Script([outcome, charge(), charge("paid")])

    assert wait(script).status == "paid"
    assert preferred(script) == ["wait=25", None, None]
    assert script.delays[1] > 0


def test_polling_retries_as_every_call_does() -> None:
    """A poll that fails is repeated by the policy, and raised when that ends."""
    script = Script([charge(), lost(), charge("paid")])
    assert wait(script).status == "paid"

    script = Script([charge(), *[said(503)] * 2])
    with pytest.raises(ServerError):
        wait(script, attempts_max=2)
    script = Script([lost(), lost()])
    with pytest.raises(ConnectionFailed):
        wait(script, attempts_max=1)


def test_when_the_time_is_over_the_charge_is_told_as_it_was_seen_last() -> None:
    """The last look is at the end itself, and not before."""
    script = Script([charge(), *[charge()] * 3])

    with pytest.raises(WaitTimedOut, match="still created") as raised:
        wait(script, 3)

    assert raised.value.charge.id == "ch_1"
    assert sum(script.delays) == 3.0
    assert isinstance(raised.value, TimeoutError)
    assert isinstance(raised.value, OuselError)


def test_no_time_at_all_is_one_look() -> None:
    """Without time, the charge is read once and nothing is held."""
    script = Script([charge()])

    with pytest.raises(WaitTimedOut):
        wait(script, 0)

    assert preferred(script) == [None]
