/**
 * Receipts, and how to check them without the network.
 *
 * The formats are explained on the page "Proof" of Ousel's documentation.
 */

import { Amount } from "./amounts.ts";
import {
  amount,
  decodeBody,
  type Decoded,
  integer,
  list,
  nullable,
  record,
  text,
} from "./decoding.ts";
import { OuselError } from "./errors.ts";

type Bytes = Uint8Array<ArrayBuffer>;

const SIGNATURE = /,"signature":"([A-Za-z0-9+/=]+)"\}$/;
const SIGNED_PREFIX = "ousel-receipt/v1\n";
const LEAF_FORMAT = "ousel-leaf/v1";
const ED25519 = 1; // signs a text
const COSIGNATURE = 4; // signs a text and the time
const HASH_BYTES = 32;

const MOVEMENT = {
  id: text,
  kind: text,
  currency: text,
  note: nullable(text),
  charge_id: nullable(text),
  created_at: text,
};
/** The fields without which an answer is not a receipt. */
export const receiptParts = record({ leaf: text, checkpoint: text });
const party = record({ id: text });
const shownTransfer = record({ ...MOVEMENT, from: party, to: party, amount });
const entryPart = record({ sequence: integer, previous_hash: text, salt: text });
const signedPart = record({
  checkpoint: text,
  leaf: text,
  index: integer,
  proof: list(text),
  transfer: shownTransfer,
  entry: nullable(entryPart),
});
const sealedLeaf = record({
  ...MOVEMENT,
  format: text,
  from: text,
  to: text,
  amount: text,
  debit: text,
  credit: text,
});
// What the check of the holder's entry needs of the transfer.
const ownSide = record({
  direction: text,
  balance_after: amount,
  idempotency_key: nullable(text),
  sequence: integerOrMissing,
});
const ownReceipt = record({ transfer: ownSide });
// A receipt without the holder's entry must not show what only this entry proves.
const othersSide = record({ balance_after: missing, idempotency_key: missing, sequence: missing });
const shareableReceipt = record({ transfer: othersSide });

/** Requires that a field is not there. */
function missing(value: unknown, name: string): undefined {
  ensure(value === undefined, `The receipt shows ${name}, but does not prove it.`);
}

function integerOrMissing(value: unknown, name: string): number | undefined {
  return value === undefined ? undefined : integer(value, name);
}

type Leaf = Decoded<typeof sealedLeaf>;

/** The receipt does not prove what it shows, or the key is malformed. */
export class ReceiptRefused extends OuselError {}

/**
 * What a receipt proves to whoever trusts the key.
 *
 * `balance_after` and `sequence` are about the holder's own account, and null in a receipt that
 * does not show them. `witnesses` are the names of the given witnesses that cosigned.
 */
export interface ReceiptProof {
  readonly transfer_id: string;
  readonly kind: string;
  readonly amount: Amount;
  readonly currency: string;
  readonly from_account_id: string;
  readonly to_account_id: string;
  readonly note: string | null;
  readonly charge_id: string | null;
  readonly created_at: string;
  readonly balance_after: Amount | null;
  readonly sequence: number | null;
  readonly origin: string;
  readonly index: number;
  readonly size: number;
  readonly witnesses: readonly string[];
}

/** A receipt as the server sent it. Store `content` unchanged: every byte of it is signed. */
export class Receipt {
  readonly content: string;

  constructor(content: string) {
    this.content = content;
  }

  /**
   * Returns what the receipt proves, or throws ReceiptRefused. Needs no network.
   *
   * `key` is the verifier key of the log, from its address /log/key.
   */
  async check(
    key: string,
    { witnessKeys = [] }: { readonly witnessKeys?: readonly string[] } = {},
  ): Promise<ReceiptProof> {
    try {
      const witnesses = await Promise.all(witnessKeys.map(parseKey));
      const areWitnesses = witnesses.every((each) => each.type === COSIGNATURE);
      ensure(areWitnesses, "A key of a log was given as that of a witness.");
      return await check(withoutLastLineEnds(this.content), await parseKey(key), witnesses);
    } catch (cause) {
      if (cause instanceof ReceiptRefused) throw cause;
      throw new ReceiptRefused("The receipt or a key is malformed.", { cause });
    }
  }
}

interface Key {
  readonly name: string;
  readonly id: string;
  readonly type: number;
  readonly publicBytes: Bytes;
}

