"""A portal to visit: live, or a sandbox.

Most pages only call services, which have tests on both engines, so one engine is enough here.
"""

from collections.abc import AsyncIterator

import pytest

from tests.support.engines import Engine
from tests.support.passwords import hash_quickly
from tests.support.portal import Portal, open_portal
from tests.support.visitor import Visitor


@pytest.fixture(autouse=True)
def _quick_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    hash_quickly(monkeypatch)


@pytest.fixture
def engine() -> Engine:
    """The engine of the portal's database."""
    return "sqlite"


@pytest.fixture
async def sandbox(database_url: str) -> AsyncIterator[Portal]:
    """A sandbox's portal, where keys are issued without a second factor."""
    async with open_portal(database_url, sandbox=True) as opened:
        yield opened


@pytest.fixture
async def mailing(database_url: str) -> AsyncIterator[Portal]:
    """A live portal with a mail server, which is away, so that all mail stays in the outbox."""
    mail = {"mail_url": "smtp://127.0.0.1:1", "mail_from": "Ousel <pay@ousel.test>"}
    async with open_portal(database_url, **mail) as opened:
        yield opened


@pytest.fixture
async def ada(portal: Portal) -> Visitor:
    """Ada, who has signed up on the live portal."""
    return await portal.person("ada")


@pytest.fixture
async def partner(sandbox: Portal) -> tuple[Visitor, str, str]:
    """Someone with an app in a sandbox, the app's path, and a key."""
    visitor = await sandbox.person("ada")
    app = await visitor.create_app("Analytical Engines")
    key = await visitor.issue_key(app)
    sandbox.clock.advance(seconds=1)  # keys that follow stand below it
    return visitor, app, key
