"""The reference for people leaves nothing out: each endpoint, and each error."""

import html
import re
from collections.abc import AsyncIterator
from functools import cache

import msgspec
import pytest

from ousel.api.openapi import refusals_of
from ousel.api.route import NoBody, Route
from ousel.app.ousel import Ousel
from ousel.kernel.errors import all_refusals
from ousel.kernel.settings import Settings
from tests.support.portal import open_portal
from tests.support.visitor import Visitor

pytestmark = pytest.mark.parametrize("engine", ["sqlite"], indirect=True)


@pytest.fixture
async def reader(database_url: str) -> AsyncIterator[Visitor]:
    """Somebody who reads in a sandbox."""
    async with open_portal(database_url, sandbox=True) as portal:
        yield portal.visitor()


async def test_every_endpoint_is_shown_with_all_that_can_go_wrong(reader: Visitor) -> None:
    """Each has a page of its own, with its path and its error codes; a fault is noticed."""
    pages = await _pages_of_endpoints(reader)
    page = pages["createTransfer"]

    assert set(pages) == set(_routes())
    assert [name for name, page in pages.items() if _not_shown(name, page)] == []
    assert _not_shown("createTransfer", page.replace("#queue_full", "")) == {"queue_full"}
    moved = page.replace("<code>/transfers</code>", "")
    assert _not_shown("createTransfer", moved) == {"/transfers"}


async def test_an_address_of_the_former_page_leads_to_the_endpoint(reader: Visitor) -> None:
    """Every endpoint had a section on /docs/api; now the list has a link in its place."""
    page = (await reader.get("/docs/api")).text

    for name in _routes():
        assert f'<li id="{name}"><a href="/docs/api/{name}">' in page, name
    assert (await reader.get("/docs/api/createMoney")).status_code == 404


async def test_every_call_to_copy_has_the_body_that_its_endpoint_wants(reader: Visitor) -> None:
    """Whoever pastes it is not told that a field, or the whole body, is missing."""
    schemas = _ousel().openapi["components"]["schemas"]
    pages = await _pages_of_endpoints(reader)

    for name, route in _routes().items():
        if route.body is not NoBody:
            page = html.unescape(pages[name])
            body = msgspec.json.decode(page.partition("-d '")[2].partition("'")[0] or "{}")
            assert set(schemas[route.body.__name__]["required"]) <= set(body), name


async def test_every_error_is_shown(reader: Visitor) -> None:
    """Each code has the section that problem answers lead to; without it, it is missed."""
    page = (await reader.get("/docs/errors")).text

    assert _not_explained(page) == set()
    assert _not_explained(page.replace('id="queue_full"', "")) == {"queue_full"}


async def _pages_of_endpoints(reader: Visitor) -> dict[str, str]:
    """Return the page of each endpoint that the list has a link to, by the endpoint's name."""
    listed = (await reader.get("/docs/api")).text
    names = re.findall(r'<a href="/docs/api/(\w+)">', listed)
    return {name: (await reader.get(f"/docs/api/{name}")).text for name in names}


def _not_shown(name: str, page: str) -> set[str]:
    """Return what is missing on the page of this endpoint: its path, or codes of its errors."""
    route = _routes()[name]
    path = route.path.removeprefix(_ousel().settings.base_path)
    codes = [refusal.code for refusal in refusals_of(route)]
    wanted = {path: f"<code>{path}</code>"} | {code: f"/docs/errors#{code}" for code in codes}
    return {name for name, text in wanted.items() if text not in page}


@cache
def _ousel() -> Ousel:
    return Ousel(Settings(database_url="unopened.db", sandbox=True))


def _routes() -> dict[str, Route]:
    """Return the routes that the reference describes, by their names."""
    routes = [route for route in _ousel().routes if isinstance(route, Route)]
    return {route.name: route for route in routes if route.in_reference}


def _not_explained(page: str) -> set[str]:
    codes = {refusal.code for refusal in all_refusals()}
    return {code for code in codes if f'id="{code}"' not in page}
