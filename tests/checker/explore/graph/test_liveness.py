"""Weak and strong fairness: what a fair run is, by the definition, and what the checker says of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.checker.explore import explore
from leasehold.checker.explore.graph.cycles import fair_cycle
from leasehold.checker.explore.graph.fairness import Demands, Fairness
from leasehold.checker.explore.graph.liveness import reachable_fair_components
from leasehold.checker.explore.graph.scc import fair_components
from leasehold.checker.explore.result import PropertyResult
from leasehold.checker.export import export_system
from leasehold.spec import SpecError
from tests.checker.explore.graph.graphs import GROUPS, Edge, graph
from tests.systems import load

Make = Callable[..., Path]


def fair(edges: list[Edge], among: set[int], inside: set[tuple[int, int]], asked: Demands) -> bool:
    """Whether a run is fair that visits these states again and again, and takes all these steps between them."""
    taken = {g for a, b, g in edges if (a, b) in inside}
    possible = [{g for a, _, g in edges if a == n} for n in among]
    weak = all(g in taken or any(g not in here for here in possible) for g in asked.weak)
    return weak and all(g in taken or all(g not in here for here in possible) for g in asked.strong)


def in_fair_sets(states: int, edges: list[Edge], among: set[int], asked: Demands) -> set[int]:
    """The states that some fair run among these states visits again and again: every set of states is tried."""
    found: set[int] = set()
    for size in range(1, states + 1):
        for some in map(set, combinations(sorted(among), size)):
            inside = {(a, b) for a, b, _ in edges if a in some and b in some}
            sub = nx.DiGraph(list(inside))
            sub.add_nodes_from(some)
            if nx.is_strongly_connected(sub) and fair(edges, some, inside, asked):
                found |= some
    return found


STATES = 6
EDGES = st.lists(st.tuples(*[st.integers(0, STATES - 1)] * 2, st.integers(-1, GROUPS - 1)), max_size=16)
ASKED = st.lists(st.sampled_from(["no", "weak", "strong"]), min_size=GROUPS, max_size=GROUPS)


def demanded(words: list[str]) -> Demands:
    weak, strong = (frozenset(g for g, w in enumerate(words) if w == kind) for kind in ("weak", "strong"))
    return Demands(weak, strong)


@settings(deadline=None)
@given(EDGES, ASKED, st.sets(st.integers(0, STATES - 1), min_size=1))
def test_reachable_fair_components_are_those_of_the_definition(
    edges: list[Edge], words: list[str], among: set[int]
) -> None:
    asked, made = demanded(words), graph(STATES, edges)
    marks = np.isin(np.arange(STATES), list(among))
    component_of = fair_components(marks, made, asked)
    assert set((component_of >= 0).nonzero()[0].tolist()) == in_fair_sets(STATES, edges, among, asked)
    for part in sorted(set(component_of[component_of >= 0].tolist())):
        members = set((component_of == part).nonzero()[0].tolist())
        for entry in members:  # the loop that a counterexample shows is fair by itself
            way = [entry, *fair_cycle(members, entry, made, asked)]
            assert set(way) <= members
            assert way[-1] == entry
            assert fair(edges, set(way), set(pairwise(way)), asked)


@settings(deadline=None)
@given(EDGES, ASKED, st.sets(st.integers(0, STATES - 1)), st.sets(st.integers(0, STATES - 1), min_size=1))
def test_where_no_part_is_fair_nothing_is_found(
    edges: list[Edge], words: list[str], starts: set[int], missing: set[int]
) -> None:
    asked, made = demanded(words), graph(STATES, edges)
    sub = nx.DiGraph([(a, b) for a, b, _ in edges if a in missing and b in missing])
    sub.add_nodes_from(missing)
    come = {n for start in starts & missing for n in (start, *nx.descendants(sub, start))}
    marks = [np.isin(np.arange(STATES), list(some)) for some in (starts & missing, missing)]
    found = reachable_fair_components(*marks, made, asked)
    assert (found is not None) == bool(in_fair_sets(STATES, edges, come, asked))


def test_states_are_taken_out_again_and_again() -> None:
    """A ring in which each strong group is possible in one more state, and leads out of it."""
    ring = [(0, 1, -1), (1, 0, -1), (1, 2, -1), (2, 0, -1), (2, 3, -1), (3, 0, -1)]
    exits = [(3, 4, 0), (2, 4, 1), (4, 4, -1)]
    made = graph(5, [*ring, *exits])
    among = np.array([True, True, True, True, False])

    def left(weak: set[int], strong: set[int]) -> list[int]:
        return (fair_components(among, made, Demands(frozenset(weak), frozenset(strong))) >= 0).nonzero()[0].tolist()

    assert left({0, 1}, set()) == [0, 1, 2, 3]
    assert left({1}, {0}) == [0, 1, 2]
    assert left(set(), {0, 1}) == [0, 1]
    chain = [(n, m, -1) for n in range(5) for m in (n - 1, n + 1) if 0 <= m < 5]
    # Group 1 is possible in state 1 too, but is taken between 3 and 4: only once these are gone is it missed there.
    more = graph(6, [*chain, (4, 5, 0), (3, 4, 1), (1, 5, 1), (0, 5, 2)])
    marks = np.arange(6) < 5
    assert fair_components(marks, more, Demands(strong=frozenset({1})))[:5].max() == 0
    # Nothing is left but to rest in a state where neither is possible.
    assert (fair_components(marks, more, Demands(strong=frozenset({0, 1}))) >= 0).nonzero()[0].tolist() == [0, 2]
    assert (fair_components(marks, more, Demands(frozenset({1}), frozenset({0}))) >= 0).nonzero()[0].tolist() == [
        0,
        1,
        2,
        3,
    ]


# Systems

ROLE = """role: m
events: {go: on, rest: back, stop: "off", halt: it too}
states:
  a: {initial: true, tasks: [work], on: {go: {to: b}, stop: {to: c}}, ignore: {halt: not here}}
  b: {tasks: [wait], on: {rest: {to: a}, halt: {to: c}}, ignore: {stop: not here}}
  c: {ignore: {stop: it has stopped, halt: it has stopped}}
