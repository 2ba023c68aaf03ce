// What the programs share: their options, a client, and a person who opens addresses.
import { createInterface } from "node:readline";
import { Client } from "../../src/index.ts";

export const options = JSON.parse(process.argv[2]);

export const QUICK = { firstDelaySeconds: 0.002, delaySecondsMax: 0.05 };

export function createClient(retry = QUICK, more = {}) {
  const { baseUrl, portalUrl } = options;
  return new Client(options.key, { baseUrl, portalUrl, retry, ...more });
}

export function print(result) {
  console.log(JSON.stringify(result));
}

/** Lets a person open this address, and returns the address to which they return. */
export async function open(address) {
  console.log(`Open ${address}`);
  const lines = createInterface({ input: process.stdin });
  const { value } = await lines[Symbol.asyncIterator]().next();
  lines.close();
  return value;
}

export async function errorOf(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  throw new Error("The call did not fail.");
}
