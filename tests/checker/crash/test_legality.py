"""The nearest legal state, held against all legal states, one by one."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from leasehold.checker.crash.analysis import crash
from leasehold.checker.crash.legality import StateDifference, nearest_legal
from leasehold.checker.explore import Engine
from leasehold.faults.model import Budget
from tests.systems import load


def distance(one: tuple[Any, ...], other: tuple[Any, ...], cells: int) -> int:
    return sum(a != b for a, b in zip(one[:cells], other[:cells], strict=True))


@pytest.mark.parametrize("engine", ["reference", "packed"])
def test_no_legal_state_is_nearer(engine: Engine) -> None:
    report = crash(load("two_phase_commit", {"participants": 1}), Budget(crash=1), engine=engine)
    faulty, legal = report.faulty.paths, report.legal.paths
    cells = faulty.world.layout.base
    every = [legal.states[n] for n in range(report.legal.distinct)]
    chance, found = Random(7), []
    of_faults = {variable.name for variable in faulty.world.layout.relation.variables}
    for _ in range(40):
        states = [faulty.states[chance.randrange(report.faulty.distinct)] for _ in range(3)]
        least = min(distance(state, other, cells) for state in states for other in every)
        inside = [d for d in nearest_legal(states, faulty, legal) if d.what.partition(" ")[0] not in of_faults]
        assert len(inside) <= least  # a channel's numbers are not shown
        found.append(len(inside))
    assert max(found) > 0


def test_what_a_fault_has_changed_is_told() -> None:
    """An actor that is down makes a state no legal one, though its record is."""
    report = crash(load("two_phase_commit", {"participants": 1}), Budget(crash=1), engine="reference")
    paths = report.faulty.paths
    at = paths.world.layout.up["coordinator"]
    state = next(s for s in paths.states if s[at] != dict(paths.world.quiet)[at])
    assert nearest_legal([state], paths, report.legal.paths)[0].what == "up coordinator"


def test_a_system_that_returns_has_nothing_to_tell() -> None:
    report = crash(load("two_phase_commit", {"participants": 1}), Budget(crash=1))
    assert report.holds
    assert report.differences(None) == ()
    assert report.differences(next(iter(report.cases))) == ()


def test_the_difference_names_machine_and_datum() -> None:
    """Builds a run by hand: a state of the graph without its faults, with one more thing changed."""
    report = crash(load("two_phase_commit", {"participants": 1}), Budget(crash=1), engine="reference")
    paths, legal = report.faulty.paths, report.legal.paths
    layout = paths.world.layout
    state = list(paths.states[0])
    state[layout.at("participant", 0, None)] = "committed"
    found = nearest_legal([tuple(state)], paths, legal)
    assert StateDifference("participant[0]", "committed", found[0].legal) in found
