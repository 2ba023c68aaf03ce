import assert from "node:assert/strict";
import { test } from "node:test";
import { ConnectionFailed } from "../../src/errors.ts";
import { follow } from "../../src/following.ts";
import { Unauthorized } from "../../src/refusals.ts";
import { errorOf, lost, refused, said, Script, transferOf } from "./scripts.mjs";

function transfers(...sequences) {
  const data = sequences.map((sequence) =>
    transferOf(null, { id: `tr_${sequence}`, direction: "in", amount: 1, sequence }),
  );
  const next_cursor = `after-${sequences.at(-1) ?? "nothing"}`;
  return said(200, { data, has_more: false, next_cursor });
}

function start(script, cursor = 4, signal = undefined) {
  return follow(script.caller, { query: { order: "oldest", limit: 100 }, cursor, signal });
}

async function take(count, movements) {
  const taken = [];
  for await (const { sequence } of movements) {
    taken.push(sequence);
    if (taken.length === count) break;
  }
  return taken;
}

const cursors = (script) => script.requests.map((each) => each.query.cursor);
const held = (script, answer) => () => {
  script.now += 25;
  return answer;
};

test("each page continues where the last one ended, and full pages are read at once", async () => {
  const script = new Script([transfers(5, 6), transfers(7)]);
  assert.deepEqual(await take(3, start(script)), [5, 6, 7]);
  assert.deepEqual(cursors(script), ["4", "after-6"]);
  assert.deepEqual(script.pauses, []);
  assert.equal(script.requests[0].headers.Prefer, "wait=25");
});

test("an empty page that was held is asked for again at once", async () => {
  const script = new Script([]);
  script.outcomes = [held(script, transfers()), held(script, transfers()), transfers(5)];
  assert.deepEqual(await take(1, start(script)), [5]);
  assert.deepEqual(script.pauses, []);
});

test("a server that does not hold its answers is polled, more and more rarely", async () => {
  const script = new Script([transfers(), transfers(), transfers(), transfers(5)]);
  assert.deepEqual(await take(1, start(script)), [5]);
  assert.deepEqual(script.pauses, [0.5, 1, 2]);
});

test("once connected, following outlasts any number of failures", async () => {
  const failures = [...Array(20).fill(lost()), said(429, {}, { "retry-after": "7" }), said(503)];
  const script = new Script([transfers(5), ...failures, transfers(6)], { attemptsMax: 2 });
  assert.deepEqual(await take(2, start(script)), [5, 6]);
  assert.deepEqual(script.pauses.slice(-2), [17, 10]);
  assert.equal(script.lines.length + script.warnings.length, failures.length);
  assert.match(script.warnings.at(-1), /^GET \/transfers: 503.*; attempt 23 starts in 10\.00 s$/);
  assert.equal(script.requests.at(-1).headers.Prefer, undefined);
  assert.ok(cursors(script).slice(1).every((cursor) => cursor === "after-5"));
});

test("from attemptsMax failures in a row on, there is a warning for each", async () => {
  const outcomes = [transfers(5), lost(), lost(), transfers(), ...Array(4).fill(said(503))];
  const script = new Script([...outcomes, transfers(6)], { attemptsMax: 3 });
  assert.deepEqual(await take(2, start(script)), [5, 6]);
  const attempts = (lines) => lines.map((line) => Number(/attempt (\d+)/.exec(line)[1]));
  assert.deepEqual(attempts(script.lines), [2, 3, 2, 3]);
  assert.deepEqual(attempts(script.warnings), [4, 5]);
});

test("a page without a cursor is not read again", async () => {
  const withoutCursor = (answer) => {
    return { ...answer, body: answer.body.replace(/"after-\w+"/, "null") };
  };
  const script = new Script([...[transfers(5, 6), transfers()].map(withoutCursor), transfers(7)]);
  assert.deepEqual(await take(3, start(script)), [5, 6, 7]);
  assert.deepEqual(cursors(script), ["4", "6", "6"]);
});

test("before the first answer, the policy limits the attempts", async () => {
  const script = new Script(Array(9).fill(lost()), { attemptsMax: 3 });
  assert.ok((await errorOf(take(1, start(script)))) instanceof ConnectionFailed);
  assert.equal(script.requests.length, 3);
});

test("a refusal ends following", async () => {
  const script = new Script([transfers(5), refused(401, "unauthorized")]);
  assert.ok((await errorOf(take(2, start(script)))) instanceof Unauthorized);
});

test("an error of the loop's body is not taken for a failure of the network", async () => {
  const script = new Script([transfers(5)]);
  const failing = async () => {
    for await (const _ of start(script)) throw new ConnectionFailed("of my own");
  };
  assert.equal((await errorOf(failing())).message, "of my own");
  assert.equal(script.requests.length, 1);
});

test("a signal ends following in the middle of a page", async () => {
  const stop = new AbortController();
  const taken = [];
  const script = new Script([transfers(5, 6, 7)]);
  for await (const { sequence } of start(script, undefined, stop.signal)) {
    taken.push(sequence);
    stop.abort();
  }
  assert.deepEqual(taken, [5]);
});

test("a signal ends following without an error", async () => {
  const stop = new AbortController();
  const abort = () => {
    stop.abort();
    stop.signal.throwIfAborted(); // as fetch does
  };
  const script = new Script([transfers(5), abort]);
  assert.deepEqual(await take(9, start(script, undefined, stop.signal)), [5]);
  assert.deepEqual(await take(9, start(script, undefined, stop.signal)), []);
});
