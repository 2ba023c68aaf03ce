// Follows the README's blocks: an open intent is finished, a person connects, and another denies.
const crashed = client.transfers.prepare({ to: "@grace", amount: "3.25" });
const first = await client.transfers.send(crashed);
writeFileSync("payouts/crashed.json", JSON.stringify(crashed));
await finishOpenIntents();
const found = await client.transfers.find(crashed);

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
console.log(JSON.stringify({ isSame, isProven, isFollowed, greeting, denied, paid, total }));
