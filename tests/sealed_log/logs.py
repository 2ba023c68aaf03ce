"""A log under test: a ledger, its key and its sealer, and what the log has for each movement."""

import asyncio
from collections import Counter
from pathlib import Path

from ousel.database.port import Database, Transaction
from ousel.kernel.clock import system_clock
from ousel.kernel.settings import Settings
from ousel.ledger.movements import movements_at
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Account, Entry
from ousel.ledger.verify import DatabaseLedger
from ousel.sealed_log import store
from ousel.sealed_log.checkpoints import Checkpoint, open_checkpoint
from ousel.sealed_log.keys import KeyHolder, new_key, origin_at, read_key, write_key
from ousel.sealed_log.leaves import encode_leaf
from ousel.sealed_log.merkle import leaf_hash, root_hash
from ousel.sealed_log.notifier import LogNotifier
from ousel.sealed_log.sealer import Sealer
from ousel.sealed_log.tiles import TileHashes, append_leaves
from tests.ledger.examples import posting


class Log:
    """A log in a database, with a sealer like that of one server process."""

    def __init__(
        self, database: Database, folder: Path, portal_url: str = "https://pay.example"
    ) -> None:
        self.database = database
        self._portal_url = portal_url
        path = folder / "log-key"
        if not path.exists():
            write_key(path, new_key(origin_at(portal_url)))
        self.key_holder = KeyHolder(Settings(portal_url=portal_url, log_key_file=path))
        self.key_holder.key = read_key(path, self.key_holder.origin)
        self.queue = self.another_queue()
        self.sealer = self.another_sealer()

    def another_process(self) -> Sealer:
        """Return the sealer of another process, which has seen nothing of the log yet."""
        return Sealer(self.database, self.another_holder(), self.queue, LogNotifier(self.database))

    def another_holder(self) -> KeyHolder:
        """Return the key holder of another process, which has seen nothing of the log yet."""
        holder = KeyHolder(Settings(portal_url=self._portal_url, log_key_file=self.key_holder.path))
        holder.key = self.key_holder.key
        return holder

    def another_sealer(self, database: Database | None = None) -> Sealer:
        """Return a sealer like that of another process."""
        chosen = database or self.database
        return Sealer(chosen, self.key_holder, self.queue, LogNotifier(chosen))

    def another_queue(self) -> PostingQueue:
        """Return a queue like that of another process."""
        return PostingQueue(self.database, system_clock, queue_limit=1_000)

    async def checkpoint(self) -> Checkpoint:
        """Return the newest checkpoint, whose signature is checked."""
        head = await self.database.read(store.read_head)
        assert head.checkpoint is not None
        assert self.key_holder.key is not None
        checkpoint, _ = open_checkpoint(head.checkpoint, [self.key_holder.key.verifier])
        assert checkpoint.size == head.size
        return checkpoint

    async def assert_complete(self) -> int:
        """Check that every entry has exactly one leaf, and that the tree is that of the leaves.

        Return how many leaves there are.
        """
        return await self.database.snapshot(self._assert_complete)

    async def _assert_complete(self, transaction: Transaction) -> int:
        entries: Counter[tuple[str, int]] = Counter()
        async for page in DatabaseLedger(transaction).entries():
            entries.update(_place(entry) for entry in page)
        head = await store.read_head(transaction)
        sealed: list[store.SealedMovement] = []
        while batch := await store.sealed_from(transaction, len(sealed), limit=100):
            sealed += batch
        assert [each.index for each in sealed] == list(range(head.size))
        assert entries == Counter(
            place for each in sealed for place in (each.place[:2], each.place[2:])
        )
        movements = await movements_at(transaction, [each.place for each in sealed])
        hashes = [
            leaf_hash(encode_leaf(movement.debit, movement.credit.hash, each.secrets))
            for movement, each in zip(movements, sealed, strict=True)
            if movement is not None
        ]
        tiles = append_leaves({}, 0, hashes)
        assert await store.read_tiles(transaction, set(tiles)) == tiles
        assert head.checkpoint is not None
        assert self.key_holder.key is not None
        checkpoint, _ = open_checkpoint(head.checkpoint, [self.key_holder.key.verifier])
        assert (checkpoint.size, checkpoint.root) == (
            len(sealed),
            root_hash(len(sealed), TileHashes(tiles)),
        )
        return len(sealed)


async def send(queue: PostingQueue, sender: Account, to: str, count: int = 1) -> None:
    """Send this many transfers at once."""
    await asyncio.gather(*(queue.post(posting(sender.id, to, 1)) for _ in range(count)))


def _place(entry: Entry) -> tuple[str, int]:
    return entry.account_id, entry.sequence
