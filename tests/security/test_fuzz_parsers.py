"""Whatever is sent, a parser returns what it stands for or refuses it by name, and quickly."""

import contextlib
from decimal import Decimal
from urllib.parse import urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ousel.accounts.rules import checked_display_name, checked_email, checked_username, normalized
from ousel.charges.api import ChargeRequest, ChargesQuery
from ousel.charges.records import position_after
from ousel.kernel.clock import micros_from_timestamp, timestamp
from ousel.kernel.errors import InvalidAmount, InvalidField, Refusal
from ousel.kernel.ids import handle_of, is_secret
from ousel.kernel.money import AMOUNT_MICROS_MAX, json_from_micros, micros_from_json
from ousel.kernel.settings import SettingError, settings_from
from ousel.ledger.refusals import AccountNotFound
from ousel.oauth.addresses import asked, identifier, way_back
from ousel.oauth.clients import credentials
from ousel.oauth.records import RevocationRequest, TokenRequest
from ousel.oauth.refusals import ConnectAddressWrong, InvalidClient, InvalidRequest, InvalidScope
from ousel.oauth.rules import SCOPES, checked_challenge, checked_scope, verifier_fits
from ousel.partners.rules import checked_name, checked_origin, checked_redirect_uri
from ousel.sandbox.api import ClockRequest, FundRequest, PayRequest
from ousel.transfers.api import TransferRequest, TransfersQuery
from ousel.web.bodies import decode_body, decode_form, decode_query
from ousel.web.fields import checked_text, idempotency_key
from ousel.web.paging import CURSOR_POSITION_MAX, cursor_at, position_of
from ousel.web.polling import WAIT_SECONDS_MAX, tagged, wait_seconds
from ousel.web.routes import Answer
from ousel.web.site import Cookies, local_path
from ousel.web.traces import trace_parent
from tests.security.cases import (
    PARSER_CASES,
    cases,
    made_of,
    quickly,
    refused_at_most,
    texts_of,
)

JSON = {b"content-type": b"application/json"}
BODIES: tuple[type[msgspec.Struct], ...] = (
    *(TransferRequest, ChargeRequest, TokenRequest, RevocationRequest),
    *(ClockRequest, PayRequest, FundRequest),
)
QUERIES: tuple[type[msgspec.Struct], ...] = (TransfersQuery, ChargesQuery)

