"""Apps on OAuth libraries that nobody here wrote, told nothing but the issuer's address."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, Self

import httpx2
from authlib.common.errors import AuthlibBaseError
from authlib.common.security import generate_token
from authlib.integrations.requests_client import OAuth2Session as AuthlibSession
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata, get_well_known_url
from oauthlib.oauth2 import OAuth2Error
from requests_oauthlib import OAuth2Session as RequestsSession

from tests.oauth.towns import Town
from tests.support import node

SCOPES = ["profile", "balance"]
SCRIPT = (Path(__file__).parent / "oauth4webapi.mjs").read_text()


class Refused(Exception):
    """The library did not take what came back."""


class Stranger(Protocol):
    """An app: where it sends a person, and what it does once the person is back."""

    asked: str

    def finished(self, returned: str) -> dict[str, Any]:
        """Exchange the code, read, revoke, read again; or raise Refused."""
        ...


class OnAuthlib:
    """An app on Authlib, which sends its credentials in the body."""

    def __init__(self, town: Town) -> None:
        self._town = town
        found = httpx2.get(get_well_known_url(town.stage.server.origin, external=True)).json()
        self._metadata = AuthorizationServerMetadata(found)
        self._metadata.validate()
        self._session: Any = AuthlibSession(
            town.stage.people.app.id,
            town.stage.people.key,
            scope=SCOPES,
            redirect_uri=town.callback,
            token_endpoint_auth_method="client_secret_post",
            code_challenge_method="S256",
        )
        self._verifier = generate_token(48)
        self.asked, self._state = self._session.create_authorization_url(
            found["authorization_endpoint"], code_verifier=self._verifier
        )

    def finished(self, returned: str) -> dict[str, Any]:
        """Exchange the code, read, revoke, read again; or raise Refused."""
        try:
            token = self._session.fetch_token(
                self._metadata["token_endpoint"],
                authorization_response=returned,
                state=self._state,
                code_verifier=self._verifier,
            )
        except AuthlibBaseError as error:
            raise Refused(str(error)) from error
        base_url = self._town.stage.server.base_url
        profile = self._session.get(f"{base_url}/user/me").json()
        balance = self._session.get(f"{base_url}/user/balance").json()
        self._session.revoke_token(self._metadata["revocation_endpoint"], token["access_token"])
        after = self._session.get(f"{base_url}/user/me").status_code
        return report(profile, balance, token, after)


class OnRequests:
    """An app on requests-oauthlib, which sends its credentials as HTTP Basic."""

    def __init__(self, town: Town) -> None:
        self._town = town
        origin = town.stage.server.origin
        self._metadata = httpx2.get(f"{origin}/.well-known/oauth-authorization-server").json()
        self._session = RequestsSession(
            town.stage.people.app.id, redirect_uri=town.callback, scope=SCOPES, pkce="S256"
        )
        self.asked, _ = self._session.authorization_url(self._metadata["authorization_endpoint"])

    def finished(self, returned: str) -> dict[str, Any]:
        """Exchange the code, read, revoke, read again; or raise Refused."""
        credentials = (self._town.stage.people.app.id, self._town.stage.people.key)
        try:
            token = self._session.fetch_token(
                self._metadata["token_endpoint"], authorization_response=returned, auth=credentials
            )
        except OAuth2Error as error:
            raise Refused(str(error)) from error
        base_url = self._town.stage.server.base_url
        profile = self._session.get(f"{base_url}/user/me").json()
        balance = self._session.get(f"{base_url}/user/balance").json()
        self._session.request(
            "POST",
            self._metadata["revocation_endpoint"],
            data={"token": token["access_token"]},
            auth=credentials,
            withhold_token=True,
        ).raise_for_status()
        after = self._session.get(f"{base_url}/user/me").status_code
        return report(profile, balance, token, after)


class OnNode:
    """An app on oauth4webapi, in a process of its own."""

    def __init__(self, town: Town) -> None:
        self._process = node.script(
            SCRIPT,
            town.stage.server.origin,
            town.stage.people.app.id,
            town.stage.people.key,
            town.callback,
            town.stage.server.base_url,
        )
        self.asked = str(self._heard()["asked"])

    def finished(self, returned: str) -> dict[str, Any]:
        """Exchange the code, read, revoke, read again; or raise Refused."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{returned}\n")
        self._process.stdin.flush()
        told = self._heard()
        if "refused" in told:
            raise Refused(told["refused"])
        return told

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=30)

    def _heard(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the app on oauth4webapi has ended"
        told: dict[str, Any] = json.loads(line)
        return told


@contextmanager
def stranger(library: str, town: Town) -> Iterator[Stranger]:
    """Run an app on this library for the length of a block."""
    if library == "oauth4webapi":
        with OnNode(town) as app:
            yield app
    elif library == "authlib":
        yield OnAuthlib(town)
    else:
        yield OnRequests(town)


def report(
    profile: dict[str, Any], balance: dict[str, Any], token: dict[str, Any], after: int
) -> dict[str, Any]:
    """Return what an app has learnt, in the same words for all."""
    scope = token["scope"]
    return {
        "username": profile["username"],
        "currency": balance["currency"],
        "scope": scope if isinstance(scope, str) else " ".join(scope),
        "lifetime": token["expires_in"],
        "after": after,
    }
