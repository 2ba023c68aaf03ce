"""The documentation opens in the portal, every page of it."""

import re

import pytest

from tests.support.portal import Portal
from tests.support.visitor import Visitor


@pytest.mark.slow
async def test_every_document_of_the_contents_opens(portal: Portal) -> None:
    """Each has a title of its own and one heading of the first order; each link leads on.

    None has a style, which the Content-Security-Policy would forbid, or is larger than 45 KB.
    """
    pages = await _opened(portal.visitor())

    assert len(pages) > 20
    assert len({_title(page) for page in pages.values()}) == len(pages)
    for address, page in pages.items():
        assert page.count("<h1>") == 1, address
        assert " style=" not in page, address
        assert len(page.encode()) < 45_000, address
        for target in re.findall(r'<a href="([^"]+)"', page):
            assert target.startswith(("/", "#", "http")), (address, target)
            path, _, anchor = target.partition("#")
            if anchor and not target.startswith("http"):
                assert f'id="{anchor}"' in pages[path or address], (address, target)


async def test_a_title_names_the_page_and_then_the_site(portal: Portal) -> None:
    """So it is also on the first page, whose heading is the site's own name."""
    visitor = portal.visitor()
    for address, title in (
        ("/docs", "Documentation · Ousel"),
        ("/docs/tutorial/first-transfer", "Your first transfer · Ousel"),
    ):
        assert _title((await visitor.get(address)).text) == title


async def _opened(visitor: Visitor) -> dict[str, str]:
    """Return every page that the documentation leads to, by its address."""
    waiting, pages = ["/docs"], dict[str, str]()
    while waiting:
        address = waiting.pop()
        page = await visitor.get(address)
        assert page.status_code == 200, address
        pages[address] = page.text
        links = re.findall(r'href="(/docs[^"#?]*)', page.text)
        waiting += set(links) - set(pages) - set(waiting)
    return pages


def _title(html: str) -> str:
    return html.partition("<title>")[2].partition("</title>")[0]
