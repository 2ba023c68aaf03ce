"""Every parser returns a valid value or refuses the input, and does so quickly."""

import contextlib
import re
from decimal import Decimal
from ipaddress import ip_address
from urllib.parse import urlsplit

import msgspec
import pytest

from ousel.accounts.rules import (
    normalize_identifier,
    parse_display_name,
    parse_email,
    parse_username,
)
from ousel.api.decoding import decode_body, decode_form, decode_query
from ousel.api.idempotency import parse_idempotency_key
from ousel.api.paging import cursor_at, sequence_from_cursor
from ousel.api.polling import WAIT_SECONDS_MAX, tag_answer, wait_seconds
from ousel.api.traces import parse_trace_parent
from ousel.charges.endpoints import ChargeRequest, ChargesQuery
from ousel.charges.records import position_after
from ousel.database.statements import BIGINT_MAX
from ousel.http.messages import Answer
from ousel.kernel.clock import micros_from_timestamp, timestamp
from ousel.kernel.errors import InvalidAmount, InvalidField, Refusal
from ousel.kernel.ids import handle_of, is_secret
from ousel.kernel.money import AMOUNT_MICROS_MAX, json_from_micros, micros_from_json
from ousel.kernel.settings import SettingError, settings_from
from ousel.kernel.texts import parse_text
from ousel.ledger.refusals import AccountNotFound
from ousel.oauth.client_authentication import parse_credentials
from ousel.oauth.connect_urls import callback_url, parse_connect_query, required_parameter
from ousel.oauth.records import RevocationRequest, TokenRequest
from ousel.oauth.refusals import ConnectAddressWrong, InvalidClient, InvalidRequest, InvalidScope
from ousel.oauth.rules import SCOPES, parse_challenge, parse_scope, verifier_matches
from ousel.partners.rules import parse_name, parse_origin, parse_redirect_uri
from ousel.sandbox.endpoints import ClockRequest, FundRequest, PayRequest
from ousel.site.cookies import Cookies
from ousel.site.redirects import local_path
from ousel.transfers.endpoints import TransferRequest, TransfersQuery
from tests.security.cases import (
    fuzzed,
    made_of,
    near,
    near_bytes,
    objects,
    one_of,
    quickly,
    refused_at_most,
    texts_of,
    whole_numbers,
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
OBJECTS = objects(
    *("to", "amount", "note", "idempotency_key", "currency", "description", "reference"),
    *("success_url", "cancel_url", "grant_type", "code", "client_id", "advance", "payer"),
)
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
) | near(
    "https://shop.example/return?lane=3",
    "http://127.0.0.1:9000/back",
    "http://[::1]:9000/",
    "https://shop.example:443",
)
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
GOOD_BODIES = (
    '{"to":"@ada","amount":1.50,"note":"n","idempotency_key":"k"}',
    '{"amount":25,"currency":"OUSD","description":"d","success_url":"https://a.example"}',
    '{"grant_type":"authorization_code","code":"ac_1","redirect_uri":"u","client_id":"a"}',
    '{"advance":60}',
)
GOOD_PAIRS = (
    "limit=5&direction=in&kind=transfer&created_after=2026-01-31T12%3A00%3A00Z",
    "limit=5&status=paid&reference=a+b",
    "grant_type=authorization_code&code=ac_1&client_id=app_1",
)


@fuzzed(literal=AMOUNTS | near_bytes("25.00", "0.000001", "999999999.999999", "1e-6", "25e2"))
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


@fuzzed(
    text=near("@ada", "OU830000000000", "ada@example.com")
    | texts_of(
        "@", "ada", "_", "ADA", ".", "example", "OU", "83", "0000000000", " ", "\u0131", "\0"
    )
)
def test_identifiers(text: str) -> None:
    """Normalizing an identifier twice changes nothing, and an accepted name is found again."""
    with contextlib.suppress(AccountNotFound), quickly():
        stored = normalize_identifier(text, param="to")
        assert normalize_identifier(stored, param="to") == stored
    with contextlib.suppress(InvalidField), quickly():
        assert normalize_identifier(f"@{parse_username(text)}", param="to")
    with contextlib.suppress(InvalidField), quickly():
        assert normalize_identifier(parse_email(text), param="to")
    with contextlib.suppress(InvalidField):
        assert re.sub("[\u200c\u200d]", "", parse_name(text)).isprintable()
    with contextlib.suppress(InvalidField):
        assert re.sub("[\u200c\u200d]", "", parse_display_name(text)).isprintable()


@fuzzed(
    cursor=whole_numbers(-5, 2**70).map(cursor_at)
    | near("1767225600000000:ch_" + "0" * 26).map(cursor_at)
    | near(cursor_at(12), cursor_at("1767225600000000:ch_" + "0" * 26))
    | texts_of("YWZ0ZXI6", "MQ", "=", "-", "_", "MTox", "Y2hf")
)
def test_cursors(cursor: str) -> None:
    """A cursor is one that a page gave, byte for byte, or it is refused."""
    with contextlib.suppress(InvalidField), quickly():
        position = sequence_from_cursor(cursor)
        assert position is not None
        assert 1 <= position <= BIGINT_MAX
        assert cursor_at(position) == cursor
    with contextlib.suppress(InvalidField), quickly():
        assert position_after(cursor) is not None


