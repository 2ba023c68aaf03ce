import assert from "node:assert/strict";
import { test } from "node:test";
import { Receipt, ReceiptRefused } from "../../src/index.ts";

const KEY = "pay.example.com/log+765792bd+AQOhB7/zzhC+HXDdGOdLwJln5NYwm6UNXx3chmQSVTG4";

test("a receipt with millions of line feeds is refused, not searched for hours", async () => {
  await assert.rejects(new Receipt(`${"\n".repeat(4_000_000)}x`).check(KEY), ReceiptRefused);
});
