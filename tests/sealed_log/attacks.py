"""What somebody with full write access to the database can do, with the log's key or without it."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from ousel.cli.verification import verify_everything
from ousel.database.port import Transaction
from ousel.kernel.clock import timestamp
from ousel.ledger.rules import Entry, Movement
from ousel.ledger.verify import DatabaseLedger, VerificationFailed
from ousel.sealed_log import store
from ousel.sealed_log.audit import AuditFailed, Auditor, LogInconsistent
from ousel.sealed_log.checkpoints import Checkpoint, unverified_checkpoint
from ousel.sealed_log.keys import LogKey, new_key
from ousel.sealed_log.leaves import Leaf
from ousel.sealed_log.merkle import Node, consistency_proof, root_hash
from ousel.sealed_log.notes import COSIGNATURE, SigningKey, to_base64
from ousel.sealed_log.prepared_leaves import leaf_rows
from ousel.sealed_log.sealer import append_leaf_rows
from ousel.sealed_log.tiles import TileHashes, TileKey, append_leaves
from ousel.sealed_log.verification import verify_since
from ousel.sealed_log.witness_rules import AddCheckpoint, answer_request
from tests.ledger.examples import posting
from tests.ledger.tampering import People, forge_history, move_entries
from tests.sealed_log.logs import Log
from tests.support.raw_sql import RawSql

WITNESS = SigningKey("witness.example.com/w1", bytes(32), COSIGNATURE)
Change = Callable[[Movement], Movement | None]


class Published:
    """The public files of a log at one moment."""

    def __init__(self, note: str, tiles: dict[TileKey, bytes]) -> None:
        self.note = note
        self.tiles = tiles

    def checkpoint(self) -> str:
        return self.note

    def hashes(self, _: Sequence[Node], __: int) -> TileHashes:
        return TileHashes(self.tiles)


class Scene(msgspec.Struct):
    """A sealed ledger, and what people outside have kept of it: a checkpoint and a receipt."""

    log: Log
    raw_sql: RawSql
    people: People
    kept: str  # a signed checkpoint, which the monitor, the witness and the auditor have seen
    receipt: Leaf  # what an old receipt proves
    folder: Path
    shown: Published | None = None  # what the operator shows to readers instead of the log

    @property
    def key(self) -> LogKey:
        assert self.log.key_holder.key is not None
        return self.log.key_holder.key

    @property
    def kept_checkpoint(self) -> Checkpoint:
        return unverified_checkpoint(self.kept)

    async def movements(self) -> list[Movement]:
        """Return all movements, in the order of their dates."""
        entries = await self.log.database.snapshot(_all_entries)
        debits = {entry.transfer_id: entry for entry in entries if entry.amount < 0}
        others = {entry.transfer_id: entry for entry in entries if entry.amount > 0}
        return sorted(
            (Movement(debits[each], others[each]) for each in debits),
            key=lambda each: (each.debit.created_at, each.debit.transfer_id),
        )

    async def published(self) -> Published:
        """Return what a reader of the public files sees."""
        if self.shown is not None:
            return self.shown
        return await self.log.database.snapshot(_published)

    async def found_by(self) -> set[str]:
        """Return who finds that something is wrong."""
        published = await self.published()
        finders = {
            "verify": await self._fails(lambda each: verify_everything(each, log_key=self.key)),
            "verify --since": await self._fails(
                lambda each: verify_since(each, self.kept_checkpoint, self.key)
            ),
            "monitor": self._is_inconsistent(published),
            "witness": self._is_refused(published),
            "receipt": self._is_inconsistent(published) or await self._contradicts_receipt(),
        }
        return {name for name, found in finders.items() if found}

    async def _fails(self, verify: Callable[[Transaction], Awaitable[object]]) -> bool:
        try:
            await self.log.database.snapshot(verify)
        except VerificationFailed:
            return True
        return False

    def _is_inconsistent(self, published: Published) -> bool:
        state = self.folder / "state"
        state.write_text(self.kept)
        try:
            Auditor([self.key.verifier], state).audit(published)
        except (LogInconsistent, AuditFailed):
            return True
        return False

    def _is_refused(self, published: Published) -> bool:
        last = self.kept_checkpoint
        size = unverified_checkpoint(published.note).size
        if size < last.size:
            return True
        try:
            proof = consistency_proof(last.size, size, TileHashes(published.tiles))
        except LookupError:
            return True
        asked = AddCheckpoint(last.size, proof, published.note)
        answer = answer_request(asked, [self.key.verifier], last, WITNESS, 1)
        return answer.status != 200

    async def _contradicts_receipt(self) -> bool:
        """Return whether the service shows another movement than the receipt proves."""
        proven = self.receipt
        for debit in [each.debit for each in await self.movements()]:
            if debit.transfer_id == proven.id:
                shown = (debit.account_id, debit.counterparty_id, debit.note, -debit.amount)
                micros = round(float(proven.amount) * 1_000_000)
                return (*shown, timestamp(debit.created_at)) != (
                    proven.from_, proven.to, proven.note, micros, proven.created_at,
                )  # fmt: skip
        return True


async def _all_entries(transaction: Transaction) -> list[Entry]:
    return [entry async for page in DatabaseLedger(transaction).entries() for entry in page]


async def _published(transaction: Transaction) -> Published:
    head = await store.read_head(transaction)
    assert head.checkpoint is not None
    keys = {TileKey(0, 0), TileKey(1, 0)}
    return Published(head.checkpoint, await store.read_tiles(transaction, keys))


async def _set(scene: Scene, assignment: str, *values: object) -> None:
    """Change both entries of the movement that the receipt is about."""
    sql = f"UPDATE entries SET {assignment} WHERE transfer_id = ?"
    await scene.raw_sql.run(sql, *values, scene.receipt.id)


async def _rewrite(scene: Scene, change: Callable[[Entry], Entry | None]) -> None:
    """Change the history of both people; all numbers, balances and hashes fit afterwards."""
    for account in (scene.people.ada, scene.people.bob):
        await forge_history(
            scene.raw_sql,
            account.id,
            lambda entries: [each for each in map(change, entries) if each is not None],
        )


async def _rewrite_receipt(scene: Scene, **fields: object) -> None:
    def change(entry: Entry) -> Entry:
        is_meant = entry.transfer_id == scene.receipt.id
        return msgspec.structs.replace(entry, **fields) if is_meant else entry

    await _rewrite(scene, change)


async def _rebuild(scene: Scene, movements: Sequence[Movement] | None = None) -> None:
    """Build the log anew from these movements, and sign it with the log's own key."""
    chosen = await scene.movements() if movements is None else movements
    for table in ("sealed_batches", "sealed_tiles", "sealed_log"):
        await scene.raw_sql.run(f"DELETE FROM {table}")

    async def build(transaction: Transaction) -> None:
        await store.create_head(transaction)
        head = await store.lock_head(transaction)
        assert head is not None
        await append_leaf_rows(transaction, head, leaf_rows(chosen), scene.key)

    await scene.log.database.write(build)


