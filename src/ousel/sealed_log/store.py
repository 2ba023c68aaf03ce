"""The rows of the sealed log: its state, its tiles, and which movement each leaf stands for."""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from ousel.database.port import Transaction
from ousel.database.statements import Statement, Table
from ousel.ledger.places import Place, decode_places
from ousel.ledger.rules import Entry
from ousel.sealed_log.cosignatures import Cosignature
from ousel.sealed_log.leaves import LeafSecrets, derive_older_secrets, derive_secrets
from ousel.sealed_log.notes import from_base64, to_base64
from ousel.sealed_log.tiles import TileKey

SEALED_BATCHES: Final = Table(
    "sealed_batches",
    key=("first_index bigint",),
    columns=("created_at bigint", "movements text", "secrets text"),
)

_HEAD: Final = (
    "SELECT size, checkpoint, backfill_account_id, backfill_sequence FROM sealed_log WHERE id = 1"
)
_SEED_MARK: Final = "seed:"  # an older Ousel refuses it, and so makes no wrong receipt
_BATCH_COLUMNS: Final = ", ".join(SEALED_BATCHES.names)

HEAD: Final = Statement("the state of the log", _HEAD)
LOCK_HEAD: Final = Statement(
    "lock the log, unless another process has locked it", f"{_HEAD} FOR UPDATE SKIP LOCKED"
)
WAIT_FOR_HEAD: Final = Statement("lock the log, and wait for that", f"{_HEAD} FOR UPDATE")
CREATE_HEAD: Final = Statement(
    "create the empty log",
    "INSERT INTO sealed_log (id, size, backfill_sequence) VALUES (1, 0, 0) ON CONFLICT DO NOTHING",
)
WRITE_HEAD: Final = Statement(
    "write the state of the log, if its size is still the one that was read",
    "UPDATE sealed_log SET size = :size, checkpoint = :checkpoint,"
    " backfill_account_id = :backfill_account_id, backfill_sequence = :backfill_sequence"
    " WHERE id = 1 AND size = :size_before",
)
TILES: Final = Statement(
    "tiles by their places",
    "SELECT sealed_tiles.level, sealed_tiles.position, hashes"
    " FROM ROWS(:keys, level bigint, position bigint)"
    " JOIN sealed_tiles ON sealed_tiles.level = keys.level"
    " AND sealed_tiles.position = keys.position",
)
WRITE_TILES: Final = Statement(
    "write tiles that are new or have more hashes",
    "INSERT INTO sealed_tiles (level, position, hashes)"
    " SELECT level, position, hashes"
    " FROM ROWS(:tiles, level bigint, position bigint, hashes text) WHERE TRUE"
    " ON CONFLICT (level, position) DO UPDATE SET hashes = excluded.hashes",
)
BATCHES_OF_DATES: Final = Statement(
    "the sealed movements with one of these dates",
    f"SELECT {_BATCH_COLUMNS} FROM sealed_batches WHERE created_at = ANY(:dates)",
)
BATCHES_FROM: Final = Statement(
    "the sealed movements from an index on, in order",
    f"SELECT {_BATCH_COLUMNS} FROM sealed_batches WHERE first_index >= :first"
    " ORDER BY first_index LIMIT :limit",
)
BATCH_BEFORE: Final = Statement(
    "the sealed movements that begin before an index",
    f"SELECT {_BATCH_COLUMNS} FROM sealed_batches WHERE first_index < :before"
    " ORDER BY first_index DESC LIMIT 1",
)


COSIGNATURES: Final = Statement(
    "the newest cosignature of each witness",
    "SELECT witness, size, checkpoint, cosignature FROM sealed_cosignatures WHERE size > 0"
    " ORDER BY witness",
)
CLAIM_WITNESS: Final = Statement(
    "claim a witness for a process, unless another process has claimed it",
    "INSERT INTO sealed_cosignatures"
    " (witness, claimed_by, claimed_until, size, checkpoint, cosignature)"
    " VALUES (:witness, :process, :until, 0, '', '')"
    " ON CONFLICT (witness) DO UPDATE"
    " SET claimed_by = excluded.claimed_by, claimed_until = excluded.claimed_until"
    " WHERE sealed_cosignatures.claimed_by = excluded.claimed_by"
    " OR sealed_cosignatures.claimed_until < :now"
    # A claim for twice as long was made while the clock was ahead.
    " OR sealed_cosignatures.claimed_until > :until + (:until - :now)",
)
WRITE_COSIGNATURE: Final = Statement(
    "write the cosignature of a witness, unless it has a newer one",
    "UPDATE sealed_cosignatures SET size = :size, checkpoint = :checkpoint,"
    " cosignature = :cosignature WHERE witness = :witness AND size <= :size",
)


class Head(msgspec.Struct, frozen=True):
    """The state of the log."""

    size: int
    checkpoint: str | None  # signed for this size; None if there was no key yet, or it is lost
    # The last entry that the backfill has looked at; None if no backfill is running.
    backfill_account_id: str | None = None
    backfill_sequence: int = 0

    @property
    def is_backfilling(self) -> bool:
        """Whether a backfill is running."""
        return self.backfill_account_id is not None