tasks:
  work: {call: handler.work, answers: [go]}
  wait: {call: handler.wait, answers: [rest]}
"""
QUIET = """role: m
events: {stop: "off"}
states:
  a: {initial: true, on: {stop: {to: c}}}
  c: {ignore: {stop: it has stopped}}
"""
CLAIM = "properties: {stops: {when: m.state == a, leads_to: m.state == c}}\n"


@pytest.fixture
def made(tmp_path: Path) -> Make:
    """Writes a system of one role `m`; answers with its folder."""

    def make(environment: str, role: str = ROLE) -> Path:
        (tmp_path / "roles").mkdir(exist_ok=True)
        (tmp_path / "system.yaml").write_text(f"system: small\nroles: {{m: {{}}}}\nenvironment: {{{environment}}}\n")
        (tmp_path / "roles" / "m.yaml").write_text(role)
        (tmp_path / "invariants.yaml").write_text(CLAIM)
        return tmp_path

    return make


def judged(folder: Path, fairness: Fairness = Fairness.SPEC) -> PropertyResult:
    results = [explore(load(folder), engine=e, fairness=fairness).properties for e in ("reference", "auto")]  # type: ignore[arg-type]
    assert results[0] == results[1]
    (found,) = results[0]
    return found


STOP, BOTH = "stop: {to: m, fair: %s}", "stop: {to: m, fair: %s}, halt: {to: m, fair: %s}"


def test_weak_fairness_asks_for_what_may_come_all_the_time(made: Make) -> None:
    folder = made(STOP % "true", QUIET)
    assert judged(folder).verdict == "exhausted"
    found = judged(folder, Fairness.NONE)
    assert (found.verdict, len(found.path.steps), found.path.loop) == ("violated", 0, 0)  # type: ignore[union-attr]
    assert found.reason == (
        "it never comes, in a run that stops here: nothing need ever happen, though `stop` for m may come; "
        "as declared, it comes"
    )


def test_where_nothing_is_fair_a_run_stops_at_once(made: Make) -> None:
    found = judged(made(STOP % "false", QUIET))
    assert (found.verdict, len(found.path.steps), found.path.loop) == ("violated", 0, 0)  # type: ignore[union-attr]
    assert found.reason == (
        "it never comes, in a run that is fair: `stop` may come all the time and never does; "
        "with `fair: true` on it, this would hold"
    )


@pytest.mark.parametrize(("declared", "fairness", "verdict"), [
    ("false", Fairness.SPEC, "violated"), ("true", Fairness.SPEC, "violated"), ("strong", Fairness.SPEC, "exhausted"),
    ("strong", Fairness.WEAK, "violated"), ("true", Fairness.STRONG, "exhausted"),
    ("false", Fairness.STRONG, "violated"), ("strong", Fairness.NONE, "violated"),
])  # fmt: skip
def test_strong_fairness_asks_for_what_may_come_again_and_again(
    made: Make, declared: str, fairness: Fairness, verdict: str
) -> None:
    found = judged(made(BOTH % (declared, "false")), fairness)
    assert found.verdict == verdict
    if fairness is Fairness.SPEC and verdict == "violated":
        assert found.reason == (
            "it never comes, in a run that is fair: `stop` may come again and again and never does; "
            "with `fair: strong` on it, this would hold"
        )
    if (declared, fairness) == ("strong", Fairness.WEAK):
        assert found.reason == (
            "it never comes, in a run that is fair enough: all that is fair is weakly fair; as declared, it comes"
        )


def test_several_that_help_only_together(made: Make) -> None:
    """Either ring can be gone round for ever; each has its own way out."""
    role = """role: m
events: {left: one, right: the other, stop: "off", halt: it too}
states:
  a: {initial: true, tasks: [choose], on: {left: {to: b}, right: {to: d}}, ignore: {stop: no, halt: no}}
  b: {on: {stop: {to: c}}, ignore: {halt: no}}
  d: {on: {halt: {to: c}}, ignore: {stop: no}}
  c: {ignore: {stop: it has stopped, halt: it has stopped}}
tasks: {choose: {call: policy.choose, answers: [left, right]}}
"""
    found = judged(made(BOTH % ("false", "false"), role))
    assert found.reason == (
        "it never comes, in a run that is fair: with `fair: true` on `stop` and `fair: true` on `halt` this would hold"
    )
    assert judged(made(BOTH % ("true", "true"), role)).verdict == "exhausted"


def test_other_words_for_fairness_are_refused(made: Make) -> None:
    with pytest.raises(SpecError, match="`true`, `false` or `strong` is wanted here, not `weak`"):
        load(made(STOP % "weak", QUIET))


def test_exports_of_strong_fairness(made: Make) -> None:
    system = load(made(BOTH % ("strong", "true")))
    text = export_system(system, "tla").text
    assert "SF_vars((M_a_stop))  \\* m stop" in text
    assert "WF_vars((M_b_halt))  \\* m halt" in text
    (left,) = export_system(system, "promela").left_out
    assert left.name == "stops"
    assert left.why == "`stop` needs strong fairness, and the never claim asks for weak fairness alone"
