"""Refusals of API requests before an endpoint is called."""

from typing import Final

from ousel.kernel.errors import Refusal

_BEARER: Final = b"Bearer"


class MalformedJson(Refusal):
    """The body is not one JSON object, is nested too deeply, or has an invalid field twice."""

    status = 400
    code = "malformed_json"
    title = "The JSON body is malformed"
    cure = "Send one JSON object in UTF-8."


class MissingField(Refusal):
    """A field that the endpoint needs is not in the body."""

    status = 400
    code = "missing_field"
    title = "A field is missing"
    cure = "Add the field that `param` names."


class UnknownField(Refusal):
    """The body has a field that the endpoint does not know; it may be misspelt."""

    status = 400
    code = "unknown_field"
    title = "A field is unknown"
    cure = "Correct or remove the field that `param` names."


class UnknownParameter(Refusal):
    """The query has a parameter that the endpoint does not know; it may be misspelt."""

    status = 400
    code = "unknown_parameter"
    title = "A query parameter is unknown"
    cure = "Correct or remove the parameter that `param` names."


class ChallengeRefusal(Refusal):
    """A refusal whose answer names the needed credential in WWW-Authenticate."""

    challenge: bytes = _BEARER


class Unauthorized(ChallengeRefusal):
    """The key is missing, malformed, unknown, expired or revoked; the answer says no more."""

    status = 401
    code = "unauthorized"
    title = "The key is not valid"
    cure = "Send `Authorization: Bearer <key>` with a valid key; rotate it in the portal if lost."

    def __init__(self, detail: str = "") -> None:
        """All wrong keys get the same detail, except those of the other mode (live or test)."""
        super().__init__(detail or "The key is missing, malformed, unknown, expired or revoked.")


class InvalidToken(ChallengeRefusal):
    """The user token is missing, malformed, unknown or expired; the answer says no more."""

    status = 401
    code = "invalid_token"
    title = "The user token is not valid"
    cure = "Send `Authorization: Bearer <user token>`; if it has expired, connect the person again."

    def __init__(self, detail: str = "", *, sent: bool = True) -> None:
        """All wrong tokens get the same detail, except those of the other mode (live or test).

        `sent` says whether the request had a token.
        """
        super().__init__(detail or "The user token is missing, malformed, unknown or expired.")
        # RFC 6750 section 3.1: without any credential, the challenge names no error.
        if sent:
            self.challenge = b'Bearer error="invalid_token"'


class InsufficientScope(ChallengeRefusal):
    """The person did not allow the app to read this: the user token lacks the scope."""

    status = 403
    code = "insufficient_scope"
    title = "The user token lacks a scope"
    cure = "Connect the person again, and ask for the scope."

    def __init__(self, scope: str) -> None:
        """Name the scope that is needed (RFC 6750 section 3.1)."""
        super().__init__(f"The user token lacks the scope {scope}.", members={"scope": scope})
        self.challenge = f'Bearer error="insufficient_scope", scope="{scope}"'.encode()


class OriginNotAllowed(Refusal):
    """The request names an origin that is not registered for the app that calls."""

    status = 403
    code = "origin_not_allowed"
    title = "The origin is not allowed"
    cure = "Register the exact origin for the app, or call from your server without an Origin."
