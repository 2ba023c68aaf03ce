"""Reads what browsers answer to a challenge, and checks it with py_webauthn.

That package takes a tenth of a second and several megabytes to import, so it is imported when the
first passkey is used.
"""

import re
from base64 import urlsafe_b64decode
from typing import Final, TypeVar

import msgspec

from ousel.kernel.logs import EventLogger
from ousel.kernel.nesting import is_nested_deeper
from ousel.passkeys.rules import Passkey, RelyingParty, base64url, user_handle

CREDENTIAL_ID_CHARACTERS_MAX: Final = 1364  # 1023 bytes, as WebAuthn limits them
PUBLIC_KEY_BYTES_MAX: Final = 2_000
NESTED_LEVELS_MAX: Final = 100  # the same on every Python, whose own limits differ
REASON_CHARACTERS_MAX: Final = 200  # a reason may quote what the browser sent

_CREDENTIAL_ID: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{CREDENTIAL_ID_CHARACTERS_MAX}}}")
_log = EventLogger()

Decoded = TypeVar("Decoded")


class _Response(msgspec.Struct, frozen=True):
    client_data: str = msgspec.field(name="clientDataJSON")
    user_handle: str | None = msgspec.field(name="userHandle", default=None)


class _Credential(msgspec.Struct, frozen=True):
    id: str
    response: _Response


class _ClientData(msgspec.Struct, frozen=True):
    challenge: str


class BrowserAnswer(msgspec.Struct, frozen=True):
    """What a browser answered to a challenge; nothing of it has been checked yet."""

    json: str
    credential_id: str
    challenge: str
    user_handle: str | None

    def names(self, account_id: str) -> bool:
        """Return whether the authenticator says that the passkey is for this account."""
        return self.user_handle == base64url(user_handle(account_id))


class NewCredential(msgspec.Struct, frozen=True):
    """A new passkey that was checked."""

    credential_id: str
    public_key: str
    sign_count: int


def read_answer(json: str) -> BrowserAnswer | None:
    """Return the parts of an answer that lead to its challenge and its passkey, if it has them."""
    try:
        credential = _decode(json.encode(), _Credential)
        client_data = _decode(_bytes(credential.response.client_data), _ClientData)
    except ValueError:  # this includes the errors of msgspec and base64
        return None
    if not _CREDENTIAL_ID.fullmatch(credential.id):
        return None
    return BrowserAnswer(
        json, credential.id, client_data.challenge, credential.response.user_handle
    )


def _decode(json: bytes, type_: type[Decoded]) -> Decoded:
    if is_nested_deeper(json, NESTED_LEVELS_MAX):
        raise ValueError(f"the JSON is nested more than {NESTED_LEVELS_MAX} levels deep")
    return msgspec.json.decode(json, type=type_)


def check_new(answer: BrowserAnswer, site: RelyingParty) -> NewCredential | None:
    """Return the new passkey if the answer is right for this site and its challenge."""
    import webauthn

    try:
        checked = webauthn.verify_registration_response(
            credential=answer.json,
            expected_challenge=_bytes(answer.challenge),
            expected_rp_id=site.id,
            expected_origin=site.origin,
            require_user_verification=True,
        )
    except Exception as error:  # noqa: BLE001 - it raises many kinds for malformed answers
        _log_refusal(error)
        return None
    if len(checked.credential_public_key) > PUBLIC_KEY_BYTES_MAX:
        return None
    return NewCredential(
        base64url(checked.credential_id),
        base64url(checked.credential_public_key),
        checked.sign_count,
    )


def check_signature(answer: BrowserAnswer, passkey: Passkey, site: RelyingParty) -> int | None:
    """Return the authenticator's counter if the passkey signed the challenge for this site.

    The counter itself is not checked here, but in the transaction that stores it.
    """
    import webauthn

    try:
        checked = webauthn.verify_authentication_response(
            credential=answer.json,
            expected_challenge=_bytes(answer.challenge),
            expected_rp_id=site.id,
            expected_origin=site.origin,
            credential_public_key=_bytes(passkey.public_key),
            credential_current_sign_count=0,
            require_user_verification=True,
        )
    except Exception as error:  # noqa: BLE001 - it raises many kinds for malformed answers
        _log_refusal(error)
        return None
    return checked.new_sign_count


def _bytes(text: str) -> bytes:
    return urlsafe_b64decode(f"{text}==")


def _log_refusal(error: Exception) -> None:
    """Log why, for operators: a wrong origin often means a wrong OUSEL_PORTAL_URL."""
    _log.info("passkey not accepted", reason=str(error)[:REASON_CHARACTERS_MAX])
