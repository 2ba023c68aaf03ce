"""The consent page in a real browser: by its labels, under its policy, to another origin."""

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import NamedTuple
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import pytest
from playwright.sync_api import Page, expect
from typing_extensions import override

from ousel.database.addresses import database_at
from ousel.database.port import Transaction
from ousel.kernel.clock import system_clock
from ousel.partners.store import add_redirect_uri
from tests.journeys.furnished import PASSWORD, Furnished, furnished
from tests.oauth.consents import bearer
from tests.support.browsers import chromium
from tests.support.servers import Server

pytestmark = pytest.mark.slow


class Town(NamedTuple):
    """A server, its people, an app's site beside it, and the connect address of that app."""

    server: Server
    people: Furnished
    shop: str
    address: str


class _Shop(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<h1>Back at the shop</h1>")

    @override
    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def shop() -> Iterator[str]:
    """An app's own site, on another origin; returns its redirect URI."""
    site = HTTPServer(("127.0.0.1", 0), _Shop)
    thread = threading.Thread(target=site.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{site.server_port}/back"
    site.shutdown()
    thread.join()
    site.server_close()


@pytest.fixture(scope="module")
def town(shop: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    """A sandbox with people, whose app has registered the shop's redirect URI."""
    database_url = str(tmp_path_factory.mktemp("town") / "ousel.db")
    with Server(database_url, "--sandbox") as server:
        people = furnished(database_url)
        asyncio.run(_register(database_url, people, shop))
        asked = {
            "client_id": people.app.id,
            "redirect_uri": shop,
            "scope": "profile balance",
            "state": "a b&c",
        }
        yield Town(server, people, shop, f"{server.origin}/connect?{urlencode(asked)}")


@pytest.fixture
def page(town: Town) -> Iterator[Page]:
    """A page of a real Chromium."""
    with chromium() as browser:
        yield browser.new_page(base_url=town.server.origin)


def test_a_person_connects_an_app_and_ends_it(page: Page, town: Town) -> None:
    """Sign in, allow, come back to the app's own site, see the connection, disconnect."""
    page.goto(town.address)
    page.get_by_label("Email or username").fill("grace")
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name=town.people.app.name)).to_be_visible()
    expect(page.get_by_text("Your balance")).to_be_visible()
    page.get_by_role("button", name="Allow").click()
    expect(page.get_by_role("heading", name="Back at the shop")).to_be_visible()
    back = parse_qs(urlsplit(page.url).query)
    token = _exchanged(town, back["code"][0])
    before = httpx2.get(f"{town.server.base_url}/user/me", headers=bearer(token))

    page.goto(f"{town.server.origin}/connections")
    expect(page.get_by_text(town.people.app.name)).to_be_visible()
    page.get_by_role("button", name="Disconnect").click()
    expect(page.get_by_text("is disconnected")).to_be_visible()
    after = httpx2.get(f"{town.server.base_url}/user/me", headers=bearer(token))

    assert (back["state"], back["iss"]) == (["a b&c"], [town.server.origin])
    assert before.json()["username"] == "grace"
    assert after.status_code == 401


def test_a_person_denies_an_app(page: Page, town: Town) -> None:
    """Deny leads back to the app's own site with the error."""
    town.people.sign_in(page, "grace")
    page.goto(town.address)
    page.get_by_role("button", name="Deny").click()
    expect(page.get_by_role("heading", name="Back at the shop")).to_be_visible()

    assert parse_qs(urlsplit(page.url).query)["error"] == ["access_denied"]


def _exchanged(town: Town, code: str) -> str:
    answer = httpx2.post(
        f"{town.server.base_url}/oauth/token",
        data={"grant_type": "authorization_code", "code": code, "redirect_uri": town.shop},
        auth=(town.people.app.id, town.people.key),
    )
    assert answer.status_code == 200, answer.text
    return str(answer.json()["access_token"])


async def _register(database_url: str, people: Furnished, redirect_uri: str) -> None:
    database = database_at(database_url)
    await database.open()

    async def work(transaction: Transaction) -> None:
        await add_redirect_uri(transaction, people.app, redirect_uri, system_clock())

    await database.write(work)
    await database.close()
