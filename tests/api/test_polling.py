"""Prefer: wait=N as RFC 7240 writes it, and entity tags as RFC 9110 compares them."""

import pytest

from ousel.api.polling import WAIT_SECONDS_MAX, tag_answer, wait_seconds
from ousel.http.messages import Answer


@pytest.mark.parametrize(
    ("prefer", "seconds"),
    [
        (b"wait=10", 10),
        (b"WAIT = 10", 10),
        (b"wait=0", 0),
        (b"wait=007", 7),
        (b"respond-async, wait=10", 10),
        (b"wait=10, respond-async", 10),
        (b'foo="a, wait=3; \\" b"; bar="x", , wait=10; extra', 10),
        (b"wait=10;a;b=c;", 10),
        (b"wait=5, wait=10", 5),
        (b"wait=61", WAIT_SECONDS_MAX),
        (b"wait=" + b"9" * 5_000, WAIT_SECONDS_MAX),
    ],
)
def test_a_preference_to_wait_is_read(prefer: bytes, seconds: int) -> None:
    """The first wait counts, wherever it stands, and never more than the server's most."""
    assert wait_seconds(prefer) == seconds


@pytest.mark.parametrize(
    "prefer",
    [
        None,
        b"",
        b"respond-async",
        b"wait",
        b"wait=",
        b"wait=-1",
        b"wait=1.5",
        b"wait=soon",
        b'wait="10"',
        b"wait=soon, wait=10",
        b"waiting=10",
        b"wait=10 seconds",
        b"=10, wait=10",
        b'foo="open, wait=10',
        b'foo="' + b"\\" * 20_000,
        b"\xff, wait=10",
        b"a\n",  # no header has it, and nothing may wait for it for ever
        b"a=1" + b"; " * 4_000 + b"@",  # must not be tried in every way that it could be read
        b"a" + b" \t;\t " * 2_000 + b"@",
    ],
)
def test_what_is_malformed_says_nothing(prefer: bytes | None) -> None:
    """A Prefer header that cannot be understood is ignored, as its RFC says."""
    assert wait_seconds(prefer) is None


def test_equal_bodies_have_equal_tags() -> None:
    """The tag follows the body: the same body, the same tag; another body, another tag."""
    tags = [
        dict(tag_answer(Answer(200, body)).answer_to({}).headers)[b"etag"]
        for body in (b"a", b"a", b"b")
    ]

    assert tags[0] == tags[1] != tags[2]


def test_a_known_tag_gives_304_and_keeps_the_headers() -> None:
    """A body that the client has is not sent again; other headers are."""
    answer = Answer(200, b"a", headers=((b"preference-applied", b"wait=1"),))
    first = tag_answer(answer).answer_to({})
    tag = dict(first.headers)[b"etag"]

    again = tag_answer(answer).answer_to({b"if-none-match": b'W/"x", W/' + tag})

    assert (again.status, again.body) == (304, b"")
    assert again.headers == first.headers
