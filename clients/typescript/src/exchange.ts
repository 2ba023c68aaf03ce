/** Sends one request with fetch, once, and returns its outcome. */

/** One request. Every attempt sends the same bytes. */
export interface Request {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Whether the credential is sent as a bearer token. */
  readonly authorized?: boolean;
  /** How long the server may delay its answer. */
  readonly heldSeconds?: number;
  /** Whether to send it again if it may have taken effect. */
  readonly repeatable?: boolean;
  /** Ends the wait for an answer. */
  readonly signal?: AbortSignal | undefined;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

/** There was no answer. `sent` says whether the server may have received the request. */
export interface Failure {
  readonly error: unknown;
  readonly sent: boolean;
}

export type Outcome = Answer | Failure;

/** Sends a request with this credential and this time limit. */
export type Exchange = (
  request: Request,
  credential: string,
  timeoutSeconds: number,
) => Promise<Outcome>;

// With these errors of Node.js, no byte of the request was sent, unless they ended an established
// connection: then `syscall` is another one. Browsers do not say.
const NOT_SENT = new Set<unknown>([
  "ECONNREFUSED",
  "EAI_AGAIN",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "UND_ERR_CONNECT_TIMEOUT",
]);
const CONNECTING = new Set<unknown>([undefined, "connect", "getaddrinfo"]);

/** Returns the exchange with the server at this address. */
export function exchangeWith(baseUrl: string, fetch: typeof globalThis.fetch): Exchange {
  return async (request, credential, timeoutSeconds) => {
    const query = new URLSearchParams(request.query).toString();
    const limitSeconds = timeoutSeconds + (request.heldSeconds ?? 0);
    const limit = AbortSignal.timeout(Math.ceil(limitSeconds * 1000)); // Node.js needs an integer
    try {
      const response = await fetch(`${baseUrl}${request.path}${query && `?${query}`}`, {
        method: request.method,
        headers: headersOf(request, credential),
        body: request.body ?? null,
        redirect: "manual", // a redirect would take the credential elsewhere
        signal: request.signal ? AbortSignal.any([request.signal, limit]) : limit,
      });
      return { status: response.status, headers: response.headers, body: await response.text() };
    } catch (error) {
      request.signal?.throwIfAborted();
      return { error, sent: !hasFailedToConnect(error) };
    } finally {
      limit.onabort = null; // keeps the limit alive: in Node.js 20, AbortSignal.any may lose it
    }
  };
}

function headersOf(request: Request, credential: string): Record<string, string> {
  return {
    Accept: "application/json",
    ...(request.authorized === false ? {} : { Authorization: `Bearer ${credential}` }),
    ...(request.body === undefined ? {} : { "Content-Type": "application/json" }),
    ...request.headers,
  };
}

/** Returns whether fetch failed before there was a connection. */
function hasFailedToConnect(error: unknown): boolean {
  const cause = error instanceof Error ? error.cause : null;
  const { code, syscall } = (cause ?? {}) as { code?: unknown; syscall?: unknown };
  return NOT_SENT.has(code) && CONNECTING.has(syscall);
}

/** Returns the text as one segment of a path. */
export function segment(text: string): string {
  if (["", ".", ".."].includes(text)) throw new RangeError(`"${text}" is not an identifier or id.`);
  return encodeURIComponent(text);
}