async function parseKey(line: string): Promise<Key> {
  const [name = "", id = "", ...encoded] = line.trim().split("+");
  const content = fromBase64(encoded.join("+"));
  const computed = hex((await sha256(utf8(`${name}\n`), content)).subarray(0, 4));
  const type = content[0] ?? 0;
  ensure(computed === id, "The id of a verifier key does not match its key.");
  ensure([ED25519, COSIGNATURE].includes(type), "A verifier key has an unknown type.");
  return { name, id, type, publicBytes: content.slice(1) };
}

async function verify(key: Key, signature: Bytes, message: string): Promise<void> {
  const { subtle } = crypto;
  const imported = await subtle.importKey("raw", key.publicBytes, "Ed25519", false, ["verify"]);
  const isValid = await subtle.verify("Ed25519", imported, signature, utf8(message));
  ensure(isValid, `A signature of ${key.name} is wrong.`);
}

async function check(content: string, log: Key, witnesses: readonly Key[]): Promise<ReceiptProof> {
  const match = SIGNATURE.exec(content);
  const isSigned = match !== null && log.type === ED25519;
  ensure(isSigned, "The receipt has no signature, or the key does not belong to a log.");
  const body = `${content.slice(0, match.index)}}`;
  await verify(log, fromBase64(match[1] ?? ""), SIGNED_PREFIX + body);
  const { transfer, entry, ...receipt } = decodeBody(signedPart, body);
  const { size, root, cosignedBy } = await openCheckpoint(receipt.checkpoint, log, witnesses);
  const leafBytes = fromBase64(receipt.leaf);
  const reached = await rootOf(leafBytes, receipt.index, size, receipt.proof.map(fromBase64));
  ensure(
    hex(reached) === hex(root),
    "The inclusion proof does not lead from this leaf to the root of the log.",
  );
  const leaf = decodeLeaf(leafBytes);
  ensureSame(transfer, leaf);
  if (entry === null) decodeBody(shareableReceipt, body);
  const own = entry === null ? null : decodeBody(ownReceipt, body).transfer;
  if (own !== null && entry !== null) await checkEntry(own, entry, leaf);
  return {
    transfer_id: leaf.id,
    kind: leaf.kind,
    amount: transfer.amount,
    currency: leaf.currency,
    from_account_id: leaf.from,
    to_account_id: leaf.to,
    note: leaf.note,
    charge_id: leaf.charge_id,
    created_at: leaf.created_at,
    balance_after: own?.balance_after ?? null,
    sequence: entry?.sequence ?? null,
    origin: log.name,
    index: receipt.index,
    size,
    witnesses: cosignedBy,
  };
}

/** Returns the size and root that the log signed, and the witnesses that cosigned them. */
async function openCheckpoint(note: string, log: Key, witnesses: readonly Key[]) {
  const end = note.lastIndexOf("\n\n") + 1;
  const signed = note.slice(0, end);
  const signedBy = new Set<Key>();
  for (const line of note.slice(end + 1).split("\n").slice(0, -1)) {
    const [dash, name, encoded = "", ...more] = line.split(" ");
    ensure(dash === "—" && more.length === 0, "The checkpoint has a malformed signature.");
    const signature = fromBase64(encoded);
    for (const key of [log, ...witnesses]) {
      if (name !== key.name || hex(signature.subarray(0, 4)) !== key.id) continue;
      if (key.type === ED25519) {
        await verify(key, signature.slice(4), signed);
      } else {
        const seconds = new DataView(signature.buffer).getBigUint64(4);
        await verify(key, signature.slice(12), `cosignature/v1\ntime ${seconds}\n${signed}`);
      }
      signedBy.add(key);
    }
  }
  const [origin, size = "", root = ""] = signed.split("\n");
  ensure(origin === log.name && signedBy.has(log), "The log did not sign the checkpoint.");
  const cosignedBy = witnesses.filter((key) => signedBy.has(key)).map((key) => key.name);
  return { size: Number(size), root: fromBase64(root), cosignedBy };
}

