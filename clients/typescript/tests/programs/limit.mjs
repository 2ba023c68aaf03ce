// Prints whether the time limit of a request survives the garbage collector while the request runs.
// Run it with --expose-gc. Optimized code forgets a variable after its last use.
import { exchangeWith } from "../../src/exchange.ts";

let limit;
AbortSignal.timeout = () => {
  const { signal } = new AbortController();
  limit = new WeakRef(signal);
  return signal;
};
AbortSignal.any = ([signal]) => signal; // in Node.js 20, it does not keep the limit alive either

async function fetch() {
  if (!isWarm) return new Response("{}");
  await new Promise((resolve) => setTimeout(resolve, 10));
  globalThis.gc();
  console.log(limit.deref() !== undefined);
  return new Response("{}");
}

let isWarm = false;
const exchange = exchangeWith("https://pay.example/v1", fetch);
const { signal } = new AbortController();
const request = { method: "GET", path: "/me", signal };
for (let count = 0; count < 3000; count += 1) await exchange(request, "sk_live_any", 30);
isWarm = true;
await exchange(request, "sk_live_any", 30);
