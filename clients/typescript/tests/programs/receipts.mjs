// Checks receipts, and prints what each proves, or how it was refused.
import { Receipt } from "../../src/index.ts";
import { print } from "./program.mjs";

let input = "";
for await (const chunk of process.stdin) input += chunk;
const outcomes = [];
for (const { content, key, witnessKeys } of JSON.parse(input)) {
  const checking = new Receipt(content).check(key, { witnessKeys });
  outcomes.push(await checking.catch((error) => ({ refused: error.name, why: error.message })));
}
print(outcomes);
