"""The longest ways on a finished graph: steps and messages until a run is back, and the worst that follows a crash.

Theory of operation. States come in layers, from the back (scc.py): each after all that its edges lead to. So one pass
over the edges is enough, and it is made by the engine's C part (packed/engine/ways.c); where that was not built, the
same is done with whole arrays, which takes several times as long. A test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from leasehold.checker.explore.graph.arrays import (
    MOST_DENSE,
    address,
    compiled_functions,
    edge_numbers,
    edges_of,
    numbered,
    raise_to,
    sums_before,
)

MANY = 1 << 14  # labels whose edges are put in order together
NONE = -1  # of numbers of which the larger is the worse: there is none


def select(first: Any, targets: Any, rows: Any, kept: Any) -> tuple[Any, Any, Any]:
    """The edges whose rows are kept, as truths by row say: where those of each state begin, their ends and rows."""
    compiled = compiled_functions()
    if compiled is None:
        by_edge = kept[rows]
        return sums_before(by_edge)[first], targets[by_edge], rows[by_edge]
    kept = _bytes(kept)
    count = compiled.ways_count(len(rows), address(rows), rows.itemsize, address(kept))
    selected = np.empty_like(first), np.empty(count + 1, dtype=np.int32), np.empty(count + 1, dtype=rows.dtype)
    compiled.ways_select(
        len(first) - 1,
        address(first),
        address(targets),
        address(rows),
        rows.itemsize,
        address(kept),
        *map(address, selected),
    )
    return selected[0], selected[1][:-1], selected[2][:-1]


def joined(
    count: int, order: Any, state_of: Any, first: Any, targets: Any, changes: Any, rows: Any
) -> tuple[Any, Any, Any]:
    """The edges of labels, of which several may have one state, as those of their states.

    Args:
        count: of the states.
        order: the labels in the order of their states; None: they lie so.
        state_of: by label its state.
        first: by label where its edges begin.
        targets: where edges end.
        changes: of each edge its change.
        rows: by change its row.

    Returns:
        By state how many edges it has, and of these in their order the ends and the rows.
    """
    sizes, joined_targets = np.zeros(count, dtype=np.int64), np.empty(len(targets), dtype=np.int32)
    joined_rows = np.empty(len(targets), dtype=rows.dtype)
    if (compiled := compiled_functions()) is not None:
        compiled.ways_joined(
            len(state_of),
            address(order),
            address(state_of),
            address(first),
            address(targets),
            address(changes),
            address(rows),
            rows.itemsize,
            address(sizes),
            address(joined_targets),
            address(joined_rows),
        )
        return sizes, joined_targets, joined_rows
    order, begin = np.arange(len(state_of), dtype=np.int32) if order is None else order, 0
    np.add.at(sizes, state_of, np.diff(first))
    for labels_begin in range(0, len(order), MANY):  # some at a time, as an array with an item for each edge is large
        edges = edge_numbers(first, order[labels_begin : labels_begin + MANY])
        end = begin + len(edges)
        joined_targets[begin:end], joined_rows[begin:end] = targets[edges], rows[changes[edges]]
        begin = end
    return sizes, joined_targets, joined_rows


class LongestWays:
    """The most steps, and the most messages received, from each state to where no edge leads on; `NONE`: not known.

    Attributes:
        longest: both numbers, by state.
        unknown: states from which some way has no number.
    """

    def __init__(self, first: Any, targets: Any, rows: Any, received: Any) -> None:
        """Takes the edges, and by row whether a message is received."""
        self.first, self.targets, self.rows, self.received = first, targets, rows, _bytes(received)
        self.longest = np.full((len(first) - 1, 2), NONE, dtype=np.int32)
        self.unknown = np.zeros(len(first) - 1, dtype=bool)

    def layer(self, states: Any) -> None:
        """Measures the states of a layer, each of which is a component of its own."""
        states = np.ascontiguousarray(states, dtype=np.int32)
        if (compiled := compiled_functions()) is not None:
            compiled.ways_longest(
                len(states),
                address(states),
                address(self.first),
                address(self.targets),
                address(self.rows),
                self.rows.itemsize,
                address(self.received),
                address(self.longest),
                address(self.unknown),
            )
            return
        edges, of = edges_of(self.first, states)
        targets = self.targets[edges]
        others = targets != states[of]
        edges, of, targets = edges[others], of[others], targets[others]
        after = np.maximum(self.longest[targets], 0)
        after[:, 0] += 1
        after[:, 1] += self.received[self.rows[edges]]
        longest = np.zeros((len(states), 2), dtype=np.int32)
        raise_to(longest, of, after)
        self.unknown[states[of[self.unknown[targets]]]] = True
        known = ~self.unknown[states]
        self.longest[states[known]] = longest[known]


def worst_after(
    first: Any,
    targets: Any,
    place: Any,
    layers: Iterable[tuple[Any, Sequence[Sequence[int]]]],
    modes: Sequence[Any],
    after: Any,
) -> Any:
    """The worst that follows when some states are left in a mode.

    Args:
        first: by state where its edges begin.
        targets: where the edges end.
        place: by state its position among these states; -1: it is none of them.
        layers: these states, and components of several (scc.py).
        modes: for each mode, in which states it holds.
        after: by state the two numbers of what follows.

    Returns:
        By position, for each mode the worst two numbers; `NONE` where they are never left in it.
    """
    worst = np.full((int(place.max(initial=-1)) + 1, 2 * len(modes)), NONE, dtype=np.int32)
    compiled = compiled_functions() if len(modes) <= 32 else None
    holds = np.zeros(len(place), dtype=np.uint32)
    for bit, mode in enumerate(modes if compiled is not None else ()):
        holds |= mode.astype(np.uint32) << np.uint32(bit)

    def leave(states: Any) -> None:
        states = np.ascontiguousarray(states, dtype=np.int32)
        if compiled is not None:
            compiled.ways_worst(
                len(states),
                address(states),
                address(first),
                address(targets),
                address(place),
                len(modes),
                address(holds),
                address(after),
                address(worst),
            )
            return
        edges, of = edges_of(first, states)
        ends = targets[edges]
        inside = place[ends] >= 0
        mine = worst[place[states]]
        for n, mode in enumerate(modes):
            out = ~inside & mode[states[of]]
            raise_to(mine[:, 2 * n : 2 * n + 2], of[out], after[ends[out]])
        raise_to(mine, of[inside], worst[place[ends[inside]]])
        worst[place[states]] = mine

    for single, larger in layers:
        leave(single)
        for component in larger:
            leave(component)
            worst[place[component]] = worst[place[component]].max(axis=0)
    return worst


def groups(states: Any, kind_of: Any, kinds: int, look: Any) -> tuple[Any, Any]:
    """Groups of things of so many kinds in states: those of one kind in states with one look (a number) are a group.

    Returns:
        Of each group the first of it, in the order of looks and then of kinds, and of each thing its group.
    """
    size = (int(look.max(initial=-1)) + 1) * kinds
    compiled = compiled_functions() if size <= MOST_DENSE else None
    if compiled is None:
        examples, group = numbered(look[states] * kinds + kind_of)
        return examples.astype(np.int32), group.astype(np.int32)
    states, kind_of = (np.ascontiguousarray(a, dtype=np.int32) for a in (states, kind_of))
    number, look = np.full(size, -1, dtype=np.int32), np.ascontiguousarray(look, dtype=np.int64)
    grouped = np.empty(min(size, len(states)), dtype=np.int32), np.empty(len(states), dtype=np.int32)
    count = compiled.ways_groups(
        len(states),
        address(states),
        address(kind_of),
        kinds,
        address(look),
        size,
        address(number),
        *map(address, grouped),
    )
    return grouped[0][:count], grouped[1]


def gather(rows: Any, groups: Any, worst: Any, total: Any) -> None:
    """Raises the numbers of each group (`total`) to those of its members' rows; a negative row is none."""
    if (compiled := compiled_functions()) is not None:
        rows, groups = (np.ascontiguousarray(a, dtype=np.int32) for a in (rows, groups))
        compiled.ways_gather(len(rows), address(rows), address(groups), worst.shape[1], address(worst), address(total))
        return
    some = rows >= 0
    np.maximum.at(total, groups[some], worst[rows[some]])


def _bytes(truths: Any) -> Any:
    return np.ascontiguousarray(truths, dtype=np.uint8) if len(truths) else np.zeros(1, dtype=np.uint8)
