"""Judges of the examples: each takes what was seen from outside, and returns what breaks the rules, in words.

They import nothing of the product, so that no mistake is shared. Times are seconds of one clock. What a client did lies
between `begin`, before it asked, and `end`, after it saw the result; a look lies between its own two times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf


@dataclass(frozen=True, slots=True)
class Operation:
    """A read or a write of a register; `end` is infinite where its client never saw the result."""

    client: int
    writes: bool
    value: int
    begin: float
    end: float = inf

    def __str__(self) -> str:
        return f"client {self.client} {'writes' if self.writes else 'reads'} {self.value}"


def judge_register(history: Sequence[Operation], first: int = 0) -> list[str]:
    """Whether a history is linearizable: some order of the operations, each at a moment between its two times, explains
    all reads (Wing and Gong, "Testing and verifying concurrent objects"; a set of operations and a value are tried
    once, as Lowe has it). A write without an end may have happened or not; a read without one says nothing.

    Args:
        history: the operations of all clients, in any order.
        first: the register's first value.
    """
    asked = sorted((o for o in history if o.writes or o.end < inf), key=lambda o: o.begin)
    must = sum(1 << n for n, o in enumerate(asked) if o.end < inf)
    todo, tried = [(0, first)], {(0, first)}
    furthest = 0
    while todo:
        done, value = todo.pop()
        if done & must == must:
            return []
        furthest = max(furthest, done, key=int.bit_count)
        left = [(n, o) for n, o in enumerate(asked) if not done >> n & 1]
        earliest = min(o.end for _, o in left)
        for n, o in left:
            if o.begin > earliest:
                break
            after = done | 1 << n, o.value if o.writes else value
            if (o.writes or o.value == value) and after not in tried:
                tried.add(after)
                todo.append(after)
    stuck = [o for n, o in enumerate(asked) if not furthest >> n & 1]
    earliest = min(o.end for o in stuck)
    words = ", ".join(str(o) for o in stuck if o.begin <= earliest)
    return [
        f"no order of the {len(asked)} operations explains them: after {furthest.bit_count()}, none of these: {words}"
    ]


@dataclass(frozen=True, slots=True)
class Access:
    """A client's turn with the lock, and when it saw that the store had taken its write (`end`; infinite: never)."""

    client: int
    token: int
    begin: float
    end: float = inf


@dataclass(frozen=True, slots=True)
class StoreLook:
    """The highest token at the store, and the client that wrote with it (None: nobody yet)."""

    token: int
    writer: int | None
    begin: float
    end: float


def judge_mutex(accesses: Sequence[Access], looks: Sequence[StoreLook]) -> list[str]:
    """Whether no token is in two hands, the store's tokens only rise, and each write that was confirmed was taken while
    no newer token had been used.

    Args:
        accesses: of all clients.
        looks: in their order, none beginning before the one before it has ended; the last after all accesses.
    """
    found: dict[str, None] = {}
    hands: dict[int, set[int]] = {}
    for access in accesses:
        hands.setdefault(access.token, set()).add(access.client)
    for look in looks:
        if look.writer is not None:
            hands.setdefault(look.token, set()).add(look.writer)
    for token, clients in hands.items():
        if len(clients) > 1:
            found[f"token {token} is in several hands: clients {sorted(clients)}"] = None
    for before, after in pairwise(looks):
        if after.token < before.token:
            found[f"the store goes back from token {before.token} to {after.token}"] = None
    for access in (a for a in accesses if a.end < inf):
        earlier = [look for look in looks if look.end < access.begin and look.token > access.token]
        later = [look for look in looks if look.begin > access.end and look.token < access.token]
        words = f"client {access.client}'s write by token {access.token}"
        if earlier:
            found[f"{words} is confirmed, and token {earlier[0].token} was used before it asked"] = None
        if later:
            found[f"{words} is confirmed, and the store has token {later[0].token} after it"] = None
        for other in accesses:
            if other.token > access.token and other.end < access.begin:
                found[f"{words} is confirmed, after that by token {other.token}"] = None
    return list(found)


@dataclass(frozen=True, slots=True)
class NodeLook:
    """What a node of the ring says of itself: whether it leads, and whom it follows (None: nobody yet)."""

    node: int
    leads: bool
    follows: int | None


def judge_ring(nodes: int, looks: Sequence[NodeLook], last: Mapping[int, NodeLook]) -> list[str]:
    """Whether the node of the highest number alone ever leads, nobody ever follows another, and all know it at last.

    Args:
        nodes: how many there are, numbered from 0.
        looks: at any of them, at any time.
        last: at each of them when all is over.
    """
    highest, found = nodes - 1, dict[str, None]()
    for look in [*looks, *last.values()]:
        if look.leads and look.node != highest:
            found[f"node {look.node} leads, though {highest} is higher"] = None
        if look.follows is not None and look.follows != highest:
            found[f"node {look.node} follows {look.follows}, though {highest} is higher"] = None
    for node in range(nodes):
        seen = last.get(node)
        if seen is None:
            found[f"node {node} is not to be heard at last"] = None
        elif not seen.leads and seen.follows is None:
            found[f"node {node} does not know the leader at last"] = None
    leaders = sorted(node for node, look in last.items() if look.leads)
    if leaders != [highest]:
        found[f"at last there lead: {leaders}"] = None
    return list(found)


@dataclass(frozen=True, slots=True)
class LogLook:
    """A node's record in Raft: its term, vote (None: none yet) and role, its log, and how much is committed.

    Attributes:
        log: the term and the command of each entry.
    """

    node: int
    term: int
    vote: int | None
    leads: bool
    log: tuple[tuple[int, int], ...]
    commit: int

    @property
    def committed(self) -> tuple[tuple[int, int], ...]:
        return self.log[: self.commit]


def judge_raft(looks: Sequence[LogLook], last: Mapping[int, LogLook]) -> list[str]:
    """Returns what contradicts Raft: two leaders or two votes in a term, or committed entries that differ or change.

    Args:
        looks: those at one node in their order.
        last: at each node when all is over, and has come to every node.
    """
    found: dict[str, None] = {}
    leaders, votes, before = dict[int, int](), dict[tuple[int, int], int](), dict[int, LogLook]()
    longest: tuple[tuple[int, int], ...] = ()
    for look in [*looks, *last.values()]:
        if look.leads and leaders.setdefault(look.term, look.node) != look.node:
            found[f"nodes {leaders[look.term]} and {look.node} lead in term {look.term}"] = None
        if look.vote is not None and votes.setdefault((look.node, look.term), look.vote) != look.vote:
            found[f"node {look.node} has two votes in term {look.term}"] = None
        earlier = before.get(look.node, look)
        if look.term < earlier.term:
            found[f"node {look.node} goes back from term {earlier.term} to {look.term}"] = None
        if look.committed[: earlier.commit] != earlier.committed:
            found[f"node {look.node} had committed {earlier.committed}, and has {look.committed}"] = None
        shorter, longer = sorted((longest, look.committed), key=len)
        if longer[: len(shorter)] != shorter:
            found[f"{shorter} and {longer} are committed"] = None
        before[look.node], longest = look, longer
    for node, look in last.items():
        if look.committed != longest:
            found[f"node {node} has committed {look.committed} at last, and {longest} was"] = None
    return list(found)
