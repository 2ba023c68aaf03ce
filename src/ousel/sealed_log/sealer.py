"""The sealer: appends a leaf to the log for each movement, in the background.

Every process of every server has a sealer. The one that has locked the log's only row in
`sealed_log` appends, and the others look again later. Leaves, tiles, the checkpoint and the
deletion of the rows that name unsealed movements are one transaction. So wherever a process
crashes, no movement is left out and none gets two leaves.
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from itertools import groupby
from time import monotonic
from typing import Final

import msgspec

from ousel.database.port import Database, Transaction
from ousel.kernel.logs import EventLogger
from ousel.ledger.movements import delete_unsealed, movements_at, unsealed_batches
from ousel.ledger.places import Place, count_places, decode_places, encode_places
from ousel.ledger.queue import PostingQueue
from ousel.ledger.recent_movements import RecentMovements
from ousel.ledger.rules import Movement
from ousel.sealed_log import backfill, store
from ousel.sealed_log.keys import AnotherKeySigned, KeyHolder, LogKey
from ousel.sealed_log.leaves import SECRET_BYTES, encode_leaf
from ousel.sealed_log.merkle import leaf_hash, root_hash
from ousel.sealed_log.notifier import LogNotifier
from ousel.sealed_log.tiles import TileHashes, append_leaves, right_edge

TICK_SECONDS: Final = 0.25
POLL_SECONDS: Final = 1.0  # between two polls for what other processes have written
STEP_BATCHES: Final = 256
# A step takes batches until it has this many movements, which occupy the event loop for 3 ms.
STEP_MOVEMENTS: Final = 256
BACKFILL_POLL_SECONDS: Final = 600.0  # between two polls for movements without a row
UNUSABLE_KEY_SECONDS: Final = 60.0  # before another attempt with a wrong key
# The sealer pauses this many times as long as it has worked, so that it takes little time from
# transfers. If it cannot catch up within some seconds, its pauses become shorter until it has.
PAUSE_RATIO: Final = 40
CATCH_UP_SECONDS: Final = 5.0
PAUSE_SECONDS_MAX: Final = 0.75  # so it seals at least once a second


_log = EventLogger()


class SealingStep(msgspec.Struct, frozen=True):
    """What one step has done."""

    movements: int
    is_last: bool  # there was nothing more to seal
    size: int = 0  # of the log after it


class Sealer:
    """Seals movements, as long as no other process does so."""

    def __init__(
        self, database: Database, key: KeyHolder, queue: PostingQueue, notifier: LogNotifier
    ) -> None:
        """Sign with this key, if there is one; give way to the postings in this queue."""
        self._database = database
        self._key = key
        self._queue = queue
        self._notifier = notifier
        self._batches_seen = 0
        self._next_poll = 0.0
        self._pauses_until = 0.0
        self._next_backfill_poll = 0.0

    async def seal_due(self) -> None:
        """Seal all that is unsealed, unless it is too early for another poll."""
        batches = self._queue.batches_written
        if monotonic() < self._pauses_until or not self._key.may_continue_log:
            return
        if batches == self._batches_seen and monotonic() < self._next_poll:
            return
        self._batches_seen, self._next_poll = batches, monotonic() + POLL_SECONDS
        try:
            await self.seal_all()
        except AnotherKeySigned as error:
            self._next_poll = monotonic() + UNUSABLE_KEY_SECONDS
            cure = f"put the file of that key at {self._key.path}, and restart this server"
            _log.error("nothing is sealed", reason=f"{error}: {cure}")

    async def seal_all(self) -> int:
        """Seal all that is unsealed, step by step; return how many movements were sealed."""
        if monotonic() >= self._next_backfill_poll:
            self._next_backfill_poll = monotonic() + BACKFILL_POLL_SECONDS
            await self.prepare()
        sealed = 0
        begun = monotonic()
        while True:
            started = monotonic()
            step = await self.seal_some()
            sealed += step.movements
            haste = max((started - begun) / CATCH_UP_SECONDS, 1)
            pause_seconds = min((monotonic() - started) * PAUSE_RATIO / haste, PAUSE_SECONDS_MAX)
            if step.is_last:
                self._pauses_until = monotonic() + pause_seconds
                return sealed
            await asyncio.sleep(pause_seconds if self._queue.is_busy else 0)

    async def prepare(self) -> None:
        """Create the log if it does not exist, and start a backfill if one is needed."""
        await self._database.write(store.create_head)
        await self._database.write(backfill.start_if_needed)

    async def seal_some(self) -> SealingStep:
        """Seal some movements in one transaction."""
        key, recent = self._key, self._queue.recent_movements
        sealed = await self._database.write(
            lambda transaction: _seal_some(transaction, key, recent)
        )
        key.size_seen = max(key.size_seen, sealed.size)
        if sealed.movements:
            self._notifier.notify_of_growth()
        return sealed


async def _seal_some(
    transaction: Transaction, holder: KeyHolder, recent: RecentMovements
) -> SealingStep:
    key, head = holder.key, await store.lock_head(transaction)
    if head is None or (key is None and head.checkpoint is not None):
        return SealingStep(0, is_last=True)
    if head.size < holder.size_seen:  # the database went back: see `published`
        return SealingStep(0, is_last=True)
    must_sign = key is not None and key.needs_new_checkpoint(head.checkpoint)
    # The entries are read first. So each one that was written with a row has either been sealed, or
    # its row is among the batches that are read next.
    page = await backfill.next_page(transaction, head) if head.is_backfilling else []
    batches = await unsealed_batches(transaction, STEP_BATCHES)
    has_all_batches = len(batches) < STEP_BATCHES
    ids = _take_batches(batches)
    movements = await _movements_of(transaction, {id_: batches[id_] for id_ in ids}, recent)
    if head.is_backfilling and has_all_batches:
        waiting = {place[:2] for batch in batches.values() for place in decode_places(batch)}
        movements += await backfill.movements_without_leaf(transaction, page, waiting)
        head, must_sign = backfill.move_on(head, page), True
    if movements or must_sign:
        await append_movements(transaction, head, movements, key)
    if ids:
        await delete_unsealed(transaction, ids)
    is_last = has_all_batches and len(ids) == len(batches) and not head.is_backfilling
    return SealingStep(len(movements), is_last, head.size + len(movements))


def _take_batches(batches: Mapping[str, str]) -> list[str]:
    """Return the ids of the first batches, until they have enough movements for a step."""
    ids: list[str] = []
    movements = 0
    for id_, batch in batches.items():
        if movements >= STEP_MOVEMENTS:
            break
        ids.append(id_)
        movements += count_places(batch)
    return ids


async def _movements_of(
    transaction: Transaction, batches: Mapping[str, str], recent: RecentMovements
) -> list[Movement]:
    """Return the movements of these batches; read those that this process does not keep."""
    movements: list[Movement] = []
    places: list[Place] = []
    for id_, batch in batches.items():
        remembered = recent.take(id_)
        if remembered and encode_places(remembered) == batch:
            movements += remembered
        else:
            places += decode_places(batch)
    return movements + [_found(each) for each in await movements_at(transaction, places)]


def _found(movement: Movement | None) -> Movement:
    assert movement is not None, "a movement that is to be sealed has been removed"
    return movement


async def append_movements(
    transaction: Transaction, head: store.Head, movements: Sequence[Movement], key: LogKey | None
) -> None:
    """Append a leaf for each of these movements to the locked log, and sign its new state."""
    ordered = sorted(movements, key=_date)
    secrets = os.urandom(len(ordered) * SECRET_BYTES)
    hashes: list[bytes] = []
    rows: list[tuple[int, int, str, bytes]] = []
    for date, group in groupby(ordered, key=_date):
        batch, first = list(group), len(hashes)
        for movement in batch:
            secret = secrets[len(hashes) * SECRET_BYTES :][:SECRET_BYTES]
            hashes.append(leaf_hash(encode_leaf(movement.debit, movement.credit.hash, secret)))
        drawn = secrets[first * SECRET_BYTES : len(hashes) * SECRET_BYTES]
        rows.append((head.size + first, date, encode_places(batch), drawn))
    tiles = await store.read_tiles(transaction, right_edge(head.size))
    changed = append_leaves(tiles, head.size, hashes)
    if rows:
        await store.add_batches(transaction, rows)
        await store.write_tiles(transaction, changed)
    size = head.size + len(hashes)
    root = root_hash(size, TileHashes(tiles | changed))
    checkpoint = None if key is None else key.sign_checkpoint(size, root)
    await store.write_head(
        transaction, head, msgspec.structs.replace(head, size=size, checkpoint=checkpoint)
    )


def _date(movement: Movement) -> int:
    return movement.debit.created_at
