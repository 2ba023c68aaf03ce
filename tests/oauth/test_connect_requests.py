"""Which connect requests are accepted, and where the person is redirected."""

from urllib.parse import parse_qs, quote, quote_from_bytes, unquote_to_bytes, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ousel.database.port import Database
from ousel.oauth.connect import (
    ConnectRequest,
    ErrorRedirect,
    connect_request,
    redirect_with_code,
    redirect_with_denial,
)
from ousel.oauth.connect_urls import callback_url, parse_connect_query
from ousel.oauth.refusals import ConnectAddressWrong
from tests.oauth.consents import ISSUER, REDIRECT_URI, Consent, challenge_of
from tests.oauth.lookalike_uris import ATTACKS, REGISTERED

pytestmark = pytest.mark.one_engine


async def test_only_a_registered_redirect_uri_is_accepted(database: Database) -> None:
    """A redirect URI that differs in any character is reported to the person without a redirect."""
    consent = await Consent.of_new_people(database, redirect_uris=[REGISTERED])

    assert isinstance(await consent.request(redirect_uri=REGISTERED), ConnectRequest)
    for attack in ATTACKS:
        with pytest.raises(ConnectAddressWrong):
            await consent.request(redirect_uri=attack)
        with pytest.raises(ConnectAddressWrong):
            await consent.request(redirect_uri=attack, response_type="token", scope="all")


async def test_another_app_s_redirect_uri_is_refused(database: Database) -> None:
    """A redirect URI is valid only for the app that registered it."""
    consent = await Consent.of_new_people(database, redirect_uris=["https://one.example/"])
    await Consent.of_new_people(database, redirect_uris=["https://two.example/"])

    with pytest.raises(ConnectAddressWrong):
        await consent.request(redirect_uri="https://two.example/")


@pytest.mark.parametrize(
    "client_id", ["", "app_unknown", "app_\x00", "app_\udcff", "%", "a" * 5_000]
)
async def test_an_unknown_app_is_reported_to_the_person(database: Database, client_id: str) -> None:
    """An unknown client_id redirects nobody."""
    query = quote_from_bytes(client_id.encode("utf-8", "surrogateescape"), safe="")
    address = f"client_id={query}&redirect_uri={quote(REDIRECT_URI, safe='')}".encode()

    with pytest.raises(ConnectAddressWrong):
        await database.read(lambda transaction: connect_request(transaction, address, ISSUER))


async def test_client_id_and_redirect_uri_may_be_sent_once(database: Database) -> None:
    """Two client_ids or redirect URIs, even equal ones, redirect nobody; nor does a long query."""
    consent = await Consent.of_new_people(database)
    uri = quote(REDIRECT_URI, safe="")
    whole = f"client_id={consent.app.id}&redirect_uri={uri}"
    for query in (
        f"client_id={consent.app.id}&{whole}",
        f"redirect_uri={uri}&{whole}",
        f"redirect_uri=https://evil.example&{whole}",
        f"client_id={consent.app.id}",
        f"redirect_uri={uri}",
        "",
        f"{whole}&state={'x' * 9_000}",
    ):
        with pytest.raises(ConnectAddressWrong):
            await database.read(
                lambda transaction, query=query: connect_request(  # type: ignore[misc]
                    transaction, query.encode(), ISSUER
                )
            )


CHALLENGE = challenge_of("v" * 43)

WRONG = [
    ({"response_type": "token"}, "unsupported_response_type"),
    ({"response_type": "code token"}, "unsupported_response_type"),
    ({"response_type": "CODE"}, "unsupported_response_type"),
    ({"scope": "profile everything"}, "invalid_scope"),
    ({"scope": "Profile"}, "invalid_scope"),
    ({"scope": "profile,balance"}, "invalid_scope"),
    ({"scope": " "}, "invalid_scope"),
    ({"scope": "profile\tbalance"}, "invalid_scope"),
    ({"code_challenge": CHALLENGE}, "invalid_request"),
    ({"code_challenge": CHALLENGE, "code_challenge_method": "plain"}, "invalid_request"),
    ({"code_challenge": CHALLENGE, "code_challenge_method": "s256"}, "invalid_request"),
    ({"code_challenge": "short", "code_challenge_method": "S256"}, "invalid_request"),
    ({"code_challenge": CHALLENGE + "=", "code_challenge_method": "S256"}, "invalid_request"),
    ({"code_challenge_method": "S256"}, "invalid_request"),
]


