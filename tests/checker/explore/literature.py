"""The systems from the provers' literature once more, as functions of their own: no line of Leasehold counts here.

Each function gives the first states and a function of the steps from a state, as the published descriptions have them.
A step out of the bounds leads to None. Messages are values in sets: no step of these systems sends one that is there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple

Model = tuple[list[Any], Callable[[Any], Iterator[Any]]]


class Counts(NamedTuple):
    distinct: int
    generated: int
    depth: int


def counted(model: Model) -> Counts:
    """Returns what a breadth-first search finds; `depth` is the number of steps to the farthest state."""
    layer, steps = model
    seen: set[Hashable] = set(layer)
    generated, depth = len(layer), 0
    while layer:
        found = [after for state in layer for after in steps(state)]
        generated += len(found)
        layer = list(dict.fromkeys(after for after in found if after is not None and after not in seen))
        seen.update(layer)
        depth += bool(layer)
    return Counts(len(seen), generated, depth)


def _with(values: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    return (*values[:at], value, *values[at + 1 :])


def lock_server(clients: int) -> Model:
    """A state: where each client is, who asks, who waits, and where the lock is: at a place, and with whom."""
    start = ("idle",) * clients, frozenset[int](), frozenset[int](), ("server", None)

    def steps(state: Any) -> Iterator[Any]:
        places, asking, waiting, (where, who) = state
        for c in range(clients):
            if places[c] == "idle":
                yield _with(places, c, "waiting"), asking | {c}, waiting, (where, who)
            if c in asking:
                yield places, asking - {c}, waiting | {c}, (where, who)
            if c in waiting and where == "server":
                yield places, asking, waiting - {c}, ("granted", c)
        if where == "granted":
            yield _with(places, who, "holding"), asking, waiting, ("client", who)
        elif where == "client":
            yield _with(places, who, "idle"), asking, waiting, ("given back", who)
        elif where == "given back":
            yield places, asking, waiting, ("server", None)

    return [start], steps


def token_ring(nodes: int) -> Model:
    """A state: at which node the token is, or to which it is under way; and whether that node is inside."""

    def steps(state: Any) -> Iterator[Any]:
        where, node = state
        if where == "with":
            yield "inside", node
            yield "to", (node + 1) % nodes
        else:
            yield "with", node

    return [("with", node) for node in range(nodes)], steps


def dining_philosophers(philosophers: int, manner: str) -> Model:
    """A state: what each philosopher does, and which forks are taken; the fork of a number is on its right."""

    def forks(p: int) -> tuple[int, int]:
        right, left = p, (p + 1) % philosophers
        return (left, right) if manner == "one_left_first" and p == 0 else (right, left)

    def steps(state: Any) -> Iterator[Any]:
        does, taken = state
        for p in range(philosophers):
            first, second = forks(p)
            match does[p]:
                case "thinks":
                    yield _with(does, p, "is hungry"), taken
                case "is hungry" if manner == "both_at_once":
                    if not {first, second} & taken:
                        yield _with(does, p, "eats"), taken | {first, second}
                case "is hungry" if first not in taken:
                    yield _with(does, p, "has one"), taken | {first}
                case "has one" if second not in taken:
                    yield _with(does, p, "eats"), taken | {second}
                case "eats":
                    yield _with(does, p, "thinks"), taken - {first, second}

    return [(("thinks",) * philosophers, frozenset())], steps


def quorum_election(nodes: int, terms: int) -> Model:
    """A state: each node's state, term, vote and voters; the requests (who, term); the votes (term, who, for whom)."""
    start = (("follower", 0, None, frozenset()),) * nodes, frozenset(), frozenset()

    def steps(state: Any) -> Iterator[Any]:
        of, requests, votes = state
        for n, (place, term, vote, voters) in enumerate(of):
            if place != "leader":
                stands = "candidate", term + 1, n, frozenset({n})
                yield (_with(of, n, stands), requests | {(n, term + 1)}, votes) if term < terms else None
            for other, asked in requests:
                if other != n and asked > term:
                    yield _with(of, n, ("follower", asked, other, frozenset())), requests, votes | {(asked, n, other)}
            if place != "candidate":
                continue
            for cast, other, candidate in votes:
                if cast == term and candidate == n and other not in voters:
                    yield _with(of, n, (place, term, vote, voters | {other})), requests, votes
            if 2 * len(voters) > nodes:
                yield _with(of, n, ("leader", term, vote, voters)), requests, votes

    return [start], steps


def token_snapshot() -> Model:
    """A state: of each process its phase, whether it has and kept the token, what it has sent; is it caught."""
    fresh = (("before", True, False, ()), ("before", False, False, ())), False

    def steps(state: Any) -> Iterator[Any]:
        of, caught = state
        for p, (phase, has, kept, sent) in enumerate(of):
            if has:
                token = "early" if phase == "before" else "late"
                yield _with(of, p, (phase, False, kept, (*sent, token))), caught
            if p == 0 and phase == "before":
                yield _with(of, p, ("recording", has, has, (*sent, "marker"))), caught
            other = of[1 - p]
            if not other[3]:
                continue
            first, *later = other[3]
            taken = _with(of, 1 - p, (*other[:3], tuple(later)))
            if first != "marker":
                yield _with(taken, p, (phase, True, kept, sent)), caught or phase == "recording"
            elif phase == "before":
                yield _with(taken, p, ("recorded", has, has, (*sent, "marker"))), caught
            else:
                yield _with(taken, p, ("recorded", has, kept, sent)), caught

    return [fresh], steps
