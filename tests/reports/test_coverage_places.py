"""Where machines are in the product, of a system that has several of a role before another one."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random
from typing import Any

import pytest

from leasehold.checker.conform.coverage import Coverage
from leasehold.checker.explore import Exploration, explore
from leasehold.reports.coverage import _graph, _product, _where
from leasehold.reports.product import LARGEST, product, projections, where_are
from leasehold.spec import shipped_folder
from tests.systems import load


def test_each_role_of_the_product_is_where_its_own_machines_are() -> None:
    tried = 0
    for name in ("two_phase_commit", "three_phase_commit", "contention"):
        system = load(name)
        roles = [system.roles[role] for role in system.product]
        states = {role.name: [[*role.states][n % len(role.states)] for n in range(role.count)] for role in roles}
        control = tuple(state for role in roles for state in states[role.name])
        assert _where(system, control) == tuple(where_are(role, states[role.name]) for role in roles)
        tried += any(role.count > 1 for role in roles[:-1])
    assert tried > 0


@pytest.mark.parametrize("name", ["two_phase_commit", "three_phase_commit", "starter"])
def test_a_projection_has_the_sum_of_what_it_joins(name: str) -> None:
    """Nodes and links, these by label, have their sums; a step within one of its nodes is no link."""
    whole = product(explore(load(shipped_folder(name))))
    rng = Random(name)
    seen = Counter({node.control: rng.randrange(5) for node in whole.nodes})
    controls = [node.control for node in whole.nodes]
    links = Counter(
        {
            (controls[link.source], controls[link.target], label): rng.randrange(1, 9)
            for link in whole.links
            for label in link.labels
        }
    )
    joined = 0
    for graph in projections(whole).values():
        drawn = _graph(whole, graph, seen, links)
        kept = [n for n, role in enumerate(whole.roles) if role.name in drawn["roles"]]
        at = [tuple(node["control"]) for node in drawn["nodes"]]
        nodes: Counter[Any] = Counter()
        for control, times in seen.items():
            nodes[tuple(control[n] for n in kept)] += times
        assert {where: node["seen"] for where, node in zip(at, drawn["nodes"], strict=True)} == nodes
        expected: Counter[Any] = Counter()
        for (before, after, label), times in links.items():
            ends = tuple(before[n] for n in kept), tuple(after[n] for n in kept)
            if ends[0] != ends[1]:
                joined += (*ends, label) in expected
                expected[*ends, label] += times
        assert {(at[a], at[b], label): times for a, b, labels in drawn["links"] for label, times in labels} == expected
    assert joined or name == "starter"


@cache
def explored_commit() -> Exploration:
    return explore(load("two_phase_commit"))


@pytest.mark.parametrize("listed", [3, LARGEST])
@pytest.mark.parametrize("share", [0, 1, 3, 100])
@pytest.mark.parametrize("beyond", [0, 1, 40])
def test_what_is_beyond_the_exploration_is_not_covered(
    share: int, beyond: int, listed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logs come to states that were explored, and to others; what is covered and what is missing are all explored.

    All that is missing is counted, however much of it is listed.
    """
    monkeypatch.setattr("leasehold.reports.coverage.LARGEST", listed)
    found = explored_commit()
    system, explored = found.system, {node.control for node in product(found).nodes}
    roles = [system.roles[name] for name in system.product]
    every = [[*role.states] for role in roles for _ in range(role.count)]
    rng, coverage = Random(share), Coverage(system)
    controls = {tuple(rng.choice(states) for states in every) for _ in range(4000)}
    inside = sorted(control for control in controls if _where(system, control) in explored)
    outside = sorted(control for control in controls if _where(system, control) not in explored)
    assert len(outside) > 40
    for control in (*inside[: len(inside) * share // 100], *outside[:beyond]):
        coverage.control[control] = rng.randrange(1, 9)
    shown = _product(found, coverage)
    seen = {_where(system, control) for control in coverage.control}
    assert shown["covered"] == len(seen & explored)
    assert (shown["reachable"], shown["missing_count"]) == (len(explored), len(explored - seen))
    assert {tuple(where) for where in shown["beyond"]} == seen - explored
    assert {tuple(where) for where in shown["missing"]} <= explored - seen
    assert len(shown["missing"]) == min(listed, len(explored - seen))
