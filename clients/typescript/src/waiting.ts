/** Waiting for a charge: by a delayed answer of the server if possible, otherwise by polling. */

import { ApiError, isTemporary, type OuselError, WaitTimedOut } from "./errors.ts";
import type { Request } from "./exchange.ts";
import { type Charge, charge, isFinal } from "./records.ts";
import { decodeAnswer } from "./resource.ts";
import { type Caller, delaySeconds, retryPolicy } from "./retrying.ts";

/** Shorter than the time after which gateways cut silent connections. */
export const HELD_SECONDS_MAX = 25;
export const PAUSES = retryPolicy({ firstDelaySeconds: 0.5, delaySecondsMax: 5 });

/**
 * Asks for the charge until it is final, or throws WaitTimedOut.
 *
 * After a request that failed, one asks for an answer at once: a gateway may have cut the first. If
 * the server does not delay its answers, it is polled.
 */
export async function waitUntilFinal(
  caller: Caller,
  request: Request,
  timeoutSeconds: number,
): Promise<Charge> {
  const { seconds, sleep, randomShare } = caller.settings.environment;
  const endsAt = seconds() + timeoutSeconds;
  let isHolding = true; // whether the server delays its answers
  let hasFailed = false;
  for (let poll = 1; ; poll += 1) {
    const startedAt = seconds();
    const leftBefore = Math.max(endsAt - startedAt, 0);
    const isAsked = isHolding && !hasFailed;
    const heldSeconds: number = isAsked ? Math.min(Math.floor(leftBefore), HELD_SECONDS_MAX) : 0;
    const { found, error } = await readCharge(caller, request, heldSeconds);
    if (found && isFinal(found)) return found;
    const leftSeconds = endsAt - seconds();
    if (found && leftSeconds <= 0) throw new WaitTimedOut(found);
    hasFailed = error !== null;
    if (found && heldSeconds > 0) isHolding = heldSeconds < 2 * (seconds() - startedAt);
    if (hasFailed || !isHolding || leftSeconds < 1) {
      const askedSeconds = (error instanceof ApiError ? error.retryAfterSeconds : null) ?? 0;
      const wanted = Math.max(delaySeconds(PAUSES, poll, 0.5 + randomShare() / 2), askedSeconds);
      const pause = Math.min(wanted, Math.max(leftSeconds, 0));
      if (error !== null) caller.logRetry(request, error, poll, pause);
      await sleep(pause, request.signal);
    }
  }
}

/** The charge, or why a request with a delayed answer failed. */
interface Reading {
  readonly found: Charge | null;
  readonly error: OuselError | null;
}

/** Returns the charge. If a request with a delayed answer failed, there is none. */
async function readCharge(
  caller: Caller,
  request: Request,
  heldSeconds: number,
): Promise<Reading> {
  const headers = { Prefer: `wait=${heldSeconds}` };
  try {
    const answer = await (heldSeconds === 0
      ? caller.send(request)
      : caller.send({ ...request, headers, heldSeconds }, 1));
    return { found: decodeAnswer(charge, answer), error: null };
  } catch (error) {
    if (heldSeconds === 0) throw error;
    if (!isTemporary(error)) throw error;
    return { found: null, error };
  }
}
