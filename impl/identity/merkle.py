"""A hash tree over several bodies: one signature of its root is a signature of each body (Merkle, CRYPTO 1987).

Theory of operation. A leaf is the hash of a salt and a body, a node that of its two children; a last node without a
sibling goes up as it is. The first byte of what is hashed says whether it is a leaf or a node, as in RFC 6962, section
2.1, so none can pass for the other. The *proof* of a body is its salt, its siblings on the way to the root, and on
which side each stands: whoever has a body and its proof finds the root, and needs nobody to ask. Each proof shows
hashes of other bodies, which are for others; the salts, which are shown to nobody else, keep these from being guessed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

MOST = 32  # leaves: a signature costs a thirty-second, and a proof has five siblings
SALT_BYTES = 16
_HASH_BYTES = 32
_LEVELS = (MOST - 1).bit_length()
LARGEST_PROOF = SALT_BYTES + 1 + _LEVELS * _HASH_BYTES


def tree(bodies: Sequence[bytes], salts: Sequence[bytes]) -> tuple[bytes, list[bytes]]:
    """The root of some bodies, and the proof of each.

    Args:
        bodies: from 2 to `MOST`.
        salts: for each body `SALT_BYTES` that nobody can guess.
    """
    level = [_leaf(salt, body) for salt, body in zip(salts, bodies, strict=True)]
    siblings: list[list[bytes]] = [[] for _ in bodies]
    sides = [0] * len(bodies)
    below = [[n] for n in range(len(bodies))]  # the leaves under each node of the level
    while len(level) > 1:
        paired = len(level) & ~1
        for left in range(0, paired, 2):
            for at, sibling, side in ((left, left + 1, 0), (left + 1, left, 1)):
                for leaf in below[at]:
                    sides[leaf] |= side << len(siblings[leaf])
                    siblings[leaf].append(level[sibling])
        level = [_node(level[n], level[n + 1]) for n in range(0, paired, 2)] + level[paired:]
        below = [below[n] + below[n + 1] for n in range(0, paired, 2)] + below[paired:]
    proofs = [b"".join((salt, bytes((side,)), *path)) for salt, side, path in zip(salts, sides, siblings, strict=True)]
    return level[0], proofs


def root(body: bytes, proof: bytes) -> bytes | None:
    """The root to which a proof leads from a body; None where it is written as `tree` writes none."""
    levels, rest = divmod(len(proof) - SALT_BYTES - 1, _HASH_BYTES)
    if rest or not 1 <= levels <= _LEVELS or proof[SALT_BYTES] >> levels:
        return None
    sides, node = proof[SALT_BYTES], _leaf(proof[:SALT_BYTES], body)
    for level in range(levels):
        start = SALT_BYTES + 1 + level * _HASH_BYTES
        sibling = proof[start : start + _HASH_BYTES]
        node = _node(sibling, node) if sides >> level & 1 else _node(node, sibling)
    return node


def _leaf(salt: bytes, body: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + salt + body).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()
