/** Charges: creating them, waiting for payment, canceling them. */

import { Amount, type AmountLike } from "./amounts.ts";
import { segment } from "./exchange.ts";
import { encodeObject } from "./json.ts";
import { type Charge, charge } from "./records.ts";
import { ChargeNotCancelable, IdempotencyConflict } from "./refusals.ts";
import { conflictOrDoubt, parseKey, Resource, withKeyInErrors } from "./resource.ts";
import { waitUntilFinal } from "./waiting.ts";

/** A charge to be created. Without an idempotency key, a new one is created. */
export interface ChargeRequest {
  readonly amount: AmountLike;
  readonly description?: string | undefined;
  readonly reference?: string | undefined;
  readonly success_url?: string | undefined;
  readonly cancel_url?: string | undefined;
  readonly idempotency_key?: string | undefined;
}

export interface ChargeFilters {
  /** The newest first, unless this says otherwise. */
  readonly order?: "newest" | "oldest";
  readonly status?: Charge["status"];
  /** RFC 3339, with a time zone. */
  readonly status_changed_after?: string;
  readonly reference?: string;
  readonly pageSize?: number;
}

type Terms = Omit<ChargeRequest, "idempotency_key"> & { readonly amount: Amount };

/** Creates and reads charges. */
export class Charges extends Resource {
  /** Creates a charge. Send the payer to its `checkout_url`, then call `wait`. */
  async create({ idempotency_key, ...rest }: ChargeRequest): Promise<Charge> {
    const key = parseKey(idempotency_key);
    const terms: Terms = { ...rest, amount: Amount.of(rest.amount) };
    return withKeyInErrors(key, () => this.#create(terms, key));
  }

  /** Returns the charge as it is now. */
  async get(chargeId: string): Promise<Charge> {
    return this.read(charge, pathOf(chargeId));
  }

  /**
   * Returns the charge as soon as it is paid, canceled or expired.
   *
   * Throws WaitTimedOut if the charge is still open when the time limit is reached, and the reason
   * of `signal` if it is aborted. If the server does not answer, the call may last longer, until
   * the retry policy gives up.
   */
  async wait(
    chargeId: string,
    { timeoutSeconds = 600, signal }: { timeoutSeconds?: number; signal?: AbortSignal } = {},
  ): Promise<Charge> {
    const request = { method: "GET", path: pathOf(chargeId), signal } as const;
    return waitUntilFinal(this.caller, request, timeoutSeconds);
  }

  /** Cancels the charge. Throws ChargeNotCancelable if it is already final. */
  async cancel(chargeId: string): Promise<Charge> {
    const path = pathOf(chargeId);
    try {
      return await this.record(charge, { method: "POST", path: `${path}/cancel` });
    } catch (error) {
      // An earlier attempt may have canceled the charge although its answer was lost.
      const isCanceled =
        error instanceof ChargeNotCancelable &&
        error.inDoubt &&
        error.members["charge_status"] === "canceled";
      if (!isCanceled) throw error;
      return this.get(chargeId);
    }
  }

  /** Iterates over the matching charges, the newest first unless `order` says otherwise. */
  list({ pageSize = 100, ...filters }: ChargeFilters = {}): AsyncGenerator<Charge> {
    return this.walk(charge, "/charges", { ...filters, limit: pageSize });
  }

  async #create(terms: Terms, key: string): Promise<Charge> {
    try {
      return await this.record(charge, {
        method: "POST",
        path: "/charges",
        body: encodeObject({ ...terms }),
        headers: { "Idempotency-Key": key },
      });
    } catch (error) {
      const id = error instanceof IdempotencyConflict ? error.members["charge_id"] : undefined;
      if (!(error instanceof IdempotencyConflict) || typeof id !== "string") throw error;
      try {
        const original = await this.get(id);
        error.original = original;
        if (hasTerms(original, terms)) return original;
        error.inDoubt = false; // the key belongs to the original, and always will
      } catch (failure) {
        throw conflictOrDoubt(error, failure);
      }
      throw error;
    }
  }
}

function hasTerms(original: Charge, { amount, ...texts }: Terms): boolean {
  const names = ["description", "reference", "success_url", "cancel_url"] as const;
  const areSame = names.every((name) => original[name] === (texts[name] ?? null));
  return areSame && original.amount.equals(amount);
}

function pathOf(chargeId: string): string {
  return `/charges/${segment(chargeId)}`;
}
