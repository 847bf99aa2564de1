"""The Merkle tree of RFC 6962, 2.1: growing it, and what its proofs lead to."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from counterseal_client.notes import check


def leaf_hash(header: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + header).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


@dataclass
class Tree:
    """Grows by a leaf at a time. `peaks`: the roots of its complete subtrees, from the largest to the smallest."""

    size: int = 0
    peaks: list[bytes] = field(default_factory=list[bytes])

    def append(self, leaf: bytes) -> None:
        filled = self.size
        while filled & 1:
            leaf, filled = _node(self.peaks.pop(), leaf), filled >> 1
        self.peaks.append(leaf)
        self.size += 1

    @property
    def root(self) -> bytes:
        root = self.peaks[-1] if self.peaks else hashlib.sha256().digest()
        for peak in self.peaks[-2::-1]:
            root = _node(peak, root)
        return root


def _left(size: int) -> int:
    """How many leaves are left of the root: the largest power of two below `size`."""
    return 1 << (size - 1).bit_length() - 1


def root_from(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes:
    """The root that an audit path leads to (2.1.1)."""
    check((size == 1) == (not path), "the path", "has another length than it must have")
    if size == 1:
        return leaf
    left = _left(size)
    if index < left:
        return _node(root_from(leaf, index, left, path[:-1]), path[-1])
    return _node(path[-1], root_from(leaf, index - left, size - left, path[:-1]))


def roots_from(old: int, new: int, path: Sequence[bytes], known: bytes | None) -> tuple[bytes, bytes]:
    """The roots of both trees that a consistency proof leads to (2.1.2); `known` is the old tree's. 0 < old <= new."""
    if old == new:
        nodes = [*path] if known is None else [known, *path]
        check(len(nodes) == 1, "the path", "has another length than it must have")
        return nodes[0], nodes[0]
    check(bool(path), "the path", "has another length than it must have")
    left = _left(new)
    if old <= left:
        first, second = roots_from(old, left, path[:-1], known)
        return first, _node(second, path[-1])
    first, second = roots_from(old - left, new - left, path[:-1], None)
    return _node(path[-1], first), _node(path[-1], second)
