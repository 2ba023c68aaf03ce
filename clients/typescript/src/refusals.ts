/**
 * One class for each error code of the API. This file is generated.
 *
 * The only code without a class is OAuth's `temporarily_unavailable`: it is thrown as Throttled.
 */

import {
  ApiError,
  BadRequest,
  Conflict,
  Forbidden,
  Missing,
  NotAuthenticated,
  ServerError,
  Throttled,
} from "./errors.ts";

/** The server could not read the request as HTTP. A proxy may be at fault. */
export class MalformedRequest extends BadRequest {
  static override readonly code: string = "malformed_request";
}

/** The amount is out of range, or has too many decimals. */
export class InvalidAmount extends BadRequest {
  static override readonly code: string = "invalid_amount";
}

/** A field has the wrong type, length, characters or value; `param` names it. */
export class InvalidField extends BadRequest {
  static override readonly code: string = "invalid_field";
}

/** A required field is missing; `param` names it. */
export class MissingField extends BadRequest {
  static override readonly code: string = "missing_field";
}

/** The endpoint does not know a field; `param` names it. */
export class UnknownField extends BadRequest {
  static override readonly code: string = "unknown_field";
}

/** The endpoint does not know a query parameter; `param` names it. */
export class UnknownParameter extends BadRequest {
  static override readonly code: string = "unknown_parameter";
}

/** The body is not a JSON object. */
export class MalformedJson extends BadRequest {
  static override readonly code: string = "malformed_json";
}

/** The amount is more than the balance of the account that pays. */
export class InsufficientBalance extends BadRequest {
  static override readonly code: string = "insufficient_balance";
}

/** The recipient's balance would exceed the limit of an account. */
export class BalanceLimitReached extends BadRequest {
  static override readonly code: string = "balance_limit_reached";
}

/** The recipient is the sender. */
export class SameAccount extends BadRequest {
  static override readonly code: string = "same_account";
}

/** The sender's or the recipient's account is frozen. */
export class AccountFrozen extends BadRequest {
  static override readonly code: string = "account_frozen";
}

/** The server's database cannot store a value of the transfer. */
export class PostingRefused extends BadRequest {
  static override readonly code: string = "posting_refused";
}

/** The charge is final; `members.charge_status` names its status. */
export class ChargeNotCancelable extends BadRequest {
  static override readonly code: string = "charge_not_cancelable";
}

/** The charge is final; `members.charge_status` names its status. */
export class ChargeNotPayable extends BadRequest {
  static override readonly code: string = "charge_not_payable";
}

/** The payer is the account that created the charge. */
export class OwnCharge extends BadRequest {
  static override readonly code: string = "own_charge";
}

/** The request has the header Ousel-Rehearse, but the server is not a sandbox. */
export class SandboxOnly extends BadRequest {
  static override readonly code: string = "sandbox_only";
}

/** The header Ousel-Rehearse does not name a known disturbance. */
export class UnknownRehearsal extends BadRequest {
  static override readonly code: string = "unknown_rehearsal";
}

/** A parameter of an OAuth request is missing, repeated or malformed. */
export class InvalidRequest extends BadRequest {
  static override readonly code: string = "invalid_request";
}

/** The code is wrong, has expired or was used before, or the token belongs to another app. */
export class InvalidGrant extends BadRequest {
  static override readonly code: string = "invalid_grant";
}

/** The grant type is not `authorization_code`. */
export class UnsupportedGrantType extends BadRequest {
  static override readonly code: string = "unsupported_grant_type";
}

/** The response type in the connect address is not `code`. */
export class UnsupportedResponseType extends BadRequest {
  static override readonly code: string = "unsupported_response_type";
}

/** The connect address asks for a scope that does not exist. */
export class InvalidScope extends BadRequest {
  static override readonly code: string = "invalid_scope";
}

/** The partner key is missing, malformed, unknown, expired or revoked. Issue a new one. */
export class Unauthorized extends NotAuthenticated {
  static override readonly code: string = "unauthorized";
}

