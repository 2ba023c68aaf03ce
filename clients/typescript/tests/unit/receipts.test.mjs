import assert from "node:assert/strict";
import { test } from "node:test";
import { Receipt, ReceiptRefused } from "../../src/index.ts";

const KEY = "pay.example.com/log+765792bd+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4";

test("many line feeds that are not at the end are refused at once", async () => {
  const started = performance.now();
  await assert.rejects(new Receipt(`${"\n".repeat(128_000)}x`).check(KEY), ReceiptRefused);
  assert.ok(performance.now() - started < 2000);
});
