// Does what a rehearsal of the sandbox's lab needs.
import { createClient, errorOf, options, print } from "./program.mjs";

const client = createClient({}); // with the usual pauses

async function waitForCharge() {
  const charge = await client.charges.create({ amount: "5.00" });
  return (await client.charges.wait(charge.id)).status;
}

async function listTransfers() {
  const ids = new Set();
  for await (const { id } of client.transfers.list()) ids.add(id);
  return ids.size;
}

async function useRevokedKey() {
  await client.me();
  return (await errorOf(client.me())).code;
}

const tasks = {
  "key-revoked": useRevokedKey,
  "paid-in-last-second": waitForCharge,
  "charge-expires": waitForCharge,
  "page-shifts": listTransfers,
};

async function send() {
  return (await client.transfers.send({ to: options.to, amount: "1.25" })).amount;
}

print(await (tasks[options.rehearsal] ?? send)());