AMOUNTS = made_of(
    *(b"0", b"1", b"9", b"00", b".", b"e", b"E", b"+", b"-", b"999999999", b"000001", b"NaN"),
    *(b" ", b'"', b"Infinity", b"_", b"e-6", b"e999999999", b"\xd9\xa1"),
    length=12,
)
JSON_TEXTS = made_of(
    *(b"{", b"}", b"[", b"]", b":", b",", b'"', b"\\", b"\\u0000", b"\\ud800", b"null", b"true"),
    *(b'"amount":', b"1.50", b"1e400", b"-0", b'"to":', b'"@ada"', b'"note":', b'"currency":'),
    *(b'"OUSD"', b'"idempotency_key":', b'"success_url":', b'"https://a.example"', b"NaN", b" "),
    *(b'"grant_type":', b'"client_id":', b'"advance":', b"9" * 30, b"[" * 500, b"\xff", b"\x00"),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
FIELDS = st.sampled_from(
    (
        *("to", "amount", "note", "idempotency_key", "currency", "description", "reference"),
        *("success_url", "cancel_url", "grant_type", "code", "client_id", "advance", "payer"),
    )
)
OBJECTS = st.dictionaries(FIELDS, VALUES, max_size=5).map(msgspec.json.encode)
PAIRS = made_of(
    *(b"&", b"=", b";", b"+", b"%", b"%00", b"%ff", b"%C3%A9", b"limit", b"100", b"cursor"),
    *(b"created_after", b"2026-01-31T12:00:00Z", b"kind", b"transfer", b"status", b"paid"),
    *(b"direction", b"in", b"reference", b"idempotency_key", b"-1", b"9" * 20, b"grant_type"),
)
ADDRESSES = texts_of(
    *("https://", "http://", "//", "/", "\\", ":", "@", "#", "?", "[", "]", "::1", "127.0.0.1"),
    *("localhost", "a.example", "443", "0", "99999", "%2f", "%00", " ", "\t", "\n", "é", "\u3002"),
    *("javascript:", "data:", "user:pass", ".", "..", ";", "&", "="),
    length=10,
)


@cases(PARSER_CASES)
@given(AMOUNTS)
def test_amounts(literal: bytes) -> None:
    """An amount is exactly the decimal number that is written, or it is refused."""
    try:
        with quickly():
            micros = micros_from_json(literal)
    except InvalidAmount:
        return
    assert 1 <= micros <= AMOUNT_MICROS_MAX
    assert Decimal(literal.decode()) * 10**6 == micros
    assert micros_from_json(json_from_micros(micros).encode()) == micros


@cases(PARSER_CASES)
@given(
    texts_of("@", "ada", "_", "ADA", ".", "example", "OU", "83", "0000000000", " ", "\u0131", "\0")
)
def test_identifiers(text: str) -> None:
    """What an identifier is stored as, it stays; a name that is taken in is found again."""
    with contextlib.suppress(AccountNotFound), quickly():
        stored = normalized(text, param="to")
        assert normalized(stored, param="to") == stored
    with contextlib.suppress(InvalidField), quickly():
        assert normalized(f"@{checked_username(text)}", param="to")
    with contextlib.suppress(InvalidField), quickly():
        assert normalized(checked_email(text), param="to")
    for check in (checked_display_name, checked_name):
        with contextlib.suppress(InvalidField):
            assert check(text).isprintable()


@cases(PARSER_CASES)
@given(
    st.integers(min_value=-5, max_value=2**70).map(cursor_at)
    | st.text(max_size=30).map(cursor_at)
    | texts_of("YWZ0ZXI6", "MQ", "=", "-", "_", "MTox", "Y2hf")
)
def test_cursors(cursor: str) -> None:
    """A cursor is one that a page gave, byte for byte, or it is refused."""
    with contextlib.suppress(InvalidField), quickly():
        position = position_of(cursor)
        assert position is not None
        assert 1 <= position <= CURSOR_POSITION_MAX
        assert cursor_at(position) == cursor
    with contextlib.suppress(InvalidField), quickly():
        assert position_after(cursor) is not None


@cases(PARSER_CASES)
@given(made_of(b"wait", b"=", b";", b",", b" ", b"\t", b'"', b"\\", b"10", b"a", b"@", b"; "))
def test_prefer(header: bytes) -> None:
    """A preference is a number of seconds that the server is willing to wait, or nothing."""
    with quickly():
        seconds = wait_seconds(header)
    assert seconds is None or 0 <= seconds <= WAIT_SECONDS_MAX


@cases(PARSER_CASES)
@given(made_of(b"W/", b'"', b",", b" ", b"*", b"abc", b"\xff"))
def test_entity_tags(header: bytes) -> None:
    """A header that does not name the answer's own tag gets the answer."""
    with quickly():
        answer = tagged(Answer(200, b"body"), {b"if-none-match": header})
    assert (answer.status == 304) == (header.strip() == b"*")


@cases(PARSER_CASES)
@given(
    made_of(b"Basic ", b"basic\t", b"Bearer ", b"YTpi", b"OmI=", b"%3A", b"=", b"\xff", b" "),
    st.none() | st.sampled_from(["", "app_1", "a"]),
    st.none() | st.sampled_from(["", "sk_live_1"]),
)
def test_client_credentials(header: bytes, client_id: str | None, secret: str | None) -> None:
    """HTTP Basic gives two texts, or the client is refused as RFC 6749 says."""
    with contextlib.suppress(InvalidClient, InvalidRequest), quickly():
        found = credentials(header, client_id, secret)
        assert all(isinstance(each, str) for each in found)
        assert secret in {None, ""}


@cases(PARSER_CASES)
@given(texts_of("sk_live_", "sk_test_", "ut_live_", "0", "abcdefghij0123456789", "V", "é", "_"))
def test_secrets(text: str) -> None:
    """What is written like a key has a handle that is a part of it, and nothing but digits."""
    for prefix in ("sk_live_", "ut_live_", "ac_"):
        with quickly():
            fits = is_secret(text, prefix)
        if fits:
            assert text.startswith(handle_of(text))
            assert text.isascii()
            assert len(text) == len(prefix) + 40


@cases(PARSER_CASES)
@given(ADDRESSES)
def test_redirect_uris_and_origins(text: str) -> None:
    """An address that passes leads to one host by https, or to this machine, and nowhere else."""
    with contextlib.suppress(InvalidField), quickly():
        uri = checked_redirect_uri(text)
        assert uri == text
        _check_address(uri)
        assert "#" not in uri
    with contextlib.suppress(InvalidField), quickly():
        origin = checked_origin(text)
        _check_address(origin)
        assert origin == checked_origin(origin)
        assert "/" not in origin.partition("://")[2]


def _check_address(text: str) -> None:
    parts = urlsplit(text)
    assert parts.scheme == "https" or parts.hostname in {"localhost", "127.0.0.1", "::1"}
    assert parts.hostname
    assert "@" not in parts.netloc
    assert text.isascii()
    assert text.isprintable()
    assert not set(text) & set("\\ \"'<>;,") & set(parts.netloc)


@cases(PARSER_CASES)
@given(
    made_of(
        *(b"00", b"ff", b"01", b"-", b"4bf92f3577b34da6a3ce929d0e0e4736", b"00f067aa0ba902b7"),
        *(b"0" * 32, b"0" * 16, b"A", b"\n", b" "),
        length=8,
    )
)
def test_traceparents(header: bytes) -> None:
    """A trace has the two names that the standard allows, or there is none."""
    with quickly():
        parent = trace_parent(header)
    if parent is not None:
        assert (len(parent.trace_id), len(parent.span_id)) == (32, 16)
        assert int(parent.trace_id, 16)
        assert int(parent.span_id, 16)


@cases(PARSER_CASES)
@given(JSON_TEXTS | OBJECTS, st.sampled_from(BODIES))
def test_json_bodies(body: bytes, kind: type[msgspec.Struct]) -> None:
    """A body is the typed request, or is refused with a 4xx."""
    with refused_at_most():
        assert isinstance(decode_body(body, JSON, kind), kind)


@cases(PARSER_CASES)
@given(
    made_of(b"application/json", b";", b"charset=", b"utf-8", b'"', b" ", b"multipart/form-data")
)
def test_content_types(header: bytes) -> None:
    """Nothing but JSON is read as JSON."""
    with contextlib.suppress(Refusal), quickly():
        decode_body(b'{"advance":1}', {b"content-type": header}, ClockRequest)
        assert header.lower().startswith(b"application/json")


@cases(PARSER_CASES)
@given(PAIRS, st.sampled_from(BODIES), st.sampled_from(QUERIES))
def test_forms_and_queries(
    encoded: bytes, form: type[msgspec.Struct], query: type[msgspec.Struct]
) -> None:
    """Pairs are the typed request or query, or are refused with a 4xx."""
    for decode, kind in ((decode_form, form), (decode_query, query)):
        with refused_at_most():
            assert isinstance(decode(encoded, kind), kind)


@cases(PARSER_CASES)
@given(
    made_of(
        *(b"client_id", b"redirect_uri", b"state", b"scope", b"=", b"&", b"%", b"%26", b"+"),
        *(b"https%3A%2F%2Fa.example", b"\xff", b"%0d%0a", b"#", b"profile"),
    ),
    st.sampled_from(["https://a.example/back", "https://a.example/back?lane=3"]),
)
def test_connect_addresses(query: bytes, redirect_uri: str) -> None:
    """A state goes back byte for byte, and no byte of it leaves its parameter."""
    with contextlib.suppress(ConnectAddressWrong, InvalidRequest), quickly():
        parameters = asked(query)
        state = parameters.only_bytes("state")
        back = way_back(redirect_uri, {"code": "ac_1", "state": state})
        assert back.isascii()
        assert back.isprintable()
        assert " " not in back
        assert urlsplit(back).netloc == "a.example"
        assert asked(urlsplit(back).query.encode()).only_bytes("state") == state
        assert identifier(parameters, "client_id").isprintable()


@cases(PARSER_CASES)
@given(
    st.none() | texts_of("profile", "balance", " ", "  ", "PROFILE", "+", length=6),
    st.none() | texts_of("A" * 43, "a", "_", "-", "=", length=4),
    st.none() | st.sampled_from(["S256", "plain", "", "s256"]),
)
def test_scopes_and_proof_keys(
    scope: str | None, challenge: str | None, method: str | None
) -> None:
    """A scope is of those that exist, each once; a challenge is a SHA-256, or is refused."""
    with contextlib.suppress(InvalidScope), quickly():
        granted = checked_scope(scope).split(" ")
        assert set(granted) <= set(SCOPES)
        assert len(set(granted)) == len(granted)
    with contextlib.suppress(InvalidRequest), quickly():
        checked = checked_challenge(challenge, method)
        assert checked is None or (method == "S256" and len(checked) == 43)
        assert not verifier_fits(checked, None) or checked is None


@cases(PARSER_CASES)
@given(
    texts_of(
        *("2026", "-", "01", "31", "T", "t", " ", "12", ":", "00", ".", "123456789", "Z", "+"),
        *("9999", "0001", "24", "60", "99", "\u0663"),
        length=14,
    )
    | st.datetimes().map(lambda moment: f"{moment.isoformat()}Z")
)
def test_times(text: str) -> None:
    """A time is a moment that can be written again, or is refused."""
    with contextlib.suppress(InvalidField), quickly():
        micros = micros_from_timestamp(text, param="created_after")
        if micros >= 0:
            assert micros_from_timestamp(timestamp(micros), param="created_after") == micros


@cases(PARSER_CASES)
@given(st.none() | st.binary(max_size=300), st.none() | st.text(max_size=300))
def test_idempotency_keys_and_notes(header: bytes | None, field: str | None) -> None:
    """A key is 1 to 255 visible characters; a text has no control characters; or it is refused."""
    with contextlib.suppress(InvalidField), quickly():
        key = idempotency_key(header, field)
        assert key is None or all("!" <= character <= "~" for character in key)
    with contextlib.suppress(InvalidField), quickly():
        text = checked_text(field, param="note")
        assert text is None or "\0" not in text


@cases(PARSER_CASES)
@given(made_of(b"ousel_session", b"__Host-", b"=", b";", b" ", b'"', b"os_", b"\xff"), ADDRESSES)
def test_cookies_and_pages_to_come_back_to(header: bytes, target: str) -> None:
    """A cookie has one value without separators; a page to come back to is one of this site."""
    for secure in (False, True):
        with quickly():
            value = Cookies(secure=secure).session({b"cookie": header})
        assert value is None or (value and ";" not in value)
    path = local_path(target, "/")
    assert path.startswith("/")
    assert not path.startswith(("//", "/\\"))
    assert urlsplit(f"https://ousel.example{path}").netloc == "ousel.example"
    assert path.isprintable()


@cases(PARSER_CASES)
@given(
    st.sampled_from(["BASE_URL", "PORTAL_URL", "RATE_LIMIT", "QUEUE_LIMIT", "SANDBOX"]),
    ADDRESSES | texts_of("1", "0", "/", "second", "hour", "off", "true", "\u00b2"),
)
def test_settings(name: str, text: str) -> None:
    """A setting can be used, or is refused as one."""
    with contextlib.suppress(SettingError), quickly():
        assert settings_from({f"OUSEL_{name}": text}).queue_limit > 0


def test_a_case_that_takes_long_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The watch on every case above would notice one that keeps the processor busy."""
    monkeypatch.setattr("tests.security.cases.CASE_SECONDS_MAX", 0.01)
    with pytest.raises(AssertionError, match="a case took"), quickly():
        sum(range(3_000_000))