class SealedMovement(msgspec.Struct, frozen=True):
    """A movement that has a leaf."""

    index: int
    place: Place
    secrets: LeafSecrets


async def create_head(transaction: Transaction) -> None:
    """Create the empty log unless it exists."""
    await transaction.execute(CREATE_HEAD)


async def read_head(transaction: Transaction) -> Head:
    """Return the state of the log; a log that was not created yet is empty."""
    rows = await transaction.fetch(HEAD)
    return Head(*rows[0]) if rows else Head(0, None)


async def lock_head(transaction: Transaction, *, waits: bool = False) -> Head | None:
    """Lock the log and return its state, or None if another process has locked it.

    With `waits`, wait until it is unlocked; then None means that there is no log.
    """
    rows = await transaction.fetch(WAIT_FOR_HEAD if waits else LOCK_HEAD)
    return Head(*rows[0]) if rows else None


async def write_head(transaction: Transaction, before: Head, head: Head) -> None:
    """Write the new state of the locked log."""
    written = await transaction.execute(
        WRITE_HEAD, size_before=before.size, **msgspec.structs.asdict(head)
    )
    assert written == 1, "somebody else has appended to the log"


async def read_tiles(transaction: Transaction, keys: Collection[TileKey]) -> dict[TileKey, bytes]:
    """Return the hashes of these tiles."""
    places = [(key.level, key.index) for key in keys]
    rows = await transaction.fetch(TILES, keys=places) if places else []
    return {TileKey(row[0], row[1]): from_base64(row[2]) for row in rows}


async def write_tiles(transaction: Transaction, tiles: Mapping[TileKey, bytes]) -> None:
    """Write tiles that are new or have more hashes than before."""
    rows = [(key.level, key.index, to_base64(hashes)) for key, hashes in tiles.items()]
    await transaction.execute(WRITE_TILES, tiles=rows)


async def add_batches(
    transaction: Transaction, rows: Sequence[tuple[int, int, str, bytes]]
) -> None:
    """Insert batches of sealed movements.

    A row has the index of its first leaf, `created_at`, the movements' places, and the seed of
    their secrets.
    """
    await transaction.insert(
        SEALED_BATCHES,
        [
            (first, date, places, f"{_SEED_MARK}{to_base64(seed)}")
            for first, date, places, seed in rows
        ],
    )


async def sealed_movements_of(
    transaction: Transaction, entries: Collection[Entry]
) -> dict[tuple[str, int], SealedMovement]:
    """Return the sealed movements of these entries, by the places of both their entries.

    Other movements of the same rows are among them.

    A clock that was set back gives the same `created_at` to thousands of movements, in hundreds of
    rows. So a row is decoded only if it seems to name one of these entries.
    """
    dates = {entry.created_at for entry in entries}
    places = [f"{entry.account_id}:{entry.sequence}" for entry in entries]
    found: dict[tuple[str, int], SealedMovement] = {}
    for row in await transaction.fetch(BATCHES_OF_DATES, dates=list(dates)):
        if any(place in row[2] for place in places):
            for sealed in _sealed_movements(*row):
                found[sealed.place[:2]] = found[sealed.place[2:]] = sealed
    return found


async def sealed_from(transaction: Transaction, first: int, limit: int) -> list[SealedMovement]:
    """Return some sealed movements in the order of their leaves, from this index on.

    They come from up to `limit` rows. The result is empty only at the end of the log.
    """
    rows = list(await transaction.fetch(BATCH_BEFORE, before=first))
    rows += await transaction.fetch(BATCHES_FROM, first=first, limit=limit)
    found = [sealed for row in rows for sealed in _sealed_movements(*row)]
    return [sealed for sealed in found if sealed.index >= first]


def _sealed_movements(first: int, _: int, movements: str, stored: str) -> list[SealedMovement]:
    places = decode_places(movements)
    if stored.startswith(_SEED_MARK):
        seed = from_base64(stored.removeprefix(_SEED_MARK))
        secrets = derive_secrets(seed, len(places))
    else:
        secrets = derive_older_secrets(from_base64(stored))
    return [
        SealedMovement(first + at, *each)
        for at, each in enumerate(zip(places, secrets, strict=True))
    ]


async def read_cosignatures(transaction: Transaction) -> list[Cosignature]:
    """Return the newest cosignature of each witness."""
    return [Cosignature(*row) for row in await transaction.fetch(COSIGNATURES)]


async def claim_witness(
    transaction: Transaction, witness: str, process: str, now: int, until: int
) -> bool:
    """Claim the witness for this process; return False if another process has claimed it."""
    claimed = await transaction.execute(
        CLAIM_WITNESS, witness=witness, process=process, now=now, until=until
    )
    return claimed == 1


async def write_cosignature(transaction: Transaction, cosignature: Cosignature) -> None:
    """Write the newest cosignature of a witness."""
    await transaction.execute(
        WRITE_COSIGNATURE,
        witness=cosignature.witness,
        size=cosignature.size,
        checkpoint=cosignature.checkpoint,
        cosignature=cosignature.line,
    )
