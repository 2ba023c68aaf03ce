"""Scripted calls: each attempt gets the next outcome of a list, and only delays move the clock."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ousel_client.credentials import Secret
from ousel_client.exchange import Answer, Attempt, Failure, Outcome, Request, Steps
from ousel_client.retrying import CallSettings, RetryPolicy

Result = TypeVar("Result")


@dataclass
class Clock:
    """A clock that shows the time that a test sets."""

    now: float = 1000.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now


@dataclass
class Script:
    """Replaces the driver and the server: returns the given outcomes, and records the attempts."""

    outcomes: list[Outcome | Callable[[], Outcome]]
    clock: Clock = field(default_factory=Clock)
    attempts: list[Attempt] = field(default_factory=list)

    def settings(self, *, random_share: float = 1.0, **policy: Any) -> CallSettings:
        """Return settings with the script's clock and a fixed value instead of random ones."""
        return CallSettings(
            credential=Secret("sk_live_scripted"),
            policy=RetryPolicy(**policy),
            random_share=lambda: random_share,
            seconds=self.clock,
        )

    def play(self, steps: Steps[Result]) -> Result:
        """Run the steps to their end, and return their result."""
        attempt = next(steps)
        while True:
            self.attempts.append(attempt)
            self.clock.now += attempt.delay_seconds
            outcome = self.outcomes.pop(0)
            try:
                attempt = steps.send(outcome() if callable(outcome) else outcome)
            except StopIteration as end:
                result: Result = end.value
                return result

    @property
    def delays(self) -> list[float]:
        """The delay before each attempt."""
        return [attempt.delay_seconds for attempt in self.attempts]

    @property
    def requests(self) -> list[Request]:
        """The requests that were sent."""
        return [attempt.request for attempt in self.attempts]


def said(status: int, body: Any = None, **headers: str) -> Answer:
    """Return an answer with this JSON as its body."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, named, json.dumps(body or {}).encode())


def charge_json(**changes: Any) -> dict[str, Any]:
    """Return a charge as the server sends it, with these fields changed."""
    return {
        "object": "charge",
        "id": "ch_1",
        "status": "created",
        "amount": 1,
        "currency": "OUSD",
        "checkout_url": "https://pay.example/pay/ch_1",
        "created_at": "2026-01-31T12:00:00Z",
        "expires_at": "2026-01-31T14:00:00Z",
        **dict.fromkeys(("description", "reference", "success_url", "cancel_url")),
        **dict.fromkeys(("paid_at", "canceled_at", "paid_by", "transfer_id")),
        **changes,
    }


def refused(status: int, code: str, **members: Any) -> Answer:
    """Return an error answer."""
    return said(status, {"status": status, "code": code, "detail": "No.", **members})


def lost(*, sent: bool = True) -> Failure:
    """Return the failure of an attempt that got no answer."""
    return Failure(ConnectionResetError("gone"), sent=sent)
