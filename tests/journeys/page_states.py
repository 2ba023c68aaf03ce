"""Every page of a sandbox in each of its states, errors included, as the service answers it."""

import contextlib
import re
from urllib.parse import quote, urlencode

import httpx2
import pytest

from ousel.database.schema import migrate
from ousel.people.rules import IDENTITY_CHECK_SECONDS, PAIR_LIMIT
from tests.journeys.checkout_pages import create_checkout_pages
from tests.journeys.page_reports import assets_of
from tests.sealed_log.examples import KEY, movement, receipt_of
from tests.support.accounts import unique_name
from tests.support.authenticator import Authenticator
from tests.support.forms import form_with
from tests.support.mail import link_in
from tests.support.passwords import hash_quickly
from tests.support.portal import Portal, open_portal
from tests.support.sample_data import SampleData, create_sample_data
from tests.support.visitor import PASSWORD, Visitor, secret_of

ORIGIN = "http://localhost"  # a name for which browsers offer passkeys and the clipboard
LONG_NAME = "W" * 80
LONG_ADDRESS = "https://" + "w" * 60 + ".example/" + "w" * 300
LONG_CHARGE = {"amount": 999_999_999.999999, "description": "W" * 500, "reference": "W" * 200}
WRONG_PASSWORD = "wrong horse battery"
ALERT = 'role="alert"'
ASKED_AGAIN = "Confirm that it is you"


class PageStates:
    """Visits a sandbox and keeps the pages that it answers with."""

    def __init__(self, portal: Portal, sample: SampleData) -> None:
        self.portal = portal
        self.sample = sample
        self.answers: dict[str, httpx2.Response] = {}
        self.checkouts: set[str] = set()  # the names of pages about charges
        self.assets: dict[str, httpx2.Response] = {}  # what the pages load, by its URL

    def keep(self, name: str, answer: httpx2.Response, *, shows: str) -> httpx2.Response:
        """Keep this page, which must contain a text that tells its state from others."""
        assert answer.headers["content-type"].startswith("text/html"), (name, answer.text)
        assert shows in answer.text, (name, answer.text)
        assert name not in self.answers, name
        self.answers[name] = answer
        return answer

    async def keep_paths(self, visitor: Visitor, paths: dict[str, str]) -> None:
        """Keep pages that are reached by their addresses."""
        for name, path in paths.items():
            self.keep(name, await visitor.get(path), shows="<main")

    async def visitor(self, username: str | None) -> Visitor:
        """Return somebody who is signed in, or a stranger."""
        visitor = self.portal.visitor()
        if username is not None:
            assert (await visitor.sign_in(username)).status_code == 303
        return visitor

    async def call(self, path: str, **body: object) -> httpx2.Response:
        """Call the API as the partner of the sample data, with an idempotency key of its own."""
        headers = {"Authorization": f"Bearer {self.sample.key}", "Idempotency-Key": unique_name()}
        return await self.portal.visitor().client.post(f"/v1{path}", json=body, headers=headers)


async def visit_all(database_url: str) -> PageStates:
    """Create a database with sample data, and visit every page in every state."""
    await migrate(database_url)
    with pytest.MonkeyPatch.context() as patch:
        hash_quickly(patch)
        sample = await create_sample_data(database_url)
        checkouts = await create_checkout_pages(database_url, sample)
        addresses = {"portal_url": ORIGIN, "base_url": f"{ORIGIN}/v1"}
        async with open_portal(database_url, sandbox=True, **addresses) as portal:
            portal.clock.advance(seconds=1)  # after what the system's clock has dated
            states = PageStates(portal, sample)
            await _visit_sample_pages(states)
            for name, page in checkouts.items():
                await states.keep_paths(await states.visitor(page.username), {name: page.path})
            mary = await states.visitor("mary")
            refused = await mary.press(checkouts["short"].path, "Pay 25.00 OUSD")
            states.keep("short-refused", refused, shows="Nothing was paid.")
            states.checkouts = {*checkouts, "short-refused", *await _visit_longest_charge(states)}
            await _visit_signed_out(states)
            await _visit_receipt_checks(states)
            newcomer = await portal.person("newcomer")
            await _visit_as_newcomer(states, newcomer)
            await _visit_apps(states, newcomer)
            await _visit_second_factor(states)
            await _visit_sending(states)
            await _visit_passkeys(states)
            await _visit_identity_checks(states)
            await _visit_reference(states)
            await _visit_lab(states)
            await _fetch_assets(states)
            return states


