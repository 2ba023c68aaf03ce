"""Refused token requests: each fault has its OAuth error, and the code stays unused."""

import itertools
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ousel.database.port import Database
from ousel.kernel.errors import DatabaseUnavailable
from ousel.kernel.settings import RateLimit
from ousel.partners.store import api_errors_of
from tests.oauth.consents import REDIRECT_URI, VERIFIER, Consent, basic, challenge_of
from tests.support.in_process import in_process_client
from tests.support.server import Server

pytestmark = pytest.mark.one_engine

ORIGIN = "https://shop.example"


@pytest.fixture
def client(server: Server) -> Iterator[httpx2.Client]:
    """One connection for the many requests of a test."""
    with httpx2.Client(base_url=server.base_url, verify=False) as opened:
        yield opened


class Attempt(msgspec.Struct):
    """A request to the token endpoint, about to be spoilt."""

    fields: dict[str, Any]
    query: str = ""
    headers: dict[str, str] = {}

    def send(self, client: httpx2.Client, *, as_form: bool) -> httpx2.Response:
        """Send it, as a form or as JSON."""
        url = f"/oauth/token{self.query}"
        if as_form:
            return client.post(url, data=self.fields, headers=self.headers)
        return client.post(url, json=self.fields, headers=self.headers)


Spoil = Callable[[Attempt, Consent], None]


def lacking(*names: str) -> Spoil:
    """Leave fields out."""

    def spoil(attempt: Attempt, _: Consent) -> None:
        for name in names:
            attempt.fields.pop(name, None)

    return spoil


def having(**fields: str) -> Spoil:
    """Set fields."""
    return lambda attempt, _: attempt.fields.update(fields)


def authorized(value: Callable[[Consent], str], *, instead: bool) -> Spoil:
    """Send an Authorization header, beside or instead of the credentials in the body."""

    def spoil(attempt: Attempt, consent: Consent) -> None:
        attempt.headers = attempt.headers | {"Authorization": value(consent)}
        if instead:
            attempt.fields.pop("client_id", None)
            attempt.fields.pop("client_secret", None)

    return spoil


def query(attempt: Attempt, _: Consent) -> None:
    """Say something in the address."""
    attempt.query = "?code=ac_0000"


def strange_origin(attempt: Attempt, _: Consent) -> None:
    """Call from a web page that the app has not registered."""
    attempt.headers = attempt.headers | {"Origin": "https://evil.example"}


# What can be wrong, what is answered, and which of two wrong things is told: the one above.
FAULTS: list[tuple[str, Spoil, int, str]] = [
    ("parameters in the address", query, 400, "invalid_request"),
    (
        "two ways to authenticate",
        authorized(lambda consent: basic(consent.app.id, consent.key), instead=False),
        400,
        "invalid_request",
    ),
    ("no client_id", lacking("client_id"), 401, "invalid_client"),
    ("no client_secret", lacking("client_secret"), 401, "invalid_client"),
    ("an empty client_secret", having(client_secret=""), 401, "invalid_client"),
    ("another app's client_id", having(client_id="app_other"), 401, "invalid_client"),
    ("a wrong secret", having(client_secret="sk_live_" + "0" * 40), 401, "invalid_client"),
    ("no secret at all", having(client_secret="sk_live_\x00" + "0" * 39), 401, "invalid_client"),
    ("a test key", having(client_secret="sk_test_" + "0" * 40), 401, "invalid_client"),
    ("a strange origin", strange_origin, 403, "invalid_request"),
    ("no grant_type", lacking("grant_type"), 400, "invalid_request"),
    ("an empty grant_type", having(grant_type=""), 400, "invalid_request"),
    ("another grant_type", having(grant_type="refresh_token"), 400, "unsupported_grant_type"),
    ("no code", lacking("code"), 400, "invalid_request"),
    ("no redirect_uri", lacking("redirect_uri"), 400, "invalid_request"),
    ("an unknown code", having(code="ac_" + "0" * 40), 400, "invalid_grant"),
    ("no code at all", having(code="ac_\x00\ud7ff"), 400, "invalid_grant"),
    (
        "another redirect_uri",
        having(redirect_uri="https://shop.example/return"),
        400,
        "invalid_grant",
    ),
    ("no code_verifier", lacking("code_verifier"), 400, "invalid_grant"),
    ("a wrong code_verifier", having(code_verifier=VERIFIER[:-1] + "l"), 400, "invalid_grant"),
    ("a short code_verifier", having(code_verifier="short"), 400, "invalid_grant"),
]
# Two faults that undo each other, or that are told apart by what they leave.
NOT_TOGETHER = {
    frozenset({"two ways to authenticate", name})
    for name in ("no client_secret", "an empty client_secret", "another app's client_id")
}


