"""Efficient polling: entity tags (RFC 9110) and `Prefer: wait=N` (RFC 7240)."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec

from ousel.http.messages import Answer, Headers, RawHeader
from ousel.kernel.concurrency import ConcurrencyLimit

WAIT_SECONDS_MAX: Final = 60
PARTNER_WAITS_MAX: Final = 10_000
WAITS_PER_PARTNER_MAX: Final = 5_000

_SECONDS_DIGITS_MAX: Final = 9
# Every repetition is possessive, so a header that does not match fails in linear time.
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_WORD: Final = rb"(?:" + _TOKEN + rb'|"(?:[^"\\]|\\.)*+")'
_PARAMETER: Final = rb"[ \t]*+;[ \t]*+(?:" + _TOKEN + rb"(?:[ \t]*+=[ \t]*+" + _WORD + rb")?)?"
_PREFERENCE: Final = re.compile(
    rb"[ \t]*+(?:(" + _TOKEN + rb")(?:[ \t]*+=[ \t]*+(" + _WORD + rb"))?"
    rb"(?:" + _PARAMETER + rb")*+)?[ \t]*+(?:,|\Z)"
)
_ENTITY_TAG: Final = re.compile(rb'(?:W/)?("[!#-~\x80-\xff]*")')


def prefer_header(awaited: str) -> dict[str, Any]:
    """Return the schema of the header `Prefer` for an answer that waits for this event."""
    return {
        "type": "string",
        "description": (
            f"wait=N delays the answer until {awaited}, or for N seconds "
            f"(at most {WAIT_SECONDS_MAX})."
        ),
        "examples": ["wait=30"],
    }


@contextmanager
def granted_wait(
    headers: Headers, waits: ConcurrencyLimit, holder: str, seconds_max: int = WAIT_SECONDS_MAX
) -> Iterator[int | None]:
    """Yield how many seconds the answer may wait; it counts as waiting until the block ends.

    Yield None if the client did not ask for it, or if too many answers wait already.
    """
    asked = wait_seconds(headers.get(b"prefer"))
    if asked is None:
        yield None
        return
    with waits.hold(holder) as may_wait:
        yield min(asked, seconds_max) if may_wait else None


def preference_applied(seconds: int | None) -> tuple[RawHeader, ...]:
    """Return the header that says how long the answer was allowed to wait; none for None."""
    return () if seconds is None else ((b"preference-applied", b"wait=%d" % seconds),)


def partner_wait_limit() -> ConcurrencyLimit:
    """Return the limit on how many answers to partners wait in this process."""
    return ConcurrencyLimit(total_max=PARTNER_WAITS_MAX, holder_max=WAITS_PER_PARTNER_MAX)


def wait_seconds(prefer: bytes | None) -> int | None:
    """Return how long the client is willing to wait, capped at WAIT_SECONDS_MAX.

    A malformed header is ignored.
    """
    position = 0
    while prefer is not None and position < len(prefer):
        preference = _PREFERENCE.match(prefer, position)
        if preference is None:
            return None
        if (preference[1] or b"").lower() == b"wait":
            return _seconds(preference[2] or b"")
        position = preference.end()
    return None


class TaggedAnswer(msgspec.Struct, frozen=True, gc=False):
    """An answer with its entity tag, reused for as long as the record does not change."""

    tag: bytes
    answer: Answer
    unchanged: Answer

    def answer_to(self, headers: Headers) -> Answer:
        """Return the answer, or 304 if the client has it already."""
        client_tags = headers.get(b"if-none-match")
        if client_tags is None or not (client_tags == self.tag or self._is_among(client_tags)):
            return self.answer
        return self.unchanged

    def _is_among(self, client_tags: bytes) -> bool:
        return client_tags.strip() == b"*" or self.tag in _ENTITY_TAG.findall(client_tags)


def tag_answer(answer: Answer) -> TaggedAnswer:
    """Return the answer with an entity tag that depends on its body alone."""
    tag = b'"%b"' % hashlib.sha256(answer.body).hexdigest()[:32].encode()
    headers = (*answer.headers, (b"etag", tag))
    return TaggedAnswer(
        tag,
        answer=Answer(answer.status, answer.body, answer.content_type, headers),
        unchanged=Answer(304, b"", headers=headers),
    )


def _seconds(word: bytes) -> int | None:
    if not word.isdigit():
        return None
    return WAIT_SECONDS_MAX if len(word) > _SECONDS_DIGITS_MAX else min(int(word), WAIT_SECONDS_MAX)