async def _visit_sample_pages(states: PageStates) -> None:
    """Visit what an address leads to, also with the longest texts and the largest amounts."""
    await states.keep_paths(states.portal.visitor(), states.sample.open_paths())
    await states.keep_paths(await states.visitor("ada"), states.sample.paths())
    wide = await states.portal.person("wide", display_name="W" * 100)
    await states.portal.fund("wide", "999999999.999999")
    sent = await states.call("/transfers", to="@wide", amount=0.999999, note="W" * 500)
    assert sent.status_code == 201, sent.text
    await states.keep_paths(
        wide, {"activity-widest": "/activity", "movement-widest": "/activity/2"}
    )


async def _visit_longest_charge(states: PageStates) -> list[str]:
    created = await states.call("/charges", **LONG_CHARGE)
    charge_id = created.json()["id"]
    await states.keep_paths(await states.visitor("mary"), {"longest": f"/pay/{charge_id}"})
    path = f"/apps/{states.sample.app.id}/charges/{charge_id}"
    await states.keep_paths(await states.visitor("ada"), {"longest-of-owner": path})
    return ["longest", "longest-of-owner"]


async def _visit_signed_out(states: PageStates) -> None:
    visitor, keep = states.portal.visitor(), states.keep
    keep("reset-ended", await visitor.get("/reset?token=rl_0"), shows=ALERT)
    states.portal.clock.advance(seconds=1)  # so that the message is the newest
    await visitor.press("/forgot", "Send a link", identifier="ada")
    link = link_in((await states.portal.mail("ada@example.com"))[0])
    keep("reset", await visitor.get(link), shows="New password")
    short = await visitor.press(link, "Set password", new_password="short")
    keep("reset-wrong", short, shows='id="new_password-error"')
    keep("login-wrong", await visitor.sign_in("ada", WRONG_PASSWORD), shows=ALERT)
    for _ in range(PAIR_LIMIT.attempts_max):
        await visitor.sign_in("nobody_at_all", WRONG_PASSWORD)
    limited = await visitor.sign_in("nobody_at_all", WRONG_PASSWORD)
    keep("login-limited", limited, shows="Too many attempts")
    filled = {"username": "a", "email": "a@b", "display_name": "a", "password": "a"}
    wrong = await visitor.press("/signup", "Create account", **filled)
    keep("signup-wrong", wrong, shows='id="password-error"')
    form = await visitor.form("/login", "Sign in")
    stranger = await states.portal.visitor().send(form, form.pressed("Sign in", {}))
    keep("form-out-of-date", stranger, shows="The form was not accepted")
    wrong_method = await visitor.get("/settings/password")
    keep("wrong-method", wrong_method, shows="The method is not allowed here")


async def _visit_receipt_checks(states: PageStates) -> None:
    visitor, keep = states.portal.visitor(), states.keep
    pages = {
        "receipt-genuine": (receipt_of(movement(note=LONG_NAME)), "The receipt is genuine"),
        "receipt-changed": (
            receipt_of(movement()).replace(b"Lunch", b"Lunck"),
            "This receipt proves nothing.",
        ),
    }
    for name, (receipt, sentence) in pages.items():
        filled = {"receipt": receipt.decode(), "key": str(KEY.verifier)}
        answer = await visitor.press("/verify", "Check receipt", **filled)
        keep(name, answer, shows=sentence)
    missing = await visitor.press("/verify", "Check receipt")
    keep("receipt-missing", missing, shows='class="error"')


async def _visit_as_newcomer(states: PageStates, newcomer: Visitor) -> None:
    keep = states.keep
    wrong = await newcomer.press("/verify-email", "Confirm email", code="wrong")
    keep("verify-email-wrong-code", wrong, shows='id="code-error"')
    link = link_in((await states.portal.mail("newcomer@example.com"))[0])
    keep("verify-email-link", await newcomer.get(link), shows="Confirm email</button>")
    mail = await newcomer.get("/sandbox/mail?to=newcomer@example.com")
    keep("sandbox-mail", mail, shows="Confirm your email")
    filled = {"email": "nobody@example.com", "password": WRONG_PASSWORD}
    wrong = await newcomer.press("/settings/email", "Change email", **filled)
    keep("email-change-wrong", wrong, shows='id="password-error"')
    wrong = await newcomer.press("/send", "Continue", to="@nobody_at_all", amount="5,50")
    keep("send-wrong", wrong, shows='id="amount-error"')
    wrong = await newcomer.press(
        "/settings", "Change password", current_password=WRONG_PASSWORD, new_password=PASSWORD
    )
    keep("settings-wrong-password", wrong, shows='id="current_password-error"')
    wrong = await newcomer.press("/settings/two-factor", "Turn on", code="000000")
    keep("two-factor-wrong-code", wrong, shows='id="code-error"')
    for name, (path, sentence) in {
        "activity-nothing-yet": ("/activity", "No movements yet"),
        "activity-nothing-fits": ("/activity?kind=charge_payment", "No movements match"),
        "activity-wrong-filter": ("/activity?from=yesterday", ALERT),
        "apps-none": ("/apps", "Create your first app"),
        "connections-none": ("/connections", "No app can read your account."),
        "connections-disconnected": ("/connections?done=disconnected", "The app is disconnected"),
        "settings-done": ("/settings?done=password", 'role="status"'),
    }.items():
        keep(name, await newcomer.get(path), shows=sentence)


