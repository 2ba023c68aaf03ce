"""Signing in or up before the consent page loses no part of the app's request."""

import re
from collections.abc import Awaitable, Callable
from html import unescape
from urllib.parse import parse_qs, quote_from_bytes, unquote_to_bytes, urlsplit

import httpx2
import pytest

from tests.oauth.consent_steps import (
    connect_path,
    count_codes,
    decide,
    new_person,
    new_username,
    returned_state,
)
from tests.oauth.consents import Consent, challenge_of
from tests.support.forms import form_with
from tests.support.portal import Portal
from tests.support.visitor import PASSWORD, Visitor

pytestmark = pytest.mark.one_engine

STATES = [
    b"plain",
    b'"><script>',
    b"a\\b",
    b"\xff\xfe",
    b"nothing\x00 and more",
    b"two\r\nlines",
    b"%25+%2B",
    b"a;b|c^d`e{f}'g",
    b"https://evil.example/?a=b&c=d#e",
    "ünïcode €".encode(),
    bytes(range(256)),
    b"long" * 1_000,
]

Way = Callable[[Portal, Visitor, str], Awaitable[httpx2.Response]]


async def sign_in(portal: Portal, visitor: Visitor, page: str) -> httpx2.Response:
    """Sign in, with a wrong password first."""
    username, _ = await new_person(portal)
    wrong = await visitor.sign_in(username, "wrong horse battery", page=page)
    form = form_with(wrong.text, "Sign in")
    fields = {"identifier": username, "password": PASSWORD}
    return await visitor.post(form.action, form.fields | fields)


async def sign_up(_: Portal, visitor: Visitor, page: str) -> httpx2.Response:
    """Follow the link to the form that opens an account, and fill it in wrongly first."""
    link = _link((await visitor.get(page)).text, "Create an account")
    username = new_username()
    form = await visitor.form(link, "Create account")
    fields = {
        "username": username,
        "email": f"{username}@example.com",
        "display_name": "Somebody New",
        "password": PASSWORD,
    }
    wrong = await visitor.post(form.action, form.fields | fields | {"password": "short"})
    form = form_with(wrong.text, "Create account")
    return await visitor.post(form.action, form.fields | fields)


async def sign_in_with_a_code(portal: Portal, visitor: Visitor, page: str) -> httpx2.Response:
    """Sign in with a password, and then with the second factor's code."""
    username, elsewhere = await new_person(portal)
    secret, _ = await portal.turn_on_factor(elsewhere)
    halfway = await visitor.sign_in(username, page=page)
    form = await visitor.form(halfway.headers["location"], "Continue")
    return await visitor.post(form.action, form.fields | {"code": portal.code(secret)})


async def another_account(portal: Portal, visitor: Visitor, page: str) -> httpx2.Response:
    """Sign in as the wrong one, and choose another account on the consent page."""
    first = await sign_in(portal, visitor, page)
    form = await visitor.form(first.headers["location"], "Use another account")
    signed_out = await visitor.post(form.action, form.fields)
    return await sign_in(portal, visitor, signed_out.headers["location"])


async def another_account_too_late(portal: Portal, visitor: Visitor, page: str) -> httpx2.Response:
    """Choose another account on the consent page after a new password has ended the session."""
    username, elsewhere = await new_person(portal)
    first = await visitor.sign_in(username, page=page)
    form = await visitor.form(first.headers["location"], "Use another account")
    new_password = {"current_password": PASSWORD, "new_password": "a better horse battery"}
    await elsewhere.press("/settings", "Change password", **new_password)
    assert not await visitor.is_signed_in()
    redirected = await visitor.post(form.action, form.fields)
    return await sign_in(portal, visitor, redirected.headers["location"])


async def begin_again(portal: Portal, visitor: Visitor, page: str) -> httpx2.Response:
    """Begin again as somebody else, instead of entering a code."""
    username, elsewhere = await new_person(portal)
    await portal.turn_on_factor(elsewhere)
    halfway = await visitor.sign_in(username, page=page)
    code_page = await visitor.get(halfway.headers["location"])
    return await sign_in(portal, visitor, _link(code_page.text, "Begin again"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "way",
    [
        sign_in,
        sign_up,
        sign_in_with_a_code,
        another_account,
        another_account_too_late,
        begin_again,
    ],
)
async def test_the_request_survives_signing_in(portal: Portal, consent: Consent, way: Way) -> None:
    """Every parameter arrives, however the person signs in, and the code works."""
    verifier = "v" * 43
    asked = {
        "response_type": "code",
        "scope": "balance profile",
        "state": "a b&c=d#e/\U0001f426",
        "code_challenge": challenge_of(verifier),
        "code_challenge_method": "S256",
    }
    visitor = portal.visitor()

    sent = await visitor.get(connect_path(consent, **asked))
    arrived = await way(portal, visitor, sent.headers["location"])
    answer = await decide(visitor, arrived.headers["location"], "Allow")
    back = parse_qs(urlsplit(answer.headers["location"]).query)
    exchange = await portal.visitor().client.post(
        "/v1/oauth/token", json=consent.exchange(back["code"][0], code_verifier=verifier)
    )

    assert back["state"] == [asked["state"]]
    assert exchange.json()["scope"] == "balance profile"
    assert await count_codes(consent) == 1


@pytest.mark.parametrize("label", ["Sign up", "Create an account"])
async def test_every_link_to_sign_up_keeps_the_request(
    portal: Portal, consent: Consent, label: str
) -> None:
    """Both links of the sign-in page lead on to the consent page, and so do those back."""
    visitor = portal.visitor()
    sent = await visitor.get(connect_path(consent, state="a&b"))
    page = (await visitor.get(sent.headers["location"])).text

    sign_up_page = await visitor.get(_link(page, label))
    back = await visitor.get(_link(sign_up_page.text, "Sign in"))

    for html, button in ((sign_up_page.text, "Create account"), (back.text, "Sign in")):
        assert form_with(html, button).fields["next"] == connect_path(consent, state="a&b")


@pytest.mark.slow
@pytest.mark.parametrize("way", [sign_in, sign_up])
async def test_state_survives_byte_for_byte(portal: Portal, consent: Consent, way: Way) -> None:
    """However the state is spelt, its bytes come back, through sign-in or sign-up and the form."""
    for number, raw in enumerate(STATES):
        state = quote_from_bytes(raw, safe="\\+;|^`{}'")
        visitor = portal.visitor(f"198.51.100.{number}")

        sent = await visitor.get(f"{connect_path(consent)}&state={state}")
        arrived = await way(portal, visitor, sent.headers["location"])
        answer = await decide(visitor, arrived.headers["location"], "Allow")

        expected = unquote_to_bytes(state.replace("+", "%20"))
        assert unquote_to_bytes(returned_state(answer)) == expected, raw


def _link(html: str, label: str) -> str:
    """Return where the link with this label leads."""
    found = re.search(rf'<a [^>]*href="([^"]*)"[^>]*>{label}</a>', html)
    assert found, html
    return unescape(found.group(1))
