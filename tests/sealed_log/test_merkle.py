"""Roots and proofs of Merkle trees, compared with the definitions of RFC 6962."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ousel.sealed_log.merkle import (
    EMPTY_ROOT,
    ProofRefused,
    check_consistency,
    check_inclusion,
    consistency_nodes,
    consistency_proof,
    inclusion_nodes,
    inclusion_proof,
    leaf_hash,
    node_hash,
    root_hash,
    root_nodes,
)
from ousel.sealed_log.tiles import TileHashes, tiles_with
from tests.sealed_log.examples import LogInMemory

SIZES_MAX = 600  # so that trees have more than two tiles of the first level
LOG = LogInMemory([f"leaf {number}".encode() for number in range(SIZES_MAX)])
sizes = st.integers(1, SIZES_MAX)


def tree_hash(leaves: list[bytes]) -> bytes:
    """Return the hash of a tree as RFC 6962 defines it, in section 2.1."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return leaf_hash(leaves[0])
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return node_hash(tree_hash(leaves[:split]) + tree_hash(leaves[split:]))


def only(nodes: list[object]) -> TileHashes:
    """Return the hashes of the tiles that these nodes are read from, and of no other tile."""
    return TileHashes({key: LOG.tiles[key] for key in tiles_with(nodes)})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("leaves", "root"),
    [  # the test vectors of the Certificate Transparency project
        (1, "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"),
        (2, "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"),
        (3, "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"),
        (8, "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"),
    ],
)
def test_known_roots(leaves: int, root: str) -> None:
    """Trees have the roots that others have published."""
    contents = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657"]
    contents.append("606162636465666768696a6b6c6d6e6f")
    log = LogInMemory([bytes.fromhex(content) for content in contents[:leaves]])
    assert log.checkpoint().root.hex() == root


def test_the_empty_tree_has_the_hash_of_nothing() -> None:
    assert root_hash(0, LOG.hash_of) == EMPTY_ROOT == tree_hash([])


@given(size=sizes)
def test_a_root_is_the_one_of_the_definition(size: int) -> None:
    """The root is the one that RFC 6962 defines, and reads only the tiles that it names."""
    assert root_hash(size, only([*root_nodes(size)])) == tree_hash(LOG.leaves[:size])


@given(size=sizes, data=st.data())
def test_an_inclusion_proof_proves_one_leaf_at_one_place(size: int, data: st.DataObject) -> None:
    """The proof is accepted for its leaf, index, size and root, and for no other."""
    index = data.draw(st.integers(0, size - 1))
    leaf, root = leaf_hash(LOG.leaves[index]), LOG.checkpoint(size).root
    proof = inclusion_proof(index, size, only([*inclusion_nodes(index, size)]))
    check_inclusion(leaf, index, size, proof, root)

    other = data.draw(st.integers(0, size).filter(lambda each: each != index))
    wrong_proof = data.draw(_changed(proof))
    for wrong in (
        (leaf_hash(b"another"), index, size, proof, root),
        (leaf, other, size, proof, root),
        (leaf, index, size, wrong_proof, root),
        (leaf, index, size, proof, EMPTY_ROOT),
    ):
        with pytest.raises(ProofRefused):
            check_inclusion(*wrong)


@given(size=sizes, data=st.data())
def test_a_consistency_proof_proves_an_extension(size: int, data: st.DataObject) -> None:
    """The proof is accepted for its two trees, and for no other."""
    old_size = data.draw(st.integers(0, size))
    old_root, root = LOG.checkpoint(old_size).root, LOG.checkpoint(size).root
    proof = consistency_proof(old_size, size, only([*consistency_nodes(old_size, size)]))
    check_consistency(old_size, old_root, size, root, proof)

    forked = LogInMemory([b"another", *LOG.leaves[1:old_size]]).checkpoint().root
    wrong_proof = data.draw(_changed(proof))
    for wrong in (
        (old_size, forked, size, root, proof),
        (old_size, old_root, size, root, wrong_proof),
        (size + 1, old_root, size, root, proof),
        *([(old_size, old_root, size, EMPTY_ROOT, proof)] if old_size else []),
    ):
        with pytest.raises(ProofRefused):
            check_consistency(*wrong)


def _changed(proof: list[bytes]) -> st.SearchStrategy[list[bytes]]:
    """Return proofs that are too long, too short, or have another hash."""
    wrong = [[*proof, EMPTY_ROOT]]
    if proof:
        wrong += [proof[:-1], proof[1:], [*proof[:-1], EMPTY_ROOT], [EMPTY_ROOT, *proof[1:]]]
    return st.sampled_from(wrong)
