"""What is compiled with the engine for the longest ways finds what whole arrays, and a search of all ways, find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.checker.explore.graph import arrays, ways
from leasehold.checker.explore.graph.edges import EdgeKind, Graph
from leasehold.checker.explore.graph.scc import component_layers, components_among
from leasehold.checker.explore.packed import library
from leasehold.checker.explore.packed.graph import among_rows

pytestmark = pytest.mark.skipif(not library.FILE.exists(), reason="the C engine was not built")
SIZE = 12
STATES = st.integers(0, SIZE - 1)
EDGES = st.lists(st.tuples(STATES, STATES, st.integers(0, 3)), max_size=40)
FORWARD = EDGES.map(lambda edges: [(max(a, b), min(a, b), row) for a, b, row in edges])  # no cycles but on the spot
KINDS = st.sampled_from([np.uint8, np.uint16, np.uint32])
NUMBERS = st.lists(st.integers(0, 99), min_size=SIZE, max_size=SIZE)
MARKS = st.lists(st.booleans(), min_size=SIZE, max_size=SIZE)
PAIRS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)))
RECEIVED = np.array([False, True, False, True])


def both(found: Callable[[], Any]) -> tuple[Any, Any]:
    """The result with the compiled functions, and without them."""
    with pytest.MonkeyPatch.context() as patch:
        compiled = found()
        patch.setattr(arrays, "compiled_functions", lambda: None)
        patch.setattr(ways, "compiled_functions", lambda: None)
        return compiled, found()


def graph(edges: list[tuple[int, int, int]], kind: Any = np.uint8) -> Graph:
    made = Graph()
    made.kinds = [EdgeKind(-1, False, bool(received), False, (), -1) for received in RECEIVED]
    sources, targets, rows = np.array(edges, dtype=np.int32).reshape(-1, 3).T
    first, targets, rows = arrays.by_source(SIZE, sources, targets, rows.astype(kind))
    return made.take(first, targets, rows)


def lists(found: Any) -> Any:
    return [part.tolist() for part in found]


@given(EDGES, KINDS, st.lists(st.booleans(), min_size=4, max_size=4))
def test_edges_are_selected_by_their_rows(edges: list[tuple[int, int, int]], kind: Any, kept: list[bool]) -> None:
    g = graph(edges, kind)
    one, other = both(lambda: ways.select(g.first, g.targets, g.rows, np.array(kept)))
    assert lists(one) == lists(other)
    assert one[2].dtype == kind
    assert len(one[1]) == sum(kept[row] for _, _, row in edges)


@given(EDGES)
def test_layers_come_after_what_their_edges_lead_to(edges: list[tuple[int, int, int]]) -> None:
    def found() -> Any:
        return graph(edges).topological

    one, other = both(found)
    assert (lists(one.layers), one.rest.tolist()) == (lists(other.layers), other.rest.tolist())
    done: set[int] = set()
    for layer in one.layers:
        assert all({b for a, b, _ in edges if a == n} <= done | {n} for n in layer.tolist())
        done |= set(layer.tolist())
    assert done.isdisjoint(one.rest.tolist())
    assert len(done) + len(one.rest) == SIZE


@given(FORWARD, KINDS, MARKS)
def test_the_longest_way_is_that_of_all_ways(edges: list[tuple[int, int, int]], kind: Any, unknown: list[bool]) -> None:
    def found() -> Any:
        g = graph(edges, kind)
        longest = ways.LongestWays(g.first, g.targets, g.rows, RECEIVED)
        longest.unknown[:] = unknown
        for layer in g.topological.layers:
            longest.layer(layer[~np.array(unknown)[layer]])
        return longest.longest, longest.unknown

    one, other = both(found)
    assert lists(one) == lists(other)

    def longest(n: int) -> tuple[int, int] | None:
        after = [(longest(b), int(RECEIVED[row])) for a, b, row in edges if a == n != b]
        if unknown[n] or any(way is None for way, _ in after):
            return None
        some = [(way[0] + 1, way[1] + met) for way, met in after if way is not None]
        return max((s for s, _ in some), default=0), max((m for _, m in some), default=0)

    assert one[0].tolist() == [list(longest(n) or (-1, -1)) for n in range(SIZE)]


@given(EDGES, MARKS, MARKS, MARKS, NUMBERS, NUMBERS)
def test_the_worst_that_follows_is_that_of_all_ways(
    edges: list[tuple[int, int, int]],
    inside: list[bool],
    one_mode: list[bool],
    other_mode: list[bool],
    steps: list[int],
    messages: list[int],
) -> None:
    g, down, modes = graph(edges), np.array(inside), [np.array(one_mode), np.array(other_mode)]
    after = np.array([steps, messages], dtype=np.int32).T.copy()
    place = np.where(down, np.cumsum(down) - 1, -1).astype(np.int32)

    def found() -> Any:
        layers = component_layers(down, components_among(down, g), g)
        return ways.worst_after(g.first, g.targets, place, layers, modes, after)

    one, other = both(found)
    assert one.tolist() == other.tolist()
    for n in down.nonzero()[0].tolist():
        met = [n]
        for m in met:
            met += {b for a, b, _ in edges if a == m and inside[b]} - set(met)
        for at, mode in enumerate(modes):
            ends = [after[b] for a, b, _ in edges if a in met and not inside[b] and mode[a]]
            worst = np.max(ends, axis=0).tolist() if ends else [-1, -1]
            assert one[place[n], 2 * at : 2 * at + 2].tolist() == worst


@given(EDGES, KINDS, st.integers(1, SIZE), st.booleans())
def test_edges_of_labels_are_joined_by_their_states(
    edges: list[tuple[int, int, int]], kind: Any, states: int, in_order: bool
) -> None:
    g = graph(edges)
    state_of = (np.arange(SIZE) * 5 % states).astype(np.int32)
    state_of = np.sort(state_of) if in_order else state_of
    rows, order = np.array([3, 1, 0, 2], dtype=kind), arrays.in_order(state_of, states)
    changes = g.rows.astype(np.uint32)
    one, other = both(lambda: ways.joined(states, order, state_of, g.first, g.targets, changes, rows))
    assert lists(one) == lists(other)
    assert one[0].tolist() == [sum(state_of[a] == n for a, _, _ in edges) for n in range(states)]
    assert sorted(one[1].tolist()) == sorted(b for _, b, _ in edges)


@given(st.lists(st.tuples(st.integers(-1, 4), st.integers(0, 2))))
def test_groups_have_the_worst_of_their_members(members: list[tuple[int, int]]) -> None:
    rows, groups = np.array(members, dtype=np.int32).reshape(-1, 2).T
    worst = np.arange(10, dtype=np.int32).reshape(5, 2)[::-1].copy()

    def found() -> Any:
        total = np.full((3, 2), -1, dtype=np.int32)
        ways.gather(rows, groups, worst, total)
        return total

    one, other = both(found)
    assert one.tolist() == other.tolist()
    for group in range(3):
        mine = [worst[row].tolist() for row, g in members if g == group and row >= 0]
        assert one[group].tolist() == ([max(column) for column in zip(*mine, strict=True)] if mine else [-1, -1])


@given(st.lists(st.tuples(STATES, st.integers(0, 2))), st.lists(st.integers(0, 3), min_size=SIZE, max_size=SIZE))
def test_groups_are_of_one_kind_in_states_that_look_alike(stopped: list[tuple[int, int]], look: list[int]) -> None:
    states, kinds = np.array(stopped, dtype=np.int32).reshape(-1, 2).T
    one, other = both(lambda: ways.groups(states, kinds, 3, np.array(look, dtype=np.int64)))
    assert lists(one) == lists(other)
    keys = [(look[state], kind) for state, kind in stopped]
    assert one[0].tolist() == [keys.index(key) for key in sorted(set(keys))]
    assert [sorted(set(keys))[n] for n in one[1].tolist()] == keys


@given(PAIRS, PAIRS)
def test_rows_are_among_others_if_all_their_words_are(
    rows: list[tuple[int, int]], others: list[tuple[int, int]]
) -> None:
    def words(found: list[tuple[int, int]]) -> Any:
        return np.array(found, dtype=np.uint64).reshape(-1, 2) << np.uint64(61)  # and their hashes are few

    assert among_rows(words(rows), words(others)).tolist() == [row in others for row in rows]
