"""The reference for people leaves nothing out: each endpoint, and each error."""

import html
from collections.abc import AsyncIterator

import msgspec
import pytest

from ousel.api.openapi import refusals_of
from ousel.api.route import NoBody, Route
from ousel.app import Ousel
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
    """Each has a section of its own, with its path and its error codes; a fault is noticed."""
    page = (await reader.get("/docs/api")).text

    assert _not_shown(page) == set()
    for words, missing in (
        ('id="createTransfer"', {"createTransfer"}),
        ("<code>/charges/{id}/cancel</code>", {"cancelCharge /charges/{id}/cancel"}),
        ("#queue_full", {"createTransfer queue_full"}),
    ):
        assert missing <= _not_shown(page.replace(words, "")), missing


async def test_every_call_to_copy_has_the_body_that_its_endpoint_wants(reader: Visitor) -> None:
    """Whoever pastes it is not told that a field, or the whole body, is missing."""
    page = html.unescape((await reader.get("/docs/api")).text)
    ousel = Ousel(Settings(database_url="unopened.db", sandbox=True))
    schemas = ousel.openapi["components"]["schemas"]
    bodies = {
        route.name: schemas[route.body.__name__]["required"]
        for route in ousel.routes
        if isinstance(route, Route) and route.in_reference and route.body is not NoBody
    }

    for name, required in bodies.items():
        section = page.partition(f'<section class="card" id="{name}"')[2].partition("</section>")[0]
        body = msgspec.json.decode(section.partition("-d '")[2].partition("'")[0] or "{}")
        assert set(required) <= set(body), name


async def test_every_error_is_shown(reader: Visitor) -> None:
    """Each code has the section that problem answers lead to; without it, it is missed."""
    page = (await reader.get("/docs/errors")).text

    assert _not_explained(page) == set()
    assert _not_explained(page.replace('id="queue_full"', "")) == {"queue_full"}


def _not_shown(page: str) -> set[str]:
    """Return operations without a section, and what is missing in the sections of others."""
    ousel = Ousel(Settings(database_url="unopened.db", sandbox=True))
    missing = set()
    for route in ousel.routes:
        if not isinstance(route, Route) or not route.in_reference:
            continue
        _, found, rest = page.partition(f'<section class="card" id="{route.name}"')
        section = rest.partition("</section>")[0]
        path = route.path.removeprefix(ousel.settings.base_path)
        codes = [refusal.code for refusal in refusals_of(route)]
        wanted = {path: f"<code>{path}</code>"} | {code: f"/docs/errors#{code}" for code in codes}
        missing |= {f"{route.name} {name}" for name, text in wanted.items() if text not in section}
        missing |= set() if found else {route.name}
    return missing


def _not_explained(page: str) -> set[str]:
    codes = {refusal.code for refusal in all_refusals()}
    return {code for code in codes if f'id="{code}"' not in page}
