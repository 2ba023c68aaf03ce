"""The documentation opens in the portal, every page of it."""

import re

import pytest

from tests.portal.visitors import Portal


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
async def test_every_document_of_the_contents_opens(portal: Portal) -> None:
    """Each page has one heading of the first order, and leads to pages that open as well."""
    visitor = portal.visitor()
    waiting, opened = ["/docs"], set()
    while waiting:
        address = waiting.pop()
        page = await visitor.get(address)
        assert page.status_code == 200, address
        assert page.text.count("<h1>") == 1, address
        opened.add(address)
        links = re.findall(r'href="(/docs[^"#?]*)', page.text)
        waiting += set(links) - opened - set(waiting)
    assert len(opened) > 20
