/** The errors of this client. Wrong arguments are TypeErrors and RangeErrors instead. */

import type { Charge, Transfer } from "./records.ts";

/** The base class of this client's errors. */
export class OuselError extends Error {
  /** The key that was sent with the request. */
  idempotencyKey: string | null = null;
  /**
   * Whether an attempt may have taken effect although no answer said so. Keep the key, and send
   * the same request again.
   */
  inDoubt = false;
  attempts = 0;

  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
  }
}

/** The last attempt got no answer: it did not reach the server, broke off or timed out. */
export class ConnectionFailed extends OuselError {}

/** The answer does not have the documented form. Perhaps it did not come from Ousel. */
export class UnexpectedAnswer extends OuselError {}

/** The state or the issuer in the return address is not the expected one. */
export class ReturnNotTrusted extends OuselError {}

/** The charge is still open. `charge` is its last known state. */
export class WaitTimedOut extends OuselError {
  readonly charge: Charge;

  constructor(charge: Charge) {
    super(`Charge ${charge.id} is still ${charge.status}.`);
    this.charge = charge;
  }
}

/** The contents of an error answer. */
export interface Problem {
  readonly status: number;
  readonly code?: string;
  readonly detail?: string;
  readonly param?: string | null;
  readonly requestId?: string | null;
  readonly retryAfterSeconds?: number | null;
  readonly members?: Readonly<Record<string, unknown>>;
}

/** The server answered with an error. */
export class ApiError extends OuselError {
  static readonly status: number = 0;
  static readonly code: string = "";
  readonly status: number;
  /** For programs; it never changes. */
  readonly code: string;
  /** For people. */
  readonly detail: string;
  /** The field at fault, if there is one. */
  readonly param: string | null;
  readonly requestId: string | null;
  readonly retryAfterSeconds: number | null;
  /** Any further fields of the answer. Numbers in them are JsonNumbers, which are exact. */
  readonly members: Readonly<Record<string, unknown>>;

  constructor(problem: Problem) {
    const { status, code = "", detail = "", requestId = null } = problem;
    const request = requestId === null ? "" : ` (request ${requestId})`;
    const name = `${status} ${code}`.trimEnd();
    super(`${name}: ${detail || "the server did not say why"}${request}`);
    this.status = status;
    this.code = code;
    this.detail = detail;
    this.param = problem.param ?? null;
    this.requestId = requestId;
    this.retryAfterSeconds = problem.retryAfterSeconds ?? null;
    this.members = problem.members ?? {};
  }
}

/** The request must be changed, or the balance increased. It is not retried. */
export class BadRequest extends ApiError {
  static override readonly status: number = 400;
}

/** The key or token is not valid, or no longer valid. */
export class NotAuthenticated extends ApiError {
  static override readonly status: number = 401;
}

/** The caller is not allowed to do this. */
export class Forbidden extends ApiError {
  static override readonly status: number = 403;
}

/** The object that the request names does not exist. */
export class Missing extends ApiError {
  static override readonly status: number = 404;
}

/** The request contradicts an earlier one. */
export class Conflict extends ApiError {
  static override readonly status: number = 409;
  /** The transfer or charge that was first sent with this idempotency key, where it is known. */
  original: Transfer | Charge | null = null;
}

/** There were too many requests, and retrying did not help in time. */
export class Throttled extends ApiError {
  static override readonly status: number = 429;
}

/** The server failed. A request that may be repeated was retried, but without success. */
export class ServerError extends ApiError {
  static override readonly status: number = 500;
}

/** Returns whether the same request may succeed later. */
export function isTemporary(error: unknown): error is ConnectionFailed | ServerError | Throttled {
  return (
    error instanceof ConnectionFailed || error instanceof ServerError || error instanceof Throttled
  );
}
