"""Steps of a person who connects an app on the portal's pages, without a browser."""

import secrets
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import httpx2

from ousel.database.port import Transaction
from ousel.database.statements import Statement
from tests.oauth.consents import REDIRECT_URI, Consent
from tests.support.forms import form_with
from tests.support.portal import Portal
from tests.support.visitor import Visitor

CODES_OF = Statement(
    "codes of an app", "SELECT COUNT(*) FROM authorization_codes WHERE app_id = :id"
)


def connect_path(consent: Consent, **parameters: str) -> str:
    """Return a connect address of the app."""
    asked = {"client_id": consent.app.id, "redirect_uri": REDIRECT_URI}
    return "/connect?" + urlencode(asked | parameters, quote_via=quote)


async def new_person(portal: Portal) -> tuple[str, Visitor]:
    """Return a person who has just signed up, with a name that nobody else has."""
    username = new_username()
    return username, await portal.person(username)


def new_username() -> str:
    """Return a username that nobody has."""
    return f"user_{secrets.token_hex(5)}"


async def decide(visitor: Visitor, path: str, decision: str) -> httpx2.Response:
    """Press one of the two buttons."""
    form = form_with((await visitor.get(path)).text, decision)
    return await visitor.post(form.action, form.fields | {"decision": decision.lower()})


async def connect_app(portal: Portal, consent: Consent, visitor: Visitor, **asked: str) -> str:
    """Let the person allow what the app asks for, and return the token that the app gets."""
    answer = await decide(visitor, connect_path(consent, **asked), "Allow")
    code = parse_qs(urlsplit(answer.headers["location"]).query)["code"][0]
    api = portal.visitor().client
    exchange = await api.post("/v1/oauth/token", json=consent.exchange(code))
    assert exchange.status_code == 200, exchange.text
    return str(exchange.json()["access_token"])


async def count_codes(consent: Consent) -> int:
    """Return how many codes the app was given."""

    async def count(transaction: Transaction) -> int:
        return int((await transaction.fetch(CODES_OF, id=consent.app.id))[0][0])

    return await consent.database.read(count)


def returned_state(answer: httpx2.Response) -> str:
    """Return the state that goes back to the app, as it is spelt."""
    return answer.headers["location"].partition("&state=")[2].partition("&")[0]