@fuzzed(
    header=near_bytes('respond-async, wait=10; a="b, c"; d, e')
    | made_of(b"wait", b"=", b";", b",", b" ", b"\t", b'"', b"\\", b"10", b"a", b"@", b"; ")
)
def test_prefer(header: bytes) -> None:
    """A preference is a number of seconds that the server is willing to wait, or nothing."""
    with quickly():
        seconds = wait_seconds(header)
    assert seconds is None or 0 <= seconds <= WAIT_SECONDS_MAX


@fuzzed(header=made_of(b"W/", b'"', b",", b" ", b"*", b"abc", b"\xff"))
def test_entity_tags(header: bytes) -> None:
    """A header that does not name the answer's own tag gets the answer."""
    with quickly():
        answer = tag_answer(Answer(200, b"body")).answer_to({b"if-none-match": header})
    assert (answer.status == 304) == (header.strip() == b"*")


@fuzzed(
    header=made_of(
        b"Basic ", b"basic\t", b"Bearer ", b"YTpi", b"OmI=", b"%3A", b"=", b"\xff", b" "
    ),
    client_id=one_of(None, "", "app_1", "a"),
    secret=one_of(None, "", "sk_live_1"),
)
def test_client_credentials(header: bytes, client_id: str | None, secret: str | None) -> None:
    """HTTP Basic gives two texts, or the client is refused as RFC 6749 says."""
    with contextlib.suppress(InvalidClient, InvalidRequest), quickly():
        found = parse_credentials(header, client_id, secret)
        assert all(isinstance(each, str) for each in found)
        assert secret in {None, ""}


@fuzzed(
    text=near("sk_live_" + "0123456789" * 4, "ut_live_" + "v" * 40)
    | texts_of("sk_live_", "sk_test_", "ut_live_", "0", "abcdefghij0123456789", "V", "é", "_")
)
def test_secrets(text: str) -> None:
    """Text with the form of a key has a handle that is a part of it."""
    for prefix in ("sk_live_", "ut_live_", "ac_"):
        with quickly():
            fits = is_secret(text, prefix)
        if fits:
            assert text.startswith(handle_of(text))
            assert text.isascii()
            assert len(text) == len(prefix) + 40


@fuzzed(text=ADDRESSES)
def test_redirect_uris_and_origins(text: str) -> None:
    """An address that passes leads to one host by https, or to this machine, and nowhere else."""
    with contextlib.suppress(InvalidField), quickly():
        uri = parse_redirect_uri(text)
        assert uri == text
        _check_address(uri)
        assert "#" not in uri
    with contextlib.suppress(InvalidField), quickly():
        origin = parse_origin(text)
        _check_address(origin)
        assert origin == parse_origin(origin)
        assert "/" not in origin.partition("://")[2]


def _check_address(text: str) -> None:
    parts = urlsplit(text)
    assert parts.hostname
    assert parts.scheme == "https" or (
        parts.hostname == "localhost" or ip_address(parts.hostname).is_loopback
    )
    assert "@" not in parts.netloc
    assert text.isascii()
    assert text.isprintable()
    assert not set(text) & set("\\ \"'<>;,") & set(parts.netloc)


@fuzzed(
    header=near_bytes(TRACE, f"cc{TRACE[2:]}-later")
    | made_of(
        *(b"00", b"ff", b"01", b"-", b"4bf92f3577b34da6a3ce929d0e0e4736", b"00f067aa0ba902b7"),
        *(b"0" * 32, b"0" * 16, b"A", b"\n", b" "),
        length=8,
    )
)
def test_traceparents(header: bytes) -> None:
    """A trace has the two names that the standard allows, or there is none."""
    with quickly():
        parent = parse_trace_parent(header)
    if parent is not None:
        assert (len(parent.trace_id), len(parent.span_id)) == (32, 16)
        assert int(parent.trace_id, 16)
        assert int(parent.span_id, 16)


@fuzzed(body=JSON_TEXTS | OBJECTS | near_bytes(*GOOD_BODIES), kind=one_of(*BODIES))
def test_json_bodies(body: bytes, kind: type[msgspec.Struct]) -> None:
    """A body is the typed request, or is refused with a 4xx."""
    with refused_at_most():
        assert isinstance(decode_body(body, JSON, kind), kind)


@fuzzed(
    header=near_bytes("application/json", 'application/json; charset="utf-8"')
    | made_of(b"application/json", b";", b"charset=", b"utf-8", b'"', b" ", b"multipart/form-data")
)
def test_content_types(header: bytes) -> None:
    """Nothing but JSON is read as JSON."""
    with contextlib.suppress(Refusal), quickly():
        decode_body(b'{"advance":1}', {b"content-type": header}, ClockRequest)
        assert header.strip().lower().startswith(b"application/json")