async def _visit_apps(states: PageStates, newcomer: Visitor) -> None:
    keep = states.keep
    long = await newcomer.create_app(LONG_NAME)
    await newcomer.press(long, "Add redirect URI", redirect_uri=LONG_ADDRESS)
    asked = {"client_id": long.removeprefix("/apps/"), "redirect_uri": LONG_ADDRESS}
    connect = await newcomer.get(f"/connect?{urlencode(asked | {'scope': 'profile balance'})}")
    keep("connect-first", connect, shows="Allow</button>")
    to_delete = await newcomer.press(long, "Delete app")
    keep("app-to-delete", to_delete, shows="Delete this app?")
    issued = await newcomer.press(long, "Issue key", key_name=LONG_NAME)
    keep("app-issued-key", issued, shows="Your key")
    to_revoke = await newcomer.press(long, "Revoke")
    keep("key-to-revoke", to_revoke, shows="Revoke this key?")
    keep("app-with-keys-stays", await newcomer.press(long, "Delete app"), shows=ALERT)
    full = await newcomer.create_app("A full app")
    await newcomer.press(full, "Add redirect URI", redirect_uri=LONG_ADDRESS)
    await newcomer.press(full, "Add origin", origin="https://shop.example")
    await newcomer.issue_key(full, "old")
    await newcomer.press_and_confirm(full, "Revoke")
    await newcomer.issue_key(full)
    keep("app-full", await newcomer.press(full, "Rotate"), shows="ends</span>")
    wrong = await newcomer.press(full, "Add origin", origin="http://shop.example/path")
    keep("app-wrong-origin", wrong, shows='id="origin-error"')


async def _visit_second_factor(states: PageStates) -> None:
    portal, keep = states.portal, states.keep
    hedy = await portal.person("hedy", display_name="W" * 100)
    secret = secret_of((await hedy.get("/settings/two-factor")).text, "factor-secret")
    codes = await hedy.press("/settings/two-factor", "Turn on", code=portal.code(secret))
    keep("recovery-codes", codes, shows="I have saved them")
    keep("two-factor-on", await hedy.get("/settings/two-factor"), shows="Turn off</button>")
    settings = await hedy.get("/settings")
    keep("settings-two-factor", settings, shows="recovery codes are left")
    again = portal.visitor()
    await again.sign_in("hedy")
    keep("code", await again.get("/login/code"), shows="Enter your code")
    wrong = await again.press("/login/code", "Continue", code="000000")
    keep("code-wrong", wrong, shows='id="code-error"')


async def _visit_sending(states: PageStates) -> None:
    """Send to Hedy, whose name is as long as can be."""
    grace, keep = await states.visitor("grace"), states.keep
    filled = {"to": "@hedy", "amount": "1,234.567891", "note": LONG_NAME}
    confirmation = (await grace.press("/send", "Continue", **filled)).headers["location"]
    page = keep("send-confirm", await grace.get(confirmation), shows="Send to")
    form = form_with(page.text, "Send 1,234.567891 OUSD")
    sent = await grace.send(form, form.pressed("Send 1,234.567891 OUSD", {}))
    receipt = await grace.get(sent.headers["location"])
    keep("send-receipt", receipt, shows="has received 1,234.567891 OUSD.")
    again = await grace.send(form, form.pressed("Send 1,234.567891 OUSD", {}))
    receipt = await grace.get(again.headers["location"])
    keep("send-again", receipt, shows="has received 1,234.567891 OUSD once.")
    keep("send-already", await grace.get(confirmation), shows="You have sent this already")


