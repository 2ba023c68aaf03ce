"""Check a receipt of an Ousel server without Ousel and without the network.

    python check_receipt.py RECEIPT VERIFIER_KEY [WITNESS_KEY ...]

RECEIPT is the file as you downloaded it: JSON, or a text of C2SP tlog-proof. VERIFIER_KEY is the
line at /log/key. You need Python 3.11 and `cryptography`. See docs/concepts/proof.md.
"""

import base64
import json
import re
import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

Key = tuple[str, bytes, int, bytes]  # name, id, type (1: signature, 4: cosignature), public key
Json = dict[str, Any]
MALFORMED = ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError


def require(condition: object, otherwise: str) -> None:
    """End the program unless the condition holds."""
    if not condition:
        sys.exit(f"refused: {otherwise}")


def decode(text: str) -> bytes:
    """Decode standard Base64, and refuse any form but the canonical one."""
    content = base64.b64decode(text, validate=True)
    require(base64.b64encode(content).decode() == text, "a Base64 text is not in canonical form")
    return content


def parse_key(text: str) -> Key:
    """Parse `name+id+key`."""
    name, key_id, key = text.strip().split("+", 2)
    content = decode(key)
    computed = sha256(name.encode() + b"\n" + content).digest()[:4]
    require(computed.hex() == key_id and content[0] in (1, 4), f"{text} is not a verifier key")
    return name, computed, content[0], content[1:]


def verify(key: Key, signature: bytes, message: bytes) -> None:
    """Verify an Ed25519 signature."""
    try:
        Ed25519PublicKey.from_public_bytes(key[3]).verify(signature, message)
    except InvalidSignature:
        sys.exit(f"refused: a signature of {key[0]} is wrong")


def open_checkpoint(note: str, log: Key, witnesses: list[Key]) -> tuple[int, bytes, list[str]]:
    """Return the size and the root that the log signed, and the witnesses that cosigned them."""
    text, _, signatures = note.rpartition("\n\n")
    text, signed_by = text + "\n", []
    for line in signatures.split("\n")[:-1]:
        dash, name, signature = line.split(" ")
        require(dash == "—", "the checkpoint has a malformed signature")
        content = decode(signature)
        for key in (log, *witnesses):
            if (name, content[:4]) == key[:2]:
                time = int.from_bytes(content[4:12])
                head = "" if key[2] == 1 else f"cosignature/v1\ntime {time}\n"
                verify(key, content[4 if key[2] == 1 else 12 :], (head + text).encode())
                signed_by.append((key[0], key[2]))
    origin, size, root = text.split("\n")[:3]
    require(origin == log[0] and (origin, 1) in signed_by, "the log did not sign the checkpoint")
    return int(size), decode(root), [name for name, kind in signed_by if kind == 4]


def root_of(leaf: bytes, index: int, size: int, proof: list[str]) -> bytes:
    """Return the root to which an inclusion proof leads (RFC 6962)."""
    require(0 <= index < size, "the leaf is not in the log")
    node, last, siblings = sha256(b"\0" + leaf).digest(), size - 1, iter(proof)
    while last:
        if index % 2 or index < last:
            sibling = decode(next(siblings, ""))
            require(len(sibling) == 32, "the inclusion proof is malformed")
            node = sha256(b"\1" + (sibling + node if index % 2 else node + sibling)).digest()
        index, last = index // 2, last // 2
    require(next(siblings, None) is None, "the inclusion proof is too long")
    return node


def canonical(value: object) -> bytes:
    """Encode JSON as Ousel does for hashes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def check_entry(transfer: Json, entry: Json, leaf: Json) -> None:
    """Recompute the hash of the holder's own entry, and compare it with the leaf."""
    out = transfer["direction"] == "out"
    own, other = (leaf["from"], leaf["to"]) if out else (leaf["to"], leaf["from"])
    since_1970 = datetime.fromisoformat(leaf["created_at"]) - datetime.fromtimestamp(0, UTC)
    amounts = leaf["amount"], transfer["balance_after"]  # divmod refuses those above 10**22
    (amount, _), (balance, rest) = (divmod(Decimal(n), Decimal("0.000001")) for n in amounts)
    fields = [own, entry["sequence"], leaf["id"], leaf["kind"], int(-amount if out else amount)]
    fields += [int(balance), other, leaf["note"], leaf["charge_id"], transfer["idempotency_key"]]
    fields.append(since_1970 // timedelta(microseconds=1))
    hashed = sha256(entry["previous_hash"].encode() + canonical(fields)).digest()
    committed = sha256(bytes.fromhex(entry["salt"]) + hashed).hexdigest()
    same = rest == 0 and transfer.get("sequence") in {None, entry["sequence"]}
    require(same and committed == leaf["debit" if out else "credit"], "another entry was sealed")


def read(content: bytes, log: Key) -> Json:
    """Return the fields of a receipt in either form."""
    if content.startswith(b"c2sp.org/tlog-proof@v1\n"):
        head, _, checkpoint = content.decode().partition("\n\n")
        _, extra, index, *proof = head.split("\n")
        fields = {"leaf": extra.removeprefix("extra "), "index": int(index.removeprefix("index "))}
        return fields | {"proof": proof, "checkpoint": checkpoint}
    match = re.search(rb',"signature":"([^"]+)"}[\r\n]*$', content) or sys.exit("refused: unsigned")
    body = content[: match.start()] + b"}"
    verify(log, decode(match[1].decode()), b"ousel-receipt/v1\n" + body)
    return dict(json.loads(body, parse_float=Decimal))


def main(file: str, key: str, *witness_keys: str) -> None:
    """Check a receipt, and print what it proves."""
    log, witnesses = parse_key(key), [each for each in map(parse_key, witness_keys) if each[2] == 4]
    receipt = read(Path(file).read_bytes(), log)
    size, root, cosigned = open_checkpoint(receipt["checkpoint"], log, witnesses)
    leaf = json.loads(content := decode(receipt["leaf"]))
    require(canonical(leaf) == content and leaf["format"] == "ousel-leaf/v1", "unknown leaf form")
    require(root_of(content, receipt["index"], size, receipt["proof"]) == root, "a wrong proof")
    if transfer := receipt.get("transfer"):
        names = ("id", "kind", "currency", "note", "charge_id", "created_at")
        same = all(leaf[name] == transfer[name] for name in names)
        same = same and all(leaf[name] == transfer[name]["id"] for name in ("from", "to"))
        require(same and Decimal(leaf["amount"]) == transfer["amount"], "transfer and leaf differ")
        if (entry := receipt["entry"]) is not None:
            check_entry(transfer, entry, leaf)
        elif not transfer.keys().isdisjoint({"balance_after", "idempotency_key", "sequence"}):
            raise ValueError("it shows fields that it does not prove")
    print(f"proven: {json.dumps(leaf, indent=2, ensure_ascii=False)}")
    print(f"leaf {receipt['index']} of {log[0]}, whose size was {size}")
    print(f"witnesses: {', '.join(cosigned) or 'none: the operator may show others another log'}")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (OSError, *MALFORMED) as error:
        sys.exit(f"refused: an argument or the receipt is missing or malformed: {error}")