async def change_a_note(scene: Scene) -> None:
    await _set(scene, "note = ?", "another note")


async def change_an_amount(scene: Scene) -> None:
    await _set(scene, "amount = amount * 2")


async def erase_a_movement(scene: Scene) -> None:
    await scene.raw_sql.run("DELETE FROM entries WHERE transfer_id = ?", scene.receipt.id)


async def raise_a_balance(scene: Scene) -> None:
    sql = "UPDATE accounts SET balance = balance + 1 WHERE id = ?"
    await scene.raw_sql.run(sql, scene.people.ada.id)


async def exchange_all_entries(scene: Scene) -> None:
    ada, bob = scene.people.ada.id, scene.people.bob.id
    for old, new in ((ada, "acct_x"), (bob, ada), ("acct_x", bob)):
        await move_entries(scene.raw_sql, old, new)
    for old, new in ((ada, "acct_x"), (bob, ada), ("acct_x", bob)):
        sql = "UPDATE entries SET counterparty_id = ? WHERE counterparty_id = ?"
        await scene.raw_sql.run(sql, new, old)


async def exchange_two_entries(scene: Scene) -> None:
    for old, new in ((3, 900), (4, 3), (900, 4)):
        sql = "UPDATE entries SET sequence = ? WHERE account_id = ? AND sequence = ?"
        await scene.raw_sql.run(sql, new, scene.people.ada.id, old)


