import assert from "node:assert/strict";
import { test } from "node:test";
import * as errors from "../../src/errors.ts";
import { errorFromAnswer } from "../../src/problems.ts";
import { charge as decode, isFinal, page } from "../../src/records.ts";
import { decodeAnswer } from "../../src/resource.ts";
import * as refusals from "../../src/refusals.ts";
import { waitUntilFinal } from "../../src/waiting.ts";
import { charge, errorOf, lost, refused, said, Script } from "./scripts.mjs";

const READ = { method: "GET", path: "/charges/ch_1" };
const prefers = (script) => script.requests.map((each) => each.headers?.Prefer);

test("an answer is thrown as the class of its code", () => {
  for (const [name, Kind] of Object.entries(refusals)) {
    const error = errorFromAnswer(refused(400, Kind.code, { param: "to", transfer_id: "tr_1" }));
    assert.equal(error.constructor, Kind);
    assert.equal(error.name, name);
    assert.deepEqual([error.code, error.detail, error.param], [Kind.code, "No.", "to"]);
    assert.deepEqual(error.members, { transfer_id: "tr_1" });
  }
});

test("a code that is new falls back to the status", () => {
  for (const [status, name] of Object.entries({
    400: "BadRequest",
    401: "NotAuthenticated",
    403: "Forbidden",
    404: "Missing",
    409: "Conflict",
    418: "ApiError",
    429: "Throttled",
    500: "ServerError",
    599: "ServerError",
  })) {
    const page = { status: Number(status), headers: new Headers(), body: "<html>gateway</html>" };
    for (const answer of [refused(Number(status), "of_tomorrow"), page]) {
      assert.equal(errorFromAnswer(answer).constructor, errors[name]);
    }
  }
});

test("an error of OAuth is read in its own form", () => {
  const body = { error: "invalid_grant", error_description: "Used." };
  const error = errorFromAnswer(said(400, body, { "x-request-id": "req_7" }));
  assert.ok(error instanceof refusals.InvalidGrant);
  assert.equal(error.message, "400 invalid_grant: Used. (request req_7)");
});

test("records ignore new fields, accept new words, and keep amounts exact", () => {
  const body = charge({ amount: 0, tomorrow: { x: [1] }, status: "refunded" }).body;
  const answer = { status: 200, body: body.replace('"amount":0', '"amount":999999999.999999') };
  const record = decodeAnswer(decode, answer);
  assert.equal(record.amount.micros, 999_999_999_999_999n);
  assert.deepEqual([record.status, isFinal(record)], ["refunded", false]);
  assert.ok(!("tomorrow" in record));
});

test("an answer without the documented form is unexpected and in doubt", async () => {
  const texts = ["", "[]", "null", '"x"', "{}", charge({ amount: "1.00" }).body, "<html>"];
  for (const body of [...texts, charge({ id: 5 }).body, charge({ created_at: "today" }).body]) {
    const error = await errorOf((async () => decodeAnswer(decode, { status: 200, body }))());
    assert.ok(error instanceof errors.UnexpectedAnswer, body);
    assert.equal(error.inDoubt, true);
  }
  const list = { status: 200, body: '{"data":{},"next_cursor":null}' };
  assert.throws(() => decodeAnswer(page(decode), list), errors.UnexpectedAnswer);
});

test("waiting asks again at once while the server holds its answers", async () => {
  const script = new Script([]);
  const held = () => {
    script.now += 25;
    return charge();
  };
  script.outcomes = [held, held, charge({ status: "paid" })];
  assert.equal((await waitUntilFinal(script.caller, READ, 600)).status, "paid");
  assert.deepEqual(prefers(script), ["wait=25", "wait=25", "wait=25"]);
  assert.deepEqual(script.pauses, []);
});

test("waiting polls, more and more rarely, if the server does not hold its answer", async () => {
  const script = new Script([...Array(6).fill(charge()), charge({ status: "expired" })]);
  assert.equal((await waitUntilFinal(script.caller, READ, 600)).status, "expired");
  assert.deepEqual(prefers(script), ["wait=25", ...Array(6).fill(undefined)]);
  assert.deepEqual(script.pauses, [0.5, 1, 2, 4, 5, 5]);
});

test("waiting pauses as long as the server asks for", async () => {
  for (const status of [429, 503]) {
    const script = new Script([
      refused(status, "rate_limited", {}, { "retry-after": "30" }),
      charge({ status: "paid" }),
    ]);
    await waitUntilFinal(script.caller, READ, 600);
    assert.deepEqual(script.pauses, [30]);
  }
});

test("after a held request that failed, one is not held, and the next one is again", async () => {
  for (const outcome of [lost(), said(504), said(429), said(503)]) {
    const script = new Script([]);
    const held = () => {
      script.now += 25;
      return charge();
    };
    script.outcomes = [outcome, charge(), held, outcome, charge(), charge({ status: "paid" })];
    assert.equal((await waitUntilFinal(script.caller, READ, 600)).status, "paid");
    const wanted = ["wait=25", undefined, "wait=25"];
    assert.deepEqual(prefers(script), [...wanted, ...wanted]);
    assert.deepEqual(script.pauses, [0.5, 4]);
  }
});

test("after a failure, a server that does not hold its answers is polled", async () => {
  const script = new Script([said(503), ...Array(4).fill(charge()), charge({ status: "paid" })]);
  assert.equal((await waitUntilFinal(script.caller, READ, 600)).status, "paid");
  assert.deepEqual(prefers(script), ["wait=25", undefined, "wait=25", ...Array(3).fill(undefined)]);
  assert.deepEqual(script.pauses, [0.5, 2, 4, 5]);
});

test("a refusal ends waiting", async () => {
  const missing = new Script([refused(404, "charge_not_found")]);
  const error = await errorOf(waitUntilFinal(missing.caller, READ, 600));
  assert.ok(error instanceof refusals.ChargeNotFound);
});

test("the charge is read a last time at the time limit", async () => {
  const script = new Script(Array(4).fill(charge()));
  const error = await errorOf(waitUntilFinal(script.caller, READ, 3));
  assert.ok(error instanceof errors.WaitTimedOut);
  assert.equal(error.charge.id, "ch_1");
  assert.equal(script.pauses.reduce((sum, each) => sum + each), 3);
});