async def _visit_passkeys(states: PageStates) -> None:
    keep, phone = states.keep, Authenticator(ORIGIN, "localhost")
    ivan = await states.portal.person("ivan")
    await ivan.use_passkey("/settings/passkeys", "Add passkey", phone, name="W" * 60)
    listed = keep("passkeys-with", await ivan.get("/settings/passkeys"), shows="W" * 60)
    [path] = set(re.findall(r'href="(/settings/passkeys/\w+)"', listed.text))
    keep("passkey", await ivan.get(path), shows="Remove passkey")
    again = states.portal.visitor()
    await again.sign_in("ivan")
    keep("code-passkey", await again.get("/login/code"), shows="Use your passkey")


async def _visit_identity_checks(states: PageStates) -> None:
    portal, keep = states.portal, states.keep
    ida = await portal.person("ida")
    portal.clock.advance(seconds=IDENTITY_CHECK_SECONDS)
    asked = await ida.get("/settings/two-factor")
    keep("identity-check", asked, shows=ASKED_AGAIN)
    form = form_with(asked.text, "Continue")
    for name, password in {"identity-check-wrong": WRONG_PASSWORD, "": PASSWORD}.items():
        answered = await ida.send(form, form.pressed("Continue", {"identity_password": password}))
        if name:
            keep(name, answered, shows='id="identity_password-error"')
    await portal.turn_on_factor(ida)
    portal.clock.advance(seconds=IDENTITY_CHECK_SECONDS)
    filled = {"current_password": PASSWORD, "new_password": "a better horse battery"}
    asked = await ida.press("/settings", "Change password", **filled)
    keep("identity-check-code", asked, shows='name="identity_code"')


async def _visit_reference(states: PageStates) -> None:
    """Run calls on the page of an endpoint: with an answer, and with a refusal."""
    ada, keep, path = await states.visitor("ada"), states.keep, "/docs/api/createTransfer"
    keep("endpoint-own", await ada.get(path), shows="Fill in my key</button>")
    await ada.press(path, "Fill in my key")
    keep("endpoint-filled", await ada.get(path), shows="Run</button>")
    for name, amount, status in (("answered", 1, "201 Created"), ("refused", 2, "409 Conflict")):
        body = f'{{"to": "@grace", "amount": {amount}}}'
        filled = {"header.Idempotency-Key": "states", "body": body}
        ran = await ada.press(path, "Run", **filled)
        keep(f"endpoint-{name}", ran, shows=status)
    optional = await ada.get("/docs/api/listTransfers")
    keep("endpoint-optional", optional, shows="Optional parameters")
    document = await ada.get("/docs/operating/plan-a-cluster")
    keep("document-wide-table", document, shows='class="scrolls"')


async def _visit_lab(states: PageStates) -> None:
    """Rehearse with a client that sends a transfer again under another key."""
    ada, keep, lab = await states.visitor("ada"), states.keep, f"/apps/{states.sample.app.id}/lab"
    await ada.press(lab, "Start rehearsal", rehearsal="answer-lost-after-commit")
    keep("lab-running", await ada.get(lab), shows="No calls yet.")
    for _ in range(3):
        with contextlib.suppress(httpx2.RemoteProtocolError):
            await states.call("/transfers", to="@grace", amount=1)
    keep("lab-failing", await ada.get(lab), shows="The retry had another key.")
    ended = await ada.press(lab, "Finish rehearsal")
    keep("lab-failed", await ada.get(ended.headers["location"]), shows="failed")


async def _fetch_assets(states: PageStates) -> None:
    for url in {url for page in states.answers.values() for url in assets_of(page.text)}:
        states.assets[url] = await states.portal.visitor().get(url)
        assert states.assets[url].status_code == 200, url


def reflecting_urls(hostile: str) -> list[str]:
    """Return addresses that carry a text which their page may show."""
    text = quote(hostile)
    return [
        f"/login?next=/{text}",
        f"/signup?next=/{text}",
        f"/activity?from={text}&kind={text}&next=/{text}",
        f"/settings?done={text}",
        f"/forgot?done={text}",
        f"/reset?token={text}",
        f"/settings/history?before={text}",
        f"/settings/passkeys?done={text}",
        f"/settings/passkeys/{text}",
        f"/{text}",
        f"/apps/{text}",
        f"/connect?client_id={text}&redirect_uri={text}",
        f"/pay/{text}",
        f"/send?to={text}&amount={text}&note={text}",
    ]
