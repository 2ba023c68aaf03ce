/** When to retry, and how long to wait before each retry: exponential backoff, full jitter. */

import { ApiError, ConnectionFailed, type OuselError } from "./errors.ts";
import type { Answer, Exchange, Outcome, Request } from "./exchange.ts";
import { errorFromAnswer } from "./problems.ts";

/** How often and how long one call is retried. No attempt starts after `secondsMax`. */
export interface RetryPolicy {
  readonly attemptsMax: number;
  readonly secondsMax: number;
  readonly firstDelaySeconds: number;
  readonly delaySecondsMax: number;
}

export const DEFAULT_RETRY: RetryPolicy = {
  attemptsMax: 8,
  secondsMax: 60,
  firstDelaySeconds: 0.2,
  delaySecondsMax: 10,
};

/** The clock, the sleep and the random numbers that retries use. Tests replace them. */
export interface Environment {
  seconds(): number;
  sleep(seconds: number, signal?: AbortSignal): Promise<void>;
  randomShare(): number;
}

export const ENVIRONMENT: Environment = {
  seconds: () => performance.now() / 1000,
  sleep,
  randomShare: Math.random,
};

/** Returns a policy with these changes. Refuses one without attempts or with a negative time. */
export function retryPolicy(changes: Partial<RetryPolicy> = {}): RetryPolicy {
  const policy = { ...DEFAULT_RETRY, ...changes };
  const times = [policy.secondsMax, policy.firstDelaySeconds, policy.delaySecondsMax];
  if (!(policy.attemptsMax >= 1) || !times.every((each) => each >= 0)) {
    throw new RangeError("A policy must allow at least one attempt, and no negative times.");
  }
  return policy;
}

/** Returns a random wait after this attempt. Its upper limit doubles with each attempt. */
export function delaySeconds(policy: RetryPolicy, attempt: number, randomShare: number): number {
  const doubled = policy.firstDelaySeconds * 2 ** Math.min(attempt - 1, 60);
  return randomShare * Math.min(doubled, policy.delaySecondsMax);
}

export type Log = (message: string) => void;

/** What the calls of a client share: how to send, and how to retry. */
export interface CallSettings {
  readonly exchange: Exchange;
  readonly timeoutSeconds: number;
  readonly policy: RetryPolicy;
  readonly environment: Environment;
  readonly log: Log;
  /** Is called instead of `log` where somebody should look at it. */
  readonly warn: Log;
}

/** Sends requests with one credential, and retries them. */
export class Caller {
  readonly settings: CallSettings;
  readonly #credential: string; // neither console.log nor JSON.stringify shows it

  constructor(credential: string, settings: CallSettings) {
    this.#credential = parseCredential(credential);
    this.settings = settings;
  }

  /** Returns a caller with another credential. */
  withCredential(credential: string): Caller {
    return new Caller(credential, this.settings);
  }

  /** Returns the fields that send the credential as `client_secret`. */
  clientSecret(): { client_secret: string } {
    return { client_secret: this.#credential };
  }

  /** Says that another attempt follows this one. */
  logRetry(
    { method, path }: Request,
    error: unknown,
    attempt: number,
    pause: number,
    log: Log = this.settings.log,
  ): void {
    const reason = error instanceof Error ? error.message : String(error);
    log(
      `${method} ${path}: ${reason}; attempt ${attempt + 1} starts in ${pause.toFixed(2)} s`,
    );
  }

  /** Returns a successful answer, or throws the error that retrying did not resolve. */
  async send(request: Request, attemptsMax = this.settings.policy.attemptsMax): Promise<Answer> {
    const { exchange, policy, environment, timeoutSeconds } = this.settings;
    const startedAt = environment.seconds();
    let inDoubt = false;
    for (let attempt = 1; ; attempt += 1) {
      const outcome = await exchange(request, this.#credential, timeoutSeconds);
      if ("status" in outcome && outcome.status < 400) return outcome;
      const error = errorOf(outcome);
      inDoubt ||= isInDoubt(outcome);
      Object.assign(error, { inDoubt, attempts: attempt });
      const askedSeconds = error instanceof ApiError ? error.retryAfterSeconds : null;
      const pause = delaySeconds(policy, attempt, environment.randomShare()) + (askedSeconds ?? 0);
      const isLate = environment.seconds() - startedAt + pause > policy.secondsMax;
      if (isLate || attempt >= attemptsMax || !mayRepeat(request, outcome)) throw error;
      this.logRetry(request, error, attempt, pause);
      await environment.sleep(pause, request.signal);
    }
  }
}

/** Refuses a text that is not valid in a header, and a partner key in a browser. */
function parseCredential(credential: string): string {
  if (typeof credential !== "string" || !isVisibleAscii(credential)) {
    throw new RangeError(
      "A key or token must be visible ASCII without spaces. This one is empty, or has other " +
        "characters, such as the line end of the file it was read from.",
    );
  }
  if (credential.startsWith("sk_") && "window" in globalThis) {
    throw new TypeError(
      "A partner key must never be in a browser, where everyone can read it. Revoke this key, " +
        "and call Ousel from your server.",
    );
  }
  return credential;
}

/** Returns whether the text is not empty and contains only visible ASCII characters. */
export function isVisibleAscii(text: string): boolean {
  return /^[!-~]+$/.test(text);
}

function errorOf(outcome: Outcome): OuselError {
  if ("status" in outcome) return errorFromAnswer(outcome);
  const { error } = outcome;
  const cause = error instanceof Error && error.cause ? ` (${String(error.cause)})` : "";
  return new ConnectionFailed(`No answer: ${String(error)}${cause}`, { cause: error });
}

/** Returns whether the request may have taken effect: sent but not answered, or a 5xx. */
function isInDoubt(outcome: Outcome): boolean {
  return "status" in outcome ? outcome.status >= 500 : outcome.sent;
}

/** Returns whether the same request may be sent again. */
function mayRepeat({ repeatable = true }: Request, outcome: Outcome): boolean {
  if (!("status" in outcome)) return repeatable || !outcome.sent;
  return outcome.status === 429 || (repeatable && outcome.status >= 500);
}

const TIMER_SECONDS_MAX = 2_000_000; // a timer of more than 24 days would end at once

async function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, Math.min(seconds, TIMER_SECONDS_MAX) * 1000);
    signal?.addEventListener("abort", end);
  });
  signal?.throwIfAborted();
}
