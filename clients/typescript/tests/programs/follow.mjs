// Follows an account while money moves, and starts again after every few transfers.
import { createClient, options, print, QUICK } from "./program.mjs";

const client = createClient({ ...QUICK, attemptsMax: 200, secondsMax: 500 });
const handled = [];
let sent = 0;

async function sendAnother() {
  await client.transfers.send({ to: "@alan", amount: "0.01" });
  sent += 1;
}

await sendAnother();
// A transfer always waits to be followed, so no answer is held.
while (sent < options.count) {
  for await (const { id, sequence } of client.transfers.follow(handled.length, { pageSize: 3 })) {
    handled.push({ id, sequence });
    await sendAnother();
    if (sent % 7 === 0 || sent === options.count) break;
  }
}
print(handled);
