"""The sealer: appends a leaf to the log for each movement, in the background.

Every process of every server has a sealer. The one that has locked the log's only row in
`sealed_log` appends, and the others look again later. Leaves, tiles, the checkpoint and the
deletion of the rows that name unsealed movements are one transaction. So wherever a process
crashes, no movement is left out and none gets two leaves.
"""

import asyncio
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Final

import msgspec

from ousel.database.port import Database, Transaction
from ousel.kernel.logs import EventLogger
from ousel.ledger.movements import delete_unsealed, movements_at, unsealed_batches
from ousel.ledger.places import Place, count_places, decode_places
from ousel.ledger.queue import PostingQueue
from ousel.ledger.rules import Movement
from ousel.sealed_log import backfill, store
from ousel.sealed_log.keys import AnotherKeySigned, KeyHolder, LogKey
from ousel.sealed_log.merkle import leaf_count, root_hash
from ousel.sealed_log.notifier import LogNotifier
from ousel.sealed_log.prepared_leaves import LeafRow, PreparedLeaves, leaf_rows
from ousel.sealed_log.tiles import TileHashes, append_leaves, right_edge

TICK_SECONDS: Final = 0.25
POLL_SECONDS: Final = 1.0  # between two polls for what other processes have written
STEP_BATCHES_MAX: Final = 256
STEP_BATCHES_MIN: Final = 8
# A step takes batches until it has STEP_MOVEMENTS movements, or STEP_UNPREPARED_MOVEMENTS whose
# leaves must be computed in its transaction. Either occupies the event loop for about 3 ms.
STEP_MOVEMENTS: Final = 1_024
STEP_UNPREPARED_MOVEMENTS: Final = 256
UNUSABLE_KEY_SECONDS: Final = 60.0  # before another attempt with a wrong key
# After it has sealed everything, the sealer pauses this many times as long as its last step took,
# so that it seals many movements at once.
PAUSE_RATIO: Final = 40
PAUSE_SECONDS_MAX: Final = 0.75  # so it seals at least once a second


_log = EventLogger()


class SealingStep(msgspec.Struct, frozen=True):
    """What one step has done."""

    movements: int
    is_last: bool  # there was nothing more to seal, except what was written during the step
    size: int = 0  # of the log after it
    batch_ids: Sequence[str] = ()
    is_backfill: bool = False
    # The log is shorter than this process has seen it; None if the log was not looked at.
    is_shortened: bool | None = False


class Sealer:
    """Seals movements, as long as no other process does so."""

    def __init__(
        self, database: Database, holder: KeyHolder, queue: PostingQueue, notifier: LogNotifier
    ) -> None:
        """Sign with the holder's key, if it has one; seal what this queue and others write."""
        self._database = database
        self._holder = holder
        self._queue = queue
        self._notifier = notifier
        self._batches_seen = 0
        self._next_poll = 0.0
        self._pauses_until = 0.0
        self._is_created = False
        self._prepared = PreparedLeaves(queue.recent_movements)
        self._batches_wanted = STEP_BATCHES_MAX
        self._was_shortened = False

    async def seal_due(self) -> None:
        """Seal all that is unsealed, unless it is too early for another poll."""
        batches = self._queue.batches_written
        if monotonic() < self._pauses_until or not self._holder.may_continue_log:
            return
        if batches == self._batches_seen and monotonic() < self._next_poll:
            return
        self._batches_seen, self._next_poll = batches, monotonic() + POLL_SECONDS
        try:
            await self.seal_all()
        except AnotherKeySigned as error:
            self._pauses_until = monotonic() + UNUSABLE_KEY_SECONDS
            cure = f"put the file of that key at {self._holder.path}, and restart this server"
            _log.error("sealing has stopped", reason=f"{error}: {cure}")

    async def seal_all(self) -> int:
        """Seal all that is unsealed, step by step; return how many movements were sealed."""
        if not self._is_created:
            await self.create_log()
        sealed = 0
        while True:
            started = monotonic()
            step = await self.seal_some()
            sealed += step.movements
            step_seconds = monotonic() - started
            if step.is_last:
                pause_seconds = min(step_seconds * PAUSE_RATIO, PAUSE_SECONDS_MAX)
                self._pauses_until = monotonic() + pause_seconds
                return sealed
            # A backfill may take hours, so it leaves half of the time to transfers.
            await asyncio.sleep(min(step_seconds, PAUSE_SECONDS_MAX) if step.is_backfill else 0)

    async def create_log(self) -> None:
        """Create the log if it does not exist."""
        await self._database.write(store.create_head)
        self._is_created = True

    async def seal_some(self) -> SealingStep:
        """Seal some movements in one transaction.

        The leaves of those that this process still has in memory are computed before it.
        """
        holder, prepared, wanted = self._holder, self._prepared, self._batches_wanted
        await prepared.prepare(STEP_MOVEMENTS)
        sealed = await self._database.write(
            lambda transaction: _seal_some(transaction, holder, prepared, wanted)
        )
        prepared.discard(sealed.batch_ids)
        if sealed.is_shortened and not self._was_shortened:
            seen = f"the log has {leaf_count(sealed.size)}, but it had {holder.size_seen} before"
            _log.error("sealing has stopped", reason=f"{seen}: the database went back")
        if sealed.is_shortened is not None:
            self._was_shortened = sealed.is_shortened
        # The size of batches changes slowly, so the next step will take about as many batches as
        # this one. Let it read up to twice as many.
        twice_as_many = 2 * len(sealed.batch_ids)
        self._batches_wanted = min(max(twice_as_many, STEP_BATCHES_MIN), STEP_BATCHES_MAX)
        holder.size_seen = max(holder.size_seen, sealed.size)
        if sealed.movements:
            self._notifier.notify_of_growth()
        return sealed


