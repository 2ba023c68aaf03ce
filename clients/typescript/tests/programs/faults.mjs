// Sends intents, some at a time, through a network that fails.
import { createClient, errorOf, options, print, QUICK } from "./program.mjs";

const patient = { ...QUICK, attemptsMax: 200, secondsMax: 500 };
const { timeoutSeconds = 30, attemptsMax = 200, workers = 1 } = options;
const client = createClient({ ...patient, attemptsMax }, { timeoutSeconds });
const sent = [];
const intents = options.intents.entries(); // shared by the workers: each takes the next one

async function work() {
  for (const [number, intent] of intents) {
    const call = client.transfers.send(intent);
    if (options.isToFail) {
      const { name, inDoubt, idempotencyKey, attempts } = await errorOf(call);
      sent[number] = { name, inDoubt, idempotencyKey, attempts };
    } else {
      const { id, amount, idempotency_key } = await call;
      sent[number] = { id, amount, idempotency_key };
    }
  }
}

await Promise.all(Array.from({ length: workers }, work));
print(sent);
