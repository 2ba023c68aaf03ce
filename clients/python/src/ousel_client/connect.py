"""Connecting people: the address to send them to, what they come back with, and user tokens."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from ousel_client.amounts import json_object
from ousel_client.errors import Problem, ReturnNotTrusted, UnexpectedAnswer
from ousel_client.exchange import Request, Steps
from ousel_client.operations import Driver, Operation, Resource
from ousel_client.problems import error_with
from ousel_client.records import UserToken
from ousel_client.retrying import Conduct

VERIFIER_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class ProofKey:
    """Proves that who exchanges a code is who asked for it (PKCE, RFC 7636).

    Keep the verifier in the person's session, and give it to `exchange_code`.
    """

    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(VERIFIER_BYTES), repr=False)

    @property
    def challenge(self) -> str:
        """What may be shown: the verifier's hash."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class _Revocation:
    """What the answer to a revocation has to tell: that Ousel gave it."""


class Connecting(Resource[Driver]):
    """Sends people to the portal to connect their accounts, and gets tokens for them."""

    def __init__(self, driver: Driver, conduct: Conduct, portal_url: str) -> None:
        """People connect at this portal."""
        super().__init__(driver, conduct)
        self._portal_url = portal_url.rstrip("/")

    def connect_url(
        self,
        *,
        client_id: str,
        redirect_uri: str,
        state: str,
        scope: str | Iterable[str] = ("profile",),
        proof_key: ProofKey | None = None,
    ) -> str:
        """Return the address to send a person's browser to.

        `state` is a secret of the person's session: `code_from` compares it. `scope` is a list
        of scopes, or a text with spaces between them.
        """
        parameters = {
            "response_type": "code",
            "client_id": client_id,
            "redirect_uri": redirect_uri,
            "scope": scope if isinstance(scope, str) else " ".join(scope),
            "state": state,
        }
        if proof_key is not None:
            parameters["code_challenge"] = proof_key.challenge
            parameters["code_challenge_method"] = "S256"
        return f"{self._portal_url}/connect?{urlencode(parameters, quote_via=quote)}"

    def code_from(self, return_url: str, *, state: str) -> str:
        """Return the code in the address that the person came back to, or raise what it says."""
        told = {name: each[-1] for name, each in parse_qs(urlsplit(return_url).query).items()}
        if not state or not _equal(told.get("state", ""), state):
            raise ReturnNotTrusted("The state is not the one that was sent out.")
        issuer = told.get("iss", "")
        if not _equal(issuer, self._portal_url):
            raise ReturnNotTrusted(
                f"The issuer {issuer!r} is not the portal {self._portal_url!r} (RFC 9207)."
            )
        if "error" in told:
            detail = told.get("error_description", "")
            status = HTTPStatus.BAD_REQUEST
            raise error_with(Problem(status=status, code=told["error"], detail=detail))
        if "code" not in told:
            raise UnexpectedAnswer("The address has neither a code nor an error.")
        return told["code"]

    @Operation
    def exchange_code(
        self,
        code: str,
        *,
        client_id: str,
        redirect_uri: str,
        code_verifier: str | None = None,
    ) -> Steps[UserToken]:
        """Exchange the code of a person who came back for a user token.

        Where an answer is lost, its token is lost with it: the code is then sent once more, and
        InvalidGrant says that the person has to connect again.
        """
        return self._record(
            UserToken,
            self._credited(
                "/oauth/token",
                client_id,
                grant_type="authorization_code",
                code=code,
                redirect_uri=redirect_uri,
                code_verifier=code_verifier,
            ),
        )

    @Operation
    def revoke(self, token: str, *, client_id: str) -> Steps[None]:
        """End a user token."""
        return self._revoked(self._credited("/oauth/revoke", client_id, token=token))

    def _revoked(self, request: Request) -> Steps[None]:
        yield from self._record(_Revocation, request)

    def _credited(self, path: str, client_id: str, **fields: Any) -> Request:
        """Return a request that shows the key as the app's secret, and not as a bearer's."""
        secret = self._conduct.credential.text
        body = json_object({**fields, "client_id": client_id, "client_secret": secret})
        return Request(method="POST", path=path, body=body)


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
