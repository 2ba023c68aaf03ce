"""Takes pictures of every page, for people to look at: `make screenshots`."""

import sys
import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page

from tests.journeys.checkouts import Look, checkouts
from tests.journeys.furnished import Furnished, furnished
from tests.journeys.states import FACTORED, MEMBERS, STRANGERS
from tests.journeys.visits import new_page, sign_up
from tests.support.browser import chromium
from tests.support.servers import Server

WIDTHS = (360, 768, 1280)
FOLDER = Path("screenshots")
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def main(wanted: list[str]) -> None:
    """Take the pictures, of all pages or of those whose names are given."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        database_url = str(Path(folder) / "ousel.db")
        with Server(database_url, "--sandbox") as server:
            people = furnished(database_url)
            looks = checkouts(database_url, people)
            _visit_all(server, people, wanted)
            _reach_all(server, wanted)
            _look_at_charges(server, people, looks, wanted)


def _visit_all(server: Server, people: Furnished, wanted: list[str]) -> None:
    with chromium() as browser:
        for scheme in SCHEMES:
            context = browser.new_context(color_scheme=scheme, base_url=server.origin)
            page = context.new_page()
            for name, path in people.open_paths().items():
                if not wanted or name in wanted:
                    _take(page, path, f"{name}-{scheme}")
            people.sign_in(page)
            for name, path in people.paths().items():
                if not wanted or name in wanted:
                    _take(page, path, f"{name}-{scheme}")
            context.close()


def _reach_all(server: Server, wanted: list[str]) -> None:
    with chromium() as browser:
        for states in (STRANGERS, MEMBERS, FACTORED):
            chosen = {name: reach for name, reach in states.items() if not wanted or name in wanted}
            page = new_page(browser, server)
            if states is MEMBERS and chosen:
                sign_up(page, "newcomer")
            for name, reach in chosen.items():
                reach(page)
                for scheme in SCHEMES:
                    page.emulate_media(color_scheme=scheme)
                    _picture(page, f"{name}-{scheme}")
            page.context.close()


def _look_at_charges(
    server: Server, people: Furnished, looks: dict[str, Look], wanted: list[str]
) -> None:
    chosen = {name: look for name, look in looks.items() if not wanted or name in wanted}
    with chromium() as browser:
        for username in {look.username for look in chosen.values()}:
            context = browser.new_context(base_url=server.origin)
            page = context.new_page()
            if username is not None:
                people.sign_in(page, username)
            for scheme in SCHEMES:
                page.emulate_media(color_scheme=scheme)
                for name, look in chosen.items():
                    if look.username == username:
                        _take(page, look.path, f"{name}-{scheme}")
            context.close()


def _take(page: Page, path: str, name: str) -> None:
    page.goto(path)
    _picture(page, name)


def _picture(page: Page, name: str) -> None:
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        path = FOLDER / f"{name}-{width}.png"
        page.screenshot(path=path, full_page=True, animations="disabled")
    print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
