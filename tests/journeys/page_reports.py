"""Reports on pages: accessibility, width, weight, requests to other hosts, console errors."""

import re
from typing import Literal
from urllib.parse import urlsplit

import httpx2
import msgspec
from playwright.sync_api import Browser, Page, Route

from tests.support.browser import (
    AXE_OPTIONS,
    RUN_AXE,
    WAIT_MILLISECONDS,
    load_axe,
    violations_in,
)

# The dark scheme changes colors alone: only the rules of axe about colors run there.
# They depend on the styles of a text and of what is behind it, so each combination is checked once.
COLOR_RULES = ("color-contrast", "link-in-text-block")
COLORS = AXE_OPTIONS | {"runOnly": list(COLOR_RULES)}
OTHERS = AXE_OPTIONS | {"rules": {rule: {"enabled": False} for rule in COLOR_RULES}}
CHECK_COLORS = """([scheme, options]) => {
  const seen = (window.seenStyles ??= { light: new Set(), dark: new Set() })[scheme];
  const known = new Map([[null, ""]]);
  const behind = (element) => {
    if (!known.has(element)) {
      const { backgroundColor, backgroundImage, opacity } = getComputedStyle(element);
      const own = [backgroundColor, backgroundImage, opacity].join();
      const below = behind(element.parentElement);
      known.set(element, own === "rgba(0, 0, 0, 0),none,1" ? below : `${own} on ${below}`);
    }
    return known.get(element);
  };
  const hasText = (element) => element.matches("input, select, textarea")
    || [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
  const include = [...document.body.querySelectorAll("*")].filter((element) => {
    if (!hasText(element) || !element.checkVisibility()) return false;
    const { color, fontSize, fontWeight, textDecorationLine } = getComputedStyle(element);
    const around = getComputedStyle(element.parentElement).color;
    const style = [element.tagName, color, fontSize, fontWeight, textDecorationLine, around];
    const text = `${style} on ${behind(element)}`;
    return !seen.has(text) && seen.add(text);
  });
  return include.length ? axe.run({ include }, options).then((found) => found.violations) : [];
}"""
# Each is narrow for its layout. The first is a phone that shows letters twice as large.
WIDTHS = (180, 320, 840, 1060)
OVERFLOW = "document.scrollingElement.scrollWidth - document.scrollingElement.clientWidth"
# What is wider than the card around it; a `pre` scrolls.
STICKING_OUT = """[...document.querySelectorAll(".card")].flatMap((card) => {
  const end = card.getBoundingClientRect().right - parseFloat(getComputedStyle(card).paddingRight);
  return [...card.querySelectorAll(":not(pre *)")]
    .filter((each) => each.checkVisibility() && each.getBoundingClientRect().right > end + 1)
    .map((each) => `${each.tagName} ${each.className}`);
})"""
# Cards that begin beside each other and end at different heights.
UNEVEN = """[...document.querySelectorAll(".columns")].flatMap((columns) => {
  const boxes = [...columns.children].map((each) => each.getBoundingClientRect());
  return boxes.slice(1).filter((box, index) =>
    box.top === boxes[index].top && Math.abs(box.bottom - boxes[index].bottom) > 1);
}).length"""
LAYOUT = f"[{OVERFLOW}, {STICKING_OUT}, {UNEVEN}]"
UNFOLD = "for (const each of document.querySelectorAll('details')) each.open = true"
ASSET = re.compile(r'(?:src|href)="(/assets/[^"]+)"')
SCRIPT = re.compile(r'(<script src="[^"]+)')
HTML = "text/html; charset=utf-8"


class PageReport(msgspec.Struct):
    """What was found on one page."""

    violations: list[str] = []
    too_wide_at: list[int] = []
    sticking_out: list[str] = []
    uneven_at: list[int] = []
    console: list[str] = []  # what the browser complained of
    requests: list[str] = []  # to anything but assets


class PageWindow:
    """A window of the browser that shows one answer after another.

    Each page is written into the document that is open, so that the window, the cache and axe,
    once loaded, serve for all pages. They run under the policy of the first one.
    """

    def __init__(
        self, browser: Browser, first: httpx2.Response, assets: dict[str, httpx2.Response]
    ) -> None:
        self._assets = {urlsplit(url).path: asset for url, asset in assets.items()}
        self._first = first
        self._report = PageReport()
        self._count = 0
        self._schemes: list[Literal["light", "dark"]] = ["light", "dark"]
        context = browser.new_context(reduced_motion="reduce", color_scheme="light")
        context.set_default_timeout(WAIT_MILLISECONDS)
        context.route("**/*", self._answer)
        self.page: Page = context.new_page()
        self.page.on("console", lambda line: self._report.console.append(line.text))
        self.page.on("pageerror", lambda error: self._report.console.append(str(error)))
        self.page.goto(str(first.url))
        load_axe(self.page)

    def _answer(self, route: Route) -> None:
        url = route.request.url
        if url == str(self._first.url):
            policy = self._first.headers["content-security-policy"]
            headers = {"content-security-policy": policy, "content-type": HTML}
            route.fulfill(body=self._first.content, headers=headers)
        elif (asset := self._assets.get(urlsplit(url).path)) is not None:
            route.fulfill(body=asset.content, content_type=asset.headers["content-type"])
        elif not url.endswith("/status"):  # an open checkout waits for news
            self._report.requests.append(url)
            route.abort()

    def show(self, html: str) -> None:
        """Show a page, and run its scripts."""
        self._count += 1
        # A document runs each module once, so the modules of each page have URLs of their own.
        self.page.set_content(SCRIPT.sub(rf"\1&page={self._count}", html))
        self.page.evaluate(UNFOLD)

    def report(self, html: str) -> PageReport:
        """Report on a page in both color schemes and at every width."""
        self._report = report = PageReport()
        self.show(html)
        for scheme in self._schemes:
            self.page.emulate_media(color_scheme=scheme)
            found = self.page.evaluate(CHECK_COLORS, [scheme, COLORS])
            found += self.page.evaluate(RUN_AXE, OTHERS) if scheme == "light" else []
            report.violations += [f"{scheme}: {each}" for each in violations_in(found)]
        for width in WIDTHS:
            self.page.set_viewport_size({"width": width, "height": 800})
            overflow, sticking_out, uneven = self.page.evaluate(LAYOUT)
            if overflow > 0:
                report.too_wide_at.append(width)
            report.sticking_out += [f"at {width}: {each}" for each in sticking_out]
            if uneven:
                report.uneven_at.append(width)
        self._schemes.reverse()  # the next page begins with the scheme that the window has
        return report


def assets_of(html: str) -> set[str]:
    """Return the URLs of the style sheets, scripts and pictures that a page loads."""
    return set(ASSET.findall(html))
