"""Walking freely through the states of a system: forward, back, another way, with faults where a budget has some left.

A *trail* names a way by the keys of its steps. A key tells what happens (kind, machine, event, fields, sender), and not
what that changes: so it names the same step in a specification that was edited meanwhile, as long as there is one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import TypeAlias

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.labels import Labels, Left, after
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.result import Path, Snapshot, Step
from leasehold.checker.explore.step import Action, SpecFault
from leasehold.faults.model import Budget
from leasehold.spec.language.model import System

Trail: TypeAlias = tuple[str, ...]
MOST_KEPT = 20_000  # positions that a walker remembers, so that the next one on a trail is one step away


@dataclass(frozen=True, eq=False)
class Position:
    """A place that a walk has come to.

    Attributes:
        state: the state there, and `left` the faults that may still come.
        trail: the keys of the first state and of the steps that lead here.
        before: the position one step back, and `action` that step; None at a first state.
    """

    state: State
    left: Left
    trail: Trail
    before: Position | None = None
    action: Action | None = None

    def way(self) -> list[Position]:
        """The positions on the way here, from the first state on."""
        back: list[Position] = []
        at: Position | None = self
        while at is not None:
            back.append(at)
            at = at.before
        return back[::-1]


@dataclass(frozen=True)
class NextSteps:
    """The steps that are possible at a position.

    Attributes:
        next: the positions after them, in a fixed order.
        fault: a mistake of the specification that shows there, such as two guards that hold at once; None: none.
    """

    next: Sequence[Position]
    fault: SpecFault | None = None


@dataclass(frozen=True)
class FollowedTrail:
    """A trail that was followed as far as it goes.

    Attributes:
        position: its last position.
        lost: the number of the first step that is not possible there, from 1 on; 0: of its first state; None: none.
    """

    position: Position
    lost: int | None = None


class Walker:
    """Walks through a system under a budget of faults.

    Attributes:
        paths: tells states and steps as a person reads them.
    """

    def __init__(self, system: System, budget: Budget | None = None) -> None:
        self.system, self.budget = system, budget
        self.world = reference_of(system, budget)
        self.paths = Paths(self.world, (), Labels())
        self._choices: dict[Trail, NextSteps] = {}

    @cached_property
    def firsts(self) -> list[Position]:
        """The first states, in a fixed order.

        Raises:
            SpecError: there is none.
        """
        states = self.world.initial_states()
        keys = _numbered(_digest(repr(state)) for state in states)
        return [Position(s, self.world.budgeted, (key,)) for s, key in zip(states, keys, strict=True)]

    def choices(self, at: Position) -> NextSteps:
        """The steps that are possible at a position; each machine's, then those of channels, time and faults."""
        known = self._choices.get(at.trail)
        if known is None:
            if len(self._choices) >= MOST_KEPT:
                self._choices.clear()
            known = self._choices[at.trail] = self._look(at)
        return known

    def _look(self, at: Position) -> NextSteps:
        steps: list[tuple[Action, State, Left]] = []
        fault = None
        try:
            for action, state in self.world.successors(at.state, at.left):
                left = after(at.left, action.cost)
                if left is not None:
                    steps.append((action, state, left))
        except SpecFault as found:
            fault = found
        keys = _numbered(_key(action) for action, _, _ in steps)
        trails = ((*at.trail, key) for key in keys)
        found_ = [Position(s, left, t, at, a) for (a, s, left), t in zip(steps, trails, strict=True)]
        return NextSteps(found_, fault)

    def follow(self, trail: Sequence[str]) -> FollowedTrail:
        """Follows a trail from its first state on, as far as its steps are possible; an empty one has the first."""
        at = next((p for p in self.firsts if trail and p.trail[0] == trail[0]), None)
        if at is None:
            return FollowedTrail(self.firsts[0], 0 if trail else None)
        for number, key in enumerate(trail[1:], 1):
            step = next((p for p in self.choices(at).next if p.trail[-1] == key), None)
            if step is None:
                return FollowedTrail(at, number)
            at = step
        return FollowedTrail(at)

    def along(self, path: Path) -> FollowedTrail:
        """Follows a path that an exploration has found, of this system under these faults or fewer."""
        states = [path.initial, *(step.state for step in path.steps)]
        at = next((p for p in self.firsts if _same(self.snapshot(p), states[0])), None)
        if at is None:
            return FollowedTrail(self.firsts[0], 0)
        for number, (step, state) in enumerate(zip(path.steps, states[1:], strict=True), 1):
            alike = (p for p in self.choices(at).next if p.action is not None and p.action.kind == step.kind)
            there = next(
                (p for p in alike if _same(self.snapshot(p), state) and self.step(p).title == step.title), None
            )
            if there is None:
                return FollowedTrail(at, number)
            at = there
        return FollowedTrail(at)

    # In words

    def snapshot(self, at: Position) -> Snapshot:
        """A position's state as a person reads it."""
        return self.paths.snapshot(at.state)

    def step(self, at: Position) -> Step:
        """The step that led to a position, which is not a first state."""
        assert at.before is not None
        assert at.action is not None
        return self.paths.describe(at.before.state, at.action, at.state)

    def path(self, at: Position) -> Path:
        """The way to a position."""
        first, *rest = at.way()
        return Path(self.snapshot(first), tuple(self.step(p) for p in rest))


def _same(one: Snapshot, other: Snapshot) -> bool:
    """Returns whether two snapshots tell of the same records, messages and time."""
    return (one.control, one.data, one.channels, one.now) == (other.control, other.data, other.channels, other.now)


def _key(action: Action) -> str:
    """The key of a step: five letters and digits that do not depend on the state."""
    lane = None if action.lane is None else action.lane.channel.name
    told = (action.kind, action.role, action.instance, action.event, action.fields, action.sender, lane)
    return _digest(repr((*told, action.copy, action.point, action.done)))


def _digest(words: str) -> str:
    """Five letters and digits that stand for a text."""
    number, letters = int.from_bytes(blake2b(words.encode(), digest_size=4).digest()), ""
    for _ in range(5):
        number, at = divmod(number, len(_ALPHABET))
        letters += _ALPHABET[at]
    return letters


_ALPHABET = "abcdefghijkmnpqrstuvwxyz23456789"  # none that is taken for another


def _numbered(keys: Iterable[str]) -> list[str]:
    """Keys of which those that occur again have a number."""
    seen: dict[str, int] = {}
    made = []
    for key in keys:
        seen[key] = seen.get(key, 0) + 1
        made.append(key if seen[key] == 1 else f"{key}~{seen[key]}")
    return made