@pytest.mark.slow
@pytest.mark.parametrize("as_form", [True, False])
async def test_every_error_alone_and_in_pairs(
    database: Database, client: httpx2.Client, *, as_form: bool
) -> None:
    """Each wrong request has its error; of two, the first in order is told; no code is lost."""
    consent = await Consent.of_new_people(database)
    code = await consent.code(code_challenge=challenge_of(VERIFIER), code_challenge_method="S256")
    pairs = [
        pair
        for pair in itertools.combinations_with_replacement(FAULTS, 2)
        if frozenset({pair[0][0], pair[1][0]}) not in NOT_TOGETHER
    ]

    for first, second in pairs:
        attempt = Attempt(consent.exchange(code, code_verifier=VERIFIER))
        second[1](attempt, consent)
        first[1](attempt, consent)
        answer = attempt.send(client, as_form=as_form)
        told = (answer.status_code, answer.json().get("error"))
        assert told == (first[2], first[3]), (first[0], second[0], answer.text)
        _check_error(answer)
    whole = Attempt(consent.exchange(code, code_verifier=VERIFIER))
    assert whole.send(client, as_form=as_form).status_code == 200


MALFORMED: list[tuple[str, dict[str, str], bytes]] = [
    ("no body", {"Content-Type": "application/json"}, b""),
    ("not JSON", {"Content-Type": "application/json"}, b"{"),
    ("not an object", {"Content-Type": "application/json"}, b"[]"),
    ("not UTF-8", {"Content-Type": "application/json"}, b'{"code": "\xff"}'),
    ("a number", {"Content-Type": "application/json"}, b'{"code": 1}'),
    ("a known field between", {"Content-Type": "application/json"}, b'{"x": 1, "code": []}'),
    ("deep", {"Content-Type": "application/json"}, b'{"code": ' + b"[" * 60_000),
    ("too large", {"Content-Type": "application/json"}, b" " * 70_000),
    ("another type", {"Content-Type": "text/plain"}, b"grant_type=authorization_code"),
    ("no type", {}, b"grant_type=authorization_code"),
    ("twice", {"Content-Type": "application/x-www-form-urlencoded"}, b"code=a&code=a"),
    ("twice \\ '\"", {"Content-Type": "application/x-www-form-urlencoded"}, b"%22%5C=1&%22%5C=2"),
    ("not a form", {"Content-Type": "application/x-www-form-urlencoded"}, b"code=%FF"),
    ("many", {"Content-Type": "application/x-www-form-urlencoded"}, b"a=1&" * 1_000),
]


async def test_malformed_bodies_are_invalid_requests(server: Server) -> None:
    """What cannot be read is invalid_request, in OAuth's own form, with status 400."""
    async with server.client() as client:
        for name, headers, body in MALFORMED:
            answer = await client.post("/oauth/token", headers=headers, content=body)

            assert answer.status_code == 400, (name, answer.text)
            assert answer.json()["error"] == "invalid_request", name
            _check_error(answer)


AUTHORIZATIONS = [
    "Basic",
    "Basic !!!",
    "Basic " + b64encode(b"\xff\xfe:").decode(),
    "Basic " + b64encode(b"no-colon").decode(),
    basic("app_other", "sk_live_" + "0" * 40),
    "Bearer sk_live_" + "0" * 40,
    "Digest a=b",
]


async def test_a_wrong_authorization_is_challenged(database: Database, server: Server) -> None:
    """A client that tries the Authorization header in vain gets 401 and learns what would do."""
    consent = await Consent.of_new_people(database)
    fields = consent.exchange("ac_" + "0" * 40)
    del fields["client_secret"], fields["client_id"]

    async with server.client() as client:
        for authorization in AUTHORIZATIONS:
            answer = await client.post(
                "/oauth/token", data=fields, headers={"Authorization": authorization}
            )

            assert answer.status_code == 401, (authorization, answer.text)
            assert answer.json()["error"] == "invalid_client"
            _check_error(answer)


async def test_basic_and_a_different_client_id(database: Database, server: Server) -> None:
    """A client_id in the body that contradicts the Authorization is an invalid request."""
    consent = await Consent.of_new_people(database)
    fields = consent.exchange(await consent.code(), client_id="app_other")
    del fields["client_secret"]
    headers = {"Authorization": basic(consent.app.id, consent.key)}

    async with server.client() as client:
        answer = await client.post("/oauth/token", data=fields, headers=headers)

    assert (answer.status_code, answer.json()["error"]) == (400, "invalid_request")


async def test_the_rate_limit_counts_the_key(database: Database, database_url: str) -> None:
    """A key that is used too often is told to wait, in OAuth's own form."""
    consent = await Consent.of_new_people(database)

    async with in_process_client(database_url, rate_limit=RateLimit(2, 3600)) as client:
        fields = consent.exchange("ac_" + "0" * 40)
        answers = [await client.post("/oauth/token", json=fields) for _ in range(3)]

    assert [answer.status_code for answer in answers] == [400, 400, 429]
    assert answers[-1].json()["error"] == "temporarily_unavailable"
    assert int(answers[-1].headers["Retry-After"]) > 0
    _check_error(answers[-1])


