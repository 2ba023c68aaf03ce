/**
 * Calls that only a sandbox has: time, payers, money, mail and rehearsals.
 *
 * A live server answers NotFound. Calls that change something have no idempotency key, so they are
 * not sent again after a lost answer. Only `finishRehearsal` is sent again, because repeating
 * it does no harm.
 */

import { Amount, type AmountLike } from "./amounts.ts";
import type { Decode } from "./decoding.ts";
import { segment } from "./exchange.ts";
import { encodeObject } from "./json.ts";
import {
  type Charge,
  charge,
  type Rehearsal,
  rehearsal,
  type SandboxMail,
  sandboxMail,
  sandboxTime,
  type Transfer,
  transfer,
} from "./records.ts";
import { Resource } from "./resource.ts";

/** Does what would otherwise need time, a payer or the operator. */
export class Sandbox extends Resource {
  /** Moves the server's clock forward, and returns its time. */
  async advanceClock(seconds: number): Promise<string> {
    return (await this.#post(sandboxTime, "/sandbox/clock", { advance: seconds })).now;
  }

  /** Pays a charge from the balance of the account `payer`. */
  async pay(chargeId: string, { payer }: { readonly payer: string }): Promise<Charge> {
    return this.#post(charge, `/sandbox/charges/${segment(chargeId)}/pay`, { payer });
  }

  /** Issues money to the account `to`. */
  async fund(request: { readonly to: string; readonly amount: AmountLike }): Promise<Transfer> {
    const fields = { to: request.to, amount: Amount.of(request.amount) };
    return this.#post(transfer, "/sandbox/fund", fields);
  }

  /** Iterates over the messages to this email, or to everyone, newest first. */
  mail(filters: { readonly to?: string } = {}): AsyncGenerator<SandboxMail> {
    return this.walk(sandboxMail, "/sandbox/mail", { ...filters, limit: 100 });
  }

  /** Starts a rehearsal, such as `answer-lost-after-commit`: calls of the app now go wrong. */
  async startRehearsal(name: string): Promise<Rehearsal> {
    return this.#post(rehearsal, "/sandbox/lab", { rehearsal: name });
  }

  /** Returns the rehearsal with its grades so far. */
  async getRehearsal(rehearsalId: string): Promise<Rehearsal> {
    return this.read(rehearsal, `/sandbox/lab/${segment(rehearsalId)}`);
  }

  /** Ends the rehearsal, and returns its grades. */
  async finishRehearsal(rehearsalId: string): Promise<Rehearsal> {
    const path = `/sandbox/lab/${segment(rehearsalId)}/finish`;
    return this.record(rehearsal, { method: "POST", path });
  }

  #post<Value>(
    decode: Decode<Value>,
    path: string,
    fields: Parameters<typeof encodeObject>[0],
  ): Promise<Value> {
    const body = encodeObject(fields);
    return this.record(decode, { method: "POST", path, body, repeatable: false });
  }
}
