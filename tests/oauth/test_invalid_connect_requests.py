"""Invalid connect requests over real HTTP: an error page, or an error redirect to the app."""

import itertools
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import httpx2
import pytest

from ousel.database.port import Database
from ousel.oauth.connect_urls import QUERY_BYTES_MAX
from tests.oauth.consent_steps import count_codes, new_username
from tests.oauth.consents import REDIRECT_URI, Consent, challenge_of
from tests.oauth.lookalike_uris import ATTACKS, REGISTERED
from tests.support.server import Server
from tests.support.visitor import Visitor

pytestmark = pytest.mark.one_engine

PAGE = "a page"
Query = list[tuple[str, str]]


class Fault(NamedTuple):
    """Something wrong with an address, and what becomes of it."""

    name: str
    spoil: Callable[[Query], Query]
    outcome: str


def lacking(name: str, outcome: str) -> Fault:
    """Leave a parameter out."""
    return Fault(f"no {name}", lambda query: [pair for pair in query if pair[0] != name], outcome)


def having(name: str, value: str, outcome: str) -> Fault:
    """Give a parameter another value."""
    return Fault(
        f"{name}={value[:50]!r}",
        lambda query: [*(pair for pair in query if pair[0] != name), (name, value)],
        outcome,
    )


def twice(name: str, outcome: str) -> Fault:
    """Say a parameter twice."""
    return Fault(
        f"{name} twice",
        lambda query: [*query, next((pair for pair in query if pair[0] == name), (name, "x"))],
        outcome,
    )


# In the order in which they are told: of two, the one above.
FAULTS = [
    having("more", "x" * 9_000, PAGE),
    lacking("client_id", PAGE),
    twice("client_id", PAGE),
    having("client_id", "", PAGE),
    having("client_id", "app_unknown", PAGE),
    having("client_id", "app_\x00\udcff", PAGE),
    lacking("redirect_uri", PAGE),
    twice("redirect_uri", PAGE),
    having("redirect_uri", "", PAGE),
    having("redirect_uri", "https://evil.example/", PAGE),
    having("redirect_uri", f"{REDIRECT_URI}#", PAGE),
    having("redirect_uri", "\x00\udcff", PAGE),
    twice("response_type", "invalid_request"),
    having("response_type", "token", "unsupported_response_type"),
    having("response_type", "\x00\udcff", "unsupported_response_type"),
    twice("scope", "invalid_request"),
    having("scope", "everything", "invalid_scope"),
    having("scope", "profile  balance", "invalid_scope"),
    having("scope", "\x00\udcff", "invalid_scope"),
    twice("state", "invalid_request"),
    twice("code_challenge", "invalid_request"),
    twice("code_challenge_method", "invalid_request"),
    lacking("code_challenge", "invalid_request"),
    having("code_challenge", "short", "invalid_request"),
    having("code_challenge", "\x00\udcff", "invalid_request"),
    lacking("code_challenge_method", "invalid_request"),
    having("code_challenge_method", "plain", "invalid_request"),
    having("code_challenge_method", "\x00\udcff", "invalid_request"),
]
UNDO_EACH_OTHER = {frozenset({"no code_challenge", "no code_challenge_method"})}


@pytest.fixture
async def visitor(server: Server) -> AsyncIterator[Visitor]:
    """Someone who is signed in."""
    headers = {"Accept": "text/html"}
    async with httpx2.AsyncClient(base_url=server.origin, headers=headers, verify=False) as client:
        signed_up = Visitor(client)
        assert (await signed_up.sign_up(new_username())).status_code == 303
        yield signed_up


def in_order(consent: Consent, redirect_uri: str = REDIRECT_URI) -> Query:
    """Return the parameters of an address with nothing wrong."""
    return [
        ("client_id", consent.app.id),
        ("redirect_uri", redirect_uri),
        ("response_type", "code"),
        ("scope", "profile balance"),
        ("state", "s t&u"),
        ("code_challenge", challenge_of("v" * 43)),
        ("code_challenge_method", "S256"),
    ]


def address(query: Query) -> str:
    """Return the address with these parameters."""
    return "/connect?" + urlencode(query, quote_via=quote, errors="surrogateescape")


async def consenting(visitor: Visitor) -> dict[str, str]:
    """Return the fields of a form that says yes, as the visitor's own pages would send them."""
    form = await visitor.form("/settings", "Sign out")
    return {"form_token": form.fields["form_token"], "decision": "allow"}


