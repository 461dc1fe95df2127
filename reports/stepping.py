"""A walk through a system as JSON: where it has come to, what is possible there, and how each property stands.

The live page asks it of a walker, one position at a time. A system with few states is written whole into its report,
where the same page steps without a server.
"""

from __future__ import annotations

from typing import Any

from leasehold.checker.explore.standing import STATUSES, Standing, Standings, faults_at
from leasehold.checker.explore.walker import FollowedTrail, Position, Walker
from leasehold.reports.json_report import picked
from leasehold.reports.page import first_entry, role_json, step_entry
from leasehold.reports.product import where_are
from leasehold.reports.sequence import sequence_step
from leasehold.spec.language.expression import text
from leasehold.spec.language.model import System, machine_name


def system_json(system: System, faults: str) -> dict[str, Any]:
    """What the page shows of a system before anything of it was explored; `faults` is the budget of the walk."""
    properties = [
        {
            **picked(p, "name kind doc within"),
            "claim": text(p.claim),
            "when": text(p.when) if p.when is not None else "",
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
    steps = walker.choices(at)
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
        "choices": [_choice(walker, at, p) for p in steps.next],
        "claims": [_standing(s) for s in standings.at(at) if s.status != "no case"],
    }


def cell_of(walker: Walker, at: Position) -> list[str]:
    """The control state of the product there, by role, as product.py names it."""
    control = walker.world.layout.control(at.state)
    roles = [walker.system.roles[name] for name in walker.system.product]
    return [where_are(role, [control[machine_name(role, i)] for i in range(role.count)]) for role in roles]


def _entry(walker: Walker, machines: list[str], at: Position, number: int) -> dict[str, Any]:
    if at.before is None:
        return first_entry(walker.snapshot(at))
    return step_entry(machines, sequence_step(number, walker.step(at), walker.snapshot(at.before)))


def _choice(walker: Walker, before: Position, at: Position) -> dict[str, Any]:
    """A step that is possible: its key and its words, and what of the control states it changes."""
    step, was = walker.step(at), walker.snapshot(before).shown
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
