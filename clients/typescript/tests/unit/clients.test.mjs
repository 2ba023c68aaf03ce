import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import {
  BadRequest,
  Client,
  createProofKey,
  ReturnNotTrusted,
  UnexpectedAnswer,
  UserClient,
} from "../../src/index.ts";
import { AccessDenied, IdempotencyConflict } from "../../src/refusals.ts";
import { charge, errorOf, transferOf } from "./scripts.mjs";

const KEY = "sk_live_do-not-show-this";
const AT = { baseUrl: "https://pay.example/v1" };
const QUICK = { firstDelaySeconds: 0 };
const client = new Client(KEY, AT);

test("a key that no header can carry is refused, by an error that does not show it", () => {
  for (const wrong of ["", `${KEY}\n`, ` ${KEY}`, `${KEY}\u00e9`, `${KEY}\r\nX: y`]) {
    for (const Kind of [Client, UserClient]) {
      assert.throws(() => new Kind(wrong, AT), (error) => !error.message.includes(KEY));
    }
  }
});

test("a browser refuses a partner key, and takes a user token", () => {
  globalThis.window = {};
  try {
    assert.throws(() => new Client(KEY, AT), /must never be in a browser/);
    assert.throws(() => new UserClient("sk_test_1", AT), /must never be in a browser/);
    assert.ok(new UserClient("ut_live_1", AT));
  } finally {
    delete globalThis.window;
  }
});

test("a text that is not an address is refused", () => {
  const wrong = ["", "pay.example", "ftp://pay.example", "https://", "https://x/?y", "http://x:y"];
  for (const baseUrl of wrong) {
    assert.throws(() => new Client(KEY, { baseUrl }), RangeError);
  }
  const withPassword = { baseUrl: "https://stage:geheim@pay.example/v1" };
  assert.throws(
    () => new Client(KEY, withPassword),
    (error) => error instanceof RangeError && !error.message.includes("geheim"),
  );
});

test("a time limit may be a fraction, but not zero, negative or endless", async () => {
  const updated_at = "2026-01-31T12:00:00.000000Z";
  const balance = { account_id: "acct_1", available: 1, currency: "OUSD", updated_at };
  const fetch = async () => new Response(JSON.stringify(balance));
  for (const timeoutSeconds of [2.01, 100 / 3]) {
    const found = await new Client(KEY, { ...AT, fetch, timeoutSeconds }).balance();
    assert.equal(found.account_id, "acct_1");
  }
  for (const timeoutSeconds of [0, -1, NaN, Infinity, 86_401]) {
    assert.throws(() => new Client(KEY, { ...AT, timeoutSeconds }), RangeError);
  }
});

test("nothing that is logged, thrown or shown contains the key", async () => {
  const lines = [];
  const failing = new Client(KEY, {
    ...AT,
    fetch: async () => new Response('{"code":"queue_full"}', { status: 503 }),
    retry: { attemptsMax: 2, firstDelaySeconds: 0 },
    log: (line) => lines.push(line),
  });
  const shown = [inspect(failing, { depth: 9, showHidden: true }), JSON.stringify(failing)];
  for (const call of [
    () => failing.me(),
    () => failing.transfers.send({ to: "@ada", amount: "1" }),
    () => failing.exchangeCode("ac_1", { client_id: "app_1", redirect_uri: "https://x.example" }),
    () => failing.revoke("ut_live_secret", { client_id: "app_1" }),
  ]) {
    shown.push(inspect(await errorOf(call()), { depth: 9 }));
  }
  assert.equal(lines.length, 4);
  for (const text of [...shown, ...lines]) {
    assert.ok(!text.includes(KEY) && !text.includes("ut_live_secret"), text);
  }
});

test("a long outage is shown on the console, unless there is a log", async (context) => {
  const shown = context.mock.method(console, "warn", () => {}).mock;
  const page = '{"data":[],"has_more":false,"next_cursor":"after-1"}';
  for (const log of [undefined, context.mock.fn()]) {
    const stop = new AbortController();
    let requests = 0;
    const fetch = async () => {
      requests += 1;
      if (requests === 4) stop.abort();
      return requests === 1 ? new Response(page) : new Response("{}", { status: 503 });
    };
    const retry = { attemptsMax: 2, firstDelaySeconds: 0 };
    const failing = new Client(KEY, { ...AT, fetch, retry, ...(log && { log }) });
    for await (const _ of failing.transfers.follow(1, { signal: stop.signal })) assert.fail();
    assert.equal(shown.callCount(), 1);
    if (log) assert.equal(log.mock.callCount(), 2);
  }
  assert.match(shown.calls[0].arguments[0], /^GET \/transfers: 503.*; attempt 3 starts in/);
});

