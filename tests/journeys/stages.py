"""A stage for journeys: a sandbox with a furnished portal, a shop to return to, and a browser."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect
from typing_extensions import override

from tests.journeys.checkouts import Look, checkouts
from tests.journeys.furnished import Furnished, furnished
from tests.support.browser import chromium
from tests.support.servers import Server

PATIENCE_MILLISECONDS = 20_000  # a busy machine is no defect

Result = TypeVar("Result")


class _ShopPages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b"<!doctype html><title>Shop</title><h1>Welcome back</h1>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def log_message(self, *_: Any) -> None:
        """Stay silent."""


class Stage:
    """All that a journey through the checkout needs."""

    def __init__(
        self,
        browser: Browser,
        server: Server,
        database_url: str,
        people: Furnished,
        looks: dict[str, Look],
    ) -> None:
        self.browser = browser
        self.database_url = database_url
        self.server = server
        self.people = people
        self.looks = looks
        self.shop_origin = ""
        self._states: dict[str, Any] = {}
        self._client = httpx2.Client(
            base_url=server.base_url, headers={"Authorization": f"Bearer {people.key}"}
        )

    def page(self, username: str | None = None, **options: Any) -> Page:
        """Return a new page of a browser in which this person is signed in."""
        if username is not None and username not in self._states:
            context = self._context()
            self.people.sign_in(context.new_page(), username)
            self._states[username] = context.storage_state()
            context.close()
        state = None if username is None else self._states[username]
        return self._context(storage_state=state, **options).new_page()

    def call(self, method: str, path: str, **body: Any) -> Any:
        """Call the interface as the partner, and return what it answers."""
        answer = self._client.request(method, path, json=body or None)
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

    def close_pages(self) -> None:
        """Close every page that is open."""
        for context in self.browser.contexts:
            context.close()

    def close(self) -> None:
        """Let the partner's client go."""
        self._client.close()

    def _context(self, **options: Any) -> BrowserContext:
        context = self.browser.new_context(base_url=self.server.origin, **options)
        context.set_default_timeout(PATIENCE_MILLISECONDS)
        context.route("https://**", _nowhere)
        return context


@contextmanager
def staged(folder: Path) -> Iterator[Stage]:
    """Set everything up, and take it down in the end."""
    database_url = str(folder / "ousel.db")
    expect.set_options(timeout=PATIENCE_MILLISECONDS)
    shop = ThreadingHTTPServer(("127.0.0.1", 0), _ShopPages)
    threading.Thread(target=shop.serve_forever, daemon=True).start()
    with Server(database_url, "--sandbox") as server:
        people = furnished(database_url)
        looks = checkouts(database_url, people)
        with chromium() as browser:
            stage = Stage(browser, server, database_url, people, looks)
            stage.shop_origin = f"http://127.0.0.1:{shop.server_port}"
            yield stage
            stage.close()
    shop.shutdown()
    shop.server_close()


def apart(work: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine in a thread of its own: the browser's driver holds this one's loop."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _nowhere(route: Route) -> None:
    """Answer calls to the world outside so that the page stays where it is."""
    route.fulfill(status=204)
