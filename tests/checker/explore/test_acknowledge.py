"""A crash between the acknowledgement and the sends gives no state that is not explored (docs/decisions/0014)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from leasehold.checker.explore import channels, explore
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.result import Exploration
from leasehold.checker.explore.step import Action
from leasehold.faults.model import Budget
from tests.systems import load

SYSTEMS = pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("two_phase_commit", {"participants": 2}),
        ("three_phase_commit", {"participants": 2}),
        ("lease", {"expiry": False, "max_units": 1, "last_end": 2}),
    ],
)


def received(found: Exploration, kind: str) -> Iterator[tuple[Reference, State, Action]]:
    """Every message that an actor receives while a crash is left."""
    world, labels = found.paths.world, found.paths.labels
    assert world.faulty
    for number, s in enumerate(found.paths.states):
        if any(labels.lefts[label][0] for label in labels.of[number]):
            for action, _ in world.successors(s):
                if action.kind == kind and not action.fault:
                    yield world, s, action


def stopped(world: Reference, s: list[object], action: Action) -> State:
    assert action.role is not None
    actor = world.layout.of[action.role, action.instance]
    return world._down(s, next(crash for crash in world.relation.crashes if [*crash.actors] == [actor]))


def acknowledged(world: Reference, s: State, action: Action) -> Iterator[tuple[State, bool]]:
    """Crashes after the commit and the acknowledgement and any part of the work; and whether work was handed down."""
    assert action.role is not None
    assert action.lane is not None
    machine = world.by_name[action.role, action.instance]
    move = machine.move(s, action.event, action.transition)
    base = list(s)
    base[action.lane.cell] = channels.take(action.lane.channel.kind, s[action.lane.cell], action.position, False)
    passed = world._commit(base, machine, move, action.fields, action.sender)
    work = [w for w in move.work if w.wanted(base, passed, -1)]
    for done in product((False, True), repeat=len(work)):
        new = list(base)
        for w, d in zip(work, done, strict=True):
            world._do_or_number(new, w, d, passed)
        yield stopped(world, new, action), any(w.lane is None for w in work)


@SYSTEMS
def test_what_was_acknowledged_and_not_sent_is_what_was_sent_and_lost(name: str, settings: dict[str, object]) -> None:
    """Events for subsidiary machines are not messages, and are not lost; only there the order matters."""
    found = explore(load(name, settings), budget=Budget(crash=1))
    reached = set(found.paths.states)
    several = missing = 0
    for world, s, action in received(found, "deliver"):
        if action.transition is None:
            continue
        after = list(acknowledged(world, s, action))
        several += len(after) > 1
        for state, handed_down in after:
            assert handed_down or state in reached
            missing += state not in reached
    assert several > 50
    assert (missing > 0) == (name == "lease")


@SYSTEMS
def test_who_crashes_while_it_answers_again_recovers_as_if_it_had_not_begun(
    name: str, settings: dict[str, object]
) -> None:
    """A duplicate commits nothing, so it comes again; whatever part of the answer was sent, recovery sends it all."""
    found = explore(load(name, settings), budget=Budget(crash=1, duplicate=1))
    reached = set(found.paths.states)
    asked = 0
    for world, s, action in received(found, "duplicate"):
        assert action.role is not None
        assert action.lane is not None
        actor = world.layout.of[action.role, action.instance]
        machine = world.by_name[action.role, action.instance]
        work = [w for w in machine.work[s[machine.cell]] if w.lane is not None and w.wanted(s, (), -1)]
        for done in product((False, True), repeat=len(work)):
            new = list(s)
            for w, d in zip(work, done, strict=True):
                if d:
                    world._do(new, w, None, again=True)
            down = stopped(world, new, action)
            (back,) = [after for step, after in world._recover(actor, down, (False, False)) if step.kind == "recover"]
            assert back in reached
            asked += 1
    assert asked > 10
