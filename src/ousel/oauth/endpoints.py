"""POST /oauth/token and /oauth/revoke, and the server's metadata."""

from typing import Final

from ousel.api.callers import Partner
from ousel.api.route import AnswerDescription, Call, NoBody, NoQuery, Route
from ousel.http.messages import Answer, json_answer
from ousel.kernel.settings import Settings
from ousel.oauth.client_authentication import ClientAuthenticator
from ousel.oauth.records import (
    OauthError,
    RevocationRecord,
    RevocationRequest,
    TokenRecord,
    TokenRequest,
    error_answer,
    metadata_record,
)
from ousel.oauth.refusals import InvalidRequest, UnsupportedGrantType
from ousel.oauth.rules import Exchange
from ousel.oauth.service import TokenService

WELL_KNOWN: Final = "/.well-known/oauth-authorization-server"

_TOKEN_FAILURE: Final = AnswerDescription(
    "`invalid_request`, `invalid_grant`, `unsupported_grant_type`.", OauthError
)
_REVOCATION_FAILURE: Final = AnswerDescription("`invalid_request`, `invalid_grant`.", OauthError)
_CLIENT_FAILURES: Final = {
    401: AnswerDescription("`invalid_client`.", OauthError, {"WWW-Authenticate": "Basic .+"}),
    403: AnswerDescription(
        "`invalid_request`: the origin is not registered for the app.", OauthError
    ),
    429: AnswerDescription(
        "`temporarily_unavailable`: too many requests with this key.",
        OauthError,
        {"Retry-After": "[0-9]+"},
    ),
}


class OauthEndpoints:
    """Lets apps exchange codes for user tokens, and revoke tokens."""

    def __init__(
        self, tokens: TokenService, clients: ClientAuthenticator, settings: Settings
    ) -> None:
        """Serve the apps that `clients` authenticates."""
        self._tokens = tokens
        self._clients = clients
        self._metadata = json_answer(metadata_record(settings))
        self._token_route = Route(
            method="POST",
            path=f"{settings.base_path}/oauth/token",
            endpoint=self.token,
            name="createUserToken",
            summary="Exchange a code for a user token",
            description=(
                "Your server makes this call. The credentials are the app's client_id with one of "
                "its partner keys as client_secret. A code is valid for 10 minutes and can be "
                "exchanged once: a second attempt ends the token that was issued for it."
            ),
            access="client",
            body=TokenRequest,
            takes_forms=True,
            successes={200: AnswerDescription("A user token.", TokenRecord)},
            refusal_format=error_answer,
            failures={400: _TOKEN_FAILURE, **_CLIENT_FAILURES},
        )
        self._revocation_route = Route(
            method="POST",
            path=f"{settings.base_path}/oauth/revoke",
            endpoint=self.revoke,
            name="revokeUserToken",
            summary="Revoke a user token",
            description="An unknown token gets the same answer (RFC 7009).",
            access="client",
            body=RevocationRequest,
            takes_forms=True,
            successes={200: AnswerDescription("The token is revoked.", RevocationRecord)},
            refusal_format=error_answer,
            failures={400: _REVOCATION_FAILURE, **_CLIENT_FAILURES},
        )

    def routes(self) -> list[Route]:
        """Return the two endpoints and the well-known path of the metadata."""
        return [
            self._token_route,
            self._revocation_route,
            Route(
                method="GET",
                path=WELL_KNOWN,
                endpoint=self.metadata,
                name="oauthMetadata",
                summary="What the authorization server can do",
                access="public",
                in_reference=False,
            ),
        ]

    async def token(self, call: Call[TokenRequest, NoQuery]) -> Answer:
        """Exchange a code for a user token."""
        return await self._clients.serve(call, self._token_route, self._exchange)

    async def revoke(self, call: Call[RevocationRequest, NoQuery]) -> Answer:
        """Revoke a user token."""
        return await self._clients.serve(call, self._revocation_route, self._revoke)

    async def metadata(self, _: Call[NoBody, NoQuery]) -> Answer:
        """Answer with what this authorization server can do."""
        return self._metadata

    async def _exchange(self, client: Partner, request: TokenRequest) -> TokenRecord:
        issued = await self._tokens.exchange(_parse_exchange(request, client.client_id))
        return TokenRecord(
            access_token=issued.secret,
            scope=issued.token.scope,
            user_id=issued.token.account_id,
        )

    async def _revoke(self, client: Partner, request: RevocationRequest) -> RevocationRecord:
        # RFC 7009 section 2.1
        if not request.token:
            raise InvalidRequest("token is required.")
        await self._tokens.revoke(request.token, client.client_id)
        return RevocationRecord()


def _parse_exchange(request: TokenRequest, app_id: str) -> Exchange:
    """Return what the request asks for; a parameter without a value counts as omitted."""
    # RFC 6749 section 4.1.3
    if not request.grant_type:
        raise InvalidRequest("grant_type is required.")
    if request.grant_type != "authorization_code":
        raise UnsupportedGrantType("grant_type must be authorization_code.")
    if not request.code:
        raise InvalidRequest("code is required.")
    if not request.redirect_uri:
        raise InvalidRequest("redirect_uri is required.")
    return Exchange(
        app_id=app_id,
        code=request.code,
        redirect_uri=request.redirect_uri,
        code_verifier=request.code_verifier or None,
    )