@fuzzed(encoded=PAIRS | near_bytes(*GOOD_PAIRS), form=one_of(*BODIES), query=one_of(*QUERIES))
def test_forms_and_queries(
    encoded: bytes, form: type[msgspec.Struct], query: type[msgspec.Struct]
) -> None:
    """Pairs are the typed request or query, or are refused with a 4xx."""
    for decode, kind in ((decode_form, form), (decode_query, query)):
        with refused_at_most():
            assert isinstance(decode(encoded, kind), kind)


@fuzzed(
    query=near_bytes("client_id=app_1&redirect_uri=https%3A%2F%2Fa.example&state=a%26b%20+c")
    | made_of(
        *(b"client_id", b"redirect_uri", b"state", b"scope", b"=", b"&", b"%", b"%26", b"+"),
        *(b"https%3A%2F%2Fa.example", b"\xff", b"%0d%0a", b"#", b"profile"),
    ),
    redirect_uri=one_of("https://a.example/back", "https://a.example/back?lane=3"),
)
def test_connect_addresses(query: bytes, redirect_uri: str) -> None:
    """A state goes back byte for byte, and no byte of it leaves its parameter."""
    with contextlib.suppress(ConnectAddressWrong, InvalidRequest), quickly():
        parameters = parse_connect_query(query)
        state = parameters.only_bytes("state")
        back = callback_url(redirect_uri, {"code": "ac_1", "state": state})
        assert back.isascii()
        assert back.isprintable()
        assert " " not in back
        assert urlsplit(back).netloc == "a.example"
        assert parse_connect_query(urlsplit(back).query.encode()).only_bytes("state") == state
        assert required_parameter(parameters, "client_id").isprintable()


@fuzzed(
    scope=one_of(None) | texts_of("profile", "balance", " ", "  ", "PROFILE", "+", length=6),
    challenge=one_of(None) | near("A" * 43) | texts_of("A" * 43, "a", "_", "-", "=", length=4),
    method=one_of(None, "S256", "plain", "", "s256"),
)
def test_scopes_and_proof_keys(
    scope: str | None, challenge: str | None, method: str | None
) -> None:
    """A scope is of those that exist, each once; a challenge is a SHA-256, or is refused."""
    with contextlib.suppress(InvalidScope), quickly():
        granted = parse_scope(scope).split(" ")
        assert set(granted) <= set(SCOPES)
        assert len(set(granted)) == len(granted)
    with contextlib.suppress(InvalidRequest), quickly():
        checked = parse_challenge(challenge, method)
        assert checked is None or (method == "S256" and len(checked) == 43)
        assert not verifier_matches(checked, None) or checked is None


@fuzzed(
    text=near("2026-01-31T12:00:00Z", "2024-02-29t23:59:59.123456+05:30", "9999-12-31T23:59:59Z")
    | texts_of(
        *("2026", "-", "01", "31", "T", "t", " ", "12", ":", "00", ".", "123456789", "Z", "+"),
        *("9999", "0001", "24", "60", "99", "\u0663"),
        length=14,
    )
)
def test_times(text: str) -> None:
    """A time is a moment that can be written again, or is refused."""
    with contextlib.suppress(InvalidField), quickly():
        micros = micros_from_timestamp(text, param="created_after")
        if micros >= 0:
            assert micros_from_timestamp(timestamp(micros), param="created_after") == micros


@fuzzed(
    header=one_of(None) | near_bytes("order-1", "k" * 255) | made_of(b"a", b" ", b"\t", b"~"),
    field=one_of(None) | near("order-1", "k" * 255) | texts_of("a", "\n", "\t", "\0", "\x7f"),
)
def test_idempotency_keys_and_notes(header: bytes | None, field: str | None) -> None:
    """A key is 1 to 255 visible characters; a text has no control characters; or it is refused."""
    with contextlib.suppress(InvalidField), quickly():
        key = parse_idempotency_key(header, field)
        assert key is None or all("!" <= character <= "~" for character in key)
    with contextlib.suppress(InvalidField), quickly():
        text = parse_text(field, 255, param="note")
        assert text is None or "\0" not in text


@fuzzed(
    header=near_bytes("a=b; ousel_session=os_1; __Host-ousel_session=os_2")
    | made_of(b"ousel_session", b"__Host-", b"=", b";", b" ", b'"', b"os_", b"\xff"),
    target=ADDRESSES | near("/pay/ch_1?a=b", "//a.example", "/\\\\a.example"),
)
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


@fuzzed(
    name=one_of("BASE_URL", "PORTAL_URL", "RATE_LIMIT", "QUEUE_LIMIT", "SANDBOX"),
    text=ADDRESSES
    | near("100/second", "9/hour")
    | texts_of("1", "0", "/", "second", "hour", "off", "true", "\u00b2"),
)
def test_settings(name: str, text: str) -> None:
    """A setting can be used, or is refused as one."""
    with contextlib.suppress(SettingError), quickly():
        assert settings_from({f"OUSEL_{name}": text}).queue_limit > 0


def test_a_case_that_takes_long_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limit of these tests notices a case that keeps the CPU busy."""
    monkeypatch.setattr("tests.security.cases.CASE_SECONDS_MAX", 0.01)
    with pytest.raises(AssertionError, match="a case took"), quickly():
        sum(range(3_000_000))
