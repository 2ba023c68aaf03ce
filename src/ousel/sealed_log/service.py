"""Reading the log: its checkpoint, its tiles, and the proof that a movement is in it."""

import asyncio
from collections.abc import Sequence
from typing import Final

import msgspec

from ousel.database.port import Database, Transaction
from ousel.ledger.movements import entries_before, movements_at
from ousel.ledger.rules import FIRST_HASH, Entry
from ousel.sealed_log import store
from ousel.sealed_log.cosignatures import (
    Cosignature,
    CosignedCheckpoint,
    add_cosignatures,
    newest_cosigned,
)
from ousel.sealed_log.keys import KeyHolder
from ousel.sealed_log.leaves import LeafSecrets, encode_leaf
from ousel.sealed_log.merkle import (
    HASH_BYTES,
    consistency_nodes,
    consistency_proof,
    inclusion_nodes,
    inclusion_proof,
)
from ousel.sealed_log.notes import SigningKey, VerifierKey, names_signer
from ousel.sealed_log.notifier import LogNotifier
from ousel.sealed_log.receipts import Inclusion
from ousel.sealed_log.refusals import ReceiptNotReady
from ousel.sealed_log.tiles import TILE_WIDTH, Tile, TileHashes, TileKey, tiles_with

FULL_TILES_CACHED_MAX: Final = 1_024  # of 8 kilobytes each


class SealedEntry(msgspec.Struct, frozen=True):
    """One of the two entries of a movement that the log has a leaf for."""

    inclusion: Inclusion
    secrets: LeafSecrets
    previous_hash: str
    signing_key: SigningKey  # the key that has signed the checkpoint


class LogReader:
    """Reads the log."""

    def __init__(
        self,
        database: Database,
        holder: KeyHolder,
        notifier: LogNotifier,
        witness_keys: Sequence[VerifierKey] = (),
    ) -> None:
        """Read from this database, whose log is signed with the key of this holder.

        Checkpoints have the cosignatures of these witnesses.
        """
        self._database = database
        self._holder = holder
        self._notifier = notifier
        self._witnesses = {str(each) for each in witness_keys}
        self._full_tiles: dict[TileKey, bytes] = {}  # a full tile never changes

    async def newest_checkpoint(self) -> str | None:
        """Return the newest checkpoint, or None if nobody has signed one yet."""
        return (await self._database.read(store.read_head)).checkpoint

    async def checkpoint(self) -> str | None:
        """Return the newest checkpoint with its cosignatures, if there are any yet."""
        return await self._database.read(self._checkpoint)

    async def consistency_proof(self, old_size: int, size: int) -> list[bytes]:
        """Return the proof that the log of this size extends the log of the old size."""
        keys = tiles_with(consistency_nodes(old_size, size))
        tiles = await self._database.read(lambda each: self._tiles(each, keys))
        return consistency_proof(old_size, size, TileHashes(tiles))

    async def tile(self, tile: Tile) -> bytes | None:
        """Return the hashes of a tile, or None if fewer are stored than its width says."""
        tiles = await self._database.read(lambda each: self._tiles(each, {tile.key}))
        hashes = tiles.get(tile.key, b"")[: tile.width * HASH_BYTES]
        return hashes if len(hashes) == tile.width * HASH_BYTES else None

    async def find_entry(self, entry: Entry, seconds: float = 0) -> SealedEntry:
        """Return the proof that an entry is sealed, or raise ReceiptNotReady.

        If it is not sealed yet, wait for up to this many seconds. Without a key there is nothing to
        wait for.
        """
        time = asyncio.get_running_loop().time
        deadline = time() + seconds
        while True:
            head, found = await self._database.read(lambda each: self._find_entry(each, entry))
            if found is not None:
                return found
            if time() >= deadline or self._notifier.stopped or self._holder.key is None:
                raise self._not_ready()
            await self._notifier.wait_for_growth(head.size, deadline - time())

    async def _checkpoint(self, transaction: Transaction) -> str | None:
        checkpoint = (await store.read_head(transaction)).checkpoint
        if checkpoint is None:
            return None
        return add_cosignatures(checkpoint, await self._cosignatures(transaction))

    async def _cosignatures(self, transaction: Transaction) -> list[Cosignature]:
        if not self._witnesses:
            return []
        stored = await store.read_cosignatures(transaction)
        return [each for each in stored if each.witness in self._witnesses]

    def _not_ready(self) -> ReceiptNotReady:
        if self._holder.key is None:
            return ReceiptNotReady(
                "This server has no key to sign receipts with.", retry_after_seconds=60
            )
        return ReceiptNotReady("The transfer is not sealed yet.", retry_after_seconds=1)

    async def _find_entry(
        self, transaction: Transaction, entry: Entry
    ) -> tuple[store.Head, SealedEntry | None]:
        # Tiles only ever grow, so those that are read after the checkpoint contain its hashes.
        head = await store.read_head(transaction)
        sealed = await store.sealed_movements_of(transaction, [entry])
        own = sealed.get((entry.account_id, entry.sequence))
        key = self._holder.key
        if own is None or own.index >= head.size or key is None:
            return head, None
        if not key.has_signed(head.checkpoint):
            return head, None
        assert head.checkpoint is not None, "the key has signed it"
        [movement] = await movements_at(transaction, [own.place])
        assert movement is not None, "a sealed movement has been removed"
        before = await entries_before(transaction, [entry])
        previous = before.get((entry.account_id, entry.sequence))
        # A receipt has the newest cosigned checkpoint, unless the movement was sealed after it.
        shown = CosignedCheckpoint(head.size, head.checkpoint)
        cosigned = newest_cosigned(
            [
                each
                for each in await self._cosignatures(transaction)
                if names_signer(each.checkpoint, key.verifier)
            ]
        )
        if cosigned and own.index < cosigned.size:
            shown = cosigned
        tiles = await self._tiles(transaction, tiles_with(inclusion_nodes(own.index, shown.size)))
        inclusion = Inclusion(
            encode_leaf(movement.debit, movement.credit.hash, own.secrets),
            own.index,
            inclusion_proof(own.index, shown.size, TileHashes(tiles)),
            shown.note,
        )
        return head, SealedEntry(
            inclusion,
            own.secrets,
            FIRST_HASH if previous is None else previous.hash,
            key.signing_key,
        )

    async def _tiles(self, transaction: Transaction, keys: set[TileKey]) -> dict[TileKey, bytes]:
        known = {key: self._full_tiles[key] for key in keys if key in self._full_tiles}
        if len(known) == len(keys):
            return known
        read = await store.read_tiles(transaction, keys - known.keys())
        for key, hashes in read.items():
            if len(hashes) == TILE_WIDTH * HASH_BYTES:
                if len(self._full_tiles) >= FULL_TILES_CACHED_MAX:
                    self._full_tiles.clear()
                self._full_tiles[key] = hashes
        return known | read