async def change_a_note_and_all_hashes(scene: Scene) -> None:
    await _rewrite_receipt(scene, note="another note")


async def erase_the_last_movement_and_fix_both_heads(scene: Scene) -> None:
    last = (await scene.movements())[-1].debit.transfer_id
    await _rewrite(scene, lambda entry: None if entry.transfer_id == last else entry)


async def exchange_sender_and_recipient(scene: Scene) -> None:
    def change(entry: Entry) -> Entry:
        is_meant = entry.transfer_id == scene.receipt.id
        return msgspec.structs.replace(entry, amount=-entry.amount) if is_meant else entry

    await _rewrite(scene, change)


async def redate_a_movement(scene: Scene) -> None:
    movement = next(
        each for each in await scene.movements() if each.debit.transfer_id == scene.receipt.id
    )
    await _rewrite_receipt(scene, created_at=movement.debit.created_at + 1)


async def add_an_idempotency_key(scene: Scene) -> None:
    await _rewrite_receipt(scene, idempotency_key="forged")


async def invent_a_movement(scene: Scene) -> None:
    """Each account gets a copy of one of its entries, with another id, right after it."""

    def insert(entries: list[Entry]) -> list[Entry]:
        at = next(n for n, each in enumerate(entries) if each.transfer_id == scene.receipt.id)
        invented = msgspec.structs.replace(
            entries[at], transfer_id="tr_invented", idempotency_key=None
        )
        return [*entries[: at + 1], invented, *entries[at + 1 :]]

    for account in (scene.people.ada, scene.people.bob):
        await forge_history(scene.raw_sql, account.id, insert)


async def change_a_tile(scene: Scene) -> None:
    hashes = bytes(32 * scene.kept_checkpoint.size)
    sql = "UPDATE sealed_tiles SET hashes = ? WHERE level = 0"
    await scene.raw_sql.run(sql, to_base64(hashes))


async def remove_a_leaf_from_the_list(scene: Scene) -> None:
    sql = "DELETE FROM sealed_batches WHERE first_index = 0"
    await scene.raw_sql.run(sql)


async def replace_the_random_bits(scene: Scene) -> None:
    other = f"seed:{to_base64(bytes(32))}"
    await scene.raw_sql.run("UPDATE sealed_batches SET secrets = ?", other)


async def sign_with_another_key(scene: Scene) -> None:
    other = new_key(scene.key.origin)
    checkpoint = scene.kept_checkpoint
    note = other.sign_checkpoint(checkpoint.size, checkpoint.root)
    await scene.raw_sql.run("UPDATE sealed_log SET checkpoint = ?", note)


async def sign_another_root(scene: Scene) -> None:
    note = scene.key.sign_checkpoint(scene.kept_checkpoint.size, bytes(32))
    await scene.raw_sql.run("UPDATE sealed_log SET checkpoint = ?", note)


async def rebuild_after_changing_a_note(scene: Scene) -> None:
    await change_a_note_and_all_hashes(scene)
    await _rebuild(scene)


async def rebuild_without_the_last_movement(scene: Scene) -> None:
    await erase_the_last_movement_and_fix_both_heads(scene)
    await _rebuild(scene)