test("wrong arguments send nothing", async () => {
  const silent = new Client(KEY, { ...AT, fetch: () => assert.fail("something was sent") });
  const misspelt = { to: "@ada", amount: "1", idempotencyKey: "mine" };
  assert.match((await errorOf(silent.transfers.send(misspelt))).message, /no idempotencyKey/);
  for (const idempotency_key of [undefined, null]) {
    assert.ok((await errorOf(silent.transfers.find({ idempotency_key }))) instanceof TypeError);
  }
});

test("an error does not hide that a key was used", async () => {
  const json = (status, body) => new Response(JSON.stringify(body), { status });
  const conflict = { code: "idempotency_conflict", detail: "Used.", charge_id: "ch_1" };
  const failing = new Client(KEY, {
    ...AT,
    fetch: async (_, { method }) =>
      method === "POST" ? json(409, conflict) : json(404, { code: "not_found", detail: "No." }),
  });
  for (const call of [
    () => failing.transfers.send({ to: "@ada", amount: "1", idempotency_key: "mine" }),
    () => failing.charges.create({ amount: "1", idempotency_key: "mine" }),
  ]) {
    const error = await errorOf(call());
    assert.ok(error instanceof IdempotencyConflict, inspect(error));
    assert.equal(error.idempotencyKey, "mine");
    assert.equal(error.cause.code, "not_found");
  }
});

test("an original with other terms leaves no doubt, even after a lost attempt", async () => {
  const json = (status, body) => new Response(JSON.stringify(body), { status });
  const answers = {
    "/v1/charges/ch_1": () => new Response(charge({ amount: 2 }).body),
    "/v1/transfers": () => json(200, { data: [transferOf("mine")], next_cursor: null }),
  };
  for (const call of [
    (client) => client.transfers.send({ to: "@ada", amount: "1", idempotency_key: "mine" }),
    (client) => client.charges.create({ amount: "1", idempotency_key: "mine" }),
  ]) {
    let posts = 0;
    const fetch = async (address, { method }) => {
      if (method === "GET") return answers[new URL(address).pathname]();
      posts += 1;
      if (posts === 1) throw new TypeError("fetch failed");
      return json(409, { code: "idempotency_conflict", detail: "Used.", charge_id: "ch_1" });
    };
    const error = await errorOf(call(new Client(KEY, { ...AT, fetch, retry: QUICK })));
    assert.ok(error instanceof IdempotencyConflict, inspect(error));
    assert.deepEqual([posts, `${error.original.amount}`, error.inDoubt], [2, "2.00", false]);
  }
});

test("an answer to another transfer is not taken for this one", async () => {
  for (const key of ["other", null]) {
    const fetch = async () => new Response(JSON.stringify(transferOf(key)), { status: 201 });
    const mixed = new Client(KEY, { ...AT, fetch });
    const error = await errorOf(
      mixed.transfers.send({ to: "@ada", amount: "2", idempotency_key: "mine" }),
    );
    assert.ok(error instanceof UnexpectedAnswer, inspect(error));
    assert.deepEqual([error.inDoubt, error.idempotencyKey], [true, "mine"]);
    assert.match(error.message, /another idempotency key/);
  }
});

test("an error of a connection that was made leaves doubt, whatever its code", async () => {
  for (const [code, syscall, inDoubt] of [
    ["EHOSTUNREACH", "read", true],
    ["ENETUNREACH", "write", true],
    ["EHOSTUNREACH", "connect", false],
    ["ENOTFOUND", "getaddrinfo", false],
    ["UND_ERR_CONNECT_TIMEOUT", undefined, false],
    ["ECONNRESET", "connect", true],
  ]) {
    const cause = Object.assign(new Error("gone"), { code, syscall });
    const fetch = async () => {
      throw new TypeError("fetch failed", { cause });
    };
    const failing = new Client(KEY, { ...AT, fetch, retry: { attemptsMax: 1 } });
    const error = await errorOf(failing.transfers.send({ to: "@ada", amount: "1" }));
    assert.deepEqual([error.name, error.inDoubt], ["ConnectionFailed", inDoubt], code);
  }
});

test("a failure that may pass leaves doubt about a conflict", async () => {
  for (const status of [429, 503]) {
    const failing = new Client(KEY, {
      ...AT,
      fetch: async (_, { method }) =>
        method === "POST"
          ? new Response('{"code":"idempotency_conflict"}', { status: 409 })
          : new Response("{}", { status }),
      retry: { attemptsMax: 1 },
    });
    const intent = failing.transfers.prepare({ to: "@ada", amount: "1" });
    const error = await errorOf(failing.transfers.send(intent));
    assert.deepEqual([error.status, error.inDoubt], [status, true]);
  }
});

test("an answer that is no receipt is unexpected", async () => {
  for (const body of ["<h1>Welcome</h1>", "{}", '{"leaf": "bGVhZg=="}']) {
    const portal = new Client(KEY, { ...AT, fetch: async () => new Response(body) });
    const error = await errorOf(portal.transfers.receipt("tr_1"));
    assert.ok(error instanceof UnexpectedAnswer, inspect(error));
  }
});

