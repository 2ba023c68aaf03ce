/** The clients: one for a partner key, one for a user token. */

import { Charges } from "./charges.ts";
import { Connect } from "./connect.ts";
import { exchangeWith, segment } from "./exchange.ts";
import {
  type Account,
  account,
  type Balance,
  balance,
  type Holder,
  holder,
  type OwnAccount,
  ownAccount,
} from "./records.ts";
import { Resource } from "./resource.ts";
import { Caller, type Log, type RetryPolicy, retryPolicy, ENVIRONMENT } from "./retrying.ts";
import { Sandbox } from "./sandbox.ts";
import { Transfers } from "./transfers.ts";

export const TIMEOUT_SECONDS = 30;
const TIMEOUT_SECONDS_MAX = 86_400; // a timer of more than 24 days would end at once

export interface ClientOptions {
  /** The address of the API, such as https://pay.example.com/v1. */
  readonly baseUrl: string;
  /** How long to wait for the whole answer to one attempt. At most a day. */
  readonly timeoutSeconds?: number;
  readonly retry?: Partial<RetryPolicy>;
  /** Replaces fetch, for proxies, your own certificates, or tests. */
  readonly fetch?: typeof globalThis.fetch;
  /**
   * Is called with a line for each retry. No line contains a key or a token. Without it, only
   * the lines about a long outage of `follow` are shown, with console.warn.
   */
  readonly log?: Log;
}

/** What an app may read with a user token. */
class User extends Resource {
  /** Returns the person's account. Needs the scope `profile`. */
  async me(): Promise<Holder> {
    return this.read(holder, "/user/me");
  }

  /** Returns the person's balance. Needs the scope `balance`. */
  async balance(): Promise<Balance> {
    return this.read(balance, "/user/balance");
  }
}

/** Finds accounts. */
class Accounts extends Resource {
  /** Returns the account with this @username, account number or email. */
  async get(identifier: string): Promise<Account> {
    return this.read(account, `/accounts/${segment(identifier)}`);
  }
}

/** The client for a partner key. It belongs on a server: in a browser, the constructor throws. */
export class Client extends Connect {
  readonly accounts: Accounts;
  readonly transfers: Transfers;
  readonly charges: Charges;
  readonly sandbox: Sandbox;

  /** Calls a server with this key. If `portalUrl` is not given, the portal is on the same host. */
  constructor(key: string, options: ClientOptions & { readonly portalUrl?: string }) {
    const caller = createCaller(key, options);
    super(caller, options.portalUrl ?? new URL(options.baseUrl).origin);
    this.accounts = new Accounts(caller);
    this.transfers = new Transfers(caller);
    this.charges = new Charges(caller);
    this.sandbox = new Sandbox(caller);
  }

  /** Returns the account that owns the key, and the app that the key belongs to. */
  async me(): Promise<OwnAccount> {
    return this.read(ownAccount, "/me");
  }

  /** Returns the balance of the account that owns the key. */
  async balance(): Promise<Balance> {
    return this.read(balance, "/balance");
  }

  /** Returns a client for this user token. */
  user(token: string): User {
    return new User(this.caller.withCredential(token));
  }
}

/** The client for a user token. It needs no partner key, and may be in a browser. */
export class UserClient extends User {
  constructor(token: string, options: ClientOptions) {
    super(createCaller(token, options));
  }
}

function createCaller(credential: string, options: ClientOptions): Caller {
  const { baseUrl, fetch = (...given) => globalThis.fetch(...given), log } = options;
  const timeoutSeconds = options.timeoutSeconds ?? TIMEOUT_SECONDS;
  if (/^https?:\/\/[^/]*@/.test(baseUrl)) {
    throw new RangeError("The baseUrl must not contain a name or a password.");
  }
  if (!/^https?:\/\/[^/?#]+[^?#]*$/.test(baseUrl) || !URL.canParse(baseUrl)) {
    throw new RangeError(`"${baseUrl}" is not an address such as https://pay.example.com/v1.`);
  }
  if (!(timeoutSeconds > 0 && timeoutSeconds <= TIMEOUT_SECONDS_MAX)) {
    throw new RangeError("The timeoutSeconds must be positive, and at most a day.");
  }
  return new Caller(credential, {
    exchange: exchangeWith(baseUrl.replace(/\/+$/, ""), fetch),
    timeoutSeconds,
    policy: retryPolicy(options.retry),
    environment: ENVIRONMENT,
    log: log ?? (() => {}),
    warn: log ?? ((message) => console.warn(message)),
  });
}
