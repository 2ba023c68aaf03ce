"""Secrets that people and partners hand over are found in no log, no error and no page."""

import asyncio
import re
import secrets as random_secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from ousel.database.addresses import open_database
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import system_clock
from ousel.kernel.ids import new_secret
from ousel.partners.service import KeyNotFound, key_by_handle, revoke_key
from ousel.people.rules import CODE_STEP_SECONDS, one_time_code
from tests.oauth.consents import REDIRECT_URI, bearer
from tests.support.accounts import app_with_key, partner
from tests.support.engines import Engine, Engines
from tests.support.forms import form_with
from tests.support.raw_sql import RawSql
from tests.support.server import Server
from tests.support.visitor import secret_of

pytestmark = pytest.mark.slow

PASSWORD = "planted-password-4711"
NEW_PASSWORD = "planted-new-password-0815"
WRONG_PASSWORD = "planted-wrong-password-42"
DATABASE_PASSWORD = "planted-database-password"
RATE_LIMIT = "200/minute"  # of each key; only one key is used so often
TABLES_BROKEN = ("authorization_codes", "sessions", "identifiers", "partner_keys", "user_tokens")


class SecretFinder:
    """Calls a server, and keeps every answer except those that must show a secret."""

    def __init__(self, server: Server, client: httpx2.AsyncClient) -> None:
        self.server = server
        self.client = client
        self.secrets: dict[str, str] = {
            "password": PASSWORD,
            "new password": NEW_PASSWORD,
            "wrong password": WRONG_PASSWORD,
            "database password": DATABASE_PASSWORD,
        }
        self.answers: list[str] = []
        self.statuses: set[int] = set()

    async def call(
        self, method: str, path: str, *, shows_secret: bool = False, **options: Any
    ) -> httpx2.Response:
        """Send a request; keep its answer, unless it is the one that shows a secret."""
        answer = await self.client.request(method, f"{self.server.origin}{path}", **options)
        self.statuses.add(answer.status_code)
        if not shows_secret:
            self.answers.append(f"{method} {answer.status_code} {answer.headers!r} {answer.text}")
        return answer

    async def press(
        self, path: str, button: str, *, shows_secret: bool = False, **fields: str
    ) -> httpx2.Response:
        """Open a page, fill its form in, and press a button."""
        page = await self.call("GET", path, shows_secret=shows_secret)
        form = form_with(page.text, button)
        return await self.call(
            "POST", form.action, data=form.pressed(button, fields), shows_secret=shows_secret
        )

    def plant(self, name: str, secret: str) -> None:
        """Add a secret to look for."""
        assert len(secret) >= 12, name
        self.secrets[name] = secret

    def found_in(self, text: str) -> set[str]:
        """Return the names of the secrets that occur in a text."""
        return {name for name, secret in self.secrets.items() if secret in text}


@asynccontextmanager
async def find_secrets(url: str) -> AsyncIterator[SecretFinder]:
    """Run a server with a verbose log; check in the end that no secret is in its log or answers."""
    with Server(url, OUSEL_LOG_LEVEL="debug", OUSEL_RATE_LIMIT=RATE_LIMIT) as server:
        async with httpx2.AsyncClient(verify=False, timeout=30) as client:
            finder = SecretFinder(server, client)
            yield finder
        log = server.stop()
    assert {200, 201, 303, 400, 401, 404, 429} <= finder.statuses
    assert {500, 503} & finder.statuses  # as the engine tells that a table is gone
    assert "internal error" in log or "could not be served" in log
    if 500 in finder.statuses:  # a key in the path of a request that failed came to the log
        assert re.search(r"/v1/accounts/sk_live_[0-9a-v]{8}\.\.\.", log)
    assert finder.found_in(log) == set()
    for answer in finder.answers:
        assert finder.found_in(answer) == set(), answer[:500]


