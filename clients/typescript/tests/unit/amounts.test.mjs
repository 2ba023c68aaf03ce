import assert from "node:assert/strict";
import { test } from "node:test";
import { Amount } from "../../src/amounts.ts";
import { encodeObject, JsonNumber, parseJson } from "../../src/json.ts";

test("an amount keeps every digit", () => {
  for (const [given, written] of [
    ["25.00", "25.00"],
    ["25", "25.00"],
    [25n, "25.00"],
    ["0.1", "0.10"],
    ["0.000001", "0.000001"],
    ["1234.5678", "1234.5678"],
    ["999999999.999999", "999999999.999999"],
    ["9223372036854.775807", "9223372036854.775807"],
    ["-0.5", "-0.50"],
    ["100.100000", "100.10"],
    ["0", "0.00"],
  ]) {
    assert.equal(Amount.of(given).toString(), written);
    assert.equal(Amount.of(written).micros, Amount.of(given).micros);
  }
});

test("random amounts survive being written and read", () => {
  for (let number = 0; number < 2000; number += 1) {
    const micros = BigInt(Math.floor(Math.random() * 2 ** 50)) - BigInt(2 ** 49);
    assert.equal(Amount.of(new Amount(micros).toString()).micros, micros);
    const { amount } = parseJson(encodeObject({ amount: new Amount(micros) }));
    assert.equal(Amount.of(amount.text).micros, micros);
  }
});

test("a number is refused, because it may have been rounded", () => {
  for (const given of [0.1, 25, NaN, true, null, undefined, {}]) {
    assert.throws(() => Amount.of(given), TypeError);
  }
});

test("other texts are refused", () => {
  const given = ["", " 1", "1e3", "1_000", "1,5", "NaN", ".5", "1.", "1.0000001", "\u0661", "+1"];
  for (const each of given) assert.throws(() => Amount.of(each), RangeError);
  assert.throws(() => Amount.of("9".repeat(500)), RangeError);
});

test("amounts are compared and added by their methods, never by operators", () => {
  const [ten, nine] = [Amount.of("10.00"), Amount.of("9.00")];
  assert.equal(ten.compare(nine), 1);
  assert.equal(nine.compare(ten), -1);
  assert.ok(ten.equals("10"));
  assert.equal(`${ten.plus("0.2").minus("0.1")}`, "10.10");
  assert.throws(() => ten < nine, TypeError);
  assert.throws(() => ten + nine, TypeError);
  assert.equal(JSON.stringify({ ten }), '{"ten":"10.00"}');
});

test("JSON numbers keep their digits, wherever they stand", () => {
  const text = '{"a":9007199254740993.25,"b":[1e2,-0.10],"c":"7 \\"8\\" 9","d":true,"":0}';
  const { a, b, c, d, "": empty } = parseJson(text);
  assert.equal(a.text, "9007199254740993.25");
  assert.deepEqual(b, [new JsonNumber("1e2"), new JsonNumber("-0.10")]);
  assert.deepEqual([c, d, empty], ['7 "8" 9', true, new JsonNumber("0")]);
  assert.throws(() => parseJson("[1 2]"), SyntaxError);
  assert.throws(() => parseJson("<html>502</html>"), SyntaxError);
});

test("fields that are not given are left out, and an amount has no quotes", () => {
  const fields = { to: "@\u00e4", note: undefined, amount: Amount.of("2.50"), advance: 3 };
  assert.equal(encodeObject(fields), '{"to":"@\u00e4","amount":2.50,"advance":3}');
});
