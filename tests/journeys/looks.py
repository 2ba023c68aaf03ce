"""Looking at a page: what axe says of it, how wide and heavy it is, and whom it asks."""

from typing import Literal
from urllib.parse import urlsplit

import msgspec
from playwright.sync_api import Page, Request

from tests.support.browser import axe_violations

# In the dark only the colours are others, and the rules of axe that look at them.
SCHEMES: dict[Literal["light", "dark"], tuple[str, ...]] = {
    "light": (),
    "dark": ("color-contrast", "link-in-text-block"),
}
WIDTHS = (180, 320, 360, 768, 1280)  # the first is a phone whose letters are twice as large
REQUESTS_MAX = 8
STATUS_LINE = "Failed to load resource: the server responded with a status of 4"
OVERFLOW = "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"


class Seen(msgspec.Struct):
    """What one look at a page showed."""

    violations: list[str] = []
    too_wide_at: list[int] = []
    complaints: list[str] = []  # of the browser, in its console
    weight_bytes: int = 0  # uncompressed
    requests: int = 0
    hosts: set[str] = set()


class Watch:
    """Keeps what a page loads and complains of, from now until it is asked."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._finished: list[Request] = []
        self._asked: list[str] = []
        self._complaints: list[str] = []
        page.on("request", lambda request: self._asked.append(request.url))
        page.on("requestfinished", self._loaded)
        page.on("console", lambda line: self._complaints.append(line.text))
        page.on("pageerror", lambda error: self._complaints.append(str(error)))

    def _loaded(self, request: Request) -> None:
        self._finished.append(request)

    def forget(self) -> None:
        """Begin anew, before the last step that leads to the page."""
        self._finished.clear()
        self._asked.clear()
        self._complaints.clear()

    def weighed(self) -> Seen:
        """Return how the page is now, and what all that it loaded weighs."""
        seen = self.seen()
        seen.requests = sum(not address.startswith("data:") for address in self._asked)
        for request in self._finished:
            response = request.response()
            assert response is not None
            seen.weight_bytes += len(response.body())
        return seen

    def seen(self) -> Seen:
        """Return how the page is now, in both schemes and at every width."""
        self._page.wait_for_load_state("load")
        seen = Seen(
            complaints=list(self._complaints),
            hosts={urlsplit(address).netloc for address in self._asked} - {""},
        )
        for scheme, rules in SCHEMES.items():
            self._page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            seen.violations += [f"{scheme}: {each}" for each in axe_violations(self._page, rules)]
        for width in WIDTHS:
            self._page.set_viewport_size({"width": width, "height": 800})
            if self._page.evaluate(OVERFLOW) > 0:
                seen.too_wide_at.append(width)
        self._page.set_viewport_size({"width": 1280, "height": 800})
        return seen


def violations(seen: dict[str, Seen]) -> dict[str, list[str]]:
    """Return what axe complains of, by page."""
    return {name: each.violations for name, each in seen.items() if each.violations}


def too_wide(seen: dict[str, Seen]) -> dict[str, list[int]]:
    """Return the widths at which pages scroll sideways."""
    return {name: each.too_wide_at for name, each in seen.items() if each.too_wide_at}


def too_heavy(seen: dict[str, Seen], weight_bytes_max: int) -> dict[str, tuple[int, int]]:
    """Return the bytes and requests of pages that load too much."""
    return {
        name: (each.weight_bytes, each.requests)
        for name, each in seen.items()
        if each.weight_bytes >= weight_bytes_max or each.requests > REQUESTS_MAX
    }


def strange_hosts(seen: dict[str, Seen], origin: str) -> dict[str, set[str]]:
    """Return whom pages asked besides their own host."""
    own = {urlsplit(origin).netloc}
    return {name: each.hosts - own for name, each in seen.items() if each.hosts - own}


def complaints(seen: dict[str, Seen]) -> dict[str, list[str]]:
    """Return what the browser said of pages, other than that one is not a success."""
    said = {
        name: [line for line in each.complaints if not line.startswith(STATUS_LINE)]
        for name, each in seen.items()
    }
    return {name: lines for name, lines in said.items() if lines}
