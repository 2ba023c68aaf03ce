"""Takes screenshots of every page, for people to look at: `make screenshots`."""

import sys
import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page

from tests.journeys.checkout_pages import create_checkout_pages
from tests.journeys.page_states import (
    SENDING,
    SIGNED_IN,
    SIGNED_OUT,
    WITH_SECOND_FACTOR,
    identity_checks,
)
from tests.support.browser import chromium, run_in_thread, sign_up
from tests.support.browser_world import SampleWorld, run_browser_world

WIDTHS = (360, 768, 1280)
FOLDER = Path("screenshots")
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def main(wanted: list[str]) -> None:
    """Take screenshots of all pages, or of those whose names are given."""
    FOLDER.mkdir(exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        chromium() as browser,
        run_browser_world(SampleWorld, browser, Path(folder), "--sandbox") as world,
    ):
        sample = world.sample
        pages: list[tuple[str | None, str, str]]
        pages = [(None, name, path) for name, path in sample.open_paths().items()]
        pages += [(sample.person.username, name, path) for name, path in sample.paths().items()]
        charges = run_in_thread(create_checkout_pages(world.database_url, sample))
        pages += [(each.username, name, each.path) for name, each in charges.items()]
        for username, name, path in pages:
            if not wanted or name in wanted:
                page = world.page(username)
                page.goto(path)
                _take(page, name)
                page.context.close()
        _take_states(world, wanted)


def _take_states(world: SampleWorld, wanted: list[str]) -> None:
    questions = identity_checks(world.forget_identity_checks)
    for states in (SIGNED_OUT, SIGNED_IN, WITH_SECOND_FACTOR, SENDING, questions):
        chosen = {name: reach for name, reach in states.items() if not wanted or name in wanted}
        page = world.page("grace" if states is SENDING else None)
        if states is SIGNED_IN and chosen:
            sign_up(page, "newcomer")
        for name, reach in chosen.items():
            reach(page)
            _take(page, name)
        page.context.close()


def _take(page: Page, name: str) -> None:
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            path = FOLDER / f"{name}-{scheme}-{width}.png"
            page.screenshot(path=path, full_page=True, animations="disabled")
    print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
