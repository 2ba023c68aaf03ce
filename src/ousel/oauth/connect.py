"""Asking a person: the app's request, and the way back with a code or an error."""

import msgspec

from ousel.database.port import Transaction
from ousel.kernel.clock import Clock
from ousel.kernel.ids import handle_of, new_secret, secret_hash
from ousel.oauth import rules, store
from ousel.oauth.connect_urls import (
    ConnectParameters,
    callback_url,
    parse_connect_query,
    required_parameter,
)
from ousel.oauth.refusals import (
    AccessDenied,
    ConnectAddressWrong,
    InvalidRequest,
    OauthRefusal,
    UnsupportedResponseType,
)
from ousel.partners import service as partners
from ousel.partners.rules import App


class ConnectRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What an app asks a person for, found to be in order."""

    app: App
    redirect_uri: str
    scope: str
    state: bytes | None
    code_challenge: str | None


class ErrorRedirect(msgspec.Struct, frozen=True):
    """A request that goes back to the app at once, with its error."""

    location: str


async def connect_request(
    transaction: Transaction, query_string: bytes, issuer: str
) -> ConnectRequest | ErrorRedirect:
    """Return what the app asks for, or the way back with what is wrong.

    A wrong app or redirect URI raises ConnectAddressWrong, which is told to the person.
    """
    parameters = parse_connect_query(query_string)
    # RFC 6749 section 4.1.2.1: with these two in doubt, nobody is sent anywhere.
    app = await partners.find_app(transaction, required_parameter(parameters, "client_id"))
    if app is None:
        raise ConnectAddressWrong("No app has this client_id.", param="client_id")
    redirect_uri = required_parameter(parameters, "redirect_uri")
    # RFC 9700 section 2.1: redirect URIs are compared as exact strings.
    if not await partners.has_redirect_uri(transaction, app, redirect_uri):
        raise ConnectAddressWrong(
            f"{app.name} has not registered this redirect_uri.", param="redirect_uri"
        )
    try:
        return _parse_request(app, redirect_uri, parameters)
    except OauthRefusal as refusal:
        return ErrorRedirect(_error_url(redirect_uri, _state(parameters), refusal, issuer))


async def issue_code(
    transaction: Transaction, request: ConnectRequest, account_id: str, clock: Clock
) -> str:
    """Let the app read the account: return the code that it may exchange once."""
    now = clock()
    secret = new_secret(rules.CODE_PREFIX)
    code = rules.Code(
        account_id=account_id,
        handle=handle_of(secret),
        hash=secret_hash(secret),
        app_account_id=request.app.account_id,
        app_id=request.app.id,
        redirect_uri=request.redirect_uri,
        scope=request.scope,
        code_challenge=request.code_challenge,
        created_at=now,
        expires_at=rules.code_expiry(now),
        used_at=None,
        kept_until=rules.code_expiry(now),
    )
    await store.add_code(transaction, code)
    return secret


def redirect_with_code(request: ConnectRequest, code: str, issuer: str) -> str:
    """Return the way back to the app with a code."""
    # RFC 6749 section 4.1.2 for code and state, RFC 9207 section 2 for iss.
    return callback_url(request.redirect_uri, {"code": code, "state": request.state, "iss": issuer})


def redirect_with_denial(request: ConnectRequest, issuer: str) -> str:
    """Return the way back to the app of a person who said no."""
    refusal = AccessDenied("The person denied access.")
    return _error_url(request.redirect_uri, request.state, refusal, issuer)


def _parse_request(app: App, redirect_uri: str, parameters: ConnectParameters) -> ConnectRequest:
    # RFC 6749 section 3.1.1; our own clients may leave it out, since there is only one.
    if parameters.only("response_type") not in {None, "code"}:
        raise UnsupportedResponseType("response_type must be code.")
    return ConnectRequest(
        app=app,
        redirect_uri=redirect_uri,
        scope=rules.parse_scope(parameters.only("scope")),
        state=parameters.only_bytes("state"),
        code_challenge=rules.parse_challenge(
            parameters.only("code_challenge"), parameters.only("code_challenge_method")
        ),
    )


def _state(parameters: ConnectParameters) -> bytes | None:
    """Return the state to answer with; of two, neither is the app's."""
    try:
        return parameters.only_bytes("state")
    except InvalidRequest:
        return None


def _error_url(redirect_uri: str, state: bytes | None, refusal: OauthRefusal, issuer: str) -> str:
    # RFC 6749 section 4.1.2.1, and RFC 9207 section 2: errors name their issuer, too.
    return callback_url(
        redirect_uri,
        {
            "error": refusal.code,
            "error_description": refusal.detail,
            "state": state,
            "iss": issuer,
        },
    )
