"""How apps authenticate at the token and revocation endpoints."""

import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import unquote_plus

from ousel.api.authentication import ApiAuthenticator
from ousel.api.callers import Partner
from ousel.api.error_log import ApiErrorRecorder
from ousel.api.refusals import Unauthorized
from ousel.api.route import Call, NoQuery, Route
from ousel.http.messages import Answer, json_answer
from ousel.kernel.errors import Refusal
from ousel.oauth.records import NO_CACHE
from ousel.oauth.refusals import InvalidClient, InvalidRequest
from ousel.partners.key_lookup import PartnerKeyLookup

_BASIC: Final = b"basic "


class Credentials(Protocol):
    """The part of a request by which a client authenticates."""

    @property
    def client_id(self) -> str | None:
        """The app's id, unless it is sent as HTTP Basic."""
        ...

    @property
    def client_secret(self) -> str | None:
        """A partner key of the app, unless it is sent as HTTP Basic."""
        ...


ClientRequest = TypeVar("ClientRequest", bound=Credentials)


class ClientAuthenticator:
    """Authenticates apps by their client_id and one of their partner keys."""

    def __init__(
        self,
        partner_keys: PartnerKeyLookup,
        authenticator: ApiAuthenticator,
        error_recorder: ApiErrorRecorder,
    ) -> None:
        """Find apps by their keys, apply the API's limits, and record refused calls."""
        self._partner_keys = partner_keys
        self._authenticator = authenticator
        self._error_recorder = error_recorder

    async def serve(
        self,
        call: Call[ClientRequest, NoQuery],
        route: Route,
        work: Callable[[Partner, ClientRequest], Awaitable[Any]],
    ) -> Answer:
        """Authenticate the app, and answer with the record that `work` returns."""
        try:
            client = await self._authenticate(call)
        except InvalidClient:  # as everywhere, pages may read that their key has ended
            call.extra_headers.extend(await self._authenticator.cors_headers(call.headers))
            raise
        try:
            if b"origin" in call.headers:
                await self._authenticator.check_origin(
                    client, call.headers[b"origin"], call.extra_headers
                )
            self._authenticator.enforce_limits(client, route, call.extra_headers)
            record = await work(client, call.body)
        except Refusal as refusal:
            self._error_recorder.record(client, route, refusal, call.request_id)
            raise
        return json_answer(record, headers=NO_CACHE)

    async def _authenticate(self, call: Call[ClientRequest, NoQuery]) -> Partner:
        claimed_id, secret = parse_credentials(
            call.headers.get(b"authorization"), call.body.client_id, call.body.client_secret
        )
        try:
            partner = await self._partner_keys.partner(secret)
        except Unauthorized as refusal:
            raise InvalidClient(refusal.detail) from refusal
        if claimed_id != partner.client_id:
            raise InvalidClient("The client_secret is not a key of the app with this client_id.")
        return partner


def parse_credentials(
    authorization: bytes | None, client_id: str | None, client_secret: str | None
) -> tuple[str, str]:
    """Return the id and the secret that a client sends, in the body or as HTTP Basic."""
    if authorization is None:
        if not client_id or not client_secret:
            raise InvalidClient("Send client_id and client_secret, in the body or as HTTP Basic.")
        return client_id, client_secret
    # RFC 6749 section 2.3: clients must use one authentication method only.
    if client_secret:
        raise InvalidRequest("Send client_secret in the body or an Authorization header, not both.")
    basic = _parse_basic(authorization)
    if basic is None:
        raise InvalidClient("Authorization must be HTTP Basic with client_id and client_secret.")
    if client_id and client_id != basic[0]:
        raise InvalidRequest(
            "The client_id in the body differs from the one in the Authorization header."
        )
    return basic


def _parse_basic(authorization: bytes) -> tuple[str, str] | None:
    """Return the id and the secret in HTTP Basic, which are form-encoded (RFC 6749, 2.3.1)."""
    if authorization[: len(_BASIC)].lower() != _BASIC:
        return None
    try:
        text = base64.b64decode(authorization[len(_BASIC) :].strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    client_id, _, secret = text.partition(":")
    return unquote_plus(client_id), unquote_plus(secret)