def check(answer: httpx2.Response, outcome: str, server: Server, *, has_state: bool) -> None:
    """Fail unless the answer is the page, or the error on its way to the registered address."""
    if outcome == PAGE:
        assert answer.status_code == 400
        assert answer.headers["Content-Type"].startswith("text/html")
        assert "location" not in answer.headers
        assert "This app sent you here with a wrong address" in answer.text
        return
    assert answer.status_code == 303
    location = answer.headers["location"]
    assert location.startswith(f"{REDIRECT_URI}&error={outcome}&error_description=")
    back = parse_qs(urlsplit(location).query)
    assert set(back) == {"lane", "error", "error_description", "iss"} | (
        {"state"} if has_state else set()
    )
    assert back["iss"] == [server.origin]
    assert back.get("state", ["s t&u"]) == ["s t&u"]


@pytest.mark.slow
async def test_every_fault_alone_and_in_pairs(
    database: Database, server: Server, visitor: Visitor
) -> None:
    """Each wrong address has its outcome; of two faults the first in order is told; no code."""
    consent = await Consent.of_new_people(database)
    right = in_order(consent)
    yes = await consenting(visitor)

    for first, second in itertools.combinations_with_replacement(FAULTS, 2):
        if frozenset({first.name, second.name}) in UNDO_EACH_OTHER:
            continue
        path = address(first.spoil(second.spoil(right)))
        has_state = "state twice" not in {first.name, second.name}
        for answer in (await visitor.get(path), await visitor.post(path, yes)):
            try:
                check(answer, first.outcome, server, has_state=has_state)
            except AssertionError as error:
                error.add_note(f"{first.name} with {second.name}: {answer!r} {answer.headers}")
                raise

    assert await count_codes(consent) == 0
    assert (await visitor.get(address(right))).status_code == 200
    granted = await visitor.post(address(right), yes)
    assert granted.headers["location"].startswith(f"{REDIRECT_URI}&code=ac_")


@pytest.mark.slow
async def test_no_redirect_uri_but_the_registered_one(
    database: Database, server: Server, visitor: Visitor
) -> None:
    """Whatever looks like the registered address is refused on a page, signed in or not."""
    consent = await Consent.of_new_people(database, redirect_uris=[REGISTERED])
    yes = await consenting(visitor)

    async with httpx2.AsyncClient(base_url=server.origin, verify=False) as stranger:
        for attack in ATTACKS:
            path = address(in_order(consent, attack))
            for answer in (
                await stranger.get(path),
                await visitor.get(path),
                await visitor.post(path, yes),
            ):
                assert answer.status_code == 400, attack
                assert "location" not in answer.headers, attack
                assert "refresh" not in answer.headers, attack
                assert "evil.example" not in answer.text, attack
    granted = await visitor.post(address(in_order(consent, REGISTERED)), yes)

    assert await count_codes(consent) == 1
    assert granted.headers["location"].startswith(f"{REGISTERED}&code=ac_")


async def test_no_exchange_with_another_redirect_uri(database: Database, server: Server) -> None:
    """A code goes to the very address that it was sent to; trying others does not use it up."""
    consent = await Consent.of_new_people(database, redirect_uris=[REGISTERED])
    code = await consent.code(redirect_uri=REGISTERED)

    async with server.client() as client:
        for attack in ATTACKS:
            fields = consent.exchange(code, redirect_uri=attack)
            for answer in (
                await client.post("/oauth/token", json=fields),
                await client.post("/oauth/token", data=fields),
            ):
                error = "invalid_grant" if attack else "invalid_request"
                assert (answer.status_code, answer.json()["error"]) == (400, error), attack
        right = consent.exchange(code, redirect_uri=REGISTERED)
        exchanged = await client.post("/oauth/token", json=right)

    assert exchanged.status_code == 200


async def test_the_longest_accepted_address_works(
    database: Database, server: Server, visitor: Visitor
) -> None:
    """An address of 8 KiB, every byte of its state encoded, survives the detour to sign-in."""
    consent = await Consent.of_new_people(database)
    start = address(in_order(consent)[:2])
    room = QUERY_BYTES_MAX - len(start.partition("?")[2]) - len("&state=")
    path = f"{start}&state={'%FF' * (room // 3)}"

    async with httpx2.AsyncClient(base_url=server.origin, verify=False) as stranger:
        detour = await stranger.get(path)
        longer = await stranger.get(f"{path}%FF")
    arrived = await visitor.get(detour.headers["location"])

    assert detour.headers["location"].startswith("/login?next=")
    assert arrived.headers["location"] == path
    assert (await visitor.get(path)).status_code == 200
    assert longer.status_code == 400
