"""An app and a person who connects it, with the codes and tokens between them."""

import base64
import hashlib
import secrets
from typing import Any, Self
from urllib.parse import quote, urlencode

import httpx2
import msgspec

from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock, system_clock
from ousel.ledger.rules import Account
from ousel.oauth.connect import ConnectRequest, ErrorRedirect, connect_request, issue_code
from ousel.partners.rules import App
from tests.support.accounts import partner, person

REDIRECT_URI = "https://shop.example/return?lane=3"
ISSUER = "https://ousel.example"
BOTH = "profile balance"
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"


class Consent(msgspec.Struct, frozen=True):
    """An app with its key, and a person who may let it read."""

    database: Database
    app: App
    key: str
    user: Account

    @classmethod
    async def of_new_people(cls, database: Database, **app: Any) -> Self:
        """Open an app and a person, whose names nobody else has."""
        tag = secrets.token_hex(5)
        wanted: dict[str, Any] = {"redirect_uris": [REDIRECT_URI], **app}
        _, created, key = await partner(database, f"app_{tag}", **wanted)
        return cls(database, created, key, await person(database, f"user_{tag}", "12.5"))

    async def request(self, **parameters: str) -> ConnectRequest | ErrorRedirect:
        """Return what becomes of a connect address with these parameters."""
        asked = {"client_id": self.app.id, "redirect_uri": REDIRECT_URI, "scope": BOTH}
        query = urlencode(asked | parameters, quote_via=quote).encode()
        return await self.database.read(
            lambda transaction: connect_request(transaction, query, ISSUER)
        )

    async def code(self, clock: Clock = system_clock, /, **parameters: str) -> str:
        """Return a code that the person granted to the app."""
        request = await self.request(**parameters)
        assert isinstance(request, ConnectRequest), request

        async def granted(transaction: Transaction) -> str:
            return await issue_code(transaction, request, self.user.id, clock)

        return await self.database.write(granted)

    def exchange(self, code: str, **changed: str | None) -> dict[str, str | None]:
        """Return the fields of a request that exchanges the code, with some of them changed."""
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": REDIRECT_URI,
            "client_id": self.app.id,
            "client_secret": self.key,
        }
        return {**fields, **changed}

    async def token(
        self, client: httpx2.AsyncClient, clock: Clock = system_clock, /, **parameters: str
    ) -> str:
        """Return a user token that the app got for a new code."""
        fields = self.exchange(await self.code(clock, **parameters))
        answer = await client.post("/oauth/token", json=fields)
        assert answer.status_code == 200, answer.text
        return str(answer.json()["access_token"])


def bearer(token: str) -> dict[str, str]:
    """Return the header that carries the token."""
    return {"Authorization": f"Bearer {token}"}


def basic(client_id: str, secret: str) -> str:
    """Return the value of an Authorization header that carries the app's credentials."""
    return "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()


def challenge_of(verifier: str) -> str:
    """Return the S256 challenge of a verifier."""
    digest = hashlib.sha256(verifier.encode()).digest()
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")
