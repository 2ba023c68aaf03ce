"""Waiting for a charge: the server holds its answer where it can; else it is polled."""

from dataclasses import replace
from typing import Final

from ousel_client.decoding import record_of
from ousel_client.errors import ConnectionFailed, ServerError, Throttled, WaitTimedOut
from ousel_client.exchange import Request, Steps
from ousel_client.operations import decoded
from ousel_client.records import Charge
from ousel_client.retrying import Conduct, RetryPolicy, answered

HELD_SECONDS_MAX: Final = 25  # less than gateways cut a silent connection after
PAUSES: Final = RetryPolicy(first_delay_seconds=0.5, delay_seconds_max=5.0)


def waited(conduct: Conduct, request: Request, timeout_seconds: float) -> Steps[Charge]:
    """Ask for the charge until it is final, or raise WaitTimedOut."""
    ends = conduct.seconds() + timeout_seconds
    pause_seconds = 0.0
    is_held = True
    poll = 0
    while True:
        poll += 1
        begun = conduct.seconds()
        held_seconds = min(int(max(ends - begun, 0.0)), HELD_SECONDS_MAX) if is_held else 0
        charge = yield from _seen(conduct, request, held_seconds, pause_seconds)
        left_seconds = ends - conduct.seconds()
        if charge is not None and charge.is_final:
            return charge
        if charge is not None and left_seconds <= 0:
            raise WaitTimedOut(charge)
        # A server that answers at once, as one does that knows no waiting, is not asked to again.
        is_held = charge is not None and 0 < held_seconds < 2 * (conduct.seconds() - begun)
        pause_seconds = 0.0 if is_held else _pause_seconds(conduct, poll, left_seconds)


def _seen(
    conduct: Conduct, request: Request, held_seconds: int, pause_seconds: float
) -> Steps[Charge | None]:
    """Return the charge; or None where a request to hold the answer failed."""
    if held_seconds:
        prefer = {"Prefer": f"wait={held_seconds}"}
        request = replace(request, headers=prefer, held_seconds=held_seconds)
        conduct = conduct.once()
    try:
        answer = yield from answered(conduct, request, pause_seconds)
    except (ConnectionFailed, ServerError, Throttled):
        if held_seconds:
            return None
        raise
    return decoded(record_of, Charge, answer)


def _pause_seconds(conduct: Conduct, poll: int, left_seconds: float) -> float:
    """Return a pause of at least half its usual length, and not beyond the end."""
    pause_seconds = PAUSES.delay_seconds(poll, 0.5 + conduct.chance() / 2)
    return min(pause_seconds, max(left_seconds, 0.0))
