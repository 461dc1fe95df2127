"""The way back from a state's number to a shortest path that a person can read and a tool can replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from leasehold.checker.explore.graph.arrays import numbered
from leasehold.checker.explore.graph.fairness import Group
from leasehold.checker.explore.labels import KnownLabels
from leasehold.checker.explore.layout import Layout, State
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.result import Driven, Path, Sent, Snapshot, Step
from leasehold.checker.explore.step import Action
from leasehold.checker.explore.symmetry import inverse
from leasehold.spec.language import types as t
from leasehold.spec.language.expression import Expression
from leasehold.spec.language.model import Datum, machine_name

if TYPE_CHECKING:
    from leasehold.checker.explore.canonical import Canonical


class Paths:
    """Rebuilds paths over an explored graph; under symmetry, where states stand for others, real runs."""

    def __init__(
        self, world: Reference, states: Sequence[State], labels: KnownLabels, canonical: Canonical | None = None
    ) -> None:
        self.world, self.states, self.labels, self.canonical = world, states, labels, canonical

    # All states at once

    def where(self, e: Expression) -> Any:
        """Returns for each state whether an expression over it holds: an array of truths."""
        holds = self.world.function(e)
        return np.fromiter((bool(holds(s, (), -1)) for s in self.states), dtype=bool, count=len(self.states))

    def column(self, cell: int) -> tuple[list[Any], Any]:
        """The values of a cell in all states, and by state the number of its value: an array."""
        number_of: dict[Any, int] = {}
        numbers = (number_of.setdefault(s[cell], len(number_of)) for s in self.states)
        column = np.fromiter(numbers, dtype=np.int64, count=len(self.states))
        return list(number_of), column

    def holding(self, cell: int, value: object) -> Any:
        """Returns for each state whether a cell has a value: an array of truths."""
        values, column = self.column(cell)
        return np.array([v == value for v in values], dtype=bool)[column]

    def combinations(self, cells: Sequence[int]) -> tuple[Any, list[tuple[Any, ...]]]:
        """Returns the number of what each state has in some cells: an array; and what that is, by number."""
        numbers = np.zeros(len(self.states), dtype=np.int64)
        known: list[tuple[Any, ...]] = [()]
        for cell in cells:
            values, column = self.column(cell)
            keys = numbers * len(values) + column
            examples, numbers = numbered(keys)
            known = [(*known[n // len(values)], values[n % len(values)]) for n in keys[examples].tolist()]
        return numbers, known

    def among(self, numbers: Any, other: Paths, cells: int) -> Any:
        """Returns for states with these numbers whether another search has one with the same first `cells` cells."""
        known = {s[:cells] for s in other.states}
        return np.fromiter((s[:cells] in known for s in self.some(numbers)), dtype=bool, count=len(numbers))

    def some(self, numbers: Any) -> Iterator[State]:
        """The states with these numbers."""
        return (self.states[n] for n in numbers)

    # Paths

    def to(self, number: int, then: tuple[Action, State] | None = None) -> Path:
        """A shortest path to a state, and one more step where given."""
        return self.to_label(self.labels.of[number][0], then)

    def to_label(self, label: int, then: tuple[Action, State] | None = None) -> Path:
        """A shortest path to a label, and one more step where given."""
        run = self._run(self.labels.chain(label))
        steps = [self.step(a, b) for a, b in pairwise(run)]
        if then is not None:
            steps.append(self.describe(run[-1], *self._as_from(run[-1], *then)))
        return Path(self.snapshot(run[0]), tuple(steps))

    def chain(self, number: int) -> list[int]:
        """The states on a shortest path to a state, from the first on."""
        return self.labels.chain(self.labels.of[number][0])

    def along(
        self,
        numbers: Sequence[int],
        loop: int | None = None,
        weak: Set[Group] = frozenset(),
        strong: Set[Group] = frozenset(),
    ) -> Path:
        """The path through these states, of which the first is an initial one.

        Where steps of several groups join two states of the loop, it goes round until it has taken a step of each group
        to which the run has to be fair.

        Args:
            numbers: of the states.
            loop: the index among `numbers` that an endless run returns to.
            weak: the groups to which the run is weakly fair.
            strong: those to which it is strongly fair.
        """
        run = self._run(numbers)
        end = len(run) if loop is None else loop + 1
        steps = [self.step(a, b) for a, b in pairwise(run[:end])]
        if loop is not None:
            steps += self._rounds(run[loop:], weak, strong)
        return Path(self.snapshot(run[0]), tuple(steps), loop)

    def _rounds(self, cycle: Sequence[State], weak: Set[Group], strong: Set[Group]) -> list[Step]:
        """The steps of a cycle, once or several times round, with one of each group that a fair run has to take."""
        states = cycle[:-1] or cycle
        ways = [[action for action, _ in self.world.successors(state)] for state in states]
        possible = [{action.group for action in actions if action.group is not None} for actions in ways]
        owed = (weak & set.intersection(*possible)) | (strong & set.union(*possible))
        if len(cycle) == 1:  # a step that has to come may change nothing
            cycle = [*cycle, *cycle] if owed else cycle
        options = [[action for action, after in self.world.successors(a) if after == b] for a, b in pairwise(cycle)]
        offered = [{a.group for a in actions if a.group is not None and not a.fault} for actions in options]
        owed &= set().union(*offered)
        steps: list[Step] = []
        while True:
            chosen = _matched([groups & owed for groups in offered])
            for (before, after), actions, group in zip(pairwise(cycle), options, chosen, strict=True):
                action = next(
                    (a for a in actions if group is not None and a.group == group and not a.fault), actions[0]
                )
                steps.append(self.describe(before, action, after))
            owed -= {group for group in chosen if group is not None}
            if not owed:
                return steps

    def _run(self, numbers: Sequence[int]) -> list[State]:
        """States of which each follows from the one before, and for which those with these numbers stand."""
        run = [self.states[numbers[0]]]
        for number in numbers[1:]:
            if self.canonical is None:
                run.append(self.states[number])
            else:
                run.append(self._next(run[-1], self.states[number], self.canonical))
        return run

    def _next(self, before: State, form: State, canonical: Canonical) -> State:
        for _, after in self.world.successors(before):
            if canonical.form(after) == form:
                return after
        raise LookupError("there is no such step")

    def _as_from(self, state: State, action: Action, after: State) -> tuple[Action, State]:
        """A step from the form of a state as a step from the state itself."""
        canonical = self.canonical
        if canonical is None:
            return action, after
        back = {role: inverse(order) for role, order in canonical.onto(state).items()}
        there = canonical.moved(after, back)
        wanted = canonical.moved_action(action, back)
        for own, reached in self.world.successors(state):
            if reached == there and canonical.moved_action(own, {}) == wanted:
                return own, reached
        raise LookupError("there is no such step")

    def step(self, before: State, after: State) -> Step:
        for action, state in self.world.successors(before):
            if state == after:
                return self.describe(before, action, after)
        raise LookupError("there is no such step")

    def describe(self, before: State, action: Action, after: State) -> Step:
        layout, system = self.world.layout, self.world.system
        machine = was = became = sender = None
        if action.role is not None:
            role = system.roles[action.role]
            machine = machine_name(role, action.instance)
            at = layout.at(role.name, action.instance, None)
            was, became = before[at], after[at]
        fields = _shown(system.fields_of(action.role, action.event) if action.role else (), action.fields)
        if action.lane is not None:
            sender = machine_name(system.roles[action.lane.channel.sender], action.lane.sender)
        sent: list[Sent] = []
        driven: list[Driven] = []
        for effect in self.world.effects(before, action):
            if len(effect) == 3:
                lane, message, values = effect
                sent.append(
                    Sent(
                        message,
                        machine_name(system.roles[lane.channel.sender], lane.sender),
                        machine_name(system.roles[lane.channel.receiver], lane.receiver),
                        _shown(system.messages[message].fields, values),
                    )
                )
            else:
                child, event, earlier, later, _ = effect
                driven.append(Driven(machine_name(child.role, child.instance), event, earlier, later))
        return Step(
            action.kind,
            machine,
            action.point or action.event,
            fields,
            sender,
            action.transition.name if action.transition else None,
            was,
            became,
            tuple(sent),
            tuple(driven),
            self.snapshot(after),
            action.copy,
        )

    def snapshot(self, state: State) -> Snapshot:
        return snapshot_of(self.world.layout, state)


def snapshot_of(layout: Layout, state: State) -> Snapshot:
    """A state as a person reads it."""
    now = state[layout.clock] if layout.clock is not None else None
    control = layout.control(state)
    where = ((name, role.states[control[name]]) for role, _, name in layout.machines())
    titles = {name: at.title for name, at in where if at.remembers}
    return Snapshot(control, layout.data(state), layout.messages(state), now, titles)


def _matched(wanted: Sequence[Set[Group]]) -> list[Group | None]:
    """Returns for each place one of the groups that are wanted there, so that as many as can be are somewhere."""
    matched: list[Group | None] = [None] * len(wanted)

    def finds_place(group: Group, seen: set[int]) -> bool:
        for place, groups in enumerate(wanted):
            if group in groups and place not in seen:
                seen.add(place)
                other = matched[place]
                if other is None or finds_place(other, seen):
                    matched[place] = group
                    return True
        return False

    for group in dict.fromkeys(g for groups in wanted for g in sorted(groups, key=repr)):
        finds_place(group, set())
    return matched


def _shown(fields: Sequence[Datum], values: Sequence[Any]) -> dict[str, str]:
    return {f.name: t.show(f.type, v) for f, v in zip(fields, values, strict=True)}
