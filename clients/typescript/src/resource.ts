/** What all parts of the API share: reading records, walking lists, making idempotency keys. */

import { type Decode, decodeBody, Undecodable } from "./decoding.ts";
import { ApiError, isTemporary, OuselError, UnexpectedAnswer } from "./errors.ts";
import type { Answer, Request } from "./exchange.ts";
import { type Page, page } from "./records.ts";
import type { IdempotencyConflict } from "./refusals.ts";
import { type Caller, isVisibleAscii } from "./retrying.ts";

export type Query = Readonly<Record<string, string | number | undefined>>;

const KEY_CHARACTERS_MAX = 255;
const KEY_RANDOM_BYTES = 10;

/** A part of the API. */
export class Resource {
  protected readonly caller: Caller;

  constructor(caller: Caller) {
    this.caller = caller;
  }

  /** Sends the request, and returns the record in its answer. */
  protected async record<Value>(decode: Decode<Value>, request: Request): Promise<Value> {
    return decodeAnswer(decode, await this.caller.send(request));
  }

  /** Returns the record at a path. */
  protected read<Value>(decode: Decode<Value>, path: string): Promise<Value> {
    return this.record(decode, { method: "GET", path });
  }

  protected readPage<Value>(
    decode: Decode<Value>,
    path: string,
    query: Query,
  ): Promise<Page<Value>> {
    return this.record(page(decode), { method: "GET", path, query: given(query) });
  }

  /** Yields the records of all pages. Each page is read when it is needed. */
  protected async *walk<Value>(
    decode: Decode<Value>,
    path: string,
    query: Query,
  ): AsyncGenerator<Value, void, undefined> {
    let cursor: string | undefined;
    do {
      const { data, next_cursor } = await this.readPage(decode, path, { ...query, cursor });
      yield* data;
      cursor = next_cursor ?? undefined;
    } while (cursor !== undefined);
  }
}

/** Decodes the answer, or throws UnexpectedAnswer if it does not have the documented form. */
export function decodeAnswer<Value>(decode: Decode<Value>, answer: Answer): Value {
  try {
    return decodeBody(decode, answer.body);
  } catch (cause) {
    if (!(cause instanceof Undecodable)) throw cause;
    const error = new UnexpectedAnswer(
      `The answer with status ${answer.status} does not have the documented form: ` +
        `${cause.message}.`,
      { cause },
    );
    error.inDoubt = true;
    throw error;
  }
}

/**
 * Returns what to throw if a failure has prevented a look at what the key of a conflict was used for.
 *
 * A refusal must not hide that the key was used. After a failure that may pass, nobody knows yet
 * whether it was used for the same request: the caller keeps the key and tries again.
 */
export function conflictOrDoubt(conflict: IdempotencyConflict, failure: unknown): unknown {
  if (failure instanceof ApiError && !isTemporary(failure)) {
    conflict.cause = failure;
    return conflict;
  }
  if (failure instanceof OuselError) failure.inDoubt = true;
  return failure;
}

/** Returns the fields of a query that are not undefined. */
export function given(query: Query): Record<string, string> {
  const entries = Object.entries(query).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries.map(([name, value]) => [name, String(value)]));
}

/** Returns the key, or a new one if it is undefined. Refuses an invalid key. */
export function parseKey(key: string | undefined): string {
  if (key === undefined) return newKey();
  if (typeof key !== "string" || key.length > KEY_CHARACTERS_MAX || !isVisibleAscii(key)) {
    throw new RangeError(
      `An idempotency key must have 1 to ${KEY_CHARACTERS_MAX} visible ASCII characters.`,
    );
  }
  return key;
}

/** Returns a new, unique idempotency key. Keys sort by the time of their creation. */
function newKey(): string {
  const random = [...crypto.getRandomValues(new Uint8Array(KEY_RANDOM_BYTES))];
  const digits = random.map((byte) => byte.toString(16).padStart(2, "0"));
  return Date.now().toString(16).padStart(12, "0") + digits.join("");
}

/** Runs a call, and adds the key to any error that it throws. */
export async function withKeyInErrors<Value>(
  key: string,
  call: () => Promise<Value>,
): Promise<Value> {
  try {
    return await call();
  } catch (error) {
    if (error instanceof OuselError) error.idempotencyKey = key;
    throw error;
  }
}
