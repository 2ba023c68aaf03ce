"""Apps that call the token endpoint: how they authenticate, and from where."""

import base64
import binascii
from typing import Final
from urllib.parse import unquote_plus

from ousel.oauth.refusals import InvalidClient, InvalidRequest
from ousel.partners.keyring import Keyring
from ousel.web.callers import Partner
from ousel.web.origins import Origins
from ousel.web.refusals import Unauthorized
from ousel.web.routes import Headers, RawHeader

_BASIC: Final = b"basic "


class Clients:
    """Knows an app by its client_id together with one of its partner keys."""

    def __init__(self, keyring: Keyring) -> None:
        """Look partner keys up on this ring."""
        self._keyring = keyring
        self._origins = Origins(keyring)

    async def authenticated(
        self, headers: Headers, client_id: str | None, client_secret: str | None
    ) -> tuple[Partner, tuple[RawHeader, ...]]:
        """Return the app, and the headers that let its web page read the answer."""
        claimed_id, secret = credentials(headers.get(b"authorization"), client_id, client_secret)
        try:
            partner = await self._keyring.partner(secret)
        except Unauthorized as refusal:
            raise InvalidClient(refusal.detail) from refusal
        if claimed_id != partner.client_id:
            raise InvalidClient("The client_secret is not a key of the app with this client_id.")
        if b"origin" not in headers:
            return partner, ()
        return partner, await self._origins.admitted(partner, headers[b"origin"])


def credentials(
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
