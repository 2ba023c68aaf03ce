"""Connect: an app asks a person for access, and gets a code or an error back."""

import msgspec

from ousel.accounts import service as accounts
from ousel.database.port import Database, Transaction
from ousel.kernel.clock import Clock
from ousel.kernel.ids import handle_of, new_secret, secret_hash
from ousel.ledger.rules import Account
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
from ousel.oauth.service import AppConnection, find_connection
from ousel.partners import service as partners
from ousel.partners.rules import App
from ousel.people.audit import EventSource, record_event
from ousel.people.notices import EventNotices


class ConnectRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What an app asks a person for, after validation."""

    app: App
    redirect_uri: str
    scope: str
    state: bytes | None
    code_challenge: str | None


class ErrorRedirect(msgspec.Struct, frozen=True):
    """The address that sends the person back to the app with an error."""

    location: str


class ConsentQuestion(msgspec.Struct, frozen=True):
    """What the consent page asks: the request, the app's owner, and any existing connection."""

    request: ConnectRequest
    owner: Account
    connection: AppConnection | None


class ConnectService:
    """Reads connect addresses, and records what people decide."""

    def __init__(
        self, database: Database, clock: Clock, notices: EventNotices, issuer: str
    ) -> None:
        """Work on this database; redirects to apps contain the server's address, `issuer`."""
        self._database = database
        self._clock = clock
        self._notices = notices
        self._issuer = issuer

    async def read_request(
        self, query_string: bytes, account_id: str | None
    ) -> ConsentQuestion | ErrorRedirect:
        """Return what to ask the person, or the redirect that tells the app about its error."""

        async def read(transaction: Transaction) -> ConsentQuestion | ErrorRedirect:
            request = await connect_request(transaction, query_string, self._issuer)
            if isinstance(request, ErrorRedirect):
                return request
            owner = await accounts.account_by_id(transaction, request.app.account_id)
            if account_id is None:
                return ConsentQuestion(request, owner, None)
            connection = await find_connection(
                transaction, account_id, request.app.id, self._clock()
            )
            return ConsentQuestion(request, owner, connection)

        return await self._database.read(read)

    async def allow(self, query_string: bytes, account_id: str, source: EventSource) -> str:
        """Let the app read the account; return the address that takes the code to the app.

        The person gets a notice by mail if the app can read more than before.
        """

        async def work(transaction: Transaction) -> str:
            request = await connect_request(transaction, query_string, self._issuer)
            if isinstance(request, ErrorRedirect):
                return request.location
            connection = await find_connection(
                transaction, account_id, request.app.id, self._clock()
            )
            code = await issue_code(transaction, request, account_id, self._clock)
            detail = f"{request.app.name}: {request.scope}"
            if connection and connection.scope_ends.keys() >= set(request.scope.split(" ")):
                await record_event(
                    transaction, account_id, "app_connected", source, self._clock, detail
                )
            else:
                await self._notices.record(transaction, account_id, "app_connected", source, detail)
            return redirect_with_code(request, code, self._issuer)

        return await self._database.write(work)

    async def deny(self, query_string: bytes) -> str:
        """Return the address that tells the app that the person said no."""

        async def read(transaction: Transaction) -> str:
            request = await connect_request(transaction, query_string, self._issuer)
            if isinstance(request, ErrorRedirect):
                return request.location
            return redirect_with_denial(request, self._issuer)

        return await self._database.read(read)


async def connect_request(
    transaction: Transaction, query_string: bytes, issuer: str
) -> ConnectRequest | ErrorRedirect:
    """Return what the app asks for, or the address that takes the error back to the app.

    A wrong app or redirect URI raises ConnectAddressWrong, which is shown to the person.
    """
    parameters = parse_connect_query(query_string)
    # RFC 6749 section 4.1.2.1: never redirect if the client or its redirect URI is wrong.
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
    """Let the app read the account: return a code that it can exchange once."""
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
    """Return the address that takes the code to the app."""
    # RFC 6749 section 4.1.2 for code and state, RFC 9207 section 2 for iss.
    return callback_url(request.redirect_uri, {"code": code, "state": request.state, "iss": issuer})


def redirect_with_denial(request: ConnectRequest, issuer: str) -> str:
    """Return the address that tells the app that the person said no."""
    refusal = AccessDenied("The person denied access.")
    return _error_url(request.redirect_uri, request.state, refusal, issuer)


def _parse_request(app: App, redirect_uri: str, parameters: ConnectParameters) -> ConnectRequest:
    # RFC 6749 section 3.1.1 requires response_type; we accept its absence, as code is the only one.
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
    """Return the state to send back, or None if it was sent twice."""
    try:
        return parameters.only_bytes("state")
    except InvalidRequest:
        return None


def _error_url(redirect_uri: str, state: bytes | None, refusal: OauthRefusal, issuer: str) -> str:
    # RFC 6749 section 4.1.2.1, and RFC 9207 section 2: errors carry the issuer, too.
    return callback_url(
        redirect_uri,
        {
            "error": refusal.code,
            "error_description": refusal.detail,
            "state": state,
            "iss": issuer,
        },
    )
