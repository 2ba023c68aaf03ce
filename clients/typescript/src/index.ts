/**
 * The TypeScript client of Ousel.
 *
 * `Client` does what a partner key allows, on a server. `UserClient` reads what a user token
 * allows. `ousel-client/refusals` has the classes for the error codes of the API.
 */

export { Amount, type AmountLike } from "./amounts.ts";
export type { ChargeFilters, ChargeRequest, Charges } from "./charges.ts";
export { Client, type ClientOptions, UserClient } from "./clients.ts";
export {
  type CodeExchange,
  type ConnectRequest,
  createProofKey,
  type ProofKey,
  randomToken,
} from "./connect.ts";
export * from "./errors.ts";
export { JsonNumber } from "./json.ts";
export { Receipt, type ReceiptProof, ReceiptRefused } from "./receipts.ts";
export {
  type Account,
  type Balance,
  type Charge,
  type Holder,
  isFinal,
  type OwnAccount,
  type Page,
  type Party,
  type Rehearsal,
  type SandboxMail,
  type Transfer,
  type UserToken,
} from "./records.ts";
export { IdempotencyConflict } from "./refusals.ts";
export { DEFAULT_RETRY, type RetryPolicy } from "./retrying.ts";
export type {
  FollowOptions,
  TransferFilters,
  TransferIntent,
  TransferRequest,
  Transfers,
} from "./transfers.ts";
