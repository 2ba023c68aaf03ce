"""Takes screenshots of every page, for people to look at: `make screenshots`."""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Literal

from tests.journeys.page_reports import PageWindow
from tests.journeys.page_states import visit_all
from tests.support.browser import chromium

WIDTHS = (360, 768, 1280)
FOLDER = Path("screenshots")
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


def main(wanted: list[str]) -> None:
    """Take screenshots of all pages, or of those whose names are given."""
    FOLDER.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        states = asyncio.run(visit_all(str(Path(folder) / "ousel.db")))
    with chromium() as browser:
        window = PageWindow(browser, states.answers["login"], states.assets)
        for name, answer in states.answers.items():
            if not wanted or name in wanted:
                window.show(answer.text)
                _take(window, name)


def _take(window: PageWindow, name: str) -> None:
    for scheme in SCHEMES:
        window.page.emulate_media(color_scheme=scheme)
        for width in WIDTHS:
            window.page.set_viewport_size({"width": width, "height": 800})
            path = FOLDER / f"{name}-{scheme}-{width}.png"
            window.page.screenshot(path=path, full_page=True, animations="disabled")
    print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
