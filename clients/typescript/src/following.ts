/** Following an account: its transfers in their order, as they happen, without an end. */

import { ApiError, isTemporary } from "./errors.ts";
import { type Page, page, type Transfer, transfer } from "./records.ts";
import { decodeAnswer, given, type Query } from "./resource.ts";
import { type Caller, delaySeconds } from "./retrying.ts";
import { HELD_SECONDS_MAX, PAUSES } from "./waiting.ts";

export interface Following {
  readonly query: Query;
  readonly cursor: string | number | undefined;
  readonly signal: AbortSignal | undefined;
}

const PATH = "/transfers";
const ASKED_SECONDS_MAX = 3600; // the longest wait, even if Retry-After asks for more

/**
 * Yields the transfers after the cursor, then new ones as they happen, until the signal is aborted.
 *
 * Before the first answer, there are at most `attemptsMax` attempts. Later failures are retried
 * for as long as they last, because following has no end. From `attemptsMax` failures in a row on,
 * there is a warning for each.
 */
export async function* follow(
  caller: Caller,
  { query, cursor, signal }: Following,
): AsyncGenerator<Transfer, void, undefined> {
  const { policy, environment } = caller.settings;
  let failuresMax = policy.attemptsMax - 1;
  let failures = 0;
  let unheld = 0;
  while (!signal?.aborted) {
    const heldSeconds = failures > 0 ? 0 : HELD_SECONDS_MAX;
    const startedAt = environment.seconds();
    let pause = 0;
    try {
      const found = await readPage(caller, { query, cursor, signal }, heldSeconds);
      for (const each of found.data) {
        if (signal?.aborted) return;
        yield each;
      }
      // Without a cursor, all transfers would be yielded again.
      cursor = found.next_cursor ?? found.data.at(-1)?.sequence ?? cursor;
      failures = 0;
      failuresMax = Infinity;
      // If the server does not delay its answers, poll.
      const isHeld = heldSeconds < 2 * (environment.seconds() - startedAt);
      unheld = found.data.length > 0 || isHeld ? 0 : unheld + 1;
      if (unheld > 0) pause = delaySeconds(PAUSES, unheld, 0.5 + environment.randomShare() / 2);
    } catch (error) {
      if (signal?.aborted) return;
      failures += 1;
      if (!isTemporary(error) || failures > failuresMax) throw error;
      const askedSeconds = error instanceof ApiError ? error.retryAfterSeconds : null;
      pause = delaySeconds(policy, failures, environment.randomShare());
      pause += Math.min(askedSeconds ?? 0, ASKED_SECONDS_MAX);
      const { log, warn } = caller.settings;
      const say = failures < policy.attemptsMax ? log : warn;
      caller.logRetry({ method: "GET", path: PATH }, error, failures, pause, say);
    }
    if (pause > 0) await environment.sleep(pause, signal).catch(() => {});
  }
}

async function readPage(
  caller: Caller,
  { query, cursor, signal }: Following,
  heldSeconds: number,
): Promise<Page<Transfer>> {
  const answer = await caller.send(
    {
      method: "GET",
      path: PATH,
      query: given({ ...query, cursor }),
      headers: heldSeconds > 0 ? { Prefer: `wait=${heldSeconds}` } : {},
      heldSeconds,
      signal,
    },
    1,
  );
  return decodeAnswer(page(transfer), answer);
}
