"""Reports on pages: accessibility, width, weight, requests to other hosts, console errors."""

from typing import Literal
from urllib.parse import urlsplit

import msgspec
from playwright.sync_api import Page, Request, Response

from tests.support.browser import axe_violations

# The dark scheme changes colors alone: only the rules of axe about colors run there.
SCHEMES: dict[Literal["light", "dark"], tuple[str, ...]] = {
    "light": (),
    "dark": ("color-contrast", "link-in-text-block"),
}
WIDTHS = (180, 320, 360, 768, 1280)  # the first is a phone that shows letters twice as large
REQUESTS_MAX = 8
STATUS_LINE = "Failed to load resource: the server responded with a status of 4"
OVERFLOW = "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"


class PageReport(msgspec.Struct):
    """What was found on one page."""

    violations: list[str] = []
    too_wide_at: list[int] = []
    console: list[str] = []  # what the browser complained of
    weight_bytes: int = 0  # uncompressed
    requests: int = 0
    hosts: set[str] = set()


class PageMonitor:
    """Records what a page loads and what the browser complains of."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._finished: list[Request] = []
        self._requested: list[str] = []
        self._console: list[str] = []
        page.on("request", lambda request: self._requested.append(request.url))
        page.on("requestfinished", self._loaded)
        page.on("console", lambda line: self._console.append(line.text))
        page.on("pageerror", lambda error: self._console.append(str(error)))

    def _loaded(self, request: Request) -> None:
        self._finished.append(request)

    def reset(self) -> None:
        """Forget everything recorded so far."""
        self._finished.clear()
        self._requested.clear()
        self._console.clear()

    def report_with_weight(self) -> PageReport:
        """Report on the page, and on the weight of everything that it loaded."""
        self._page.wait_for_load_state("load")
        # At once, because a page that reloads itself takes its bodies with it.
        weight_bytes = sum(len(_response(request).body()) for request in list(self._finished))
        requests = sum(not address.startswith("data:") for address in self._requested)
        report = self.report()
        report.weight_bytes, report.requests = weight_bytes, requests
        return report

    def report(self) -> PageReport:
        """Report on the page as it is now, in both color schemes and at every width."""
        self._page.wait_for_load_state("load")
        report = PageReport(
            console=list(self._console),
            hosts={urlsplit(address).netloc for address in self._requested} - {""},
        )
        for scheme, rules in SCHEMES.items():
            self._page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            report.violations += [f"{scheme}: {each}" for each in axe_violations(self._page, rules)]
        for width in WIDTHS:
            self._page.set_viewport_size({"width": width, "height": 800})
            if self._page.evaluate(OVERFLOW) > 0:
                report.too_wide_at.append(width)
        self._page.set_viewport_size({"width": 1280, "height": 800})
        return report


def _response(request: Request) -> Response:
    response = request.response()
    assert response is not None
    return response


def violations(reports: dict[str, PageReport]) -> dict[str, list[str]]:
    """Return what axe found, by page."""
    return {name: each.violations for name, each in reports.items() if each.violations}


def too_wide(reports: dict[str, PageReport]) -> dict[str, list[int]]:
    """Return the widths at which pages scroll sideways."""
    return {name: each.too_wide_at for name, each in reports.items() if each.too_wide_at}


def too_heavy(reports: dict[str, PageReport], weight_bytes_max: int) -> dict[str, tuple[int, int]]:
    """Return the bytes and requests of pages that load too much."""
    return {
        name: (each.weight_bytes, each.requests)
        for name, each in reports.items()
        if each.weight_bytes >= weight_bytes_max or each.requests > REQUESTS_MAX
    }


def other_hosts(reports: dict[str, PageReport], origin: str) -> dict[str, set[str]]:
    """Return the hosts besides their own that pages sent requests to."""
    own = {urlsplit(origin).netloc}
    return {name: each.hosts - own for name, each in reports.items() if each.hosts - own}


def console_errors(reports: dict[str, PageReport]) -> dict[str, list[str]]:
    """Return what the browser complained of, apart from error statuses, by page."""
    lines_by_page = {
        name: [line for line in each.console if not line.startswith(STATUS_LINE)]
        for name, each in reports.items()
    }
    return {name: lines for name, lines in lines_by_page.items() if lines}
