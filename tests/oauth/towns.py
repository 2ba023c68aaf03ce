"""A town for browsers: a sandbox with people, and an app whose sites stand on other origins."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, quote, urlencode, urlsplit

import httpx2
import msgspec
from playwright.sync_api import Page, expect
from typing_extensions import override

from ousel.database.port import Transaction
from ousel.kernel.clock import system_clock
from ousel.partners.store import add_redirect_uri
from tests.journeys.furnished import PASSWORD
from tests.journeys.stages import Stage, apart, staged
from tests.support.accounts import open_database
from tests.support.raw_sql import RawSql


class Site(ThreadingHTTPServer):
    """A site of somebody else: shows one page, or leads everyone on."""

    daemon_threads = True

    def __init__(self, *, html: str = "", leads_to: str | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Pages)
        self.html = html
        self.leads_to = leads_to
        self.origin = f"http://127.0.0.1:{self.server_port}"

    @contextmanager
    def open(self) -> Iterator[Self]:
        """Serve it for the length of a block."""
        thread = threading.Thread(target=self.serve_forever)
        thread.start()
        yield self
        self.shutdown()
        thread.join()
        self.server_close()


class _Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        assert isinstance(self.server, Site)
        body = self.server.html.encode()
        self.send_response(200 if self.server.leads_to is None else 302)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if self.server.leads_to is not None:
            self.send_header("Location", self.server.leads_to)
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, *_: Any) -> None:
        """Stay silent."""


class Town(msgspec.Struct, frozen=True):
    """A stage, and the two registered addresses of its app: one that stays, one that leads on."""

    stage: Stage
    callback: str
    onward_callback: str

    def address(self, **parameters: str) -> str:
        """Return a connect address of the app."""
        asked = {"client_id": self.stage.people.app.id, "redirect_uri": self.callback}
        query = urlencode(asked | parameters, quote_via=quote)
        return f"{self.stage.server.origin}/connect?{query}"

    def codes(self) -> int:
        """Return how many codes there are."""
        return apart(_codes(self.stage.database_url))

    def token(self, code: str) -> str:
        """Return the token that the app gets for a code."""
        app = self.stage.people.app
        answer = httpx2.post(
            f"{self.stage.server.base_url}/oauth/token",
            data={"grant_type": "authorization_code", "code": code, "redirect_uri": self.callback},
            auth=(app.id, self.stage.people.key),
        )
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])


@contextmanager
def opened_town(folder: Path) -> Iterator[Town]:
    """Set everything up, and take it down in the end."""
    with (
        staged(folder) as stage,
        Site(leads_to=f"{stage.shop_origin}/arrived").open() as relay,
    ):
        town = Town(stage, f"{stage.shop_origin}/back", f"{relay.origin}/back")
        apart(_register(town))
        yield town


def sign_in(page: Page, username: str) -> None:
    """Fill in the sign-in form that is open."""
    page.get_by_label("Email or username").fill(username)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()


def allow(page: Page) -> str:
    """Press Allow, arrive at the app's own site, and return the address that one came back to."""
    page.get_by_role("button", name="Allow").click()
    return arrived(page)


def arrived(page: Page) -> str:
    """Return the address of the app's own site, once it is open."""
    expect(page.get_by_role("heading", name="Welcome back")).to_be_visible()
    return page.url


def brought(url: str) -> dict[str, list[str]]:
    """Return the parameters that came back to the app."""
    return parse_qs(urlsplit(url).query)


async def _register(town: Town) -> None:
    async def work(transaction: Transaction) -> None:
        for redirect_uri in (town.callback, town.onward_callback):
            app = town.stage.people.app
            await add_redirect_uri(transaction, app, redirect_uri, system_clock())

    async with open_database(town.stage.database_url) as database:
        await database.write(work)


async def _codes(database_url: str) -> int:
    async with RawSql(database_url) as raw_sql:
        return int((await raw_sql.run("SELECT COUNT(*) FROM authorization_codes"))[0][0])