test("every attempt of an intent sends the same key and the same bytes", async () => {
  const seen = [];
  const failing = new Client(KEY, {
    baseUrl: `${AT.baseUrl}/`,
    fetch: async (address, { method, headers, body, redirect }) => {
      seen.push({ address, method, headers, body, redirect });
      throw new TypeError("fetch failed", { cause: new Error("other side closed") });
    },
    retry: { attemptsMax: 3, firstDelaySeconds: 0 },
  });
  const intent = failing.transfers.prepare({ to: "@ada", amount: "0.10", note: "tea" });
  const stored = JSON.parse(JSON.stringify(intent));
  const first = await errorOf(failing.transfers.send(intent));
  const second = await errorOf(failing.transfers.send(stored));

  assert.equal(seen.length, 6);
  for (const each of seen) assert.deepEqual(each, seen[0]);
  assert.equal(seen[0].address, "https://pay.example/v1/transfers");
  assert.equal(seen[0].body, '{"to":"@ada","amount":0.10,"note":"tea"}');
  assert.equal(seen[0].headers["Idempotency-Key"], intent.idempotency_key);
  assert.equal(seen[0].redirect, "manual");
  for (const error of [first, second]) {
    assert.deepEqual([error.inDoubt, error.idempotencyKey], [true, intent.idempotency_key]);
    assert.match(error.message, /other side closed/);
  }
});

test("keys are unique and sort by time, and wrong keys are refused", () => {
  const keys = Array.from({ length: 200 }, () => {
    return client.transfers.prepare({ to: "@ada", amount: "1" }).idempotency_key;
  });
  assert.equal(new Set(keys).size, 200);
  assert.ok(keys[0].slice(0, 12) <= keys[199].slice(0, 12));
  for (const idempotency_key of ["", "a b", "x".repeat(256), "\u00e9", null, 5]) {
    assert.throws(() => client.transfers.prepare({ to: "@ada", amount: "1", idempotency_key }));
  }
});

test("a proof key has the challenge of RFC 7636", async () => {
  const { challenge } = await createProofKey("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
  assert.equal(challenge, "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
  const keys = await Promise.all([createProofKey(), createProofKey()]);
  assert.notEqual(keys[0].verifier, keys[1].verifier);
  assert.match(keys[0].verifier, /^[\w-]{43}$/);
});

test("the connect address has all parameters", async () => {
  const proofKey = await createProofKey();
  const url = new URL(
    client.connectUrl({
      client_id: "app_1",
      redirect_uri: "https://shop.example/return?a=b",
      scope: ["profile", "balance"],
      state: "a & b",
      proofKey,
    }),
  );
  assert.equal(url.origin + url.pathname, "https://pay.example/connect");
  assert.deepEqual(Object.fromEntries(url.searchParams), {
    response_type: "code",
    client_id: "app_1",
    redirect_uri: "https://shop.example/return?a=b",
    scope: "profile balance",
    state: "a & b",
    code_challenge: proofKey.challenge,
    code_challenge_method: "S256",
  });
});

test("a code is taken only from an address with the right state and issuer", () => {
  const address = (changes) => {
    const answer = { code: "ac_1", state: "s", iss: "https://pay.example", ...changes };
    return `https://shop.example/return?${new URLSearchParams(answer)}`;
  };
  assert.equal(client.codeFrom(address(), { state: "s" }), "ac_1");
  const portalUrl = "https://Pay.Example:443/";
  const given = new Client("sk_live_any", { baseUrl: "https://api.example/v1", portalUrl });
  assert.equal(given.codeFrom(address(), { state: "s" }), "ac_1");
  for (const changes of [{ state: "x" }, { state: "" }, { state: "ss" }, { iss: "https://x" }]) {
    assert.throws(() => client.codeFrom(address(changes), { state: "s" }), ReturnNotTrusted);
  }
  assert.throws(() => client.codeFrom(address({ state: "" }), { state: "" }), ReturnNotTrusted);
  for (const [error, Kind, status] of [
    ["access_denied", AccessDenied, 403],
    ["server_error", BadRequest, 400],
  ]) {
    assert.throws(
      () => client.codeFrom(address({ error }), { state: "s" }),
      (thrown) => thrown instanceof Kind && thrown.status === status && thrown.code === error,
    );
  }
});

test("an identifier stays one segment of the path", async () => {
  const paths = [];
  const reading = new Client(KEY, {
    ...AT,
    fetch: async (address) => {
      paths.push(new URL(address).pathname);
      return new Response("{}", { status: 404 });
    },
  });
  for (const name of ["@ada", "no/body", "?", "#", "%2e", "a b"]) {
    await errorOf(reading.accounts.get(name));
    assert.equal(paths.at(-1).split("/").length, 4);
  }
  for (const name of ["", ".", ".."]) await assert.rejects(reading.accounts.get(name), RangeError);
});
