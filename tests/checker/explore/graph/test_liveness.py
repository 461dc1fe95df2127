"""Weak and strong fairness: what a fair run is, by the definition, and what the checker says of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import combinations, pairwise, product
from pathlib import Path
from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leasehold.checker.explore import explore
from leasehold.checker.explore.graph.cycles import fair_cycle
from leasehold.checker.explore.graph.fairness import Demands, Fairness
from leasehold.checker.explore.graph.liveness import fair_run, reachable_fair_components, staying
from leasehold.checker.explore.graph.scc import fair_components
from leasehold.checker.explore.labels import Labels
from leasehold.checker.explore.result import PropertyResult
from leasehold.checker.export import export_system
from leasehold.spec import SpecError
from tests.checker.explore.graph.graphs import GROUPS, Edge, graph
from tests.systems import files_of, load

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


@given(EDGES, ASKED, st.sets(st.integers(0, STATES - 1)), st.sets(st.integers(0, STATES - 1), min_size=1))
def test_where_no_part_is_fair_nothing_is_found(
    edges: list[Edge], words: list[str], starts: set[int], missing: set[int]
) -> None:
    asked, made = demanded(words), graph(STATES, edges)
    sub = nx.DiGraph([(a, b) for a, b, _ in edges if a in missing and b in missing])
    sub.add_nodes_from(missing)
    come = {n for start in starts & missing for n in (start, *nx.descendants(sub, start))}
    marks = [np.isin(np.arange(STATES), list(some)) for some in (starts & missing, missing)]
    found = reachable_fair_components(staying(*marks), made, asked)
    assert (found is not None) == bool(in_fair_sets(STATES, edges, come, asked))


def steps_from(edges: list[Edge], begin: int, among: set[int]) -> dict[int, list[int]]:
    """By state that walks among some states come to from one, the states of a shortest such walk."""
    found, todo = {begin: [begin]}, [begin]
    for n in todo:
        for a, b, _ in edges:
            if a == n and b in among and b not in found:
                found[b] = [*found[n], b]
                todo.append(b)
    return found


def least_cycle(edges: list[Edge], begin: int, among: set[int], starts: set[int], asked: Demands) -> int | None:
    """The fewest steps of a fair cycle through a state and a start: what each walk has visited and taken is kept."""
    if begin in starts and fair(edges, {begin}, set(), asked):
        return 0
    layer = {(begin, frozenset({begin}), frozenset[tuple[int, int]]())}
    seen, length = set(layer), 0
    while layer:
        length += 1
        ahead = {
            (b, visited | {b}, taken | {(a, b)})
            for n, visited, taken in layer
            for a, b, _ in edges
            if a == n and b in among
        }
        if any(
            n == begin and visited & starts and fair(edges, set(visited), set(taken), asked)
            for n, visited, taken in ahead
        ):
            return length
        layer = ahead - seen
        seen |= layer
    return None


def least_run(edges: list[Edge], starts: set[int], missing: set[int], asked: Demands) -> int | None:
    """The fewest steps of a fair run from state 0 that visits a start and then never leaves the missing states."""
    first = steps_from(edges, 0, set(range(STATES)))
    totals = []
    for entry in missing & first.keys():  # a start lies on the cycle
        cycle = least_cycle(edges, entry, missing, starts, asked)
        totals += [] if cycle is None else [len(first[entry]) - 1 + cycle]
    for start in starts & missing & first.keys():  # or on the way
        for entry, way in steps_from(edges, start, missing).items():
            cycle = least_cycle(edges, entry, missing, missing, asked)
            totals += [] if cycle is None else [len(first[start]) - 1 + len(way) - 1 + cycle]
    return min(totals, default=None)


FEW_EDGES = st.lists(st.tuples(*[st.integers(0, STATES - 1)] * 2, st.integers(-1, GROUPS - 1)), max_size=11)


@example([(0, 1, 0), (1, 0, 0)], ["weak", "no", "no"], {1}, {0, 1})  # the start is on the cycle alone
@example([(0, 2, 0), (1, 2, 0), (2, 0, 0), (2, 1, -1)], ["strong", "no", "no"], {1}, {0, 1, 2})  # 0 is tried before 2
@given(FEW_EDGES, ASKED, st.sets(st.integers(0, STATES - 1)), st.sets(st.integers(0, STATES - 1), min_size=2))
def test_no_fair_run_is_shorter(edges: list[Edge], words: list[str], starts: set[int], missing: set[int]) -> None:
    asked, made, labels = demanded(words), graph(STATES, edges), Labels()
    for number, way in enumerate(ways := list(steps_from(edges, 0, set(range(STATES))).values())):
        labels.add(way[-1], (), [w[-1] for w in ways].index(way[-2]) if number else -1)
    labels.of += [[] for _ in range(STATES - len(labels.of))]
    starts = starts & missing & {w[-1] for w in ways}
    marks = [np.isin(np.arange(STATES), list(some)) for some in (starts, missing)]
    found = fair_run(
        staying(*marks), made, SimpleNamespace(labels=labels, chain=lambda n: labels.chain(labels.of[n][0])), asked
    )  # type: ignore[arg-type]
    least = least_run(edges, starts, missing, asked)
    assert (None if found is None else len(found.states) - 1) == least
    if found is not None:
        assert found.shortest
        pairs, cycle = {(a, b) for a, b, _ in edges}, found.cycle
        assert found.states[0] == 0
        assert set(pairwise(found.states)) <= pairs
        assert cycle[0] == cycle[-1]
        seen = [n for n, state in enumerate(found.states) if state in starts]
        assert any(missing.issuperset([*found.states[n:], *cycle]) for n in seen)
        assert fair(edges, set(cycle), set(pairwise(cycle)), asked)


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

ROLE = files_of("checker/explore/graph/systems/halting")["roles/m.yaml"]
QUIET = files_of("checker/explore/graph/systems/quiet")["roles/m.yaml"]
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
        "as declared, this holds"
    )


def test_where_nothing_is_fair_a_run_stops_at_once(made: Make) -> None:
    found = judged(made(STOP % "false", QUIET))
    assert (found.verdict, len(found.path.steps), found.path.loop) == ("violated", 0, 0)  # type: ignore[union-attr]
    assert found.reason == (
        "it never comes, in a run that is fair: `stop` may come all the time and never does; "
        "with `fair: true` on it, this would hold"
    )


@pytest.mark.parametrize("fairness", Fairness)
@pytest.mark.parametrize("declared", ["false", "true", "strong"])
def test_no_option_asks_for_what_is_not_declared_fair(made: Make, declared: str, fairness: Fairness) -> None:
    fair = declared != "false" and fairness is not Fairness.NONE
    assert judged(made(STOP % declared, QUIET), fairness).verdict == ("exhausted" if fair else "violated")


@pytest.mark.parametrize(
    ("declared", "fairness", "verdict"),
    [
        ("false", Fairness.SPEC, "violated"),
        ("true", Fairness.SPEC, "violated"),
        ("strong", Fairness.SPEC, "exhausted"),
        ("strong", Fairness.WEAK, "violated"),
        ("true", Fairness.STRONG, "exhausted"),
        ("false", Fairness.STRONG, "violated"),
        ("strong", Fairness.NONE, "violated"),
    ],
)
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
            "it never comes, in a run that is fair enough: all that is fair is weakly fair; as declared, this holds"
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


MIXED = files_of("checker/explore/graph/systems/mixed")["roles/m.yaml"]


def test_none_of_what_would_help_is_too_much(made: Make) -> None:
    """Of all ways to declare the actions, the one that is named helps, and none that asks for less."""
    words, names = ("false", "true", "strong"), ("go", "stop", "halt", "back")

    def declared(fair: Sequence[int]) -> Path:
        return made(
            ", ".join(f"{name}: {{to: m, fair: {words[n]}}}" for name, n in zip(names, fair, strict=True)), MIXED
        )

    said = {name: fair for fair, name in re.findall(r"`fair: (\w+)` on `(\w+)`", judged(declared([0] * 4)).reason)}
    best = tuple(words.index(said.get(name, "false")) for name in names)
    less = [fair for fair in product(range(3), repeat=4) if all(a <= b for a, b in zip(fair, best, strict=True))]
    assert [fair for fair in less if judged(declared(fair)).verdict == "exhausted"] == [best]
    assert sorted(said.values()) == ["strong", "true"]


RING = files_of("checker/explore/graph/systems/ring")["roles/m.yaml"]


def test_a_stop_counts_as_a_way_to_fail(tmp_path: Path) -> None:
    """The nearest cycle is not the shortest run; nor is a stop where the way there is longer than the cycle."""

    def made(where: str) -> Path:
        folder = tmp_path / where
        (folder / "roles").mkdir(parents=True)
        (folder / "system.yaml").write_text("system: small\nroles: {m: {}}\n")
        (folder / "roles" / "m.yaml").write_text(RING.replace("WHERE", where).replace("  e: {}\n" * (where != "e"), ""))
        (folder / "invariants.yaml").write_text("properties: {ends: {when: m.state == a, leads_to: m.state == done}}\n")
        return folder

    found = judged(made("e"))
    assert found.path is not None
    assert ([s.event for s in found.path.steps], found.path.loop) == (["leave"], 1)
    found = judged(made("done"))
    assert found.path is not None
    assert ([s.event for s in found.path.steps], found.path.loop) == (["go", "leave"], 0)


def test_other_words_for_fairness_are_refused(made: Make) -> None:
    with pytest.raises(SpecError, match="`true`, `false` or `strong` is expected here, not `weak`"):
        load(made(STOP % "weak", QUIET))


def test_exports_of_strong_fairness(made: Make) -> None:
    system = load(made(BOTH % ("strong", "true")))
    text = export_system(system, "tla").text
    assert "SF_vars((M_a_stop))  \\* m stop" in text
    assert "WF_vars((M_b_halt))  \\* m halt" in text
    (left,) = export_system(system, "promela").left_out
    assert left.name == "stops"
    assert left.why == "`stop` needs strong fairness, and the never claim asks for weak fairness alone"
