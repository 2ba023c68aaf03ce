// Moves money, asks for a payment and meets a refusal, by a client that a generator wrote.
import { createClient } from "./client/client";
import { createCharge, createTransfer, createUserToken, getAccount, getBalance } from "./client";

declare const process: { argv: string[] };
const [baseUrl, key] = process.argv.slice(-2) as [string, string];
const client = createClient({ baseUrl, auth: () => key });

async function main(): Promise<void> {
  const found = await getAccount({ client, path: { identifier: "@grace" }, throwOnError: true });
  const transfer = await createTransfer({
    client,
    body: { to: found.data.account_number, amount: 2.5, note: "from a generated client" },
    headers: { "Idempotency-Key": "generated-1" },
    throwOnError: true,
  });
  const balance = await getBalance({ client, throwOnError: true });
  const charge = await createCharge({ client, body: { amount: 25 }, throwOnError: true });
  const refused = await createTransfer({ client, body: { to: "@nobody_at_all", amount: 1 } });
  const strangers = await createUserToken({
    client,
    auth: () => undefined,
    body: {
      grant_type: "authorization_code",
      code: "ac_unknown",
      redirect_uri: "https://shop.example/return",
    },
  });
  const report: Record<string, string | number | undefined> = {
    to: transfer.data.to.username,
    status: transfer.data.status,
    balanceAfter: transfer.data.balance_after,
    available: balance.data.available,
    currency: balance.data.currency,
    charge: charge.data.status,
    refusal: refused.error?.code,
    oauthError: strangers.error && "error" in strangers.error ? strangers.error.error : undefined,
  };
  console.log(JSON.stringify(report));
}

void main();
