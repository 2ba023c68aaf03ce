"""A server, a shop on another origin, and a browser in which people are signed in."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import httpx2
from playwright.sync_api import Browser, Page

from ousel.database.addresses import open_database
from tests.support.accounts import person, unique_name
from tests.support.browser import WAIT_MILLISECONDS, run_in_thread
from tests.support.forms import form_with
from tests.support.passwords import QUICK_HASHER
from tests.support.raw_sql import RawSql
from tests.support.sample_data import SampleData, create_sample_data
from tests.support.server import Server
from tests.support.site import Site
from tests.support.visitor import PASSWORD

WorldType = TypeVar("WorldType", bound="BrowserWorld")

SHOP_PAGE = "<!doctype html><title>Shop</title><h1>Welcome back</h1>"


class BrowserWorld:
    """A server, a browser, a shop that says "Welcome back", and a site that redirects to it."""

    def __init__(
        self, browser: Browser, server: Server, database_url: str, shop: Site, relay: Site
    ) -> None:
        self.browser = browser
        self.database_url = database_url
        self.server = server
        self.shop_origin = shop.origin
        self.relay_origin = relay.origin
        self._cookies: dict[str, list[Any]] = {}

    def page(self, username: str | None = None, **options: Any) -> Page:
        """Return a new page, on which this person (with the usual password) is signed in."""
        context = self.browser.new_context(base_url=self.server.origin, **options)
        context.set_default_timeout(WAIT_MILLISECONDS)
        if username is not None:
            if username not in self._cookies:
                self._cookies[username] = self.sign_in(username, self.server.origin)
            context.add_cookies(self._cookies[username])
        # Requests to other sites get an empty answer, so that the page does not change.
        context.route("https://**", lambda route: route.fulfill(status=204))
        return context.new_page()

    def sign_in(self, username: str, origin: str) -> list[Any]:
        """Sign in at this origin without the browser, and return the cookies of the session."""
        with httpx2.Client(base_url=origin, verify=False) as client:
            form = form_with(client.get("/login").text, "Sign in")
            filled = {"identifier": username, "password": PASSWORD}
            answer = client.post(form.action, data=form.pressed("Sign in", filled))
            assert answer.status_code == 303, answer.text
            return [
                {"name": name, "value": client.cookies[name], "url": origin}
                for name in client.cookies
            ]

    def newcomer(self, username: str | None = None, display_name: str | None = None) -> str:
        """Add somebody who has the usual password, and return the username."""
        chosen, hashed = username or unique_name(), QUICK_HASHER.hash(PASSWORD)

        async def add() -> None:
            async with open_database(self.database_url) as database:
                await person(database, chosen, display_name=display_name, password_hash=hashed)

        run_in_thread(add())
        return chosen

    def forget_identity_checks(self) -> None:
        """Let pages ask again for the password or code before what matters."""

        async def forget() -> None:
            async with RawSql(self.database_url) as raw_sql:
                await raw_sql.run("UPDATE sessions SET identity_checked_at = 0")

        run_in_thread(forget())

    def close_pages(self) -> None:
        """Close every page that is open."""
        for context in self.browser.contexts:
            context.close()


class SampleWorld(BrowserWorld):
    """A sandbox with sample data, whose partner calls the API."""

    def __init__(
        self, browser: Browser, server: Server, database_url: str, shop: Site, relay: Site
    ) -> None:
        super().__init__(browser, server, database_url, shop, relay)
        self.callback = f"{self.shop_origin}/back"
        self.redirecting_callback = f"{self.relay_origin}/back"
        self.sample: SampleData = run_in_thread(
            create_sample_data(database_url, self.callback, self.redirecting_callback)
        )

    def call(self, method: str, path: str, **body: Any) -> Any:
        """Call the API as the partner, and return the answer's JSON."""
        answer = httpx2.request(
            method,
            f"{self.server.base_url}{path}",
            json=body or None,
            headers={"Authorization": f"Bearer {self.sample.key}"},
            verify=False,
        )
        assert answer.is_success, answer.text
        return answer.json()

    def charge(self, **fields: Any) -> dict[str, Any]:
        """Create a charge of 25.00 whose payer returns to the shop."""
        usual = {
            "amount": 25,
            "success_url": f"{self.shop_origin}/thanks?order=1&paid=yes",
            "cancel_url": f"{self.shop_origin}/basket",
        }
        record: dict[str, Any] = self.call("POST", "/charges", **usual | fields)
        return record

    def payments(self, charge_id: str) -> list[dict[str, Any]]:
        """Return the partner's transfers that paid this charge."""
        listed = self.call("GET", "/transfers?kind=charge_payment&limit=100")
        return [each for each in listed["data"] if each["charge_id"] == charge_id]

    def connect_url(self, **parameters: str) -> str:
        """Return an address at which the partner's app asks a person to connect."""
        asked = {"client_id": self.sample.app.id, "redirect_uri": self.callback}
        query = urlencode(asked | parameters, quote_via=quote)
        return f"{self.server.origin}/connect?{query}"

    def user_token(self, code: str) -> str:
        """Return the user token that the app gets for a code."""
        answer = httpx2.post(
            f"{self.server.base_url}/oauth/token",
            data={"grant_type": "authorization_code", "code": code, "redirect_uri": self.callback},
            auth=(self.sample.app.id, self.sample.key),
            verify=False,
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])

    def count_codes(self) -> int:
        """Return how many authorization codes were issued."""

        async def count() -> int:
            async with RawSql(self.database_url) as raw_sql:
                return int((await raw_sql.run("SELECT COUNT(*) FROM authorization_codes"))[0][0])

        return run_in_thread(count())


@contextmanager
def run_browser_world(
    kind: type[WorldType], browser: Browser, folder: Path, *options: str
) -> Iterator[WorldType]:
    """Run a server with these options and two other sites, and visit them with this browser."""
    database_url = str(folder / "ousel.db")
    with (
        Site(html=SHOP_PAGE).open() as shop,
        Site(redirects_to=f"{shop.origin}/arrived").open() as relay,
        Server(database_url, *options) as server,
    ):
        yield kind(browser, server, database_url, shop, relay)
