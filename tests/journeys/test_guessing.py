"""Guessing passwords on a real server, from one address and from another."""

import re

import httpx2
import pytest

from tests.support.browser import run_in_thread
from tests.support.sample_data import create_sample_data
from tests.support.server import Server
from tests.support.visitor import PASSWORD

pytestmark = pytest.mark.slow


def sign_in(
    server: Server, password: str, local_address: str, name: str = "ada"
) -> httpx2.Response:
    """Try to sign in from this address."""
    transport = httpx2.HTTPTransport(local_address=local_address, verify=False)
    with httpx2.Client(base_url=server.origin, transport=transport, timeout=60) as client:
        page = client.get("/login").text
        token = re.findall(r'name="form_token" value="(\w+)"', page)[0]
        fields = {"form_token": token, "identifier": name, "password": password, "next": "/apps"}
        return client.post("/login", data=fields)


def test_thirty_guesses_from_one_address(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Ten guesses are checked, twenty are refused; the holder can sign in from another address."""
    database_url = str(tmp_path_factory.mktemp("guessing") / "ousel.db")
    with Server(database_url, "--sandbox") as server:
        run_in_thread(create_sample_data(database_url))
        answers = [sign_in(server, f"wrong horse {number}", "127.0.0.1") for number in range(30)]
        assert [answer.status_code for answer in answers] == [400] * 10 + [429] * 20
        limited = sign_in(server, PASSWORD, "127.0.0.1")
        assert limited.status_code == 429
        assert 0 < int(limited.headers["retry-after"]) <= 15 * 60
        assert re.search(r"Try again in \d+ minutes\.", limited.text)
        assert sign_in(server, PASSWORD, "127.0.0.1", "grace").status_code == 303
        entered = sign_in(server, PASSWORD, "127.0.0.2")
        assert (entered.status_code, entered.headers["location"]) == (303, "/apps")
