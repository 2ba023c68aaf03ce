"""A real Chromium, driven as a person would."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.resources import files

from playwright.sync_api import Browser, Page, sync_playwright

from tests.support.programs import check_library, program

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a headless Chromium for the length of a block."""
    check_library("libatomic1")
    path = program("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()


def axe_violations(page: Page, rules: Collection[str] = ()) -> list[str]:
    """Return what axe finds wrong with the page as it is now, by these rules or by all."""
    if not page.evaluate("'axe' in window"):
        page.evaluate((files("axe_playwright_python") / "axe.min.js").read_text())
    options = {"resultTypes": ["violations"]} | ({"runOnly": list(rules)} if rules else {})
    found = page.evaluate("options => axe.run(options)", options)["violations"]
    return [
        f"{each['id']}: {each['help']}: {node['html'][:100]}"
        for each in found
        for node in each["nodes"]
    ]