async def rebuild_with_other_random_bits(scene: Scene) -> None:
    await _rebuild(scene)


async def leave_a_movement_out_of_the_log(scene: Scene) -> None:
    movements = await scene.movements()
    await _rebuild(
        scene, [each for each in movements if each.debit.transfer_id != scene.receipt.id]
    )


async def roll_back_to_a_backup_and_go_on(scene: Scene) -> None:
    """The last movement is forgotten, and others take its place."""
    await rebuild_without_the_last_movement(scene)
    for _ in range(3):
        await scene.log.queue.post(posting(scene.people.ada.id, "@bob", 1))
    await scene.log.sealer.seal_all()


async def show_one_reader_another_log(scene: Scene) -> None:
    tiles = append_leaves({}, 0, [bytes([number]) * 32 for number in range(20)])
    note = scene.key.sign_checkpoint(20, root_hash(20, TileHashes(tiles)))
    scene.shown = Published(note, tiles)


async def change_a_movement_newer_than_the_checkpoint(scene: Scene) -> None:
    await scene.log.queue.post(posting(scene.people.ada.id, "@bob", 1, note="new"))
    await scene.log.sealer.seal_all()
    await scene.raw_sql.run("UPDATE entries SET note = 'newer' WHERE note = 'new'")


REWRITTEN = {"verify --since", "monitor", "witness", "receipt"}

# Each attack, by the name that the documentation gives it, and who finds it.
ATTACKS: dict[str, tuple[Callable[[Scene], Awaitable[None]], set[str]]] = {
    "change a note": (change_a_note, {"verify", "receipt"}),
    "change an amount": (change_an_amount, {"verify", "receipt"}),
    "erase a movement": (erase_a_movement, {"verify", "receipt"}),
    "raise a balance": (raise_a_balance, {"verify"}),
    "exchange all entries of two accounts": (exchange_all_entries, {"verify", "receipt"}),
    "exchange two entries of an account": (exchange_two_entries, {"verify"}),
    "change a note, and all hashes after it": (change_a_note_and_all_hashes, {"verify", "receipt"}),
    "erase the last movement, and fix both accounts": (
        erase_the_last_movement_and_fix_both_heads,
        {"verify"},
    ),
    "exchange sender and recipient, and fix all hashes after it": (
        exchange_sender_and_recipient,
        {"verify", "receipt"},
    ),
    "change a date, and all hashes after it": (
        redate_a_movement,
        {"verify", "receipt"},
    ),
    "add an idempotency key, and fix all hashes after it": (add_an_idempotency_key, {"verify"}),
    "invent a movement in the past": (invent_a_movement, {"verify"}),
    "change the published hashes": (
        change_a_tile,
        {"verify", "verify --since", "monitor", "receipt"},
    ),
    "remove a leaf from the list of leaves": (remove_a_leaf_from_the_list, {"verify"}),
    "replace the random bits of leaves": (replace_the_random_bits, {"verify"}),
    "sign the log with another key": (sign_with_another_key, {"verify", *REWRITTEN}),
    "sign another root": (sign_another_root, {"verify", *REWRITTEN}),
    "change a note, and build the log anew": (rebuild_after_changing_a_note, REWRITTEN),
    "erase the last movement, and build the log anew": (
        rebuild_without_the_last_movement,
        REWRITTEN,
    ),
    "build the log anew with other random bits": (rebuild_with_other_random_bits, REWRITTEN),
    "leave a movement out of a new log": (leave_a_movement_out_of_the_log, REWRITTEN),
    "go back to a backup and go on from there": (roll_back_to_a_backup_and_go_on, REWRITTEN),
    "show one reader another log": (
        show_one_reader_another_log,
        {"monitor", "witness", "receipt"},
    ),
    "change a movement that is newer than the checkpoint": (
        change_a_movement_newer_than_the_checkpoint,
        {"verify", "verify --since"},
    ),
}
