"""One class for each error code of the API.

The only code without a class is OAuth's `temporarily_unavailable`: it is raised as Throttled.
"""

from ousel_client.errors import (
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Missing,
    NotAuthenticated,
    ServerError,
    Throttled,
)
from ousel_client.records import Charge, Transfer


class MalformedRequest(BadRequest):
    """The server could not read the request as HTTP. A proxy may be at fault."""

    code = "malformed_request"


class InvalidAmount(BadRequest):
    """The amount is out of range, or has too many decimals."""

    code = "invalid_amount"


class InvalidField(BadRequest):
    """A field has the wrong type, length, characters or value; `param` names it."""

    code = "invalid_field"


class MissingField(BadRequest):
    """A required field is missing; `param` names it."""

    code = "missing_field"


class UnknownField(BadRequest):
    """The endpoint does not know a field; `param` names it."""

    code = "unknown_field"


class UnknownParameter(BadRequest):
    """The endpoint does not know a query parameter; `param` names it."""

    code = "unknown_parameter"


class MalformedJson(BadRequest):
    """The body is not a JSON object."""

    code = "malformed_json"


class InsufficientBalance(BadRequest):
    """The amount is more than the balance of the account that pays."""

    code = "insufficient_balance"


class BalanceLimitReached(BadRequest):
    """The recipient's balance would exceed the limit of an account."""

    code = "balance_limit_reached"


class SameAccount(BadRequest):
    """The recipient is the sender."""

    code = "same_account"


class AccountFrozen(BadRequest):
    """The sender's or the recipient's account is frozen."""

    code = "account_frozen"


class PostingRefused(BadRequest):
    """The server's database cannot store a value of the transfer."""

    code = "posting_refused"


class ChargeNotCancelable(BadRequest):
    """The charge is final; `members["charge_status"]` names its status."""

    code = "charge_not_cancelable"


class ChargeNotPayable(BadRequest):
    """The charge is final; `members["charge_status"]` names its status."""

    code = "charge_not_payable"


class OwnCharge(BadRequest):
    """The payer is the account that created the charge."""

    code = "own_charge"


class SandboxOnly(BadRequest):
    """The request has the header Ousel-Rehearse, but the server is not a sandbox."""

    code = "sandbox_only"


class UnknownRehearsal(BadRequest):
    """The header Ousel-Rehearse does not name a known disturbance."""

    code = "unknown_rehearsal"


class InvalidRequest(BadRequest):
    """A parameter of an OAuth request is missing, repeated or malformed."""

    code = "invalid_request"


class InvalidGrant(BadRequest):
    """The code is wrong, has expired or was used before, or the token belongs to another app."""

    code = "invalid_grant"


class UnsupportedGrantType(BadRequest):
    """The grant type is not `authorization_code`."""

    code = "unsupported_grant_type"


class UnsupportedResponseType(BadRequest):
    """The response type in the connect address is not `code`."""

    code = "unsupported_response_type"


class InvalidScope(BadRequest):
    """The connect address asks for a scope that does not exist."""

    code = "invalid_scope"


class Unauthorized(NotAuthenticated):
    """The partner key is missing, malformed, unknown, expired or revoked. Issue a new one."""

    code = "unauthorized"


class InvalidToken(NotAuthenticated):
    """The user token is missing, malformed, unknown or expired. The person must connect again."""

    code = "invalid_token"


class InvalidClient(NotAuthenticated):
    """The app's client_id and key do not belong together."""

    code = "invalid_client"


class AccessDenied(Forbidden):
    """The person did not allow the app to read the account."""

    code = "access_denied"


class InsufficientScope(Forbidden):
    """The user token lacks the scope that `members["scope"]` names."""

    code = "insufficient_scope"


class OriginNotAllowed(Forbidden):
    """The app has not registered the origin of the request."""

    code = "origin_not_allowed"


class AccountNotFound(Missing):
    """No account has this username, account number or email."""

    code = "account_not_found"


class ChargeNotFound(Missing):
    """The key's account has no charge with this id."""

    code = "charge_not_found"


class TransferNotFound(Missing):
    """The key's account has no transfer with this id."""

    code = "transfer_not_found"


class RehearsalNotFound(Missing):
    """The app has no rehearsal with this id."""

    code = "rehearsal_not_found"


class ReceiptNotReady(Missing):
    """The transfer is not sealed yet, which takes about a second, or the server has no log key."""

    code = "receipt_not_ready"


class NotFound(Missing):
    """Nothing is at this path. The base URL may be wrong, or only a sandbox has this path."""

    code = "not_found"


class MethodNotAllowed(ApiError):
    """The path exists, but not for this method. The base URL may be wrong."""

    status = 405
    code = "method_not_allowed"


class BodyTooLarge(ApiError):
    """The body is larger than the server allows."""

    status = 413
    code = "body_too_large"


class UnsupportedMediaType(ApiError):
    """The server does not accept this content type."""

    status = 415
    code = "unsupported_media_type"


class HeadTooLarge(ApiError):
    """The address and the headers are larger than the server allows."""

    status = 431
    code = "head_too_large"


class IdempotencyConflict(Conflict):
    """The key belongs to another request. `original` is the transfer or charge made with it."""

    code = "idempotency_conflict"
    original: Transfer | Charge | None = None


class RateLimited(Throttled):
    """The key has made more requests than its limit allows, or too many searches at once."""

    code = "rate_limited"


class InternalError(ServerError):
    """An unexpected error occurred in the server."""

    code = "internal_error"


class DatabaseUnavailable(ServerError):
    """The server's database could not be reached, or failed. Nothing was written."""

    status = 503
    code = "database_unavailable"


class OutcomeUnknown(ServerError):
    """The server does not know whether a commit succeeded. Send the same request again."""

    status = 503
    code = "outcome_unknown"


class DeadlineExceeded(ServerError):
    """The deadline of the request passed before its commit could begin: nothing was written."""

    status = 503
    code = "deadline_exceeded"


class QueueFull(ServerError):
    """Too many transfers or charges are waiting to be written."""

    status = 503
    code = "queue_full"


class EntryAheadOfClock(ServerError):
    """An account's last entry is dated in the future. Nothing moved; retry later."""

    status = 503
    code = "entry_ahead_of_clock"


class ClockSkewed(ServerError):
    """The clocks of the server's host and of its database differ."""

    status = 503
    code = "clock_skewed"


class SchemaOutdated(ServerError):
    """The server's database has to be migrated first."""

    status = 503
    code = "schema_outdated"