@pytest.mark.parametrize(("parameters", "error"), WRONG)
async def test_anything_else_wrong_goes_back_to_the_app(
    database: Database, parameters: dict[str, str], error: str
) -> None:
    """The redirect URI keeps its query and gains error, error_description, state and iss."""
    consent = await Consent.of_new_people(database)

    outcome = await consent.request(**parameters, state="my state")

    assert isinstance(outcome, ErrorRedirect)
    assert outcome.location.startswith(f"{REDIRECT_URI}&error=")
    back = parse_qs(urlsplit(outcome.location).query)
    assert set(back) == {"lane", "error", "error_description", "state", "iss"}
    assert back["error"] == [error]
    assert back["state"] == ["my state"]
    assert back["iss"] == [ISSUER]


@pytest.mark.parametrize("name", ["scope", "state", "response_type", "code_challenge"])
async def test_a_repeated_parameter_goes_back_to_the_app(database: Database, name: str) -> None:
    """A parameter that stands there twice is invalid_request; of two states none is returned."""
    consent = await Consent.of_new_people(database)
    uri = quote(REDIRECT_URI, safe="")
    query = f"client_id={consent.app.id}&redirect_uri={uri}&{name}=a&{name}=a".encode()

    outcome = await database.read(lambda transaction: connect_request(transaction, query, ISSUER))

    assert isinstance(outcome, ErrorRedirect)
    assert "error=invalid_request" in outcome.location
    assert "state=" not in outcome.location


async def test_a_valid_request_is_parsed(database: Database) -> None:
    """scope defaults to profile; response_type may be code; unknown parameters do no harm."""
    consent = await Consent.of_new_people(database)

    plain = await consent.request(scope="", prompt="login")
    whole = await consent.request(
        response_type="code",
        scope="balance profile balance",
        code_challenge=CHALLENGE,
        code_challenge_method="S256",
    )

    assert isinstance(plain, ConnectRequest)
    assert (plain.scope, plain.state, plain.code_challenge) == ("profile", None, None)
    assert isinstance(whole, ConnectRequest)
    assert (whole.scope, whole.code_challenge) == ("balance profile", CHALLENGE)


async def test_the_callback_carries_a_code_or_a_denial(database: Database) -> None:
    """A code, the state and the issuer go back; a person who says no goes back as well."""
    consent = await Consent.of_new_people(database)
    request = await consent.request(state="a&b=c #ü")
    assert isinstance(request, ConnectRequest)

    yes = parse_qs(urlsplit(redirect_with_code(request, "ac_123", ISSUER)).query)
    no = parse_qs(urlsplit(redirect_with_denial(request, ISSUER)).query)

    state = ["a&b=c #ü"]
    assert yes == {"lane": ["3"], "code": ["ac_123"], "state": state, "iss": [ISSUER]}
    assert no.pop("error_description") != []
    assert no == {"lane": ["3"], "error": ["access_denied"], "state": state, "iss": [ISSUER]}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(state=st.binary(min_size=1, max_size=300))
async def test_state_comes_back_byte_for_byte(consent: Consent, state: bytes) -> None:
    """Whatever bytes the state has, exactly these come back, with a code and with an error."""
    database = consent.database
    uri = quote(REDIRECT_URI, safe="")
    query = f"client_id={consent.app.id}&redirect_uri={uri}&state={quote_from_bytes(state)}"

    request = await database.read(
        lambda transaction: connect_request(transaction, query.encode(), ISSUER)
    )
    error = await database.read(
        lambda transaction: connect_request(transaction, f"{query}&scope=nonsense".encode(), ISSUER)
    )

    assert isinstance(request, ConnectRequest)
    assert isinstance(error, ErrorRedirect)
    for location in (redirect_with_code(request, "ac_1", ISSUER), error.location):
        returned = location.partition("&state=")[2].partition("&")[0]
        assert unquote_to_bytes(returned) == state


@given(
    st.dictionaries(st.sampled_from(["state", "scope", "code"]), st.binary(min_size=1), min_size=1)
)
def test_callback_parameters_survive_encoding(parameters: dict[str, bytes]) -> None:
    """Parsing the callback's query returns exactly the parameters that were written."""
    location = callback_url("https://shop.example/", dict(parameters))

    assert location.isascii()
    assert location.isprintable()
    read = parse_connect_query(location.partition("?")[2].encode())
    assert {name: read.only_bytes(name) for name in parameters} == parameters
