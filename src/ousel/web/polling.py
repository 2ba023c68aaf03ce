"""Polling without hammering: entity tags (RFC 9110) and `Prefer: wait=N` (RFC 7240)."""

import hashlib
import re
from functools import lru_cache
from typing import Final

from ousel.web.routes import Answer, Headers

WAIT_SECONDS_MAX: Final = 60
TAGS_KEPT_MAX: Final = 4_096

_SECONDS_DIGITS_MAX: Final = 9
# Each repetition is possessive: a header that fits nowhere is given up at once, whatever it says.
_TOKEN: Final = rb"[!#$%&'*+.^_`|~0-9A-Za-z-]++"
_WORD: Final = rb"(?:" + _TOKEN + rb'|"(?:[^"\\]|\\.)*+")'
_PARAMETER: Final = rb"[ \t]*+;[ \t]*+(?:" + _TOKEN + rb"(?:[ \t]*+=[ \t]*+" + _WORD + rb")?)?"
_PREFERENCE: Final = re.compile(
    rb"[ \t]*+(?:(" + _TOKEN + rb")(?:[ \t]*+=[ \t]*+(" + _WORD + rb"))?"
    rb"(?:" + _PARAMETER + rb")*+)?[ \t]*+(?:,|\Z)"
)
_ENTITY_TAG: Final = re.compile(rb'(?:W/)?("[!#-~\x80-\xff]*")')


def wait_seconds(prefer: bytes | None) -> int | None:
    """Return how long the client would wait for a better answer; what is malformed says nothing.

    It is capped at what the server is willing to wait.
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


def tagged(answer: Answer, headers: Headers) -> Answer:
    """Return the answer with its entity tag, or 304 where the client has it already."""
    tag = _tag(answer.body)
    tagged_headers = (*answer.headers, (b"etag", tag))
    known = headers.get(b"if-none-match")
    if known is not None and _names(known, tag):
        return Answer(304, b"", headers=tagged_headers)
    return Answer(answer.status, answer.body, answer.content_type, tagged_headers)


def _names(known: bytes, tag: bytes) -> bool:
    return known == tag or known.strip() == b"*" or tag in _ENTITY_TAG.findall(known)


@lru_cache(maxsize=TAGS_KEPT_MAX)
def _tag(body: bytes) -> bytes:
    return b'"%b"' % hashlib.sha256(body).hexdigest()[:32].encode()


def _seconds(word: bytes) -> int | None:
    if not word.isdigit():
        return None
    return WAIT_SECONDS_MAX if len(word) > _SECONDS_DIGITS_MAX else min(int(word), WAIT_SECONDS_MAX)
