// Scripted calls: each attempt gets the next outcome of a list, and only pauses move the clock.
import { Caller, retryPolicy } from "../../src/retrying.ts";

export class Script {
  constructor(outcomes, { randomShare = 1, ...policy } = {}) {
    this.outcomes = outcomes;
    this.now = 1000;
    this.pauses = [];
    this.requests = [];
    this.lines = [];
    this.warnings = [];
    this.caller = new Caller("sk_live_scripted", {
      exchange: async (request) => {
        this.requests.push(request);
        const outcome = this.outcomes.shift();
        return typeof outcome === "function" ? outcome() : outcome;
      },
      timeoutSeconds: 30,
      policy: retryPolicy(policy),
      environment: {
        seconds: () => this.now,
        sleep: async (seconds) => {
          this.pauses.push(seconds);
          this.now += seconds;
        },
        randomShare: () => randomShare,
      },
      log: (line) => this.lines.push(line),
      warn: (line) => this.warnings.push(line),
    });
  }
}

export function said(status, body = {}, headers = {}) {
  return { status, headers: new Headers(headers), body: JSON.stringify(body) };
}

export function refused(status, code, members = {}, headers = {}) {
  return said(status, { status, code, detail: "No.", ...members }, headers);
}

export function lost({ sent = true } = {}) {
  return { error: new Error("gone"), sent };
}

export function charge(changes = {}) {
  const none = ["description", "reference", "success_url", "cancel_url", "paid_at", "canceled_at"];
  return said(200, {
    object: "charge",
    id: "ch_1",
    status: "created",
    amount: 1,
    currency: "OUSD",
    checkout_url: "https://pay.example/pay/ch_1",
    created_at: "2026-01-31T12:00:00.000000Z",
    expires_at: "2026-01-31T14:00:00.000000Z",
    paid_by: null,
    transfer_id: null,
    ...Object.fromEntries(none.map((name) => [name, null])),
    ...changes,
  });
}

const PARTY = { id: "acct_1", username: "ada", account_number: "OU1", display_name: "Ada" };

export function transferOf(idempotency_key, changes = {}) {
  return {
    id: "tr_1",
    status: "completed",
    kind: "transfer",
    direction: "out",
    amount: 2,
    currency: "OUSD",
    from: PARTY,
    to: PARTY,
    note: null,
    charge_id: null,
    sequence: 1,
    balance_after: 1,
    idempotency_key,
    created_at: "2026-01-31T12:00:00.000000Z",
    ...changes,
  };
}

export async function errorOf(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("The call did not fail.");
}
