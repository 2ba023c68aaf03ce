"""Connecting people: the connect address, the answer in the return address, and user tokens."""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs, quote, urlencode, urlsplit

from ousel_client.amounts import encode_object
from ousel_client.drivers import origin_of
from ousel_client.errors import ReturnNotTrusted, UnexpectedAnswer
from ousel_client.exchange import Request, Steps
from ousel_client.operations import Driver, Operation, Resource
from ousel_client.problems import error_from_code
from ousel_client.records import UserToken
from ousel_client.retrying import CallSettings

VERIFIER_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class ProofKey:
    """Proves that the app that exchanges a code is the one that asked for it (PKCE, RFC 7636).

    Store the verifier in the person's session, and pass it to `exchange_code`.
    """

    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(VERIFIER_BYTES), repr=False)

    @property
    def challenge(self) -> str:
        """The hash of the verifier. Unlike the verifier, it is not secret."""
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class _Revocation:
    """The answer to a revocation.

    It has no fields, so any JSON object is accepted, but not the HTML page of a proxy.
    """


class Connect(Resource[Driver]):
    """Connects people's accounts, and exchanges codes for user tokens."""

    def __init__(self, driver: Driver, settings: CallSettings, portal_url: str) -> None:
        """Let people connect at this portal."""
        super().__init__(driver, settings)
        self._portal_url = origin_of(portal_url)

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

        `state` is a secret that you store in the person's session; `code_from` compares it.
        `scope` is a list of scopes, or a text in which spaces separate them.
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
        """Return the code in the address to which the person returned, or raise the error in it."""
        answer = {name: each[-1] for name, each in parse_qs(urlsplit(return_url).query).items()}
        if not state or not _equal(answer.get("state", ""), state):
            raise ReturnNotTrusted("The state in the address is not the one that was sent.")
        issuer = answer.get("iss", "")
        if not _equal(issuer, self._portal_url):
            raise ReturnNotTrusted(
                f"The issuer {issuer!r} is not the portal {self._portal_url!r} (RFC 9207)."
            )
        if "error" in answer:
            raise error_from_code(answer["error"], answer.get("error_description", ""))
        if "code" not in answer:
            raise UnexpectedAnswer("The address contains neither a code nor an error.")
        return answer["code"]

    @Operation
    def exchange_code(
        self,
        code: str,
        *,
        client_id: str,
        redirect_uri: str,
        code_verifier: str | None = None,
    ) -> Steps[UserToken]:
        """Return a user token in exchange for the code of a person who has returned.

        If the answer is lost, so is the token. The client then sends the code again, gets
        InvalidGrant, and raises it: the person has to connect again.
        """
        return self._record(
            UserToken,
            self._client_request(
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
        """Revoke a user token."""
        request = self._client_request("/oauth/revoke", client_id, token=token)
        yield from self._record(_Revocation, request)

    def _client_request(self, path: str, client_id: str, **fields: Any) -> Request:
        """Return a request that sends the key as `client_secret`, not as a bearer token."""
        secret = self._settings.credential.text
        body = encode_object({**fields, "client_id": client_id, "client_secret": secret})
        return Request(method="POST", path=path, body=body)


def _equal(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())