@pytest.fixture
def url(engines: Engines, engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database whose address holds a password where its engine has one."""
    address = engines.fresh_url(engine, tmp_path_factory.mktemp("secrets"))
    return re.sub(r"://postgres:?[^@]*@", f"://postgres:{DATABASE_PASSWORD}@", address)


async def test_no_secret_is_found_anywhere(url: str, engine: Engine) -> None:
    """Valid, wrong, misplaced and failing requests leave no secret in the log, answers or pages."""
    assert (DATABASE_PASSWORD in url) == (engine == "postgresql")
    async with find_secrets(url) as finder:
        client_id = await _keys(finder, url)
        await _partner_calls(finder)
        await _signing_in(finder)
        await _connecting(finder, client_id)
        await _second_factor(finder)
        await _too_often(finder)
        await _failing(finder, url, client_id)


async def _keys(finder: SecretFinder, url: str) -> str:
    async with open_database(url) as database:
        account, app, key = await partner(database, "shop", "100", redirect_uris=[REDIRECT_URI])
        _, revoked = await app_with_key(database, account)
        _, busy = await app_with_key(database, account)

        async def revoke(transaction: Transaction) -> None:
            found = await key_by_handle(transaction, revoked[: len("sk_live_") + 8])
            await revoke_key(transaction, found, system_clock)

        await database.write(revoke)
    finder.plant("key", key)
    finder.plant("revoked key", revoked)
    finder.plant("busy key", busy)
    finder.plant("unknown key", "sk_live_" + random_secrets.token_hex(20))
    finder.plant("test key", "sk_test_" + random_secrets.token_hex(20))
    return app.id


async def _partner_calls(finder: SecretFinder) -> None:
    """Send keys where they belong, and where a careless partner might put them."""
    key = finder.secrets["key"]
    good = bearer(key)
    for name in ("key", "revoked key", "unknown key", "test key"):
        secret = finder.secrets[name]
        await finder.call("GET", "/v1/me", headers=bearer(secret))
        await finder.call("GET", "/v1/me", headers={"Authorization": secret})
        await finder.call("GET", "/v1/me", headers={"Authorization": f"Basic {secret}"})
        await finder.call("GET", f"/v1/me?key={secret}")
        await finder.call("GET", f"/v1/accounts/{secret}", headers=good)
        await finder.call("GET", f"/v1/charges/{secret}", headers=good)
        await finder.call("GET", "/v1/transfers", params={"cursor": secret}, headers=good)
        await finder.call("POST", "/v1/transfers", json={"to": secret, "amount": 1}, headers=good)
        await finder.call(
            "POST", "/v1/transfers", json={"to": "@a", "amount": secret}, headers=good
        )
        await finder.call("POST", "/v1/transfers", content=f'{{"to":"{secret}', headers=good)
        await finder.call("GET", f"/{secret}", headers={"Accept": "text/html"})
    await finder.call("POST", "/v1/charges", json={"amount": 1}, headers=good)


async def _signing_in(finder: SecretFinder) -> None:
    await finder.press("/signup", "Create account", password="short")
    await finder.press("/signup", "Create account", username="?", password=PASSWORD)
    await finder.press(
        "/signup",
        "Create account",
        shows_secret=True,
        username="ada",
        email="ada@example.com",
        display_name="Ada",
        password=PASSWORD,
    )
    session = finder.client.cookies["ousel_session"]
    finder.plant("first session", session)
    await finder.press(
        "/settings", "Change password", current_password=WRONG_PASSWORD, new_password=NEW_PASSWORD
    )
    await finder.press(
        "/settings", "Change password", current_password=PASSWORD, new_password=NEW_PASSWORD
    )
    await finder.press("/settings", "Sign out")
    await finder.press("/login", "Sign in", identifier="ada", password=WRONG_PASSWORD)
    await finder.press(  # where it was typed is where it is shown again, and nowhere else
        "/login", "Sign in", identifier=WRONG_PASSWORD, password=PASSWORD, shows_secret=True
    )
    await finder.press(
        "/login", "Sign in", identifier="ada", password=NEW_PASSWORD, shows_secret=True
    )
    finder.plant("session", finder.client.cookies["ousel_session"])
    await finder.call("GET", "/settings")
    await finder.call("GET", "/settings/history")


async def _connecting(finder: SecretFinder, client_id: str) -> None:
    asked = {"client_id": client_id, "redirect_uri": REDIRECT_URI, "scope": "profile balance"}
    address = f"/connect?{httpx2.QueryParams(asked)}"
    allowed = await finder.press(address, "Allow", shows_secret=True)
    code = parse_qs(urlsplit(allowed.headers["location"]).query)["code"][0]
    finder.plant("code", code)
    exchange = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": REDIRECT_URI,
        "client_id": client_id,
        "client_secret": finder.secrets["key"],
    }
    wrong = ({"code": code[:-1]}, {"redirect_uri": "https://a.example"}, {"client_secret": code})
    for change in wrong:
        await finder.call("POST", "/v1/oauth/token", json=exchange | change)
        await finder.call("POST", "/v1/oauth/token", data=exchange | change)
    given = await finder.call("POST", "/v1/oauth/token", json=exchange, shows_secret=True)
    token = given.json()["access_token"]
    finder.plant("token", token)
    await finder.call("GET", "/v1/user/me", headers=bearer(token))
    await finder.call("GET", "/v1/me", headers=bearer(token))
    await finder.call("GET", "/v1/user/me", headers=bearer(token[:-1] + "0"))
    await finder.call("POST", "/v1/oauth/token", json=exchange)  # a second time
    await finder.call("GET", "/v1/user/balance", headers=bearer(token))
    await finder.call("GET", "/connections")


async def _second_factor(finder: SecretFinder) -> None:
    page = await finder.call("GET", "/settings/two-factor", shows_secret=True)
    factor = secret_of(page.text, "factor-secret")
    finder.plant("second factor", factor)
    code = one_time_code(factor, int(time.time()) // CODE_STEP_SECONDS)
    done = await finder.press("/settings/two-factor", "Turn on", code=code, shows_secret=True)
    codes = done.text.partition("<code>")[2].partition("</code>")[0].split()
    finder.plant("recovery code", codes[0])
    await finder.call("GET", "/settings/two-factor")
    await finder.press("/settings", "Sign out")
    await finder.press(
        "/login", "Sign in", identifier="ada", password=NEW_PASSWORD, shows_secret=True
    )
    finder.plant("half a session", finder.client.cookies["ousel_session"])
    await finder.press("/login/code", "Continue", code="000000")
    await finder.press("/login/code", "Continue", code=codes[0], shows_secret=True)
    finder.plant("last session", finder.client.cookies["ousel_session"])


async def _too_often(finder: SecretFinder) -> None:
    headers = bearer(finder.secrets["busy key"])
    assert 429 not in finder.statuses
    for _ in range(20):  # the third time is often enough, unless the machine is very slow
        await asyncio.gather(*(finder.call("GET", "/v1/me", headers=headers) for _ in range(80)))
        if 429 in finder.statuses:
            break


async def _failing(finder: SecretFinder, url: str, client_id: str) -> None:
    """Break the schema under the server, so that it fails inside while it holds secrets."""
    key, token, code = (finder.secrets[name] for name in ("key", "token", "code"))
    exchange = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": REDIRECT_URI,
        "client_id": client_id,
        "client_secret": key,
    }
    login = form_with((await finder.call("GET", "/settings")).text, "Sign out")
    async with RawSql(url) as raw_sql:
        for table in TABLES_BROKEN:
            await raw_sql.run(f"ALTER TABLE {table} RENAME TO {table}_gone")
            await finder.call("POST", "/v1/oauth/token", json=exchange)
            await finder.call("GET", f"/v1/accounts/{key}", headers=bearer(key))
            await finder.call("GET", "/v1/accounts/@ada", headers=bearer(key))
            await finder.call("GET", f"/v1/accounts/{key}", headers=bearer(key + key))
            await finder.call("GET", "/v1/user/me", headers=bearer(token))
            await finder.call("GET", f"/apps/{key}")
            fields = {"identifier": "ada", "password": PASSWORD, **login.fields}
            await finder.call("POST", "/login", data=fields)
            await finder.call("POST", "/signup", data=fields)


async def test_a_key_given_as_its_own_handle_is_not_repeated(database: Database) -> None:
    """If a whole key is given instead of its handle, the message shows only the handle."""
    key = new_secret("sk_live_")

    with pytest.raises(KeyNotFound) as refused:
        await database.read(lambda transaction: key_by_handle(transaction, key))

    assert refused.value.detail == f"No key has the handle {key[:16]}."
