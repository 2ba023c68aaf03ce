"""What is retried, what never is, and how long the client waits in between."""

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
def test_what_must_be_changed_is_never_sent_again(status: int) -> None:
    """A 4xx other than 429 is raised after its first attempt."""
    script = Script([refused(status, "some_code")])

    with pytest.raises(ApiError) as raised:
        script.play(send_with_retries(script.call_policy(), POST))

    assert len(script.attempts) == 1
    assert (raised.value.status, raised.value.attempts) == (status, 1)
    assert raised.value.in_doubt is False


@pytest.mark.parametrize(
    "outcome",
    [said(429), said(500), said(502), said(503), said(504), lost(), lost(sent=False)],
    ids=["429", "500", "502", "503", "504", "lost", "not sent"],
)
def test_what_may_pass_is_sent_again_to_the_byte(outcome: Outcome) -> None:
    """A 429, a 5xx and a broken connection are retried with the very same request."""
    script = Script([outcome, outcome, said(201)])

    answer = script.play(send_with_retries(script.call_policy(), POST))

    assert answer.status == 201
    assert script.requests == [POST, POST, POST]


def test_the_wait_doubles_up_to_its_limit() -> None:
    """Where chance comes out longest, each wait is twice the one before, and then the longest."""
    script = Script([*[said(503)] * 6, said(200)])
    call_policy = script.call_policy(first_delay_seconds=0.5, delay_seconds_max=4)

    script.play(send_with_retries(call_policy, POST))

    assert script.delays == [0.0, 0.5, 1.0, 2.0, 4.0, 4.0, 4.0]


def test_jitter_is_full() -> None:
    """Chance may shorten any wait to nothing."""
    script = Script([*[said(503)] * 3, said(200)])

    script.play(send_with_retries(script.call_policy(chance=0.0), POST))

    assert script.delays == [0.0, 0.0, 0.0, 0.0]


def test_retry_after_is_the_least_wait() -> None:
    """The server's own word is kept, with jitter on top so that not all come back at once."""
    script = Script([said(429, retry_after="3"), said(503, retry_after="2"), said(200)])

    script.play(send_with_retries(script.call_policy(first_delay_seconds=0.5), POST))

    assert script.delays == [0.0, 3.5, 3.0]


def test_attempts_are_counted_out() -> None:
    """After the last attempt that the policy allows, the error is raised."""
    script = Script([said(503)] * 3)

    with pytest.raises(ServerError) as raised:
        script.play(send_with_retries(script.call_policy(attempts_max=3), POST))

    assert raised.value.attempts == 3


def test_time_is_kept() -> None:
    """No attempt begins after the time is over, even if some are left."""
    script = Script([said(429, retry_after="40")] * 3)

    with pytest.raises(Throttled) as raised:
        script.play(
            send_with_retries(script.call_policy(seconds_max=60, first_delay_seconds=1), POST)
        )

    assert script.delays == [0.0, 41.0]
    assert raised.value.retry_after_seconds == 40


def test_time_that_attempts_take_counts_as_well() -> None:
    """A slow failure uses up the time as a wait does."""
    script = Script([])

    def slowly() -> Outcome:
        script.clock.now += 30
        return lost()

    script.outcomes = [slowly] * 5
    with pytest.raises(ConnectionFailed) as raised:
        script.play(send_with_retries(script.call_policy(seconds_max=70), POST))

    assert raised.value.attempts == 3


def test_what_cannot_be_repeated_is_not() -> None:
    """Without a key, a request that may have had its effect is not sent again."""
    for outcome in (lost(), said(500), said(503)):
        script = Script([outcome])

        with pytest.raises((ConnectionFailed, ServerError)) as raised:
            script.play(send_with_retries(script.call_policy(), ONCE))

        assert raised.value.in_doubt is True


def test_what_surely_did_not_happen_is_repeated() -> None:
    """Without a key, what never left or was turned away at the door is sent again."""
    script = Script([lost(sent=False), said(429), said(201)])

    assert script.play(send_with_retries(script.call_policy(), ONCE)).status == 201


def test_doubt_remains_where_an_attempt_was_lost() -> None:
    """A refusal after a lost attempt tells that the lost one may still have had its effect."""
    script = Script([lost(), refused(400, "insufficient_balance")])

    with pytest.raises(InsufficientBalance) as raised:
        script.play(send_with_retries(script.call_policy(), POST))

    assert raised.value.in_doubt is True
    assert raised.value.attempts == 2


def test_a_connection_never_made_leaves_no_doubt() -> None:
    """Where no byte left, nothing can have happened."""
    script = Script([lost(sent=False)])

    with pytest.raises(ConnectionFailed) as raised:
        script.play(send_with_retries(script.call_policy(attempts_max=1), POST))

    assert raised.value.in_doubt is False
    assert isinstance(raised.value.__cause__, ConnectionResetError)


def test_a_policy_allows_an_attempt() -> None:
    """A policy under which nothing is ever tried is a mistake."""
    with pytest.raises(ValueError, match="one attempt"):
        RetryPolicy(attempts_max=0)
    with pytest.raises(ValueError, match="one attempt"):
        RetryPolicy(seconds_max=-1)


def test_an_answer_that_says_yes_is_returned() -> None:
    """Anything below 400 is the caller's to read."""
    for status in (200, 201, 304):
        script = Script([said(status)])

        answer = script.play(send_with_retries(script.call_policy(), POST))

        assert isinstance(answer, Answer)
        assert answer.status == status
        assert not issubclass(type(answer), BadRequest)
