"""Words that depend on one part of a result each: a case for every branch."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from leasehold.checker.crash.cases import AT_ONCE, NO_RETURN, NOT_ASKED, WorstCase
from leasehold.checker.crash.convergence import Convergence
from leasehold.checker.explore import Exploration
from leasehold.reports.crash_words import severity, stabilises_words, worst_words
from leasehold.reports.diagram import task_text
from leasehold.reports.dot import LABELS_LIMIT, product_dot
from leasehold.reports.product import has_faults, product, project
from leasehold.spec.language import expression as x
from leasehold.spec.language.model import Call, Drive, Send


def test_the_worst_comes_first() -> None:
    """A run that does not return, then no number, then the most steps, then the most messages."""
    cases = [NO_RETURN, WorstCase(None, None), WorstCase(5, None), WorstCase(5, 9), WorstCase(5, 2), WorstCase(4, None)]
    cases += [WorstCase(4, 8), AT_ONCE]
    assert all(severity(one) < severity(other) for one, other in pairwise(cases))
    assert [worst_words(w) for w in (NOT_ASKED, NO_RETURN, WorstCase(None, None), AT_ONCE, WorstCase(1, 2))] == [
        "not checked",
        "does not return",
        "not measured",
        "legal at once",
        "1 step, 2 messages",
    ]


@pytest.mark.parametrize(
    ("converges", "steps", "recovery", "words"),
    [
        (None, None, 3, "not decided"),
        (False, None, 3, "does not stabilise"),
        (True, None, 3, "was not found"),
        (True, 0, 0, "no fault leads to a state that is not legal"),
        (True, 1, 3, "in at most 1 step and 2 messages"),
    ],
)
def test_each_end_of_a_convergence_has_its_words(
    converges: bool | None, steps: int | None, recovery: int, words: str
) -> None:
    assert words in stabilises_words(Convergence(9, recovery, 0, converges, steps, 2, None))


def test_each_part_of_a_task_is_in_its_line() -> None:
    send, call = Send("s", "m", "r", {"a": x.TRUE}, x.TRUE, x.TRUE), Call("c", "handler.h", ("a", "b"), x.TRUE, True)
    drive = Drive("d", "unit", "setup", {}, {"up": x.TRUE}, x.TRUE, x.TRUE)
    assert [*map(task_text, (send, call, drive))] == [
        "send m to r with a: true, only where true, when true",
        "call handler.h, answered by a or b, which outlives the state, when true",
        "drive unit with setup, answered by up when true, only where true, when true",
    ]


def test_labels_that_have_no_room_are_counted(votes: Exploration) -> None:
    whole = product(votes)
    link = replace(whole.links[0], labels=tuple(f"role#event_{n}" for n in range(LABELS_LIMIT + 3)))
    dot = product_dot(replace(whole, links=(link,)))
    assert "and 3 more" in dot
    assert f"event_{LABELS_LIMIT - 1}" in dot
    assert f"event_{LABELS_LIMIT}" not in dot


@pytest.mark.parametrize("fault", ["lose", "duplicate", "reorder"])
def test_each_fault_of_a_channel_is_one(votes: Exploration, fault: str) -> None:
    bare = {n: replace(c, lose=0, duplicate=0, reorder=0) for n, c in votes.system.channels.items()}
    assert not has_faults(replace(votes.system, channels=bare))
    for name, channel in bare.items():
        other = replace(votes.system, channels={**bare, name: replace(channel, **{fault: 1})})
        assert has_faults(other)


@pytest.mark.parametrize("role", ["chair", "voter"])
def test_a_projection_is_initial_where_one_of_its_nodes_is(votes: Exploration, role: str) -> None:
    """And has the nearest of its cells, in whatever order they come."""
    whole = product(votes)
    turned = replace(whole, nodes=tuple(reversed(whole.nodes)), links=())
    one, other = (project(graph, [role]).nodes for graph in (whole, turned))
    assert {(n.control, n.initial, n.depth, n.cell.depth, n.mark, n.states) for n in one} == {
        (n.control, n.initial, n.depth, n.cell.depth, n.mark, n.states) for n in other
    }
    assert all(n.depth == n.cell.depth for n in other)
