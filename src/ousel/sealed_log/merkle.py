"""Merkle trees as in RFC 6962: hashes, and how to make and check proofs.

A node is named by its level and its index: it is the root of the complete subtree over 2**level
leaves, of which the first is number (index * 2**level). Complete subtrees never change when the
tree grows, so every root and every proof is made of their hashes.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

HASH_BYTES: Final = 32
PROOF_HASHES_MAX: Final = 63
EMPTY_ROOT: Final = hashlib.sha256().digest()


class Node(msgspec.Struct, frozen=True, gc=False):
    """The root of a complete subtree."""

    level: int
    index: int


HashOfNode = Callable[[Node], bytes]
LeafRange = tuple[int, int]  # the first leaf, and the leaf after the last


class ProofRefused(Exception):
    """The proof does not prove what it should; the message says why in one sentence."""


def leaf_hash(leaf: bytes) -> bytes:
    """Return the hash of a leaf."""
    return hashlib.sha256(b"\x00" + leaf).digest()


def node_hash(children: bytes) -> bytes:
    """Return the hash of an inner node, given the hashes of its left and right child together."""
    return hashlib.sha256(b"\x01" + children).digest()


def root_hash(size: int, hash_of: HashOfNode) -> bytes:
    """Return the root of a tree of this size."""
    return _range_hash((0, size), hash_of) if size else EMPTY_ROOT


def inclusion_proof(index: int, size: int, hash_of: HashOfNode) -> list[bytes]:
    """Return the hashes that lead from this leaf to the root of a tree of this size."""
    return [_range_hash(each, hash_of) for each in _inclusion_ranges(index, size)]


def consistency_proof(old_size: int, size: int, hash_of: HashOfNode) -> list[bytes]:
    """Return the hashes that show that the tree of this size extends the old one."""
    return [_range_hash(each, hash_of) for each in _consistency_ranges(old_size, size)]


def root_nodes(size: int) -> list[Node]:
    """Return the nodes that `root_hash` reads."""
    return _nodes([(0, size)])


def inclusion_nodes(index: int, size: int) -> list[Node]:
    """Return the nodes that `inclusion_proof` reads."""
    return _nodes(_inclusion_ranges(index, size))


def consistency_nodes(old_size: int, size: int) -> list[Node]:
    """Return the nodes that `consistency_proof` reads."""
    return _nodes(_consistency_ranges(old_size, size))


def leaf_count(size: int) -> str:
    """Return the number of leaves in words for people: 1 leaf, 2 leaves."""
    return "1 leaf" if size == 1 else f"{size} leaves"


def check_inclusion(
    leaf: bytes, index: int, size: int, proof: Sequence[bytes], root: bytes
) -> None:
    """Refuse the proof unless the tree with this root has a leaf with this hash at this index."""
    if not 0 <= index < size:
        raise ProofRefused(f"leaf {index} is not in a tree of {leaf_count(size)}")
    node = leaf
    for sibling, is_left in _siblings(index, size - 1, proof):
        node = node_hash(sibling + node if is_left else node + sibling)
    if node != root:
        raise ProofRefused("the inclusion proof leads to another root")


def check_consistency(
    old_size: int, old_root: bytes, size: int, root: bytes, proof: Sequence[bytes]
) -> None:
    """Refuse the proof unless the tree with this root extends the old tree."""
    if not 0 <= old_size <= size:
        raise ProofRefused(f"a tree of {leaf_count(size)} cannot extend one of {old_size}")
    if old_size in (0, size):
        is_old_root = old_size > 0 or old_root == EMPTY_ROOT
        if not is_old_root or (old_size == size and old_root != root):
            raise ProofRefused(f"two trees of {leaf_count(old_size)} have different roots")
        _refuse_rest(iter(proof))
        return
    # The climb starts at the last complete subtree of the old tree, whose hash is the first of
    # the proof unless that subtree is the whole old tree.
    level = (old_size & -old_size).bit_length() - 1
    index, last, first = (old_size - 1) >> level, (size - 1) >> level, [old_root]
    if index:
        first, proof = list(proof[:1]), proof[1:]
    if not first:
        raise ProofRefused("the proof is too short")
    old_node = node = first[0]
    for sibling, is_left in _siblings(index, last, proof):
        node = node_hash(sibling + node if is_left else node + sibling)
        old_node = node_hash(sibling + old_node) if is_left else old_node
    if (old_node, node) != (old_root, root):
        raise ProofRefused("the consistency proof leads to other roots")


def _siblings(index: int, last: int, proof: Sequence[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Return the siblings on the way up from a node, each with whether it is on the left.

    `last` is the index of the last node of the same level. The last node of a level has no
    sibling if its index is even.
    """
    remaining = iter(proof)
    while last:
        if index % 2 or index != last:
            sibling = next(remaining, None)
            if sibling is None:
                raise ProofRefused("the proof is too short")
            yield sibling, bool(index % 2)
        index, last = index // 2, last // 2
    _refuse_rest(remaining)


def _refuse_rest(remaining: Iterator[bytes]) -> None:
    if next(remaining, None) is not None:
        raise ProofRefused("the proof is too long")


def _inclusion_ranges(index: int, size: int) -> list[LeafRange]:
    """Return the leaves under each hash of the proof, from the leaf's sibling up."""
    assert 0 <= index < size
    start, end, ranges = 0, size, list[LeafRange]()
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    return ranges[::-1]


def _consistency_ranges(old_size: int, size: int) -> list[LeafRange]:
    """Return the leaves under each hash of the proof, from the smallest subtree up."""
    assert 0 <= old_size <= size
    if old_size in (0, size):
        return []
    start, end, ranges = 0, size, list[LeafRange]()
    while old_size != end:
        middle = start + _split(end - start)
        if old_size <= middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    if start:  # otherwise this subtree is the whole old tree, whose root the checker knows
        ranges.append((start, end))
    return ranges[::-1]


def _split(leaves: int) -> int:
    """Return the largest power of two below this number."""
    return int(1 << ((leaves - 1).bit_length() - 1))


def _nodes(ranges: Iterable[LeafRange]) -> list[Node]:
    return [node for each in ranges for node in _complete_subtrees(*each)]


def _complete_subtrees(start: int, end: int) -> list[Node]:
    """Return the complete subtrees that make up the tree over these leaves, from the left."""
    nodes = []
    while start < end:
        level = (end - start).bit_length() - 1
        nodes.append(Node(level, start >> level))
        start += 1 << level
    return nodes


def _range_hash(leaves: LeafRange, hash_of: HashOfNode) -> bytes:
    *hashes, result = [hash_of(node) for node in _complete_subtrees(*leaves)]
    for each in reversed(hashes):
        result = node_hash(each + result)
    return result
