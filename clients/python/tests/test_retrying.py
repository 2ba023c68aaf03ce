"""Which requests are retried, and how long the client waits before each retry."""

import math

import pytest

from clients.python.tests.scripts import Script, lost, refused, said
from ousel_client import BadRequest, ConnectionFailed, RetryPolicy, ServerError, Throttled
from ousel_client.errors import ApiError
from ousel_client.exchange import Answer, Outcome, Request
from ousel_client.refusals import InsufficientBalance
from ousel_client.retrying import send_with_retries

POST = Request(method="POST", path="/transfers", body=b"{}")
ONCE = Request(method="POST", path="/sandbox/fund", body=b"{}", repeatable=False)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 413, 415, 422])
def test_a_request_that_must_be_changed_is_not_retried(status: int) -> None:
    """A 4xx other than 429 is raised after the first attempt."""
    script = Script([refused(status, "some_code")])

    with pytest.raises(ApiError) as raised:
        script.play(send_with_retries(script.settings(), POST))

    assert len(script.attempts) == 1
    assert (raised.value.status, raised.value.attempts) == (status, 1)
    assert raised.value.in_doubt is False


@pytest.mark.parametrize(
    "outcome",
    [said(429), said(500), said(502), said(503), said(504), lost(), lost(sent=False)],
    ids=["429", "500", "502", "503", "504", "lost", "not sent"],
)
def test_temporary_failures_are_retried(outcome: Outcome) -> None:
    """After a 429, a 5xx or a broken connection, exactly the same request is sent again."""
    script = Script([outcome, outcome, said(201)])

    answer = script.play(send_with_retries(script.settings(), POST))

    assert answer.status == 201
    assert script.requests == [POST, POST, POST]


def test_the_wait_doubles_up_to_its_limit() -> None:
    """Without jitter, each wait is twice the one before, up to the limit."""
    script = Script([*[said(503)] * 6, said(200)])
    settings = script.settings(first_delay_seconds=0.5, delay_seconds_max=4)

    script.play(send_with_retries(settings, POST))

    assert script.delays == [0.0, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0]


def test_jitter_is_full() -> None:
    """Jitter may shorten any wait to zero."""
    script = Script([*[said(503)] * 3, said(200)])

    script.play(send_with_retries(script.settings(random_share=0.0), POST))

    assert script.delays == [0.0, 0.0, 0.0, 0.0]


def test_retry_after_is_the_least_wait() -> None:
    """The wait is Retry-After plus jitter, so that clients do not all return at once."""
    script = Script([said(429, retry_after="3"), said(503, retry_after="2"), said(200)])

    script.play(send_with_retries(script.settings(first_delay_seconds=0.5), POST))

    assert script.delays == [0.0, 3.5, 3.0]


@pytest.mark.parametrize("forever", ["9" * 400, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_server_that_asks_to_wait_forever_is_asked_again_after_a_year(forever: str) -> None:
    """A policy may have no limit of time, but a sleep must have one, or it fails."""
    script = Script([said(429, retry_after=forever), said(200)])

    script.play(send_with_retries(script.settings(seconds_max=math.inf), POST))

    assert script.delays == [0.0, pytest.approx(31_536_000, abs=1)]


def test_the_number_of_attempts_is_limited() -> None:
    """The error is raised after the last attempt that the policy allows."""
    script = Script([said(503)] * 3)

    with pytest.raises(ServerError) as raised:
        script.play(send_with_retries(script.settings(attempts_max=3), POST))

    assert raised.value.attempts == 3


def test_the_time_is_limited() -> None:
    """No attempt starts after `seconds_max`, even if more attempts are allowed."""
    script = Script([said(429, retry_after="40")] * 3)

    with pytest.raises(Throttled) as raised:
        script.play(send_with_retries(script.settings(seconds_max=60, first_delay_seconds=1), POST))

    assert script.delays == [0.0, 41.0]
    assert raised.value.retry_after_seconds == 40


def test_time_that_attempts_take_counts_as_well() -> None:
    """The duration of attempts counts toward `seconds_max`, as waits do."""
    script = Script([])

    def slowly() -> Outcome:
        script.clock.now += 30
        return lost()

    script.outcomes = [slowly] * 5
    with pytest.raises(ConnectionFailed) as raised:
        script.play(send_with_retries(script.settings(seconds_max=70), POST))

    assert raised.value.attempts == 3


def test_a_request_that_is_not_repeatable_is_not_repeated() -> None:
    """A request without an idempotency key is not sent again if it may have taken effect."""
    for outcome in (lost(), said(500), said(503)):
        script = Script([outcome])

        with pytest.raises((ConnectionFailed, ServerError)) as raised:
            script.play(send_with_retries(script.settings(), ONCE))

        assert raised.value.in_doubt is True


def test_a_request_that_had_no_effect_is_repeated() -> None:
    """A request without an idempotency key is sent again if it surely had no effect."""
    script = Script([lost(sent=False), said(429), said(201)])

    assert script.play(send_with_retries(script.settings(), ONCE)).status == 201


def test_a_refusal_after_a_lost_attempt_is_in_doubt() -> None:
    """A refusal after a lost attempt is in doubt, because that attempt may have taken effect."""
    script = Script([lost(), refused(400, "insufficient_balance")])

    with pytest.raises(InsufficientBalance) as raised:
        script.play(send_with_retries(script.settings(), POST))

    assert raised.value.in_doubt is True
    assert raised.value.attempts == 2


def test_a_connection_never_made_leaves_no_doubt() -> None:
    """If nothing was sent, the error is not in doubt."""
    script = Script([lost(sent=False)])

    with pytest.raises(ConnectionFailed) as raised:
        script.play(send_with_retries(script.settings(attempts_max=1), POST))

    assert raised.value.in_doubt is False
    assert isinstance(raised.value.__cause__, ConnectionResetError)


def test_a_policy_allows_an_attempt() -> None:
    """A policy that allows no attempt or has a negative time raises ValueError."""
    with pytest.raises(ValueError, match="one attempt"):
        RetryPolicy(attempts_max=0)
    with pytest.raises(ValueError, match="one attempt"):
        RetryPolicy(seconds_max=-1)
    with pytest.raises(ValueError, match="negative"):
        RetryPolicy(delay_seconds_max=-1)


def test_a_successful_answer_is_returned() -> None:
    """An answer with a status below 400 is returned to the caller."""
    for status in (200, 201, 304):
        script = Script([said(status)])

        answer = script.play(send_with_retries(script.settings(), POST))

        assert isinstance(answer, Answer)
        assert answer.status == status
        assert not issubclass(type(answer), BadRequest)
