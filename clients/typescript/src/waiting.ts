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
    const found = await readCharge(caller, request, heldSeconds);
    if (found && isFinal(found)) return found;
    const leftSeconds = endsAt - seconds();
    if (found && leftSeconds <= 0) throw new WaitTimedOut(found);
    // If the request failed, or the server did not delay its answer, poll from now on.
    isHeld = found !== null && heldSeconds > 0 && heldSeconds < 2 * (seconds() - startedAt);
    if (!isHeld) {
      const pause = delaySeconds(PAUSES, poll, 0.5 + randomShare() / 2);
      await sleep(Math.min(pause, Math.max(leftSeconds, 0)), request.signal);
    }
  }
}

/** Returns the charge, or null if a request with a delayed answer failed. */
async function readCharge(
  caller: Caller,
  request: Request,
  heldSeconds: number,
): Promise<Charge | null> {
  if (heldSeconds === 0) return decodeAnswer(charge, await caller.send(request));
  const headers = { Prefer: `wait=${heldSeconds}` };
  try {
    return decodeAnswer(charge, await caller.send({ ...request, headers, heldSeconds }, 1));
  } catch (error) {
    if (error instanceof ConnectionFailed || error instanceof ServerError) return null;
    if (error instanceof Throttled) return null;
    throw error;
  }
}
