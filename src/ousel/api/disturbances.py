"""Disturbances: a sandbox makes a call fail in the way that its caller requests, to test clients.

The header `Ousel-Rehearse` names the disturbance of one call.
"""

import asyncio
import re
from typing import Any, Final, Literal

import msgspec

from ousel.api.refusals import InvalidToken, Unauthorized
from ousel.api.route import Call, Route
from ousel.http.messages import Answer, AnswerDropped
from ousel.kernel.errors import DatabaseUnavailable, RateLimited, Refusal

REHEARSE: Final = b"ousel-rehearse"
SECONDS_MAX: Final = 60
RATE_LIMITED_SECONDS: Final = 1

DisturbanceKind = Literal[
    "drop-after-commit",
    "drop-before-commit",
    "unavailable",
    "rate-limited",
    "slow",
    "key-revoked",
]

_VALUE: Final = re.compile(
    rb"(?P<name>[a-z-]+)"
    rb"(?:[ \t]*;[ \t]*(?P<parameter>[a-z-]+)[ \t]*=[ \t]*(?P<seconds>[0-9]{1,3}))?"
)
_KINDS: Final[dict[tuple[bytes, bytes | None], DisturbanceKind]] = {
    (b"drop-after-commit", None): "drop-after-commit",
    (b"drop-before-commit", None): "drop-before-commit",
    (b"unavailable", None): "unavailable",
    (b"unavailable", b"retry-after"): "unavailable",
    (b"rate-limited", None): "rate-limited",
    (b"slow", b"seconds"): "slow",
    (b"key-revoked", None): "key-revoked",
}


class SandboxOnly(Refusal):
    """The request has the header Ousel-Rehearse, but only a sandbox rehearses failures."""

    status = 400
    code = "sandbox_only"
    title = "This works in a sandbox only"
    cure = "Remove the header `Ousel-Rehearse`, or call a sandbox."


class UnknownRehearsal(Refusal):
    """The header Ousel-Rehearse does not name a known disturbance, or its seconds are wrong."""

    status = 400
    code = "unknown_rehearsal"
    title = "The value of Ousel-Rehearse is unknown"
    cure = "Send one of the values that the reference lists under “In a sandbox”."


class Disturbance(msgspec.Struct, frozen=True):
    """What goes wrong with one call."""

    kind: DisturbanceKind
    seconds: int | None = None  # how slow it is, or how long the caller should wait


def parse_disturbance(value: bytes) -> Disturbance:
    """Return the disturbance that the header names."""
    match = _VALUE.fullmatch(value)
    kind = None if match is None else _KINDS.get((match["name"], match["parameter"]))
    if match is None or kind is None:
        raise UnknownRehearsal("Ousel-Rehearse has an unknown value.", param="Ousel-Rehearse")
    seconds = None if match["seconds"] is None else int(match["seconds"])
    if seconds is not None and not 1 <= seconds <= SECONDS_MAX:
        raise UnknownRehearsal(
            f"The seconds in Ousel-Rehearse must be from 1 to {SECONDS_MAX}.",
            param="Ousel-Rehearse",
        )
    return Disturbance(kind, seconds)


def disturbed_route(route: Route, disturbance: Disturbance) -> Route:
    """Return the route with an endpoint that is disturbed; the caller is still authenticated."""

    async def endpoint(call: Call[Any, Any]) -> Answer:
        return await _answer_disturbed(route, disturbance, call)

    return msgspec.structs.replace(route, endpoint=endpoint)


async def _answer_disturbed(route: Route, disturbance: Disturbance, call: Call[Any, Any]) -> Answer:
    match disturbance.kind:
        case "drop-after-commit":
            try:
                await route.endpoint(call)
            except Refusal as refusal:
                raise AnswerDropped from refusal
            raise AnswerDropped
        case "drop-before-commit":
            raise AnswerDropped
        case "unavailable":
            raise DatabaseUnavailable(
                "This is a rehearsal: nothing was written.", retry_after_seconds=disturbance.seconds
            )
        case "rate-limited":
            raise RateLimited(
                "This is a rehearsal: nothing was written.",
                retry_after_seconds=RATE_LIMITED_SECONDS,
            )
        case "key-revoked":
            raise InvalidToken if route.access == "user" else Unauthorized
        case "slow":
            assert disturbance.seconds is not None
            return await _answer_late(route, disturbance.seconds, call)


async def _answer_late(route: Route, seconds: int, call: Call[Any, Any]) -> Answer:
    try:
        answer = await route.endpoint(call)
    except Refusal:
        await asyncio.sleep(seconds)
        raise
    await asyncio.sleep(seconds)
    return answer