@pytest.mark.parametrize("path", ["/oauth/token", "/oauth/revoke"])
async def test_every_answer_has_cors_and_rate_limit_headers(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """Refused, limited or failed, the answer has the headers of the app's origin and limit."""
    consent = await Consent.of_new_people(database, origins=[ORIGIN])
    fields = consent.exchange("ac_" + "0" * 40) | {"token": ""}
    wrong = consent.exchange("", client_id="app_other") | {"token": ""}
    headers = {"Origin": ORIGIN}

    async def fail(*_: Any) -> None:
        raise failures.pop()

    failures = [ValueError("a bug"), DatabaseUnavailable("The database is away.")]
    async with in_process_client(database_url, rate_limit=RateLimit(4, 3600)) as client:
        refused = await client.post(path, json=fields, headers=headers)
        stranger = await client.post(path, json=wrong, headers=headers)
        with monkeypatch.context() as patched:
            for name in ("exchange_code", "revoke_token"):
                patched.setattr(f"ousel.oauth.service.{name}", fail)
            asked = fields | {"token": "ut_live_" + "0" * 40}
            failed = [await client.post(path, json=asked, headers=headers) for _ in range(2)]
        done = await client.post("/oauth/revoke", json=asked, headers=headers)
        limited = await client.post(path, json=fields, headers=headers)

    answers = [refused, *failed, done, limited]
    assert [answer.status_code for answer in answers] == [400, 503, 500, 200, 429]
    for answer, left in zip(answers, (3, 2, 1, 0, 0), strict=True):
        assert answer.headers.get_list("Access-Control-Allow-Origin") == [ORIGIN]
        assert "RateLimit" in answer.headers["Access-Control-Expose-Headers"]
        assert answer.headers["RateLimit-Policy"] == '"default";q=4;w=3600'
        assert answer.headers.get_list("RateLimit")[0].startswith(f'"default";r={left};')
        assert len(answer.headers.get_list("RateLimit")) == 1
    assert int(limited.headers["Retry-After"]) > 0
    assert stranger.status_code == 401
    assert stranger.headers["Access-Control-Allow-Origin"] == ORIGIN  # as for any invalid key
    assert "ratelimit" not in stranger.headers
    _check_error(refused)
    _check_error(limited)


async def test_a_refused_exchange_is_shown_to_the_app_s_developer(
    database: Database, database_url: str
) -> None:
    """What an app that authenticated did wrong stands among its recent errors."""
    consent = await Consent.of_new_people(database)

    async with in_process_client(database_url) as client:
        await client.post("/oauth/token", json=consent.exchange("ac_" + "0" * 40))
        await client.post("/oauth/token", json=consent.exchange("", client_id="app_other"))
    found = await database.read(lambda transaction: api_errors_of(transaction, consent.app))

    assert [(trouble.code, trouble.path) for trouble in found] == [
        ("invalid_grant", "/v1/oauth/token")
    ]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    fields=st.dictionaries(
        st.sampled_from(
            ["grant_type", "code", "redirect_uri", "client_id", "client_secret", "code_verifier"]
        ),
        st.one_of(
            st.text(),
            st.sampled_from(["authorization_code", REDIRECT_URI, "ac_" + "1" * 40]),
            st.none(),
            st.integers(),
        ),
    ),
    authorization=st.one_of(
        st.none(), st.binary(min_size=1).map(lambda octets: "Basic " + b64encode(octets).decode())
    ),
)
def test_whatever_is_sent_the_answer_is_an_oauth_error(
    client: httpx2.Client, fields: dict[str, Any], authorization: str | None
) -> None:
    """No request of a stranger fails the server, or is answered in another form."""
    headers = {} if authorization is None else {"Authorization": authorization}
    body = msgspec.json.encode(fields)

    answer = client.post(
        "/oauth/token",
        content=body,
        headers={"Content-Type": "application/json", **headers},
    )

    assert answer.status_code in {400, 401}, answer.text
    _check_error(answer)


def _check_error(answer: httpx2.Response) -> None:
    """RFC 6749 section 5.2, to the letter."""
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Pragma"] == "no-cache"
    assert set(answer.json()) == {"error", "error_description"}
    description = answer.json()["error_description"]
    assert description
    assert all(" " <= character <= "~" and character not in '"\\' for character in description)
    if answer.status_code == 401:
        assert answer.json()["error"] == "invalid_client"
        assert answer.headers["WWW-Authenticate"].startswith("Basic realm=")
    else:
        assert "WWW-Authenticate" not in answer.headers
