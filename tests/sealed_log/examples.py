"""Examples for the tests of the sealed log: movements, a log in memory, and its receipts."""

import json
from typing import Any

from ousel.kernel.account_numbers import account_number
from ousel.kernel.clock import timestamp
from ousel.kernel.money import json_from_micros
from ousel.ledger.rules import FIRST_HASH, Entry, Movement
from ousel.sealed_log.checkpoints import Checkpoint
from ousel.sealed_log.leaves import derive_secrets, encode_leaf
from ousel.sealed_log.merkle import inclusion_proof, leaf_hash, root_hash
from ousel.sealed_log.notes import SigningKey, sign_note
from ousel.sealed_log.receipts import Inclusion, encode_receipt, entry_part, shareable_transfer
from ousel.sealed_log.tiles import TileHashes, TileKey, append_leaves
from tests.ledger.examples import NOW, MemoryLedger, account, posting

ORIGIN = "pay.example.com/log"
KEY = SigningKey(ORIGIN, bytes(range(32)))
SEED = bytes(range(32))
[SECRETS] = derive_secrets(SEED, 1)
ADA = {"username": "ada", "account_number": account_number(1), "display_name": "Ada"}
BOB = {"username": "bob", "account_number": account_number(2), "display_name": "Bôb"}


def movement(
    amount: int = 25_000_000, *, note: str | None = "Lunch — déjà vu", key: str | None = "order-7"
) -> Movement:
    """Return a movement from one account to another, both without history."""
    ledger = MemoryLedger(account("acct_a", 100_000_000), account("acct_b"))
    (outcome,) = ledger.decide(posting("acct_a", "@acct_b", amount, note=note, key=key))
    assert isinstance(outcome, Movement)
    return outcome


class LogInMemory:
    """A log whose leaves and tiles are in memory."""

    def __init__(self, leaves: list[bytes]) -> None:
        self.leaves: list[bytes] = []
        self.tiles: dict[TileKey, bytes] = {}
        self.append(leaves)

    def append(self, leaves: list[bytes]) -> None:
        hashes = [leaf_hash(leaf) for leaf in leaves]
        self.tiles |= append_leaves(self.tiles, len(self.leaves), hashes)
        self.leaves += leaves

    @property
    def hash_of(self) -> TileHashes:
        return TileHashes(self.tiles)

    def checkpoint(self, size: int | None = None) -> Checkpoint:
        size = len(self.leaves) if size is None else size
        return Checkpoint(ORIGIN, size, root_hash(size, self.hash_of))

    def signed_checkpoint(self, *cosigners: SigningKey) -> str:
        return sign_note(self.checkpoint().text, [KEY, *cosigners], NOW // 1_000_000)

    def inclusion(self, index: int, *cosigners: SigningKey) -> Inclusion:
        proof = inclusion_proof(index, len(self.leaves), self.hash_of)
        return Inclusion(self.leaves[index], index, proof, self.signed_checkpoint(*cosigners))


def log_with(moved: Movement, *, before: int = 5, after: int = 7) -> tuple[LogInMemory, int]:
    """Return a log in which this movement has some leaves before and after it."""
    leaves = [f"leaf {number}".encode() for number in range(before + after)]
    leaves.insert(before, encode_leaf(moved.debit, moved.credit.hash, SECRETS))
    return LogInMemory(leaves), before


def transfer_record(entry: Entry) -> dict[str, Any]:
    """Return the fields of a transfer record as the owner of this entry sees it."""
    own, other = entry.account_id, entry.counterparty_id
    sender, recipient = (own, other) if entry.amount < 0 else (other, own)
    return {
        "object": "transfer",
        "id": entry.transfer_id,
        "status": "completed",
        "kind": entry.kind,
        "direction": "out" if entry.amount < 0 else "in",
        "amount": abs(entry.amount),
        "currency": "OUSD",
        "from": {"id": sender, **ADA},
        "to": {"id": recipient, **BOB},
        "note": entry.note,
        "charge_id": entry.charge_id,
        "balance_after": entry.balance_after,
        "idempotency_key": entry.idempotency_key,
        "sequence": entry.sequence,
        "created_at": timestamp(entry.created_at),
    }


def encode_transfer(record: dict[str, Any]) -> bytes:
    """Return the JSON of a record, as the API writes it: amounts with two decimals or more."""
    amounts = {name: record[name] for name in ("amount", "balance_after") if name in record}
    marks = {name: f"<{name}>" for name in amounts}
    text = json.dumps(record | marks, separators=(",", ":"), ensure_ascii=False)
    for name, amount in amounts.items():
        text = text.replace(f'"<{name}>"', json_from_micros(amount))
    return text.encode()


def receipt_of(
    moved: Movement,
    *,
    side: str = "debit",
    is_shareable: bool = False,
    changes: dict[str, Any] | None = None,
    entry_changes: dict[str, Any] | None = None,
    cosigners: tuple[SigningKey, ...] = (),
) -> bytes:
    """Return the receipt of a movement, with these fields changed before it is signed."""
    entry = moved.debit if side == "debit" else moved.credit
    log, index = log_with(moved)
    record = transfer_record(entry) | (changes or {})
    own: dict[str, object] | None = entry_part(entry, FIRST_HASH, SECRETS) | (entry_changes or {})
    if is_shareable:
        record, own = shareable_transfer(record), None
    return encode_receipt(encode_transfer(record), own, log.inclusion(index, *cosigners), KEY)
