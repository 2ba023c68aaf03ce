"""The requests and answers of the OAuth endpoints."""

from http import HTTPStatus
from typing import Annotated, Final, Literal

import msgspec

from ousel.api.openapi import REQUIRED
from ousel.api.refusals import OriginNotAllowed, Unauthorized
from ousel.http.messages import Answer, RawHeader, json_answer, retry_after_header
from ousel.kernel.errors import RateLimited, Refusal
from ousel.kernel.settings import Settings
from ousel.oauth import rules
from ousel.oauth.refusals import InvalidClient, InvalidRequest, OauthRefusal

# RFC 6749 section 5.1 requires it in addition to Cache-Control, which every answer has.
NO_CACHE: Final[tuple[RawHeader, ...]] = ((b"pragma", b"no-cache"),)
_BASIC: Final[RawHeader] = (b"www-authenticate", b'Basic realm="Ousel", charset="UTF-8"')


class TokenRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A code to exchange. Parameters that are not named here are ignored (RFC 6749, 3.2)."""

    grant_type: Annotated[
        str | None,
        msgspec.Meta(
            description="Always `authorization_code`.",
            examples=["authorization_code"],
            extra_json_schema=REQUIRED,
        ),
    ] = None
    code: Annotated[
        str | None,
        msgspec.Meta(
            description="The code from the redirect back to you.",
            examples=["ac_…"],
            extra_json_schema=REQUIRED,
        ),
    ] = None
    redirect_uri: Annotated[
        str | None,
        msgspec.Meta(
            description="The redirect URI to which the code was sent.",
            examples=["https://shop.example/connected"],
            extra_json_schema=REQUIRED,
        ),
    ] = None
    client_id: Annotated[
        str | None, msgspec.Meta(description="The app's id; or send it as HTTP Basic.")
    ] = None
    client_secret: Annotated[
        str | None, msgspec.Meta(description="A partner key of the app; or send it as HTTP Basic.")
    ] = None
    code_verifier: Annotated[
        str | None, msgspec.Meta(description="Required if a code_challenge was sent.")
    ] = None


class RevocationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A token to revoke. Parameters that are not named here are ignored (RFC 6749, 3.2)."""

    token: Annotated[
        str | None,
        msgspec.Meta(
            description="The user token.", examples=["ut_live_…"], extra_json_schema=REQUIRED
        ),
    ] = None
    token_type_hint: Annotated[
        str | None, msgspec.Meta(description="Not needed: there is only one type of token.")
    ] = None
    client_id: Annotated[
        str | None, msgspec.Meta(description="The app's id; or send it as HTTP Basic.")
    ] = None
    client_secret: Annotated[
        str | None, msgspec.Meta(description="A partner key of the app; or send it as HTTP Basic.")
    ] = None


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A user token, shown only once."""

    access_token: str
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105 - a kind, not a secret
    expires_in: Annotated[int, msgspec.Meta(description="In seconds.")] = rules.TOKEN_SECONDS
    scope: Annotated[str, msgspec.Meta(description="Separated by spaces.")]
    user_id: Annotated[str, msgspec.Meta(description="The id of the person's account.")]


class RevocationRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Empty: the token is revoked."""


class OauthError(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong, in OAuth's own form (RFC 6749, 5.2)."""

    error: Annotated[str, msgspec.Meta(description="Stable, machine-readable.")]
    error_description: Annotated[str, msgspec.Meta(description="One sentence for people.")]


class MetadataRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What this authorization server can do (RFC 8414, 2)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    revocation_endpoint: str
    service_documentation: str
    scopes_supported: tuple[str, ...] = rules.SCOPES
    response_types_supported: tuple[str, ...] = ("code",)
    response_modes_supported: tuple[str, ...] = ("query",)
    grant_types_supported: tuple[str, ...] = ("authorization_code",)
    token_endpoint_auth_methods_supported: tuple[str, ...] = (
        "client_secret_basic",
        "client_secret_post",
    )
    revocation_endpoint_auth_methods_supported: tuple[str, ...] = (
        "client_secret_basic",
        "client_secret_post",
    )
    code_challenge_methods_supported: tuple[str, ...] = ("S256",)
    authorization_response_iss_parameter_supported: bool = True  # RFC 9207 section 3


def metadata_record(settings: Settings) -> MetadataRecord:
    """Return the metadata of the server with these settings."""
    return MetadataRecord(
        issuer=settings.portal_url,
        authorization_endpoint=f"{settings.portal_url}/connect",
        token_endpoint=f"{settings.base_url}/oauth/token",
        revocation_endpoint=f"{settings.base_url}/oauth/revoke",
        service_documentation=f"{settings.portal_url}/docs",
    )


def error_answer(refusal: Refusal) -> Answer:
    """Return a refusal with a status below 500 in OAuth's own form (RFC 6749 section 5.2)."""
    status, code = InvalidRequest.status, InvalidRequest.code
    if isinstance(refusal, OauthRefusal):
        status, code = refusal.status, refusal.code
    elif isinstance(refusal, Unauthorized):  # only a rehearsal raises it here
        status, code = InvalidClient.status, InvalidClient.code
    elif isinstance(refusal, OriginNotAllowed):
        status = refusal.status
    elif isinstance(refusal, RateLimited):
        status, code = refusal.status, "temporarily_unavailable"
    headers = NO_CACHE
    if status == HTTPStatus.UNAUTHORIZED:
        headers += (_BASIC,)
    record = OauthError(error=code, error_description=_description(refusal.detail))
    return json_answer(record, status, headers + retry_after_header(refusal))


def _description(text: str) -> str:
    """Replace the characters that error_description may not have (RFC 6749, appendix A.8)."""
    return "".join(
        character if " " <= character <= "~" and character not in '"\\' else "?"
        for character in text
    )
