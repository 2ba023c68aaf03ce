"""POST /oauth/token and /oauth/revoke, and the server's metadata."""

from typing import Final

from ousel.api.callers import Partner
from ousel.api.routes import Call, Documented, NoBody, NoQuery, Route
from ousel.database.port import Database
from ousel.http.messages import Answer, json_answer
from ousel.kernel.clock import Clock
from ousel.kernel.settings import Settings
from ousel.oauth import service
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
from ousel.oauth.refusals import InvalidGrant, InvalidRequest, UnsupportedGrantType
from ousel.oauth.rules import Exchange

WELL_KNOWN: Final = "/.well-known/oauth-authorization-server"

_FAILURES: Final = {
    400: Documented("`invalid_request`, `invalid_grant`, `unsupported_grant_type`.", OauthError),
    401: Documented("`invalid_client`.", OauthError, {"WWW-Authenticate": "Basic .+"}),
    403: Documented("`invalid_request`: the origin is not registered on the app.", OauthError),
    429: Documented(
        "`temporarily_unavailable`: too many requests with this key.",
        OauthError,
        {"Retry-After": "[0-9]+"},
    ),
}


class OauthEndpoints:
    """Serves apps that exchange codes for tokens, and end tokens."""

    def __init__(
        self, database: Database, clients: ClientAuthenticator, settings: Settings, clock: Clock
    ) -> None:
        """Write to this database for the apps that `clients` knows."""
        self._database = database
        self._clients = clients
        self._clock = clock
        self._kind = settings.secret_kind
        self._metadata = json_answer(metadata_record(settings))
        self._token_route = Route(
            method="POST",
            path=f"{settings.base_path}/oauth/token",
            handle=self.token,
            name="createUserToken",
            summary="Exchange a code for a user token",
            description=(
                "Called by your server. The credentials are the app's client_id with one of its "
                "partner keys as client_secret. A code lives 10 minutes and can be exchanged "
                "once: a second attempt ends the token that the first one gave."
            ),
            access="client",
            body=TokenRequest,
            takes_forms=True,
            successes={200: Documented("A user token.", TokenRecord)},
            refusal_format=error_answer,
            failures=_FAILURES,
        )
        self._revocation_route = Route(
            method="POST",
            path=f"{settings.base_path}/oauth/revoke",
            handle=self.revoke,
            name="revokeUserToken",
            summary="End a user token",
            description="Answers the same for a token that nobody knows (RFC 7009).",
            access="client",
            body=RevocationRequest,
            takes_forms=True,
            successes={200: Documented("The token has ended.", RevocationRecord)},
            refusal_format=error_answer,
            failures=_FAILURES,
        )

    def routes(self) -> list[Route]:
        """Return the two endpoints, and the metadata at its well-known place."""
        return [
            self._token_route,
            self._revocation_route,
            Route(
                method="GET",
                path=WELL_KNOWN,
                handle=self.metadata,
                name="oauthMetadata",
                summary="What the authorization server can do",
                access="public",
                in_reference=False,
            ),
        ]

    async def token(self, call: Call[TokenRequest, NoQuery]) -> Answer:
        """Exchange a code for a user token."""
        return await self._clients.serve(call, self._token_route, self._exchanged)

    async def revoke(self, call: Call[RevocationRequest, NoQuery]) -> Answer:
        """End a user token."""
        return await self._clients.serve(call, self._revocation_route, self._revoked)

    async def metadata(self, _: Call[NoBody, NoQuery]) -> Answer:
        """Answer what this authorization server can do."""
        return self._metadata

    async def _exchanged(self, client: Partner, request: TokenRequest) -> TokenRecord:
        wish = _exchange(request, client.client_id)
        outcome = await self._database.write(
            lambda transaction: service.exchange_code(transaction, wish, self._kind, self._clock)
        )
        if isinstance(outcome, InvalidGrant):
            raise outcome
        return TokenRecord(
            access_token=outcome.secret,
            scope=outcome.token.scope,
            user_id=outcome.token.account_id,
        )

    async def _revoked(self, client: Partner, request: RevocationRequest) -> RevocationRecord:
        secret = request.token
        # RFC 7009 section 2.1
        if not secret:
            raise InvalidRequest("token is required.")
        await self._database.write(
            lambda transaction: service.revoke_token(
                transaction, secret, client.client_id, self._kind
            )
        )
        return RevocationRecord()


def _exchange(request: TokenRequest, app_id: str) -> Exchange:
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
