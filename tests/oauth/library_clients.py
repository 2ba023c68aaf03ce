"""Apps built on third-party OAuth libraries, which know only the issuer's address."""

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

from tests.support import node
from tests.support.browser_world import SampleWorld

SCOPES = ["profile", "balance"]
SCRIPT = (Path(__file__).parent / "oauth4webapi.mjs").read_text()


class Refused(Exception):
    """The library rejected what came back."""


class LibraryClient(Protocol):
    """An app: the address it sends a person to, and what it does when the person is back."""

    connect_url: str

    def finish(self, returned: str) -> dict[str, Any]:
        """Exchange the code, read, revoke, read again; or raise Refused."""
        ...


class AuthlibClient:
    """An app on Authlib, which sends its credentials in the body."""

    def __init__(self, browser_world: SampleWorld) -> None:
        self._world = browser_world
        found = httpx2.get(get_well_known_url(browser_world.server.origin, external=True)).json()
        self._metadata = AuthorizationServerMetadata(found)
        self._metadata.validate()
        self._session: Any = AuthlibSession(
            browser_world.sample.app.id,
            browser_world.sample.key,
            scope=SCOPES,
            redirect_uri=browser_world.callback,
            token_endpoint_auth_method="client_secret_post",
            code_challenge_method="S256",
        )
        self._verifier = generate_token(48)
        self.connect_url, self._state = self._session.create_authorization_url(
            found["authorization_endpoint"], code_verifier=self._verifier
        )

    def finish(self, returned: str) -> dict[str, Any]:
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
        base_url = self._world.server.base_url
        profile = self._session.get(f"{base_url}/user/me").json()
        balance = self._session.get(f"{base_url}/user/balance").json()
        self._session.revoke_token(self._metadata["revocation_endpoint"], token["access_token"])
        after = self._session.get(f"{base_url}/user/me").status_code
        return report(profile, balance, token, after)


class RequestsOauthlibClient:
    """An app on requests-oauthlib, which sends its credentials as HTTP Basic."""

    def __init__(self, browser_world: SampleWorld) -> None:
        self._world = browser_world
        origin = browser_world.server.origin
        self._metadata = httpx2.get(f"{origin}/.well-known/oauth-authorization-server").json()
        self._session = RequestsSession(
            browser_world.sample.app.id,
            redirect_uri=browser_world.callback,
            scope=SCOPES,
            pkce="S256",
        )
        self.connect_url, _ = self._session.authorization_url(
            self._metadata["authorization_endpoint"]
        )

    def finish(self, returned: str) -> dict[str, Any]:
        """Exchange the code, read, revoke, read again; or raise Refused."""
        credentials = (self._world.sample.app.id, self._world.sample.key)
        try:
            token = self._session.fetch_token(
                self._metadata["token_endpoint"], authorization_response=returned, auth=credentials
            )
        except OAuth2Error as error:
            raise Refused(str(error)) from error
        base_url = self._world.server.base_url
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


class Oauth4WebApiClient:
    """An app on oauth4webapi, in a process of its own."""

    def __init__(self, browser_world: SampleWorld) -> None:
        self._process = node.script(
            SCRIPT,
            browser_world.server.origin,
            browser_world.sample.app.id,
            browser_world.sample.key,
            browser_world.callback,
            browser_world.server.base_url,
        )
        self.connect_url = str(self._read_message()["asked"])

    def finish(self, returned: str) -> dict[str, Any]:
        """Exchange the code, read, revoke, read again; or raise Refused."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{returned}\n")
        self._process.stdin.flush()
        message = self._read_message()
        if "refused" in message:
            raise Refused(message["refused"])
        return message

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=240)

    def _read_message(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the app on oauth4webapi has ended"
        message: dict[str, Any] = json.loads(line)
        return message


@contextmanager
def run_client(library: str, browser_world: SampleWorld) -> Iterator[LibraryClient]:
    """Run an app on this library for the length of a block."""
    if library == "oauth4webapi":
        with Oauth4WebApiClient(browser_world) as app:
            yield app
    elif library == "authlib":
        yield AuthlibClient(browser_world)
    else:
        yield RequestsOauthlibClient(browser_world)


def report(
    profile: dict[str, Any], balance: dict[str, Any], token: dict[str, Any], after: int
) -> dict[str, Any]:
    """Return what an app found out, in the same form for all libraries."""
    scope = token["scope"]
    return {
        "username": profile["username"],
        "currency": balance["currency"],
        "scope": scope if isinstance(scope, str) else " ".join(scope),
        "lifetime": token["expires_in"],
        "after": after,
    }
