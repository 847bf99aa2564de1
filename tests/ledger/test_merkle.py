"""The Merkle tree, against RFC 6962's own definitions and the vectors of Certificate Transparency."""

import hashlib

import pytest

from ledger.merkle import (
    EMPTY,
    Frontier,
    consistency_ranges,
    consistent,
    included,
    inclusion_ranges,
    node_hash,
    root_of,
    roots_after,
)

LEAVES = [hashlib.sha256(bytes([n])).digest() for n in range(40)]
# https://github.com/google/certificate-transparency/blob/master/cpp/merkletree/merkle_tree_test.cc
INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]


def tree_hash(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962, 2.1, as it is written there."""
    if len(leaves) < 2:
        return leaves[0] if leaves else EMPTY
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return node_hash(tree_hash(leaves[:k]), tree_hash(leaves[k:]))


def test_the_known_trees_have_their_roots() -> None:
    leaves = [hashlib.sha256(b"\0" + bytes.fromhex(each)).digest() for each in INPUTS]
    assert [root_of(leaves[:size]).hex() for size in range(1, 9)] == ROOTS


@pytest.mark.parametrize("size", range(len(LEAVES)))
def test_a_tree_grows_in_any_steps_to_the_same_root(size: int) -> None:
    for first in range(size + 1):
        grown = Frontier()
        grown.extend(LEAVES[:first])
        assert grown.root == tree_hash(LEAVES[:first])
        again = Frontier(first, grown.peaks)
        again.extend(LEAVES[first:size])
        assert (again.size, again.root) == (size, tree_hash(LEAVES[:size]))


@pytest.mark.parametrize("size", range(1, len(LEAVES)))
def test_every_leaf_is_included_and_in_no_other_place(size: int) -> None:
    root = tree_hash(LEAVES[:size])
    for index in range(size):
        path = [tree_hash(LEAVES[start:end]) for start, end in inclusion_ranges(index, size)]
        assert included(LEAVES[index], index, size, path, root)
        assert not included(LEAVES[-1], index, size, path, root)
        assert not included(LEAVES[index], index, size, [*path, root], root)
        assert not included(LEAVES[index], size, size, path, root)
        if size > 1:
            assert not included(LEAVES[index], (index + 1) % size, size, path, root)
            assert not included(LEAVES[index], index, size, path[:-1], root)


@pytest.mark.parametrize("new", range(1, len(LEAVES)))
def test_a_tree_begins_with_each_smaller_one(new: int) -> None:
    root = tree_hash(LEAVES[:new])
    for old in range(new + 1):
        smaller, ranges = tree_hash(LEAVES[:old]), consistency_ranges(old, new)
        proof = [tree_hash(LEAVES[start:end]) for start, end in ranges]
        assert consistent(old, new, smaller, root, proof)
        edge = Frontier()
        edge.extend(LEAVES[:old])
        of_the_edge = roots_after(old, edge.peaks, LEAVES[old:new])
        assert [of_the_edge(*each) for each in ranges] == proof
        if 0 < old < new:
            assert not consistent(old, new, LEAVES[-1], root, proof)
            assert not consistent(old, new, smaller, LEAVES[-1], proof)
            assert not consistent(old, new, smaller, root, proof[:-1])
            assert not consistent(old, new, smaller, root, [*proof, root])
            assert not consistent(old - 1, new, smaller, root, proof)


def test_a_frontier_has_the_peaks_of_its_size() -> None:
    with pytest.raises(ValueError, match="peaks"):
        Frontier(3, LEAVES[:1])
