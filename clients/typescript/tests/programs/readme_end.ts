// Follows the README's blocks: errors that may come from a proxy or a wrong address leave an intent
// open, an open intent is finished, the charge is found by the time of its payment, a person
// connects, and another denies.
const crashed = client.transfers.prepare({ to: "@grace", amount: "3.25" });
const first = await client.transfers.send(crashed);
writeFileSync("payouts/crashed.json", JSON.stringify(crashed));
const originalFetch = globalThis.fetch;
const errors: string[] = [];
for (const [status, body] of [
  [404, "default backend - 404"],
  [404, '{"error": "Not Found"}'],
  [404, '{"code": "not_found"}'],
  [400, ""],
  [400, '{"code": "malformed_request"}'],
] as const) {
  globalThis.fetch = async () => new Response(body, { status });
  await finishOpenIntents().catch((error: ApiError) => errors.push(`${error.status} ${error.code}`));
}
globalThis.fetch = originalFetch;
const files = readdirSync("payouts");
await finishOpenIntents();
const found = await client.transfers.find(crashed);

const changed: string[] = [];
const since = { order: "oldest", status_changed_after: charge.created_at } as const;
for await (const { id } of client.charges.list(since)) changed.push(id);

const session: Session = {};
console.log(`Open ${await startConnecting(session)}`);
let typed = "";
for await (const chunk of process.stdin) {
  typed += chunk;
  if (typed.includes("\n")) break;
}
const greeting = await finishConnecting(session, typed.trim());

await startConnecting(session);
const iss = new URL(process.env.OUSEL_BASE_URL!).origin;
const answer = new URLSearchParams({ error: "access_denied", state: session.state!, iss });
const denied = await finishConnecting(session, `${app.redirect_uri}?${answer}`);
const isFollowed = stored.sequence > transfer.sequence;
const isSame = found?.id === first.id && readdirSync("payouts").length === 0;
const isProven = proof.transfer_id === transfer.id && proof.balance_after !== null;
const paid = charge.status;
const hasChanged = changed.includes(charge.id);
const open = { errors, files };
const checks = { isSame, isProven, isFollowed, hasChanged };
console.log(JSON.stringify({ ...checks, open, greeting, denied, paid, total }));
