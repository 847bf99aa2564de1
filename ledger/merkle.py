"""The Merkle tree over the ledger's sealed events: hashing, frontier, and proofs of RFC 6962. Pure.

A leaf is the hash of an event (`ledger.chain.event_hash`), which is RFC 6962's leaf hash of its canonical header.
"""

import hashlib
from collections.abc import Callable, Sequence

EMPTY = hashlib.sha256().digest()
"""The root of no leaves."""

_sha256 = hashlib.sha256


def node_hash(left: bytes, right: bytes) -> bytes:
    """An inner node: SHA-256(0x01 || left || right)."""
    return _sha256(b"\x01" + left + right).digest()


def folded(peaks: Sequence[bytes]) -> bytes:
    """The root that these peaks give."""
    if not peaks:
        return EMPTY
    root = peaks[-1]
    for peak in reversed(peaks[:-1]):
        root = node_hash(peak, root)
    return root


class Frontier:
    """The right edge of a tree: the roots of its complete subtrees, from the largest to the smallest.

    It is all that is needed to append leaves and to know the root; at most 64 hashes whatever the size.
    """

    def __init__(self, size: int = 0, peaks: Sequence[bytes] = ()) -> None:
        """Raises ValueError when a tree of `size` leaves has another number of peaks."""
        if len(peaks) != size.bit_count():
            raise ValueError("not the peaks of a tree of this size")
        self.size = size
        self.peaks = list(peaks)

    def extend(self, leaves: Sequence[bytes]) -> None:
        """Append leaves, level by level."""
        index, nodes, edge = self.size, list(leaves), list[bytes]()
        self.size += len(leaves)
        while nodes:
            if index & 1:
                nodes.insert(0, self.peaks.pop())
            if len(nodes) & 1:
                edge.append(nodes.pop())
            pairs = iter(nodes)
            nodes = [_sha256(b"\x01" + left + right).digest() for left, right in zip(pairs, pairs, strict=True)]
            index >>= 1
        self.peaks += reversed(edge)

    @property
    def root(self) -> bytes:
        return folded(self.peaks)


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root of a tree of these leaves."""
    frontier = Frontier()
    frontier.extend(leaves)
    return frontier.root


Range = tuple[int, int]
Roots = Callable[[int, int], bytes]
"""(start, end) -> the root over these leaves."""


def inclusion_ranges(index: int, size: int) -> list[Range]:
    """Over which ranges of leaves the nodes of an audit path are, from the leaf upwards (RFC 6962, 2.1.1)."""
    if not 0 <= index < size:
        raise ValueError("there is no such leaf in a tree of this size")
    start, end, path = 0, size, list[Range]()
    while end - start > 1:
        middle = start + _split(end - start)
        if index < middle:
            path.append((middle, end))
            end = middle
        else:
            path.append((start, middle))
            start = middle
    return path[::-1]


def consistency_ranges(old: int, new: int) -> list[Range]:
    """Over which ranges the nodes of a proof are that the tree of `new` leaves begins with that of `old` (2.1.2)."""
    if not 0 <= old <= new:
        raise ValueError("the older tree is the larger one")
    if old in (0, new):
        return []
    start, end, whole, proof = 0, new, True, list[Range]()
    while old != end:
        middle = start + _split(end - start)
        if old <= middle:
            proof.append((middle, end))
            end = middle
        else:
            proof.append((start, middle))
            start, whole = middle, False
    if not whole:
        proof.append((start, end))
    return proof[::-1]


def roots_after(size: int, peaks: Sequence[bytes], leaves: Sequence[bytes]) -> Roots:
    """Roots over what ends in a tree's later part: `leaves` follow a tree of `size` leaves with these peaks.

    A range may begin before `size` only where one of the peaks does.
    """

    def root(start: int, end: int) -> bytes:
        if start >= size:
            return root_of(leaves[start - size : end - size])
        inner, at, kept = 0, 0, list[bytes]()
        for peak, width in zip(peaks, _widths(size), strict=True):
            if start <= at and at + width <= min(end, size):
                kept.append(peak)
                inner += width
            at += width
        if inner != min(end, size) - start:
            raise ValueError("that range does not begin at a peak")
        frontier = Frontier(inner, kept)
        frontier.extend(leaves[: max(0, end - size)])
        return frontier.root

    return root


def included(leaf: bytes, index: int, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Whether the audit path leads from the leaf to the root (RFC 9162, 2.1.3.2)."""
    if not 0 <= index < size:
        return False
    position, last, node = index, size - 1, leaf
    for sibling in path:
        if last == 0:
            return False
        if position & 1 or position == last:
            node = node_hash(sibling, node)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            node = node_hash(node, sibling)
        position, last = position >> 1, last >> 1
    return last == 0 and node == root


def consistent(old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether the proof shows that the tree of `new` leaves begins with that of `old` (RFC 9162, 2.1.4.2)."""
    if old == new:
        return not proof and old_root == new_root
    if old == 0:
        return not proof
    if not 0 < old < new:
        return False
    nodes = [old_root, *proof] if old.bit_count() == 1 else list(proof)
    if not nodes:
        return False
    position, last = old - 1, new - 1
    while position & 1:
        position, last = position >> 1, last >> 1
    first = second = nodes[0]
    for node in nodes[1:]:
        if last == 0:
            return False
        if position & 1 or position == last:
            first, second = node_hash(node, first), node_hash(node, second)
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            second = node_hash(second, node)
        position, last = position >> 1, last >> 1
    return last == 0 and first == old_root and second == new_root


def _split(size: int) -> int:
    """The largest power of two below `size`."""
    return 1 << ((size - 1).bit_length() - 1)


def _widths(size: int) -> list[int]:
    """How many leaves are under each peak, from the largest to the smallest."""
    return [1 << bit for bit in range(size.bit_length() - 1, -1, -1) if size >> bit & 1]
