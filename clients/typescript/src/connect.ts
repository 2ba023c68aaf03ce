/** Connecting people: the connect address, the answer in the return address, and user tokens. */

import { record } from "./decoding.ts";
import { ReturnNotTrusted, UnexpectedAnswer } from "./errors.ts";
import type { Request } from "./exchange.ts";
import { encodeObject } from "./json.ts";
import { errorFromCode } from "./problems.ts";
import { type UserToken, userToken } from "./records.ts";
import { Resource } from "./resource.ts";
import type { Caller } from "./retrying.ts";

const RANDOM_BYTES = 32;

/** Returns a new secret text for a URL, such as a `state`. */
export function randomToken(): string {
  return base64Url(crypto.getRandomValues(new Uint8Array(RANDOM_BYTES)));
}

/**
 * Proves that the app that exchanges a code is the one that asked for it (PKCE, RFC 7636).
 *
 * Store the verifier in the person's session, and pass it to `exchangeCode`.
 */
export interface ProofKey {
  readonly verifier: string;
  readonly challenge: string;
}

export async function createProofKey(verifier = randomToken()): Promise<ProofKey> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  return { verifier, challenge: base64Url(new Uint8Array(digest)) };
}

export interface ConnectRequest {
  readonly client_id: string;
  readonly redirect_uri: string;
  /** A secret that you store in the person's session; `codeFrom` compares it. */
  readonly state: string;
  readonly scope?: readonly string[];
  readonly proofKey?: ProofKey;
}

export interface CodeExchange {
  readonly client_id: string;
  readonly redirect_uri: string;
  readonly code_verifier?: string;
}

/** Connects people's accounts, and exchanges codes for user tokens. */
export class Connect extends Resource {
  readonly #portalUrl: string;

  constructor(caller: Caller, portalUrl: string) {
    super(caller);
    this.#portalUrl = new URL(portalUrl).origin;
  }

  /** Returns the address to send a person's browser to. */
  connectUrl(request: ConnectRequest): string {
    const { client_id, redirect_uri, state, scope = ["profile"], proofKey } = request;
    const parameters = {
      response_type: "code",
      client_id,
      redirect_uri,
      scope: scope.join(" "),
      state,
      ...(proofKey && { code_challenge: proofKey.challenge, code_challenge_method: "S256" }),
    };
    return `${this.#portalUrl}/connect?${new URLSearchParams(parameters)}`;
  }

  /** Returns the code in the address to which the person returned, or throws the error in it. */
  codeFrom(returnUrl: string, { state }: { readonly state: string }): string {
    const answer = new URL(returnUrl).searchParams;
    if (!state || !areEqual(answer.get("state") ?? "", state)) {
      throw new ReturnNotTrusted("The state in the address is not the one that was sent.");
    }
    const issuer = answer.get("iss") ?? "";
    if (!areEqual(issuer, this.#portalUrl)) {
      throw new ReturnNotTrusted(
        `The issuer "${issuer}" is not the portal "${this.#portalUrl}" (RFC 9207).`,
      );
    }
    const code = answer.get("error");
    if (code !== null) throw errorFromCode(code, answer.get("error_description") ?? "");
    const found = answer.get("code");
    if (found) return found;
    throw new UnexpectedAnswer("The address contains neither a code nor an error.");
  }

  /**
   * Returns a user token in exchange for the code of a person who has returned.
   *
   * If the answer is lost, so is the token. The client then sends the code again, gets
   * InvalidGrant, and throws it: the person has to connect again.
   */
  async exchangeCode(code: string, exchange: CodeExchange): Promise<UserToken> {
    const fields = { grant_type: "authorization_code", code, ...exchange };
    return this.record(userToken, this.#clientRequest("/oauth/token", fields));
  }

  /** Revokes a user token. */
  async revoke(token: string, { client_id }: { readonly client_id: string }): Promise<void> {
    await this.record(record({}), this.#clientRequest("/oauth/revoke", { token, client_id }));
  }

  /** Returns a request that sends the key as `client_secret`, not as a bearer token. */
  #clientRequest(path: string, fields: Readonly<Record<string, string | undefined>>): Request {
    const body = encodeObject({ ...fields, ...this.caller.clientSecret() });
    return { method: "POST", path, body, authorized: false };
  }
}

/** Compares without revealing by its duration where the texts differ. */
function areEqual(given: string, expected: string): boolean {
  let difference = given.length ^ expected.length;
  for (let index = 0; index < expected.length; index += 1) {
    difference |= given.charCodeAt(index) ^ expected.charCodeAt(index);
  }
  return difference === 0;
}

function base64Url(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replace(/=+$/, "");
}
