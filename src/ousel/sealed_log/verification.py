"""Verification of the sealed log: leaves are computed again, and the stored tiles must match.

The whole log is verified with the whole ledger. If an older checkpoint is given, only the leaves
after it are verified. For the leaves before it, it is enough that the log still begins with them.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from typing import Final

import msgspec

from ousel.database.port import Transaction
from ousel.ledger.duplicate_finder import DuplicateFinder
from ousel.ledger.movements import accounts_with_ids, entries_before, movements_at
from ousel.ledger.rules import Movement
from ousel.ledger.verify import (
    VerificationFailed,
    check_entry,
    check_head,
    check_pair,
    empty_account,
)
from ousel.sealed_log import store
from ousel.sealed_log.checkpoints import Checkpoint, unverified_checkpoint
from ousel.sealed_log.keys import AnotherKeySigned, LogKey
from ousel.sealed_log.leaves import encode_leaf
from ousel.sealed_log.merkle import leaf_count, leaf_hash, root_hash, root_nodes
from ousel.sealed_log.notes import NoteRefused
from ousel.sealed_log.tiles import TileHashes, TileKey, append_leaves, right_edge, tiles_with

PAGE_BATCHES: Final = 500
MOVEMENTS_PER_CHECK: Final = 2_500  # so that no statement takes too long, even from a slow disk


class LogDamaged(VerificationFailed):
    """A part of the log cannot be read."""


class LeafPage(msgspec.Struct, frozen=True):
    """Some movements in the order of their leaves, and the hashes of these leaves."""

    sealed: Sequence[store.SealedMovement]
    movements: Sequence[Movement]
    hashes: Sequence[bytes]


async def verify_log(transaction: Transaction, key: LogKey | None = None) -> int:
    """Return the number of leaves, or raise the first error.

    No two leaves may stand for the same movement, and the leaves must have the root that the
    checkpoint states. If the key is given, it or a former key must have signed the
    checkpoint.
    """
    head = await store.read_head(transaction)
    edge: dict[TileKey, bytes] = {}
    size = 0
    with DuplicateFinder() as places:
        async for page in _leaf_pages(transaction, 0):
            for each in page.sealed:
                places.add(_name(each))
            edge = await _verify_tiles(transaction, edge, size, page.hashes)
            size += len(page.hashes)
        suspects = places.suspects()
    if suspects:
        await _check_single_leaves(transaction, suspects)
    _check_head(head, size, edge, key)
    return size


async def verify_since(transaction: Transaction, since: Checkpoint, key: LogKey | None) -> int:
    """Return the number of leaves after this checkpoint, or raise the first error.

    The log must begin with the leaves of the checkpoint, and each later leaf must stand for a
    movement whose two entries fit those before them.
    """
    head, edge = await check_extends(transaction, since)
    size = since.size
    async for page in _leaf_pages(transaction, size):
        for at in range(0, len(page.movements), MOVEMENTS_PER_CHECK):
            await _check_entries(transaction, page.movements[at : at + MOVEMENTS_PER_CHECK])
        edge = await _verify_tiles(transaction, edge, size, page.hashes)
        size += len(page.hashes)
    _check_head(head, size, edge, key)
    return size - since.size


async def check_extends(
    transaction: Transaction, since: Checkpoint
) -> tuple[store.Head, dict[TileKey, bytes]]:
    """Check that the log begins with the leaves of this checkpoint, or raise an error.

    Return the state of the log, and the tiles that the root of the checkpoint needs.
    """
    head = await store.read_head(transaction)
    if head.size < since.size:
        raise VerificationFailed(
            f"the log has {leaf_count(head.size)}, but the checkpoint has {since.size}:"
            " leaves have been removed"
        )
    edge = await _read_tiles(transaction, tiles_with(root_nodes(since.size)))
    try:
        root = root_hash(since.size, TileHashes(edge))
    except LookupError:
        raise VerificationFailed("the log lacks tiles that the checkpoint needs") from None
    if root != since.root:
        raise VerificationFailed(
            f"the log does not extend the checkpoint: with {leaf_count(since.size)}, it has another"
            " root"
        )
    return head, edge


def parse_signed_checkpoint(note: str, key: LogKey | None) -> Checkpoint:
    """Return the checkpoint of a note, which the key or a former one must have signed."""
    try:
        checkpoint = unverified_checkpoint(note)
        if key is not None:
            key.check_signer(note)
    except AnotherKeySigned:
        raise VerificationFailed(
            "the checkpoint is not one of this log, or the file of the log's key is the wrong one:"
            " another key has signed the checkpoint"
        ) from None
    except (NoteRefused, ValueError) as error:
        raise VerificationFailed(f"the checkpoint is not one of this log: {error}") from None
    return checkpoint


async def _sealed_from(transaction: Transaction, first: int) -> list[store.SealedMovement]:
    try:
        return await store.sealed_from(transaction, first, PAGE_BATCHES)
    except (NoteRefused, ValueError):
        raise VerificationFailed(f"leaf {first} of the log, or a later one, is malformed") from None


async def _read_tiles(transaction: Transaction, keys: Collection[TileKey]) -> dict[TileKey, bytes]:
    try:
        return await store.read_tiles(transaction, keys)
    except NoteRefused:
        raise LogDamaged("a tile of the log is malformed") from None


async def _leaf_pages(transaction: Transaction, first: int) -> AsyncIterator[LeafPage]:
    """Yield all movements from this leaf on, or raise an error if one is missing."""
    while sealed := await _sealed_from(transaction, first):
        found: list[Movement] = []
        hashes: list[bytes] = []
        movements = await movements_at(transaction, [each.place for each in sealed])
        for each, movement in zip(sealed, movements, strict=True):
            if each.index != first or movement is None or movement.debit.amount >= 0:
                what = f"leaf {first} of the log"
                raise VerificationFailed(f"{what} is missing, or its movement has been removed")
            try:
                leaf = encode_leaf(movement.debit, movement.credit.hash, each.secrets)
            except ValueError:  # of a hash or a date
                what = f"the movement of leaf {first} of the log"
                raise VerificationFailed(f"{what} is malformed") from None
            hashes.append(leaf_hash(leaf))
            found.append(movement)
            first += 1
        yield LeafPage(sealed, found, hashes)


async def _verify_tiles(
    transaction: Transaction, edge: dict[TileKey, bytes], size: int, hashes: Sequence[bytes]
) -> dict[TileKey, bytes]:
    """Compare the stored tiles with these leaves.

    Return the partial tiles of the tree that ends with these leaves.
    """
    computed = edge | append_leaves(edge, size, hashes)
    stored = await _read_tiles(transaction, computed.keys())
    for key, content in computed.items():
        if stored.get(key, b"")[: len(content)] != content:
            raise VerificationFailed(
                f"tile {key.level}/{key.index} of the log does not match the movements: a leaf or a"
                " movement was changed"
            )
    return {key: computed[key] for key in right_edge(size + len(hashes))}


def _check_head(
    head: store.Head, size: int, edge: dict[TileKey, bytes], key: LogKey | None
) -> None:
    if head.size != size:
        raise VerificationFailed(f"the log counts {leaf_count(head.size)}, but has {size}")
    if head.checkpoint is None:
        return
    checkpoint = parse_signed_checkpoint(head.checkpoint, None)
    try:
        if key is not None:
            key.check_signer(head.checkpoint)
    except AnotherKeySigned:
        raise VerificationFailed(
            "another key has signed the log, or the file of the log's key is the wrong one"
        ) from None
    if (checkpoint.size, checkpoint.root) != (size, root_hash(size, TileHashes(edge))):
        raise VerificationFailed("the checkpoint of the log does not match its leaves")


async def _check_single_leaves(transaction: Transaction, suspects: set[int]) -> None:
    """Raise an error if a movement has two leaves."""
    first: dict[str, int] = {}
    async for page in _leaf_pages(transaction, 0):
        for each in page.sealed:
            if DuplicateFinder.is_suspect(_name(each), suspects):
                index = first.setdefault(_name(each), each.index)
                if index != each.index:
                    both = f"leaves {index} and {each.index} of the log"
                    raise VerificationFailed(f"{both} stand for the same movement")


def _name(sealed: store.SealedMovement) -> str:
    return f"{sealed.place.debit_account_id}:{sealed.place.debit_sequence}"


async def _check_entries(transaction: Transaction, movements: Sequence[Movement]) -> None:
    """Check that each entry follows the one before it, and agrees with the row of its account."""
    entries = [entry for each in movements for entry in (each.debit, each.credit)]
    before = await entries_before(transaction, entries)
    accounts = await accounts_with_ids(transaction, {entry.account_id for entry in entries})
    for movement in movements:
        check_pair(movement.debit, movement.credit)
    for entry in entries:
        account = empty_account(entry.account_id)
        last = before.get((entry.account_id, entry.sequence))
        if last is not None:
            account.sequence, account.balance = last.sequence, last.balance_after
            account.head_hash, account.updated_at = last.hash, last.created_at
        check_entry(entry, account)
        check_head(accounts.get(entry.account_id), account)