/** Returns the root to which an inclusion proof leads (RFC 6962). */
async function rootOf(leaf: Bytes, at: number, size: number, proof: Bytes[]): Promise<Bytes> {
  ensure(Number.isSafeInteger(size) && 0 <= at && at < size, "The leaf is not in the log.");
  const siblings = [...proof];
  let node = await sha256(Uint8Array.of(0), leaf);
  for (let [index, last] = [at, size - 1]; last > 0; ) {
    if (index % 2 === 1 || index !== last) {
      const sibling = siblings.shift();
      ensure(sibling?.length === HASH_BYTES, "The inclusion proof is too short, or malformed.");
      const [left, right] = index % 2 === 1 ? [sibling, node] : [node, sibling];
      node = await sha256(Uint8Array.of(1), left, right);
    }
    [index, last] = [Math.floor(index / 2), Math.floor(last / 2)];
  }
  ensure(siblings.length === 0, "The inclusion proof is too long.");
  return node;
}

function decodeLeaf(content: Bytes): Leaf {
  const written = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content);
  const leaf = decodeBody(sealedLeaf, written);
  const isKnown = JSON.stringify(JSON.parse(written)) === written && leaf.format === LEAF_FORMAT;
  ensure(isKnown, "The leaf has an unknown form.");
  return leaf;
}

/** Compares the transfer that the receipt shows with the one that was sealed. */
function ensureSame(transfer: Decoded<typeof shownTransfer>, leaf: Leaf): void {
  const names = Object.keys(MOVEMENT) as (keyof typeof MOVEMENT)[];
  const isSame =
    names.every((name) => transfer[name] === leaf[name]) &&
    transfer.from.id === leaf.from &&
    transfer.to.id === leaf.to &&
    transfer.amount.equals(leaf.amount);
  ensure(isSame, "The receipt shows another transfer than the one that was sealed.");
}

/** Recomputes the hash of the holder's own entry, and compares it with the leaf. */
async function checkEntry(
  transfer: Decoded<typeof ownSide>,
  entry: Decoded<typeof entryPart>,
  leaf: Leaf,
): Promise<void> {
  const isDebit = transfer.direction === "out";
  const [own, other] = isDebit ? [leaf.from, leaf.to] : [leaf.to, leaf.from];
  const { micros } = Amount.of(leaf.amount);
  const fields = [
    JSON.stringify(own),
    entry.sequence,
    JSON.stringify(leaf.id),
    JSON.stringify(leaf.kind),
    isDebit ? -micros : micros,
    transfer.balance_after.micros,
    JSON.stringify(other),
    JSON.stringify(leaf.note),
    JSON.stringify(leaf.charge_id),
    JSON.stringify(transfer.idempotency_key),
    microsOf(leaf.created_at),
  ];
  const hashed = await sha256(utf8(`${entry.previous_hash}[${fields.join(",")}]`));
  const committed = hex(await sha256(fromHex(entry.salt), hashed));
  const isSame =
    committed === (isDebit ? leaf.debit : leaf.credit) &&
    (transfer.sequence ?? entry.sequence) === entry.sequence;
  ensure(isSame, "The receipt shows another entry than the one that was sealed.");
}

/** Returns a time in microseconds since 1970. A Date would lose the last three digits. */
function microsOf(time: string): bigint {
  const [, second = "", micros = ""] = /^(.{19})\.([0-9]{6})Z$/.exec(time) ?? [];
  return BigInt(Date.parse(`${second}Z`)) * 1000n + BigInt(micros);
}

/** A regular expression would take quadratic time for many line feeds inside a text. */
function withoutLastLineEnds(written: string): string {
  let end = written.length;
  while (written[end - 1] === "\n" || written[end - 1] === "\r") end -= 1;
  return written.slice(0, end);
}

function utf8(written: string): Bytes {
  return new TextEncoder().encode(written);
}

async function sha256(...parts: readonly Bytes[]): Promise<Bytes> {
  const joined = Uint8Array.from(parts.flatMap((part) => [...part]));
  return new Uint8Array(await crypto.subtle.digest("SHA-256", joined));
}

function hex(bytes: Bytes): string {
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function fromHex(written: string): Bytes {
  ensure(/^(?:[0-9a-f]{2})*$/.test(written), "A salt is malformed.");
  return Uint8Array.from(written.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16));
}

function fromBase64(written: string): Bytes {
  const decoded = atob(written);
  ensure(btoa(decoded) === written, "A Base64 text is not in canonical form.");
  return Uint8Array.from(decoded, (character) => character.charCodeAt(0));
}

function ensure(condition: unknown, otherwise: string): asserts condition {
  if (!condition) throw new ReceiptRefused(otherwise);
}
