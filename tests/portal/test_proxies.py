"""A visitor's address is taken from trusted proxies only."""

from ipaddress import ip_network
from pathlib import Path

import pytest

from tests.support.engines import Engines
from tests.support.portal import open_portal

pytestmark = pytest.mark.slow

PROXIES = ("127.0.0.1", "10.0.0.0/8", "2001:db8::/32")


@pytest.fixture
def sqlite_url(engines: Engines, tmp_path: Path) -> str:
    """A fresh database."""
    return engines.fresh_url("sqlite", tmp_path)


@pytest.mark.parametrize(
    ("client", "forwarded", "address"),
    [
        ("192.0.2.1", None, "192.0.2.1"),
        ("127.0.0.1", None, "127.0.0.1"),
        ("127.0.0.1", "", "127.0.0.1"),
        ("127.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("10.1.2.3", "198.51.100.7", "198.51.100.7"),
        ("2001:db8::1", "198.51.100.7", "198.51.100.7"),
        ("10.1.2.3", "203.0.113.9, 198.51.100.7", "198.51.100.7"),
        ("10.1.2.3", "203.0.113.9, 198.51.100.7, 10.9.9.9", "198.51.100.7"),
        ("10.1.2.3", "10.8.8.8, 10.9.9.9", "10.8.8.8"),
        ("10.1.2.3", "203.0.113.9:80, 198.51.100.7:40001", "198.51.100.7<"),
        ("10.1.2.3", "[2001:db9::7]:40001", "2001:db9::7<"),
        ("10.1.2.3", "[2001:db9::7]", "2001:db9::7<"),
        ("10.1.2.3", "198.51.100.7, unknown", "10.1.2.3"),
        ("192.0.2.1", "198.51.100.7", "192.0.2.1"),
        ("11.0.0.1", "198.51.100.7", "11.0.0.1"),
        ("::ffff:192.0.2.1", None, "192.0.2.1"),
        ("::ffff:192.0.2.1", "198.51.100.7", "192.0.2.1"),
        ("::ffff:10.1.2.3", "203.0.113.9, ::ffff:198.51.100.7", "198.51.100.7"),
    ],
)
async def test_a_visitors_address(
    sqlite_url: str, client: str, forwarded: str | None, address: str
) -> None:
    """The last one before the proxies that are trusted; what a stranger claims is not believed."""
    trusted = tuple(map(ip_network, PROXIES))
    async with open_portal(sqlite_url, trusted_proxies=trusted) as portal:
        visitor = portal.visitor(client)
        if forwarded is not None:
            visitor.client.headers["X-Forwarded-For"] = forwarded
        await visitor.sign_up("ada")

        history = (await visitor.get("/settings/history")).text
        assert address in history
        assert "::ffff:" not in history
