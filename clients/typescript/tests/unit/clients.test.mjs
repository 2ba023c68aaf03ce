import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";
import {
  Client,
  createProofKey,
  ReturnNotTrusted,
  UnexpectedAnswer,
  UserClient,
} from "../../src/index.ts";
import { AccessDenied, IdempotencyConflict } from "../../src/refusals.ts";
import { errorOf } from "./scripts.mjs";

const KEY = "sk_live_do-not-show-this";
const AT = { baseUrl: "https://pay.example/v1" };
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
  for (const baseUrl of ["", "pay.example", "ftp://pay.example", "https://", "https://x/?y"]) {
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
  const denied = address({ error: "access_denied" });
  assert.throws(() => client.codeFrom(denied, { state: "s" }), AccessDenied);
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
