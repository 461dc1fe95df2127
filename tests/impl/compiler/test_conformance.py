"""The compiled core does what the explored machines do: every edge of the explored graph, walked through it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.step import SpecFault
from leasehold.spec.language import types as t
from leasehold.spec.language.model import Datum
from tests.impl.compiler.twin import Twin, walk
from tests.systems import load

KINDS = {"unit_kinds": 2, "reasons": 2, "kinds": 2}  # so that a value can be taken for another
REPLACED = {
    "max_units": 2,
    "losses": True,
    "expiry": False,
    "close_early": False,
    "repair_limit": 0,
    "replace_limit": 0,
}


@pytest.mark.parametrize(
    ("name", "given_", "budget"),
    [
        ("lease", {"max_units": 1, "last_end": 1}, ""),
        pytest.param("lease", {"max_units": 1, "last_end": 2}, "", marks=pytest.mark.long),
        pytest.param("lease", {"max_units": 2, "expiry": False}, "duplicate=1", marks=pytest.mark.slow),
        ("lease", {"max_units": 1, "expiry": False}, "duplicate=1"),
        pytest.param(
            "lease", {"max_units": 1, "last_end": 2, "lazy_close": False, "reorders": 1}, "", marks=pytest.mark.long
        ),
        pytest.param(
            "lease",
            {"max_units": 1, "expiry": False, "held_joins": True, "retiring": True} | KINDS,
            "",
            marks=pytest.mark.long,
        ),
        pytest.param("lease", {"max_units": 1, "losses": True, "expiry": False}, "", marks=pytest.mark.long),
        pytest.param("lease", {"max_units": 1, "advance": True}, "", marks=pytest.mark.long),
        pytest.param("lease", REPLACED, "", marks=pytest.mark.slow),
        pytest.param("lease", {"max_units": 1, "losses": True}, "", marks=pytest.mark.slow),
        pytest.param("lease", {"max_units": 2, "expiry": False} | KINDS, "", marks=pytest.mark.slow),
        pytest.param("contention", {}, "", marks=pytest.mark.slow),
        ("contention", {"leases": 1}, ""),
        pytest.param("two_phase_commit", {"participants": 3}, "duplicate=1", marks=pytest.mark.long),
        ("two_phase_commit", {"participants": 2}, "duplicate=1"),
        ("three_phase_commit", {"participants": 2}, "duplicate=1"),
        ("three_phase_commit_termination", {"participants": 2}, ""),
    ],
)
def test_every_edge(name: str, given_: dict[str, Any], budget: str) -> None:
    twin = walk(load(name, given_), budget)
    assert twin.seen["taken"] > 10
    assert not budget or twin.seen["duplicate"] > 0


@pytest.mark.slow
def test_every_edge_of_the_lease() -> None:
    twin = walk(load("lease"), "")
    assert twin.seen["taken"] > 400_000


def _values(fields: Sequence[Datum]) -> st.SearchStrategy[tuple[Any, ...]]:
    every = ([v for v in t.domain(f.type, (0, 3)) if t.in_range(f.type, v)] for f in fields)
    return st.tuples(*map(st.sampled_from, every))


def _states(world: Reference) -> st.SearchStrategy[State]:
    """Global states of any kind, reachable or not: records with any values, and a message or two on their way."""
    system, cells = world.system, []
    for role, _ in system.machines():
        cells.append(st.sampled_from(list(role.states)))
        cells += [st.sampled_from(list(t.domain(d.type, (0, 3)))) for d in role.data.values()]
    for lane in world.layout.lanes:
        kinds = [m for m in system.received_by(lane.channel.receiver) if m.sender == lane.channel.sender]
        entries = [st.tuples(st.integers(0, 1), st.just(m.name), _values(m.fields)) for m in kinds]
        cells.append(st.one_of(st.just((0, ())), st.tuples(st.integers(1, 2), st.tuples(st.one_of(entries)))))
    cells += [st.just(0) for _ in world.layout.budgets]
    if world.layout.clock is not None:
        cells.append(st.integers(0, 3))
    return st.tuples(*cells)


WORLDS = {
    "lease": {"max_units": 2},
    "two_phase_commit": {"participants": 2},
    "three_phase_commit_termination": {"participants": 2},
}


@cache
def _twin(name: str) -> Twin:
    return Twin(reference_of(load(name, WORLDS[name])))


@pytest.mark.long
@pytest.mark.parametrize("name", list(WORLDS))
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_event_in_any_state(name: str, data: st.DataObject) -> None:
    """Also where no run comes to; but for states in which the specification itself is at fault."""
    twin = _twin(name)
    s = data.draw(_states(twin.world))
    try:
        list(twin.world.successors(s))
    except SpecFault:
        return
    twin.state(s)
