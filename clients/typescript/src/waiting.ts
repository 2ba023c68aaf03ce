/** Waiting for a charge: by a delayed answer of the server if possible, otherwise by polling. */

import { ConnectionFailed, ServerError, Throttled, WaitTimedOut } from "./errors.ts";
import type { Request } from "./exchange.ts";
import { type Charge, charge, isFinal } from "./records.ts";
import { decodeAnswer } from "./resource.ts";
import { type Caller, delaySeconds, retryPolicy } from "./retrying.ts";

/** Shorter than the time after which gateways cut silent connections. */
export const HELD_SECONDS_MAX = 25;
export const PAUSES = retryPolicy({ firstDelaySeconds: 0.5, delaySecondsMax: 5 });

/** Asks for the charge until it is final, or throws WaitTimedOut. */
export async function waitUntilFinal(
  caller: Caller,
  request: Request,
  timeoutSeconds: number,
): Promise<Charge> {
  const { seconds, sleep, randomShare } = caller.settings.environment;
  const endsAt = seconds() + timeoutSeconds;
  let isHeld = true;
  for (let poll = 1; ; poll += 1) {
    const startedAt = seconds();
    const leftBefore = Math.max(endsAt - startedAt, 0);
    const heldSeconds: number = isHeld ? Math.min(Math.floor(leftBefore), HELD_SECONDS_MAX) : 0;
    const { found, askedSeconds } = await readCharge(caller, request, heldSeconds);
    if (found && isFinal(found)) return found;
    const leftSeconds = endsAt - seconds();
    if (found && leftSeconds <= 0) throw new WaitTimedOut(found);
    // If the request failed, or the server did not delay its answer, poll from now on.
    isHeld = found !== null && heldSeconds > 0 && heldSeconds < 2 * (seconds() - startedAt);
    if (!isHeld) {
      const pause = Math.max(delaySeconds(PAUSES, poll, 0.5 + randomShare() / 2), askedSeconds);
      await sleep(Math.min(pause, Math.max(leftSeconds, 0)), request.signal);
    }
  }
}

/** The charge, or null and the pause that the server asks for. */
interface Reading {
  readonly found: Charge | null;
  readonly askedSeconds: number;
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
    return { found: decodeAnswer(charge, answer), askedSeconds: 0 };
  } catch (error) {
    if (heldSeconds === 0) throw error;
    const isAnswer = error instanceof ServerError || error instanceof Throttled;
    if (!isAnswer && !(error instanceof ConnectionFailed)) throw error;
    const askedSeconds = isAnswer ? (error.retryAfterSeconds ?? 0) : 0;
    caller.logRetry(request, error, 1, askedSeconds);
    return { found: null, askedSeconds };
  }
}
