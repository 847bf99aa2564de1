"""Merkle consistency proofs: RFC 6962, 2.1.2, verified as in RFC 9162, 2.1.4.2."""

import hashlib
from collections.abc import Sequence

EMPTY = hashlib.sha256().digest()
"""The root of no leaves."""


def is_consistent(old: int, new: int, old_root: bytes, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether the proof shows that the tree of `new` leaves begins with that of `old`, 0 <= old <= new."""
    if old == new:
        return old_root == new_root and not proof
    if old == 0:
        return old_root == EMPTY and not proof
    nodes = list(proof)
    if old & (old - 1) == 0:
        nodes.insert(0, old_root)
    if not nodes:
        return False
    left, right = old - 1, new - 1
    while left & 1:
        left, right = left >> 1, right >> 1
    first = second = nodes[0]
    for node in nodes[1:]:
        if right == 0:
            return False
        if left & 1 or left == right:
            first, second = _node(node, first), _node(node, second)
            while left and not left & 1:
                left, right = left >> 1, right >> 1
        else:
            second = _node(second, node)
        left, right = left >> 1, right >> 1
    return right == 0 and (first, second) == (old_root, new_root)


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()
