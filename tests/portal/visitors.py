"""Visitors of a portal that runs in the test's own process, at a clock set by hand."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import httpx2

from ousel.app import Ousel
from ousel.kernel.clock import MICROS_PER_SECOND
from ousel.kernel.settings import Settings
from ousel.people.rules import CODE_STEP_SECONDS, one_time_code
from tests.portal.forms import Form, form_with
from tests.support.clocks import ManualClock
from tests.support.transports import InsideTransport

PASSWORD = "correct horse battery"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
SAFARI = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15"
    " (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1"
)


class Visitor:
    """A browser without a screen: keeps cookies, fills forms in, and sends them."""

    def __init__(self, client: httpx2.AsyncClient) -> None:
        self.client = client

    async def get(self, path: str, **headers: str) -> httpx2.Response:
        """Open a page; a redirect is an answer."""
        return await self.client.get(path, headers=headers)

    async def form(self, path: str, button: str) -> Form:
        """Return the form with this button on a page."""
        return form_with((await self.get(path)).text, button)

    async def post(self, action: str, fields: dict[str, str], **headers: str) -> httpx2.Response:
        """Send a form's fields."""
        return await self.client.post(
            action,
            content=urlencode(fields, errors="surrogatepass"),
            headers={"Content-Type": "application/x-www-form-urlencoded", **headers},
        )

    async def press(self, path: str, button: str, **fields: str) -> httpx2.Response:
        """Open a page, fill in the form with this button, and press it."""
        form = await self.form(path, button)
        return await self.send(form, form.pressed(button, fields))

    async def press_and_confirm(self, path: str, button: str) -> httpx2.Response:
        """Press a button, and on the page that it leads to the button of the same name."""
        asked = await self.press(path, button)
        assert asked.status_code == 200, asked.text
        form = form_with(asked.text, button)
        return await self.send(form, form.pressed(button, {}))

    async def send(self, form: Form, fields: dict[str, str]) -> httpx2.Response:
        """Send a form as a browser does, in its own way."""
        if form.method == "post":
            return await self.post(form.action, fields)
        return await self.client.get(form.action, params=fields)

    async def sign_up(self, username: str, /, **fields: str) -> httpx2.Response:
        """Create an account."""
        filled = {
            "username": username,
            "email": f"{username}@example.com",
            "display_name": username.title(),
            "password": PASSWORD,
        }
        return await self.press("/signup", "Create account", **filled | fields)

    async def sign_in(
        self, identifier: str, password: str = PASSWORD, page: str = "/login"
    ) -> httpx2.Response:
        """Sign in with a password."""
        return await self.press(page, "Sign in", identifier=identifier, password=password)

    async def is_signed_in(self) -> bool:
        """Say whether pages for those who are signed in open."""
        return (await self.get("/settings")).status_code == 200

    async def create_app(self, name: str = "Shop") -> str:
        """Create an app, and return the path of its page."""
        created = await self.press("/apps/new", "Create app", name=name)
        assert created.status_code == 303, created.text
        return created.headers["location"]

    async def issue_key(self, app: str, name: str = "server") -> str:
        """Issue a key, and return it."""
        return shown_key(await self.press(app, "Issue key", key_name=name))


class Portal:
    """Ousel, ready to be visited."""

    def __init__(self, ousel: Ousel, clock: ManualClock) -> None:
        self.clock = clock
        self.settings = ousel.settings
        self.database = ousel.database
        self.charge_watch = ousel._charges.notifier  # noqa: SLF001
        self._ousel = ousel
        self._clients: list[httpx2.AsyncClient] = []

    def visitor(self, address: str = "192.0.2.1", device: str = FIREFOX) -> Visitor:
        """Return someone new, at this address, with this browser."""
        return Visitor(self._client(address, {"User-Agent": device, "Accept": "text/html"}))

    async def person(self, username: str, /, address: str = "192.0.2.1", **fields: str) -> Visitor:
        """Return someone who has just signed up."""
        visitor = self.visitor(address)
        answer = await visitor.sign_up(username, **fields)
        assert answer.status_code == 303, answer.text
        return visitor

    async def call(self, path: str, key: str, **headers: str) -> httpx2.Response:
        """Call the interface with a partner's key."""
        client = self._client("192.0.2.200", {"Authorization": f"Bearer {key}"})
        return await client.get(f"{self.settings.base_path}{path}", headers=headers)

    def code(self, secret: str, steps_ahead: int = 0) -> str:
        """Return what an authenticator app with this secret shows now, or some steps from now."""
        step = self.clock() // MICROS_PER_SECOND // CODE_STEP_SECONDS
        return one_time_code(secret, step + steps_ahead)

    async def turn_on_factor(self, visitor: Visitor) -> tuple[str, list[str]]:
        """Turn two-factor sign-in on; return its secret and the recovery codes."""
        page = (await visitor.get("/settings/two-factor")).text
        secret = secret_of(page, "factor-secret")
        done = await visitor.press("/settings/two-factor", "Turn on", code=self.code(secret))
        assert done.status_code == 200, done.text
        codes = done.text.partition("<code>")[2].partition("</code>")[0].split()
        self.clock.advance(seconds=CODE_STEP_SECONDS)  # the code that was used is used up
        return secret, codes

    def _client(self, address: str, headers: dict[str, str]) -> httpx2.AsyncClient:
        transport = InsideTransport(self._ousel, address)
        client = httpx2.AsyncClient(
            transport=transport, base_url=self.settings.portal_url, headers=headers
        )
        self._clients.append(client)
        return client

    async def close(self) -> None:
        """Let all visitors go."""
        for client in self._clients:
            await client.aclose()


@asynccontextmanager
async def opened_portal(database_url: str, **settings: Any) -> AsyncIterator[Portal]:
    """Open a portal on this database."""
    clock = ManualClock()
    chosen = {"portal_url": "http://ousel.test", "base_url": "http://ousel.test/v1"} | settings
    ousel = Ousel(Settings(database_url=database_url, **chosen), clock)
    async with ousel.running():
        portal = Portal(ousel, clock)
        try:
            yield portal
        finally:
            await portal.close()


def secret_of(html: str, element_id: str) -> str:
    """Return the secret that stands in the field with this id."""
    return html.partition(f'<textarea id="{element_id}"')[2].partition(">")[2].partition("<")[0]


def shown_key(page: httpx2.Response) -> str:
    """Return the key that a page shows this once."""
    key = secret_of(page.text, "new-key")
    assert key, page.text
    return key
