"""Guessing passwords on a real server, from one address and from another."""

import re

import httpx2
import pytest

from tests.support.browser_world import SampleWorld
from tests.support.server import Server
from tests.support.visitor import PASSWORD

pytestmark = pytest.mark.slow


def sign_in(
    server: Server, name: str, password: str = PASSWORD, local_address: str = "127.0.0.1"
) -> httpx2.Response:
    """Try to sign in from this address."""
    transport = httpx2.HTTPTransport(local_address=local_address, verify=False)
    with httpx2.Client(base_url=server.origin, transport=transport, timeout=60) as client:
        page = client.get("/login").text
        token = re.findall(r'name="form_token" value="(\w+)"', page)[0]
        fields = {"form_token": token, "identifier": name, "password": password, "next": "/apps"}
        return client.post("/login", data=fields)


def test_guesses_from_one_address(browser_world: SampleWorld) -> None:
    """Ten guesses are checked, others are refused; the holder can sign in from another address."""
    server, name = browser_world.server, browser_world.newcomer()
    answers = [sign_in(server, name, f"wrong horse {number}") for number in range(12)]
    assert [answer.status_code for answer in answers] == [400] * 10 + [429] * 2
    limited = sign_in(server, name)
    assert limited.status_code == 429
    assert 0 < int(limited.headers["retry-after"]) <= 15 * 60
    assert re.search(r"Try again in \d+ minutes\.", limited.text)
    assert sign_in(server, browser_world.newcomer()).status_code == 303
    entered = sign_in(server, name, local_address="127.0.0.2")
    assert (entered.status_code, entered.headers["location"]) == (303, "/apps")
