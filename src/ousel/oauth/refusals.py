"""The errors that OAuth defines. A refusal's `code` is the `error` that the client reads."""

from ousel.kernel.errors import Refusal


class OauthRefusal(Refusal):
    """An error that OAuth defines; its detail has only the characters that OAuth allows."""


class InvalidRequest(OauthRefusal):
    """A parameter is missing, repeated or malformed, or two ways to authenticate were used."""

    status = 400
    code = "invalid_request"
    title = "The OAuth request is not valid"
    cure = "Correct the request as `error_description` says."


class InvalidClient(OauthRefusal):
    """The app did not authenticate, or its client_id and client_secret do not belong together."""

    status = 401
    code = "invalid_client"
    title = "The app's credentials are not valid"
    cure = "Send the app's client_id, and one of its partner keys as client_secret."


class InvalidGrant(OauthRefusal):
    """The code is wrong, has expired or was used before, or the token belongs to another app."""

    status = 400
    code = "invalid_grant"
    title = "The code or token is not valid"
    cure = (
        "Send the person to the connect address again, and exchange the new code once. Revoke a"
        " token with the key of its own app."
    )


class UnsupportedGrantType(OauthRefusal):
    """The grant type is not authorization_code."""

    status = 400
    code = "unsupported_grant_type"
    title = "The grant type is not supported"
    cure = "Send grant_type authorization_code."


class UnsupportedResponseType(OauthRefusal):
    """The connect address names a response type other than code."""

    status = 400
    code = "unsupported_response_type"
    title = "The response type is not supported"
    cure = "Leave response_type out, or send code."


class InvalidScope(OauthRefusal):
    """The connect address asks for an unknown scope."""

    status = 400
    code = "invalid_scope"
    title = "The scope is not valid"
    cure = "Ask for profile, balance or both, separated by a space."


class AccessDenied(OauthRefusal):
    """The person did not allow the app to read the account."""

    status = 403
    code = "access_denied"
    title = "The person denied access"
    cure = "Accept the decision; ask again only if the person wants to connect."


class ConnectAddressWrong(Refusal):
    """The connect address names no app, or a redirect URI that the app has not registered."""

    status = 400
    code = "connect_address_wrong"
    title = "This app sent you here with a wrong address"
    cure = "Register the exact redirect URI for the app, and send it with the app's client_id."

    def __init__(self, reason: str, *, param: str | None = None) -> None:
        """Reassure the person who reads it, and tell the app's developer what is wrong."""
        super().__init__(
            f"Nothing was shared with the app. Its developer can fix this: {reason}", param=param
        )
