"""Apps that call the token endpoint: how they authenticate, and from where."""

import base64
import binascii
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import unquote_plus

from ousel.api.authentication import ApiAuthenticator
from ousel.api.callers import Partner
from ousel.api.error_log import ApiErrorRecorder
from ousel.api.refusals import Unauthorized
from ousel.api.routes import Call, NoQuery, Route
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


Asking = TypeVar("Asking", bound=Credentials)


class ClientAuthenticator:
    """Serves apps that authenticate by their client_id with one of their partner keys."""

    def __init__(
        self,
        keyring: PartnerKeyLookup,
        authenticator: ApiAuthenticator,
        error_recorder: ApiErrorRecorder,
    ) -> None:
        """Know apps by this ring, admit them by this gate, and note what is refused to them."""
        self._keyring = keyring
        self._authenticator = authenticator
        self._error_recorder = error_recorder

    async def serve(
        self,
        call: Call[Asking, NoQuery],
        route: Route,
        work: Callable[[Partner, Asking], Awaitable[Any]],
    ) -> Answer:
        """Return the record that the work makes for the app, once it has authenticated."""
        client = await self._authenticated(call)
        try:
            await self._authenticator.enforce_limits(client, route, call.headers, call.extra)
            record = await work(client, call.body)
        except Refusal as refusal:
            self._error_recorder.record(client, route, refusal, call.request_id)
            raise
        return json_answer(record, headers=NO_CACHE)

    async def _authenticated(self, call: Call[Asking, NoQuery]) -> Partner:
        claimed_id, secret = parse_credentials(
            call.headers.get(b"authorization"), call.body.client_id, call.body.client_secret
        )
        try:
            partner = await self._keyring.partner(secret)
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
    # RFC 6749 section 2.3: not more than one way to authenticate.
    if client_secret:
        raise InvalidRequest("Send client_secret in the body or an Authorization, not both.")
    basic = _basic(authorization)
    if basic is None:
        raise InvalidClient("Authorization must be HTTP Basic, of client_id and client_secret.")
    if client_id and client_id != basic[0]:
        raise InvalidRequest("The client_id of the body is not the one of the Authorization.")
    return basic


def _basic(authorization: bytes) -> tuple[str, str] | None:
    """Return the two parts of HTTP Basic, each form-encoded (RFC 6749 section 2.3.1)."""
    if authorization[: len(_BASIC)].lower() != _BASIC:
        return None
    try:
        text = base64.b64decode(authorization[len(_BASIC) :].strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        return None
    client_id, _, secret = text.partition(":")
    return unquote_plus(client_id), unquote_plus(secret)