async def _seal_some(
    transaction: Transaction, holder: KeyHolder, prepared: PreparedLeaves, batches_wanted: int
) -> SealingStep:
    key, head = holder.key, await store.lock_head(transaction)
    if head is None or (key is None and head.checkpoint is not None):
        return SealingStep(0, is_last=True, is_shortened=None)
    if head.size < holder.size_seen:  # the database went back: see `published`
        return SealingStep(0, is_last=True, size=head.size, is_shortened=True)
    must_sign = key is not None and key.needs_new_checkpoint(head.checkpoint)
    # The entries are read before the unsealed batches. So a movement that has a row for the sealer
    # has either been sealed, or is in one of the batches that are read next.
    page = await backfill.next_page(transaction, head) if head.is_backfilling else []
    batches = await unsealed_batches(transaction, batches_wanted)
    has_all_batches = len(batches) < batches_wanted
    # The leaves of batches that this process has just written are prepared before the next step.
    ready = {id_: places for id_, places in batches.items() if not prepared.will_prepare(id_)}
    ids, rows = await _take_batches(transaction, ready, prepared)
    if head.is_backfilling and has_all_batches:
        waiting = {place[:2] for places in batches.values() for place in decode_places(places)}
        rows += leaf_rows(await backfill.movements_without_leaf(transaction, page, waiting))
        head, must_sign = backfill.move_on(head, page), True
    size = head.size + sum(len(row.hashes) for row in rows)
    if rows or must_sign:
        await append_leaf_rows(transaction, head, rows, key)
    if ids:
        await delete_unsealed(transaction, ids)
    has_taken_all = has_all_batches and prepared.has_all and len(ids) == len(ready)
    is_last = has_taken_all and not head.is_backfilling
    return SealingStep(size - head.size, is_last, size, ids, head.is_backfilling)


async def _take_batches(
    transaction: Transaction, batches: Mapping[str, str], prepared: PreparedLeaves
) -> tuple[list[str], list[LeafRow]]:
    """Take the first batches, as many as a step may; return their ids and their leaves.

    `batches` has the places of each, as a text, by id.
    """
    ids: list[str] = []
    rows: list[LeafRow] = []
    unprepared: list[Place] = []
    count = 0
    for id_, places in batches.items():
        if count >= STEP_MOVEMENTS or len(unprepared) >= STEP_UNPREPARED_MOVEMENTS:
            break
        ids.append(id_)
        count += count_places(places)
        row = prepared.find(id_, places)
        if row is not None:
            rows.append(row)
        else:
            unprepared += decode_places(places)
    read = [_found(each) for each in await movements_at(transaction, unprepared)]
    return ids, rows + leaf_rows(read)


def _found(movement: Movement | None) -> Movement:
    assert movement is not None, "a movement that is to be sealed has been removed"
    return movement


async def append_leaf_rows(
    transaction: Transaction, head: store.Head, rows: Sequence[LeafRow], key: LogKey | None
) -> None:
    """Append these leaves to the locked log, and sign its new state."""
    size, hashes = head.size, list[bytes]()
    stored: list[tuple[int, int, str, bytes]] = []
    for row in rows:
        stored.append((size + len(hashes), row.date, row.places, row.seed))
        hashes += row.hashes
    tiles = await store.read_tiles(transaction, right_edge(size))
    changed = append_leaves(tiles, size, hashes)
    if stored:
        await store.add_batches(transaction, stored)
        await store.write_tiles(transaction, changed)
    size += len(hashes)
    root = root_hash(size, TileHashes(tiles | changed))
    checkpoint = None if key is None else key.sign_checkpoint(size, root)
    await store.write_head(
        transaction, head, msgspec.structs.replace(head, size=size, checkpoint=checkpoint)
    )
