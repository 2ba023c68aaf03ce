import assert from "node:assert/strict";
import { test } from "node:test";
import { ConnectionFailed, ServerError, Throttled } from "../../src/errors.ts";
import { InsufficientBalance } from "../../src/refusals.ts";
import { ENVIRONMENT, retryPolicy } from "../../src/retrying.ts";
import { errorOf, lost, refused, said, Script } from "./scripts.mjs";

const POST = { method: "POST", path: "/transfers", body: "{}" };
const ONCE = { ...POST, path: "/sandbox/fund", repeatable: false };

test("a request that must be changed is not retried", async () => {
  for (const status of [400, 401, 403, 404, 405, 409, 413, 415, 422]) {
    const script = new Script([refused(status, "some_code")]);
    const error = await errorOf(script.caller.send(POST));
    assert.deepEqual([error.status, error.attempts, error.inDoubt], [status, 1, false]);
    assert.equal(script.requests.length, 1);
  }
});

test("after a temporary failure, exactly the same request is sent again", async () => {
  const statuses = [429, 500, 502, 503, 504].map((status) => said(status));
  for (const outcome of [...statuses, lost(), lost({ sent: false })]) {
    const script = new Script([outcome, outcome, said(201)]);
    assert.equal((await script.caller.send(POST)).status, 201);
    assert.deepEqual(script.requests, [POST, POST, POST]);
    assert.match(script.lines[1], /^POST \/transfers: .*; attempt 3 starts in 0\.40 s$/);
  }
});

test("the wait doubles up to its limit, and jitter may shorten it to zero", async () => {
  const outcomes = () => [...Array(6).fill(said(503)), said(200)];
  const policy = { firstDelaySeconds: 0.5, delaySecondsMax: 4 };
  const script = new Script(outcomes(), policy);
  await script.caller.send(POST);
  assert.deepEqual(script.pauses, [0.5, 1, 2, 4, 4, 4]);

  const lucky = new Script(outcomes(), { ...policy, randomShare: 0 });
  await lucky.caller.send(POST);
  assert.deepEqual(lucky.pauses, [0, 0, 0, 0, 0, 0]);
});

test("the wait is never shorter than Retry-After", async () => {
  const asked = [said(429, {}, { "retry-after": "3" }), said(503, {}, { "retry-after": "2" })];
  const script = new Script([...asked, said(200)], { firstDelaySeconds: 0.5 });
  await script.caller.send(POST);
  assert.deepEqual(script.pauses, [3.5, 3]);

  const date = new Date(Date.now() + 20_000).toUTCString();
  const dated = new Script([said(503, {}, { "retry-after": date }), said(200)]);
  await dated.caller.send(POST);
  assert.ok(dated.pauses[0] > 10 && dated.pauses[0] < 21);

  const unclear = new Script([said(503, {}, { "retry-after": "soon" }), said(200)]);
  await unclear.caller.send(POST);
  assert.deepEqual(unclear.pauses, [0.2]);
});

test("a pause of months does not end at once", async () => {
  for (const seconds of [2_592_000, Infinity]) {
    await assert.rejects(ENVIRONMENT.sleep(seconds, AbortSignal.timeout(50)));
  }
});

test("the number of attempts and the time are limited", async () => {
  const often = new Script(Array(9).fill(said(503)), { attemptsMax: 3 });
  const error = await errorOf(often.caller.send(POST));
  assert.ok(error instanceof ServerError);
  assert.equal(error.attempts, 3);

  const long = new Script(Array(3).fill(said(429, {}, { "retry-after": "40" })));
  const late = await errorOf(long.caller.send(POST));
  assert.ok(late instanceof Throttled);
  assert.deepEqual([late.attempts, late.retryAfterSeconds], [2, 40]);
});

test("a request without a key is not sent again if it may have taken effect", async () => {
  for (const outcome of [lost(), said(500), said(503)]) {
    const error = await errorOf(new Script([outcome]).caller.send(ONCE));
    assert.deepEqual([error.inDoubt, error.attempts], [true, 1]);
  }
  const script = new Script([lost({ sent: false }), said(429), said(201)]);
  assert.equal((await script.caller.send(ONCE)).status, 201);
});

test("a refusal after a lost attempt is in doubt: that attempt may count", async () => {
  const script = new Script([lost(), refused(400, "insufficient_balance")]);
  const error = await errorOf(script.caller.send(POST));
  assert.ok(error instanceof InsufficientBalance);
  assert.deepEqual([error.inDoubt, error.attempts], [true, 2]);
});

test("a connection that was never made leaves no doubt", async () => {
  const script = new Script([lost({ sent: false })], { attemptsMax: 1 });
  const error = await errorOf(script.caller.send(POST));
  assert.ok(error instanceof ConnectionFailed);
  assert.equal(error.inDoubt, false);
  assert.equal(error.cause.message, "gone");
});

test("a policy allows at least one attempt", () => {
  for (const changes of [{ attemptsMax: 0 }, { secondsMax: -1 }, { attemptsMax: NaN }]) {
    assert.throws(() => retryPolicy(changes), RangeError);
  }
});
