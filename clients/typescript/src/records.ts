/** The records in answers. Their fields have the names that the API reference gives them. */

import {
  amount,
  type Decode,
  type Decoded,
  flag,
  integer,
  list,
  nullable,
  record,
  text,
  time,
  word,
} from "./decoding.ts";

const ACCOUNT = {
  id: text,
  username: text, // without the @
  account_number: text,
  display_name: text,
  status: word<"active" | "frozen">(),
  created_at: time,
};
const HOLDER = { ...ACCOUNT, email: text, email_verified: flag };

export const account = record(ACCOUNT);
export const holder = record(HOLDER);
export const ownAccount = record({ ...HOLDER, app: record({ client_id: text, name: text }) });
export const balance = record({
  account_id: text,
  currency: text,
  available: amount,
  updated_at: time,
});

const party = record({ id: text, username: text, account_number: text, display_name: text });
export const transfer = record({
  id: text,
  status: word<"completed">(),
  kind: word<"transfer" | "charge_payment" | "funding" | "redemption">(),
  direction: word<"out" | "in">(),
  amount,
  currency: text,
  from: party,
  to: party,
  note: nullable(text),
  charge_id: nullable(text),
  sequence: integer, // its number in the reader's own account: 1, 2, 3 …
  balance_after: amount,
  idempotency_key: nullable(text),
  created_at: time,
});

export const charge = record({
  id: text,
  status: word<"created" | "paid" | "canceled" | "expired">(),
  amount,
  currency: text,
  description: nullable(text),
  reference: nullable(text),
  success_url: nullable(text),
  cancel_url: nullable(text),
  checkout_url: text,
  created_at: time,
  expires_at: time,
  paid_at: nullable(time),
  canceled_at: nullable(time),
  paid_by: nullable(record({ id: text, username: text, display_name: text })),
  transfer_id: nullable(text),
});

export const userToken = record({
  access_token: text,
  token_type: text,
  expires_in: integer, // seconds
  scope: text,
  user_id: text,
});

export const sandboxTime = record({ now: time });
export const sandboxMail = record({ to: text, subject: text, text, created_at: time });

const grade = record({
  rule: text,
  verdict: word<"passed" | "failed" | "not_shown">(),
  reason: text,
});
export const rehearsal = record({
  id: text,
  rehearsal: text,
  status: word<"running" | "ended">(),
  result: word<"passed" | "failed" | "incomplete">(),
  started_at: time,
  ends_at: time,
  return_url: nullable(text),
  grades: list(grade),
});

/** An account as anyone sees it. */
export type Account = Decoded<typeof account>;
/** An account as its holder sees it. */
export type Holder = Decoded<typeof holder>;
/** The account that owns the key, and the app that the key belongs to. */
export type OwnAccount = Decoded<typeof ownAccount>;
export type Balance = Decoded<typeof balance>;
/** An account as the other side of a transfer sees it. */
export type Party = Decoded<typeof party>;
/** A completed movement of money, as seen by the account that reads it. */
export type Transfer = Decoded<typeof transfer>;
/** A request to be paid, and its outcome. */
export type Charge = Decoded<typeof charge>;
export type UserToken = Decoded<typeof userToken>;
export type SandboxMail = Decoded<typeof sandboxMail>;
/** A rehearsal in a sandbox's lab, with the grades of your software so far. */
export type Rehearsal = Decoded<typeof rehearsal>;

/** One page of a list. */
export interface Page<Value> {
  readonly data: readonly Value[];
  readonly next_cursor: string | null;
}

export function page<Value>(decode: Decode<Value>): Decode<Page<Value>> {
  return record({ data: list(decode), next_cursor: nullable(text) });
}

/** Returns whether the status of the charge will never change again. */
export function isFinal(charge: Charge): boolean {
  return charge.status === "paid" || charge.status === "canceled" || charge.status === "expired";
}
