// The whole journey of a partner: a transfer, charges, and a person who connects.
import { createProofKey, WaitTimedOut } from "../../src/index.ts";
import { AccountNotFound, ChargeNotCancelable, IdempotencyConflict } from "../../src/refusals.ts";
import { createClient, errorOf, open, options, print } from "./program.mjs";

const client = createClient();

async function transfers() {
  const first = await client.transfers.send({ to: "@ada", amount: 1n });
  const note = "\u00e4\u{1f426}";
  const intent = client.transfers.prepare({ to: "@ada", amount: "0.000001", note });
  const sent = await client.transfers.send(intent);
  const again = await client.transfers.send({ ...intent, to: sent.to.account_number });
  const other = await errorOf(client.transfers.send({ ...intent, amount: "2" }));
  const missing = await errorOf(client.transfers.send({ to: "@nobody", amount: "1" }));
  const listed = [];
  for await (const each of client.transfers.list({ direction: "out", pageSize: 1 })) {
    listed.push(each.id);
    if (listed.length === 2) break;
  }
  return {
    amount: sent.amount,
    note: sent.note,
    isSame: again.id === sent.id && listed[0] === sent.id && listed.length === 2,
    isFound: (await client.transfers.find(intent)).id === sent.id,
    isNext: (await client.transfers.get(sent.id)).sequence === first.sequence + 1,
    isConflict: other instanceof IdempotencyConflict && other.original.id === sent.id,
    isMissing: missing instanceof AccountNotFound && missing.inDoubt === false,
    balanceIsExact: (await client.balance()).available.equals(sent.balance_after),
  };
}

async function charges() {
  const { reference } = options;
  const terms = { amount: "9.90", reference, idempotency_key: reference };
  const created = await client.charges.create(terms);
  const again = await client.charges.create(terms);
  const waiting = client.charges.wait(created.id);
  await client.sandbox.fund({ to: "@ada", amount: 100n });
  await client.sandbox.pay(created.id, { payer: "@ada" });
  const paid = await waiting;
  const open = await client.charges.create({ amount: "1" });
  const timedOut = await errorOf(client.charges.wait(open.id, { timeoutSeconds: 0 }));
  const stop = new AbortController();
  const stopped = errorOf(client.charges.wait(open.id, { signal: stop.signal }));
  stop.abort(new Error("stopped"));
  const canceled = await client.charges.cancel(open.id);
  const final = await errorOf(client.charges.cancel(paid.id));
  const listed = [];
  for await (const each of client.charges.list({ reference })) listed.push(each);
  return {
    statuses: [created.status, again.status, paid.status, canceled.status],
    isSame: again.id === created.id,
    paidBy: paid.paid_by.username,
    isTimedOut: timedOut instanceof WaitTimedOut,
    stopped: (await stopped).message,
    refusal: final instanceof ChargeNotCancelable && final.members.charge_status,
    listed: listed.map((each) => each.amount),
  };
}

async function connect() {
  const { app } = await client.me();
  const request = { client_id: app.client_id, redirect_uri: options.redirectUri };
  const proofKey = await createProofKey();
  const scope = ["profile", "balance"];
  const address = client.connectUrl({ ...request, state: "s & t", scope, proofKey });
  const returnUrl = await open(address);
  const code = client.codeFrom(returnUrl, { state: "s & t" });
  const exchange = { ...request, code_verifier: proofKey.verifier };
  const token = await client.exchangeCode(code, exchange);
  const user = client.user(token.access_token);
  const person = await user.me();
  const { available } = await user.balance();
  const usedTwice = await errorOf(client.exchangeCode(code, exchange));
  await client.revoke(token.access_token, request);
  const ended = await errorOf(user.me());
  return {
    scope: token.scope,
    days: token.expires_in / 86400,
    username: person.username,
    available,
    errors: [usedTwice.name, ended.name],
  };
}

async function following() {
  const { sequence } = await client.transfers.send({ to: "@ada", amount: "1" });
  const stop = new AbortController();
  const movements = client.transfers.follow(sequence, { signal: stop.signal });
  const coming = movements.next();
  const sent = await client.transfers.send({ to: "@ada", amount: "1" });
  const { value } = await coming;
  const ending = movements.next();
  stop.abort();
  return {
    isNext: value.id === sent.id && value.sequence === sequence + 1,
    isDone: (await ending).done,
  };
}

print({
  transfers: await transfers(),
  charges: await charges(),
  following: await following(),
  connect: await connect(),
});
