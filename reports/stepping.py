"""A walk through a system as JSON: where it has come to, what is possible there, and how each property stands.

The live page asks it of a walker, one position at a time. A system with few states is written whole into its report,
where the same page steps without a server. What a way owes is not known there, as a state stands for all ways to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leasehold.checker.explore.layout import State
from leasehold.checker.explore.result import Exploration
from leasehold.checker.explore.standing import STATUSES, Standing, Standings, faults_at
from leasehold.checker.explore.walker import FollowedTrail, Position, Walker
from leasehold.reports.json_report import picked, plain
from leasehold.reports.page_values import first_entry, role_json, step_entry
from leasehold.reports.product import where_are
from leasehold.reports.sequence import sequence_step
from leasehold.spec.language.expression import as_written
from leasehold.spec.language.model import System, machine_name


def system_json(system: System, faults: str) -> dict[str, Any]:
    """A system as the page shows it before anything of it was explored; `faults` is the budget of the walk."""
    properties = [
        {
            **picked(p, "name kind doc within"),
            "claim": as_written(p.claim),
            "when": as_written(p.when) if p.when is not None else "",
        }
        for p in system.properties.values()
    ]
    return {
        "system": picked(system, "name doc digest"),
        "faults": faults,
        "machines": [machine_name(role, i) for role, i in system.machines()],
        "product": list(system.product),
        "roles": [role_json(role, None) for role in system.roles.values()],
        "properties": properties,
        "statuses": STATUSES,
    }


def position_json(walker: Walker, standings: Standings, followed: FollowedTrail, since: int = 0) -> dict[str, Any]:
    """A position, and the steps that lead on; of the way there the entries from this number on."""
    at, world = followed.position, walker.world
    machines = [name for _, _, name in world.layout.machines()]
    way = at.way()
    steps, was = walker.choices(at), walker.snapshot(at).shown
    return {
        "trail": list(at.trail),
        "lost": followed.lost,
        "since": since,
        "entries": [_entry(walker, machines, p, number) for number, p in enumerate(way) if number >= since],
        "cell": cell_of(walker, at),
        "left": dict(zip(world.limited, at.left, strict=True)),
        "faults": faults_at(walker, at),
        "outside": not world.within_bounds(at.state),
        "mistake": None if steps.fault is None else str(steps.fault),
        "choices": [_choice(walker, was, p) for p in steps.next],
        "claims": [_standing(s) for s in standings.at(at) if s.status != "no case"],
    }


def cell_of(walker: Walker, at: Position) -> list[str]:
    """The control state of the product there, by role, as product.py names it."""
    control = walker.world.layout.control(at.state)
    roles = [walker.system.roles[name] for name in walker.system.product]
    return [where_are(role, [control[machine_name(role, i)] for i in range(role.count)]) for role in roles]


MOST_STATES = 1_000  # of a system that is written whole into its report
MOST_STEPS = 5_000


def graph_json(exploration: Exploration) -> dict[str, Any] | None:
    """All states that were explored and the steps between them; None: there are too many, or faults among them.

    A state has what differs from the first one; a step its key, its words, its rows, the state it leads to, and the
    claims about steps that it violates.
    """
    system = exploration.system
    if exploration.paths is None or exploration.paths.world.faulty or exploration.distinct > MOST_STATES:
        return None
    walker = Walker(system)
    standings, machines = Standings(walker), [name for _, _, name in walker.world.layout.machines()]
    numbers, states, steps = dict[State, int](), list[Position](), 0

    def number(p: Position) -> int:
        if p.state not in numbers:
            numbers[p.state] = len(states)
            states.append(Position(p.state, p.left, (str(len(states)),)))
        return numbers[p.state]

    firsts = [(p.trail[0], number(p)) for p in walker.firsts]
    told: list[dict[str, Any]] = []
    while len(told) < len(states):
        at = states[len(told)]
        inside = walker.world.within_bounds(at.state)
        found, was = walker.choices(at), walker.snapshot(at).shown
        steps += len(found.next)
        if len(states) > MOST_STATES or steps > MOST_STEPS:
            return None
        told.append(
            _state(walker, at, states[0])
            | {
                "cell": cell_of(walker, at),
                "outside": not inside,
                "mistake": None if found.fault is None else str(found.fault),
                "claims": [_standing(s) for s in standings.at(at) if s.status != "no case"],
                "choices": [
                    _choice(walker, was, p)
                    | _entry(walker, machines, p, 1)
                    | {"to": number(p), "broken": [_standing(s) for s in standings.violated_by_step(p)]}
                    for p in (found.next if inside else ())
                ],
            }
        )
    return {"statuses": STATUSES, "firsts": firsts, "initial": first_entry(walker.snapshot(states[0])), "states": told}


def _state(walker: Walker, at: Position, first: Position) -> dict[str, Any]:
    """A state as it differs from the first one."""
    state, initial = walker.snapshot(at), walker.snapshot(first)
    return {
        "control": {name: value for name, value in state.shown.items() if initial.shown[name] != value},
        "data": {name: value for name, value in state.data.items() if initial.data[name] != value},
        "channels": plain(state.channels),
        "now": state.now,
    }


def _entry(walker: Walker, machines: list[str], at: Position, number: int) -> dict[str, Any]:
    if at.before is None:
        return first_entry(walker.snapshot(at))
    return step_entry(machines, sequence_step(number, walker.step(at), walker.snapshot(at.before)))


def _choice(walker: Walker, was: Mapping[str, str], at: Position) -> dict[str, Any]:
    """A step that is possible: its key and its words, and what of the control states `was` it changes."""
    step = walker.step(at)
    assert at.action is not None
    return {
        "key": at.trail[-1],
        **picked(step, "kind machine title transition"),
        "fault": at.action.fault,
        "control": {machine: state for machine, state in step.state.shown.items() if was.get(machine) != state},
    }


def _standing(standing: Standing) -> dict[str, Any]:
    return {
        name: value
        for name, value in picked(standing, "name status failed binding since ticks reason").items()
        if value or value == 0
    }
