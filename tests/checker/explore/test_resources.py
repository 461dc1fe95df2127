"""Limits of a search: which graphs are decided on, and the words where one is too large."""

from __future__ import annotations

import pytest

from leasehold.checker.explore.resources import (
    MOST_EDGES,
    TO_DECIDE,
    held_memory,
    memory_for_a_search,
    memory_words,
    peak_memory,
    side_by_side,
    too_much_to_decide,
)

LARGE = 1 << 40


def test_a_graph_is_decided_on_where_there_is_room_for_its_edges() -> None:
    """Beside what is held already; and never one whose edges have no numbers."""
    assert too_much_to_decide(0, 0) != ""  # more is held than may be
    assert too_much_to_decide(MOST_EDGES, None) == too_much_to_decide(MOST_EDGES, LARGE) == ""
    for limit in (None, LARGE):
        words = too_much_to_decide(MOST_EDGES + 1, limit)
        assert words == "the search is done, but a graph of 2,147,483,648 edges is too large to be decided on"
    room = 400_000_000
    limit = held_memory() + room
    assert too_much_to_decide(room // TO_DECIDE // 2, limit) == ""
    words = too_much_to_decide(2 * room // TO_DECIDE, limit)
    assert words.startswith(f"{memory_words(limit)}: the search is done, but to decide what asks for the whole graph")
    assert words.endswith("takes about 800 MB more")


def test_limits_in_words() -> None:
    assert memory_words(1_234_567_890) == "stopped at its limit of 1,235 MB of memory"


def test_a_search_may_hold_what_it_holds_and_most_of_what_is_free() -> None:
    most, held = memory_for_a_search(), held_memory()
    if most is None:
        pytest.skip("the system does not say what is free")
    assert 0 < held < most
    assert held <= peak_memory() * 1.1


def test_what_is_done_side_by_side_comes_in_its_order() -> None:
    assert side_by_side(lambda n: n * n, range(20)) == [n * n for n in range(20)]
    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda n: 1 // n, [1, 0])
