"""Crash points: where an actor can stop, derived from a specification.

Theory of operation (paper, sections 3.2 and 5.1). A step commits a record, then does the new state's work list, then
acknowledges the message that it consumed. An actor may stop before the commit, after it, and after any part of the
work; pieces of work may overlap, so every subset of the list is a point. A task with several targets may be done in
part (`some-setup`). The state in a point's name is the one in the record: a step from ticketing to ticketed stops at
`crash:broker/ticketing#before-commit`, `crash:broker/ticketed#after-commit`, `crash:broker/ticketed#after-tell` or
`crash:broker/ticketed#before-acknowledge`.

What a call (of a policy or handler) has begun is no part of the model's state, so points that differ only in calls are
one point of the model: its `effects`, one for each way into the state. A running actor has them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import NamedTuple

from leasehold.spec.language.lower import work_of
from leasehold.spec.language.model import Call, Role, Send, State, System

BEFORE, AFTER, ACKNOWLEDGE, RECOVERING = "before-commit", "after-commit", "before-acknowledge", "recovering"


@dataclass(frozen=True, slots=True)
class CrashPoint:
    """One place where an actor may stop.

    Attributes:
        name: such as `crash:broker/ticketed#after-commit`.
        effects: the names of the model's points with the same effect; which one depends on what led to the state.
        role, state: the machine at work and the state in its record.
        done: of a point within a work list, the tasks that were done before; `some-NAME` where a part of its targets
            was reached. At the other points nothing was, or all of it.
    """

    name: str
    effects: tuple[str, ...]
    role: str
    state: str
    done: tuple[str, ...] = ()


class PointParts(NamedTuple):
    """The parts of the name of a point: `crash:ROLE/STATE#WHERE`, and `@GROUP` where others stop with the actor."""

    name: str  # without the group
    role: str
    state: str
    where: str
    group: str


@cache
def point_parts(point: str) -> PointParts:
    """Takes the name of a point apart."""
    name, _, group = point.partition("@")
    role, _, rest = name.removeprefix("crash:").partition("/")
    state, _, where = rest.partition("#")
    return PointParts(name, role, state, where, group)


@cache
def point_name(role: str, state: str, where: str, done: tuple[str, ...] = ()) -> str:
    """`crash:broker/ticketed#after-tell`; `where` is how it reads while nothing is done."""
    tasks = "+".join(done)
    head = f"{RECOVERING}-after" if where == RECOVERING else "after"
    return f"crash:{role}/{state}#{f'{head}-{tasks}' if tasks else where}"


@cache
def work_done(pieces: tuple[tuple[str, bool], ...]) -> tuple[str, ...]:
    """The part of a work list that was done, by task: `pieces` has the task of each piece and whether it was done."""
    by_task: dict[str, list[bool]] = {}
    for task, done in pieces:
        by_task.setdefault(task, []).append(done)
    return tuple(t if all(done) else f"some-{t}" for t, done in by_task.items() if any(done))


def crash_points(system: System) -> tuple[CrashPoint, ...]:
    """Every point at which an actor of the system may stop, in the order of roles and states."""
    points: dict[str, CrashPoint] = {}
    for role in system.roles.values():
        for state in role.states.values():
            for name, effect, done in _points(system, role, state):
                effects = (*points[name].effects, effect) if name in points else (effect,)
                points[name] = CrashPoint(name, tuple(dict.fromkeys(effects)), role.name, state.name, done)
    return tuple(points.values())


def _points(system: System, role: Role, state: State) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Points of a machine in a state: name, effect, and what is done."""

    def named(where: str, done: tuple[str, ...] = ()) -> str:
        return point_name(role.name, state.name, where, done)

    at_rest = named(BEFORE)
    yield at_rest, at_rest, ()
    for transition in role.transitions():
        if transition.target == state.name:
            finished = named(ACKNOWLEDGE) if transition.event in system.messages else at_rest
            for done, seen, everything in _subsets(system, role, work_of(role, transition)):
                effect = finished if seen is None else named(AFTER, seen)
                yield (finished, effect, ()) if everything else (named(AFTER, done), effect, done)
    if any(m.name in {*state.ignored, *state.refused} for m in system.received_by(role.name)):
        yield named(ACKNOWLEDGE), named(ACKNOWLEDGE), ()
    for done, seen, everything in _subsets(system, role, state.tasks):
        if not everything or not done:
            yield named(RECOVERING, done), at_rest if seen is None else named(RECOVERING, seen), done


def _subsets(
    system: System, role: Role, tasks: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...] | None, bool]]:
    """Parts of a work list: what is done, what of that the model sees (None: all it can), and whether all is done."""
    levels = [("", name) if _single(system, role, name) else ("", f"some-{name}", name) for name in tasks]
    visible = [name for name in tasks if not isinstance(role.tasks[name], Call)]
    for chosen in product(*levels):
        done = tuple(c for c in chosen if c)
        seen = tuple(c for c in done if c.removeprefix("some-") in visible)
        yield done, None if list(seen) == visible else seen, list(done) == list(tasks)


def _single(system: System, role: Role, name: str) -> bool:
    task = role.tasks[name]
    if isinstance(task, Call):
        return True
    if isinstance(task, Send) and system.channel_of(task.message).same_index:
        return True
    return system.roles[task.receiver if isinstance(task, Send) else task.role].count == 1