/** The user token is missing, malformed, unknown or expired. The person must connect again. */
export class InvalidToken extends NotAuthenticated {
  static override readonly code: string = "invalid_token";
}

/** The app's client_id and key do not belong together. */
export class InvalidClient extends NotAuthenticated {
  static override readonly code: string = "invalid_client";
}

/** The person did not allow the app to read the account. */
export class AccessDenied extends Forbidden {
  static override readonly code: string = "access_denied";
}

/** The user token lacks the scope that `members.scope` names. */
export class InsufficientScope extends Forbidden {
  static override readonly code: string = "insufficient_scope";
}

/** The app has not registered the origin of the request. */
export class OriginNotAllowed extends Forbidden {
  static override readonly code: string = "origin_not_allowed";
}

/** No account has this username, account number or email. */
export class AccountNotFound extends Missing {
  static override readonly code: string = "account_not_found";
}

/** The key's account has no charge with this id. */
export class ChargeNotFound extends Missing {
  static override readonly code: string = "charge_not_found";
}

/** The key's account has no transfer with this id. */
export class TransferNotFound extends Missing {
  static override readonly code: string = "transfer_not_found";
}

/** The app has no rehearsal with this id. */
export class RehearsalNotFound extends Missing {
  static override readonly code: string = "rehearsal_not_found";
}

/** The transfer is not sealed yet, which takes about a second, or the server has no log key. */
export class ReceiptNotReady extends Missing {
  static override readonly code: string = "receipt_not_ready";
}

/** Nothing is at this path. The base URL may be wrong, or only a sandbox has this path. */
export class NotFound extends Missing {
  static override readonly code: string = "not_found";
}

/** The path exists, but not for this method. The base URL may be wrong. */
export class MethodNotAllowed extends ApiError {
  static override readonly code: string = "method_not_allowed";
}

/** The body is larger than the server allows. */
export class BodyTooLarge extends ApiError {
  static override readonly code: string = "body_too_large";
}

/** The server does not accept this content type. */
export class UnsupportedMediaType extends ApiError {
  static override readonly code: string = "unsupported_media_type";
}

/** The address and the headers are larger than the server allows. */
export class HeadTooLarge extends ApiError {
  static override readonly code: string = "head_too_large";
}

/** The key belongs to another request. `original` is the transfer or charge made with it. */
export class IdempotencyConflict extends Conflict {
  static override readonly code: string = "idempotency_conflict";
}

/** The key has made more requests than its limit allows, or too many searches at once. */
export class RateLimited extends Throttled {
  static override readonly code: string = "rate_limited";
}

/** An unexpected error occurred in the server. */
export class InternalError extends ServerError {
  static override readonly code: string = "internal_error";
}

/** The server's database could not be reached, or failed. Nothing was written. */
export class DatabaseUnavailable extends ServerError {
  static override readonly code: string = "database_unavailable";
}

/** The server does not know whether a commit succeeded. Send the same request again. */
export class OutcomeUnknown extends ServerError {
  static override readonly code: string = "outcome_unknown";
}

/** The deadline of the request passed before its commit could begin: nothing was written. */
export class DeadlineExceeded extends ServerError {
  static override readonly code: string = "deadline_exceeded";
}

/** Too many transfers or charges are waiting to be written. */
export class QueueFull extends ServerError {
  static override readonly code: string = "queue_full";
}

/** An account's last entry is dated in the future. Nothing moved; retry later. */
export class EntryAheadOfClock extends ServerError {
  static override readonly code: string = "entry_ahead_of_clock";
}

/** The clocks of the server's host and of its database differ. */
export class ClockSkewed extends ServerError {
  static override readonly code: string = "clock_skewed";
}

/** The server's database has to be migrated first. */
export class SchemaOutdated extends ServerError {
  static override readonly code: string = "schema_outdated";
}
