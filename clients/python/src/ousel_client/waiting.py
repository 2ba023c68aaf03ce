"""Waiting for a charge: by a delayed answer of the server if possible, otherwise by polling."""

from dataclasses import replace
from typing import Final

from ousel_client.decoding import decode_record
from ousel_client.errors import ConnectionFailed, OuselError, ServerError, Throttled, WaitTimedOut
from ousel_client.exchange import Request, Steps
from ousel_client.operations import decode_answer
from ousel_client.records import Charge
from ousel_client.retrying import (
    CallSettings,
    RetryPolicy,
    asked_seconds,
    is_closed,
    log_retry,
    send_with_retries,
)

HELD_SECONDS_MAX: Final = 25  # shorter than the time after which gateways cut silent connections
PAUSES: Final = RetryPolicy(first_delay_seconds=0.5, delay_seconds_max=5.0)


def wait_until_final(
    settings: CallSettings, request: Request, timeout_seconds: float
) -> Steps[Charge]:
    """Ask for the charge until it is final, or raise WaitTimedOut.

    After a request that failed, one asks for an answer at once: a gateway may have cut the first.
    If the server does not delay its answers, poll.
    """
    ends_at = settings.seconds() + timeout_seconds
    pause_seconds = 0.0
    holds = True  # whether the server delays its answers
    has_failed = False
    poll = 0
    while True:
        poll += 1
        started_at = settings.seconds()
        held_seconds = 0
        if holds and not has_failed:
            held_seconds = int(min(max(ends_at - started_at, 0.0), HELD_SECONDS_MAX))
        found = yield from _read_charge(settings, request, held_seconds, pause_seconds)
        charge, error = (found, None) if isinstance(found, Charge) else (None, found)
        left_seconds = ends_at - settings.seconds()
        if charge is not None and charge.is_final:
            return charge
        if charge is not None and left_seconds <= 0:
            raise WaitTimedOut(charge)
        has_failed = error is not None
        if charge is not None and held_seconds:
            holds = held_seconds < 2 * (settings.seconds() - started_at)
        pause_seconds = 0.0
        if has_failed or not holds or left_seconds < 1:
            pause_seconds = _pause_seconds(settings, poll, error, left_seconds)
        if error is not None:
            log_retry(request, error, poll, pause_seconds)


def _read_charge(
    settings: CallSettings, request: Request, held_seconds: int, pause_seconds: float
) -> Steps[Charge | OuselError]:
    """Return the charge, or why a request with a delayed answer failed."""
    if held_seconds:
        prefer = {"Prefer": f"wait={held_seconds}"}
        request = replace(request, headers=prefer, held_seconds=held_seconds)
        settings = settings.without_retries()
    try:
        answer = yield from send_with_retries(settings, request, pause_seconds)
    except (ConnectionFailed, ServerError, Throttled) as error:
        if not held_seconds or is_closed(error):
            raise
        return error
    return decode_answer(decode_record, Charge, answer)


def _pause_seconds(
    settings: CallSettings, poll: int, error: OuselError | None, left_seconds: float
) -> float:
    """Return a random pause of at least half of this poll's delay.

    It is not shorter than the server asks for, unless less time is left.
    """
    pause_seconds = PAUSES.delay_seconds(poll, 0.5 + settings.random_share() / 2)
    return min(max(pause_seconds, asked_seconds(error)), max(left_seconds, 0.0))
