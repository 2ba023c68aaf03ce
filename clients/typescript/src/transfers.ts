/** Transfers: preparing, sending, listing, finding and following them. */

import { Amount, type AmountLike } from "./amounts.ts";
import { UnexpectedAnswer } from "./errors.ts";
import { segment } from "./exchange.ts";
import { follow } from "./following.ts";
import { encodeObject } from "./json.ts";
import { Receipt, receiptParts } from "./receipts.ts";
import { account, type Page, type Transfer, transfer } from "./records.ts";
import { IdempotencyConflict } from "./refusals.ts";
import { conflictOrDoubt, decodeAnswer, parseKey, Resource, withKeyInErrors } from "./resource.ts";

/** How long the server may wait until the transfer is sealed. */
const RECEIPT_SECONDS_MAX = 10;

/** A transfer to be made. Without an idempotency key, a new one is created. */
export interface TransferRequest {
  readonly to: string;
  readonly amount: AmountLike;
  readonly note?: string | null | undefined;
  readonly idempotency_key?: string | undefined;
}

/** A transfer that happens once, however often it is sent. Store it before you send it. */
export interface TransferIntent {
  readonly to: string;
  readonly amount: Amount;
  readonly note?: string | null | undefined;
  readonly idempotency_key: string;
}

export interface TransferFilters {
  readonly direction?: "in" | "out";
  readonly kind?: Transfer["kind"];
  /** RFC 3339, with a time zone. */
  readonly created_after?: string;
  readonly created_before?: string;
  readonly pageSize?: number;
}

export interface FollowOptions {
  readonly direction?: "in" | "out";
  readonly kind?: Transfer["kind"];
  readonly pageSize?: number;
  /** Ends the iteration, without an error. */
  readonly signal?: AbortSignal;
}

/** Sends money from the account that owns the key, and lists its transfers. */
export class Transfers extends Resource {
  /** Returns the intent of a transfer, with a new key if none is given. Sends nothing. */
  prepare(request: TransferRequest): TransferIntent {
    const { to, amount, note, idempotency_key, ...others } = request;
    // A misspelt idempotency key must not let money move without its protection.
    for (const name of Object.keys(others)) throw new TypeError(`A transfer has no ${name}.`);
    return { to, amount: Amount.of(amount), note, idempotency_key: parseKey(idempotency_key) };
  }

  /**
   * Sends a transfer, and retries, as the retry policy allows, until its outcome is known.
   *
   * Pass an intent that you have stored, or the recipient and the amount. The transfer and every
   * error contain the idempotency key.
   */
  async send(request: TransferRequest | TransferIntent): Promise<Transfer> {
    const intent = this.prepare(request);
    return withKeyInErrors(intent.idempotency_key, () => this.#sendIntent(intent));
  }

  /** Returns a transfer that the account sent or received. */
  async get(transferId: string): Promise<Transfer> {
    return this.read(transfer, `/transfers/${segment(transferId)}`);
  }

  /**
   * Returns the receipt of a transfer, as soon as the transfer is sealed. Throws ReceiptNotReady if
   * it is not sealed within ten seconds.
   */
  async receipt(transferId: string): Promise<Receipt> {
    const answer = await this.caller.send({
      method: "GET",
      path: `/transfers/${segment(transferId)}/receipt`,
      headers: { Prefer: `wait=${RECEIPT_SECONDS_MAX}` },
      heldSeconds: RECEIPT_SECONDS_MAX,
    });
    decodeAnswer(receiptParts, answer);
    return new Receipt(answer.body);
  }

  /**
   * Returns the transfer that was sent with this key, or null.
   *
   * Null is final only if the last attempt with this key is more than 60 seconds ago: until then,
   * it may still be carried out.
   */
  async find({ idempotency_key }: { readonly idempotency_key: string }): Promise<Transfer | null> {
    if (typeof idempotency_key !== "string") {
      throw new TypeError("To find a transfer, give the idempotency key that it was sent with.");
    }
    const query = { idempotency_key: parseKey(idempotency_key) };
    const { data }: Page<Transfer> = await this.readPage(transfer, "/transfers", query);
    return data[0] ?? null;
  }

  /** Iterates over the matching transfers, newest first. */
  list({ pageSize = 100, ...filters }: TransferFilters = {}): AsyncGenerator<Transfer> {
    return this.walk(transfer, "/transfers", { ...filters, limit: pageSize });
  }

  /**
   * Iterates over the account's past transfers, oldest first, then over new ones as they happen.
   *
   * It begins after the cursor, or with the first transfer. The cursor is the `sequence` of the
   * last transfer that you have handled. Store it together with what you do about each transfer:
   * then none is missed and none is handled twice.
   */
  follow(cursor?: string | number, options: FollowOptions = {}): AsyncGenerator<Transfer> {
    const { pageSize = 100, signal, ...filters } = options;
    const query = { order: "oldest", ...filters, limit: pageSize };
    return follow(this.caller, { query, cursor, signal });
  }

  async #sendIntent(intent: TransferIntent): Promise<Transfer> {
    try {
      return await this.#post(intent);
    } catch (error) {
      if (!(error instanceof IdempotencyConflict)) throw error;
      try {
        error.original = await this.find(intent);
        if (error.original) {
          if (await this.#isIntended(intent, error.original)) return error.original;
          error.inDoubt = false; // the key belongs to the original, and always will
        }
      } catch (failure) {
        throw conflictOrDoubt(error, failure);
      }
      throw error;
    }
  }

  async #post({ idempotency_key, ...terms }: TransferIntent): Promise<Transfer> {
    const sent = await this.record(transfer, {
      method: "POST",
      path: "/transfers",
      body: encodeObject(terms),
      headers: { "Idempotency-Key": idempotency_key },
    });
    if (sent.idempotency_key !== idempotency_key) {
      const error = new UnexpectedAnswer(
        "The answer shows a transfer with another idempotency key.",
      );
      error.inDoubt = true;
      throw error;
    }
    return sent;
  }

  /** Returns whether this is the intended transfer, whichever way its recipient is named. */
  async #isIntended(intent: TransferIntent, original: Transfer): Promise<boolean> {
    const hasSameTerms =
      original.amount.equals(intent.amount) && original.note === (intent.note ?? null);
    if (!hasSameTerms) return false;
    return (await this.read(account, `/accounts/${segment(intent.to)}`)).id === original.to.id;
  }
}
