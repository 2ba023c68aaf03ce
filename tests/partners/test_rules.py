"""What an app may be named, where it may send people back to, which origins may call."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ousel.kernel.errors import InvalidField
from ousel.partners.rules import (
    OVERLAP_SECONDS_MAX,
    parse_name,
    parse_origin,
    parse_overlap_seconds,
    parse_redirect_uri,
)


@pytest.mark.parametrize("text", ["Shop", "  Harbour Exchange ", "x" * 80, "[/b] é 💶"])
def test_a_name_is_1_to_80_printable_characters(text: str) -> None:
    """It is kept as it is, without surrounding space."""
    assert parse_name(text) == text.strip()


@pytest.mark.parametrize(
    ("text", "name"), [("می\u200cروم", "می\u200cروم"), ("Ada\xa0Shop\u3000", "Ada Shop")]
)
def test_a_name_may_be_of_any_script(text: str, name: str) -> None:
    """Its spaces become plain ones, and what joins or separates letters stays."""
    assert parse_name(text) == name


@pytest.mark.parametrize(
    "text", ["", "   ", "x" * 81, "a\nb", "a\x00b", "\u200cA", "\u202eb", "\ud800"]
)
def test_an_invalid_name_is_refused(text: str) -> None:
    """Empty, too long, or with a character that cannot be printed."""
    with pytest.raises(InvalidField) as refused:
        parse_name(text)
    assert refused.value.param == "name"


@pytest.mark.parametrize(
    "text",
    [
        "https://shop.example/back",
        "https://shop.example",
        "https://shop.example:8443/a?b=c&d=%20",
        "http://localhost:3000/back",
        "http://127.0.0.1/back",
        "http://127.1.2.3:8000/back",
        "http://[::1]:9000/back",
        "https://SHOP.example/Back",
        "https://shop.example/" + "x" * 1979,
    ],
)
def test_a_redirect_uri_is_stored_unchanged(text: str) -> None:
    """It is matched exactly, so not one character of it changes."""
    assert parse_redirect_uri(text) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", "shop.example", "/back", "//shop.example/back", "http://shop.example/back"),
        *(
            "ftp://shop.example",
            "javascript:alert(1)",
            "data:text/html,x",
            "https://",
            "https:///x",
        ),
        *("https://shop.example/#x", "https://shop.example/#", "https://user@shop.example/"),
        *("https://user:pw@shop.example/", "https://shop.example:0/", "https://shop.example:x/"),
        *("https://shop.example:99999/", "https://shop.example/ x", "https://shop.example/\n"),
        *("https://shop.example\\@evil.example/", "https://shöp.example/", "https://[::1/"),
        *(
            "http://localhost.evil.example/",
            "http://127.0.0.1.evil.example/",
            "http://127.0.0/",
            "http://127.0.0.256/",
            "http://127.0.0.01/",
            " https://a.example",
        ),
        *("https://shop.example/" + "x" * 1980, "\thttps://shop.example", "https://sh op.example/"),
        *("https://shop.example/?code=1", "https://shop.example/?a=b&state", "http://[::1]/?iss="),
    ],
)
def test_an_invalid_redirect_uri_is_refused(text: str) -> None:
    """Not absolute, not https (or http on loopback), with a fragment, a user name or a trick.

    Nor may it have a parameter that Ousel adds.
    """
    with pytest.raises(InvalidField) as refused:
        parse_redirect_uri(text)
    assert refused.value.param == "redirect_uri"


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://shop.example", "https://shop.example"),
        ("https://shop.example/", "https://shop.example"),
        ("https://SHOP.example", "https://shop.example"),
        ("https://shop.example:443", "https://shop.example"),
        ("https://shop.example:8443", "https://shop.example:8443"),
        ("http://localhost:80", "http://localhost"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("http://[::1]:3000", "http://[::1]:3000"),
        ("http://[0:0:0:0:0:0:0:1]:3000", "http://[::1]:3000"),
    ],
)
def test_an_origin_is_stored_as_browsers_send_it(text: str, origin: str) -> None:
    """In lower case, without the standard port and without a slash."""
    assert parse_origin(text) == origin


@pytest.mark.parametrize(
    "text",
    [
        *("", "*", "null", "shop.example", "https://shop.example/path", "https://shop.example?x=1"),
        *("https://shop.example#x", "https://*.shop.example:x", "http://shop.example", "https://"),
        *("https://user@shop.example", "file:///etc/passwd", "https://shop.example\\"),
    ],
)
def test_an_invalid_origin_is_refused(text: str) -> None:
    """A star, a path, a query, plain http: none of these is an origin that may call."""
    with pytest.raises(InvalidField) as refused:
        parse_origin(text)
    assert refused.value.param == "origin"


@given(text=st.text() | st.from_regex(r"https?://[^/]{0,20}(/.{0,10})?", fullmatch=True))
def test_any_text_is_an_origin_or_refused(text: str) -> None:
    """Parsing never fails otherwise, and parsing an accepted origin again returns it unchanged."""
    try:
        origin = parse_origin(text)
    except InvalidField:
        return
    assert parse_origin(origin) == origin


@pytest.mark.parametrize("seconds", [0, 1, OVERLAP_SECONDS_MAX])
def test_an_overlap_is_0_seconds_to_30_days(seconds: int) -> None:
    """Both ends are allowed."""
    assert parse_overlap_seconds(seconds) == seconds


@pytest.mark.parametrize("seconds", [-1, OVERLAP_SECONDS_MAX + 1])
def test_an_overlap_out_of_range_is_refused(seconds: int) -> None:
    """A negative one, or one that keeps an old key for more than a month."""
    with pytest.raises(InvalidField, match="overlap"):
        parse_overlap_seconds(seconds)
