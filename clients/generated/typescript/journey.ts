// Runs a partner's typical calls with fetch and the types that openapi-typescript generates.
import type { components, paths } from "./types.ts";

declare const process: { argv: string[]; stdin: AsyncIterable<Uint8Array> };

type Schemas = components["schemas"];
type Transfer = paths["/transfers"]["post"]["responses"][200]["content"]["application/json"];

const ATTEMPTS_MAX = 5;
const options = JSON.parse(process.argv[2]!) as Record<string, string>;
const { baseUrl, portalUrl, key, clientId, redirectUri, reference } = options;

async function call<Answer>(
  path: string,
  body?: unknown,
  headers: Record<string, string> = { Authorization: `Bearer ${key}` },
): Promise<{ status: number; answer: Answer }> {
  const response = await fetch(`${baseUrl}${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { "Content-Type": "application/json", ...headers },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, answer: (await response.json()) as Answer };
}

/** Sends the same request again, with the same key, until there is an answer. */
async function sendTransfer() {
  const body: Schemas["TransferRequest"] = { to: "@grace", amount: Number(options.amount) };
  const headers = { Authorization: `Bearer ${key}`, "Idempotency-Key": reference! };
  for (let attempts = 1; attempts <= ATTEMPTS_MAX; attempts += 1) {
    try {
      const { status, answer } = await call<Transfer>("/transfers", body, headers);
      if (status >= 500) continue;
      if (status !== 200) throw new Error(`not a replay: ${status}`);
      const nobody: Schemas["TransferRequest"] = { to: "@nobody_at_all", amount: 1 };
      const refused = await call<Schemas["Problem"]>("/transfers", nobody);
      const { id, amount, kind } = answer;
      return { attempts, transfer: id, amount, kind, refusal: refused.answer.code };
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
  }
  throw new Error("no attempt was answered");
}

async function collectCharge() {
  const asked: Schemas["ChargeRequest"] = { amount: 9.9, currency: "OUSD" };
  let { answer: charge } = await call<Schemas["ChargeRecord"]>("/charges", asked);
  const fund: Schemas["FundRequest"] = { to: "@ada", amount: 9.9 };
  await call("/sandbox/fund", fund);
  const pay: Schemas["PayRequest"] = { payer: "@ada" };
  await call(`/sandbox/charges/${charge.id}/pay`, pay);
  const headers = { Authorization: `Bearer ${key}`, Prefer: "wait=20" };
  while (charge.status === "created") {
    const path = `/charges/${charge.id}`;
    charge = (await call<Schemas["ChargeRecord"]>(path, undefined, headers)).answer;
  }
  return { charge: charge.status, paidBy: charge.paid_by?.username };
}

async function connectPerson() {
  const scope = "profile balance";
  const asked = { client_id: clientId!, redirect_uri: redirectUri!, scope, state: "journey" };
  console.log(`Open ${portalUrl}/connect?${new URLSearchParams(asked)}`);
  const returned = new URL(await readLine()).searchParams;
  if (returned.get("state") !== "journey") throw new Error("the state is wrong");
  const exchange: Schemas["TokenRequest"] = {
    grant_type: "authorization_code",
    code: returned.get("code")!,
    redirect_uri: redirectUri!,
    client_id: clientId!,
    client_secret: key!,
  };
  const { answer: token } = await call<Schemas["TokenRecord"]>("/oauth/token", exchange, {});
  const headers = { Authorization: `Bearer ${token.access_token}` };
  const person = await call<Schemas["HolderRecord"]>("/user/me", undefined, headers);
  const balance = await call<Schemas["BalanceRecord"]>("/user/balance", undefined, headers);
  return {
    scope: token.scope,
    username: person.answer.username,
    available: balance.answer.available,
  };
}

async function readLine(): Promise<string> {
  let typed = "";
  for await (const chunk of process.stdin) {
    typed += new TextDecoder().decode(chunk);
    if (typed.includes("\n")) break;
  }
  return typed.trim();
}

const report = { ...(await sendTransfer()), ...(await collectCharge()), ...(await connectPerson()) };
console.log(JSON.stringify(report));
