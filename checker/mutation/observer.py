"""The difference that an observer outside sees between a system and a mutant of it: the shortest one, or none.

An observer sees each message as it is sent and as it is received, with its fields; what the world outside does, and the
answers of policies and handlers; which policies and handlers are called; time; and crashes, restarts and whatever else
faults do. Of machines it sees the control states of subsidiary roles, such as units and guests; of a system that has
none, those of all roles, and the shared variables. It sees no other record, and not what a policy or a handler is shown
of one.

Theory of operation. A step whose label is empty is hidden. Both systems are determinised as the search comes to them:
a node is all states in which a system may be after what was seen so far. Two nodes are compared by the labels that
lead on from them, breadth first, so that the difference that is found is one of the fewest seen steps. Where the search
ends without one, the two have the same finite traces. That says nothing of endless hidden runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.ground import Function, GroundMachine
from leasehold.checker.explore.labels import Left, after, dominates
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.step import Action, SpecFault
from leasehold.checker.mutation.battery import Trial
from leasehold.spec.language.expression import SHARED
from leasehold.spec.language.model import Call, Datum, Drive, System, machine_name
from leasehold.spec.language.types import show

MOST_STATES = 200_000  # of both together, each counted once for each node that it is in
RECEIVED = {"deliver": "received", "duplicate": "received again", "lose": "lost"}

Words: TypeAlias = tuple[Any, ...]


class Label(NamedTuple):
    """The part of a step that is seen: its cause, and what became of it."""

    cause: Words = ()
    calls: tuple[Words, ...] = ()
    sent: tuple[Words, ...] = ()
    changed: tuple[Words, ...] = ()


HIDDEN = Label()
Config: TypeAlias = tuple[State, Left]
Node: TypeAlias = frozenset[Config]
Pair: TypeAlias = tuple[Node, Node]


@dataclass(frozen=True, slots=True)
class ObservedDifference:
    """The first thing that one of two systems can do, as it is seen, and the other cannot.

    Attributes:
        trial: in which it was found.
        before: the steps that are seen before it, in words; the same in both.
        system, mutant: the next step of each, in words; empty where it has none that is so caused.
    """

    trial: Trial
    before: tuple[str, ...]
    system: str
    mutant: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a search: a difference, or none; `complete` says whether everything was compared."""

    difference: ObservedDifference | None = None
    complete: bool = True


def observed_roles(system: System) -> frozenset[str]:
    """The roles whose control states are seen: subsidiary ones, or all where there is none."""
    subsidiary = [role.name for role in system.roles.values() if role.parent is not None]
    return frozenset(subsidiary or system.roles)


class ObservedSystem:
    """A system as it is seen in a trial: the labelled steps from each state, kept once they were asked for."""

    def __init__(self, system: System, trial: Trial) -> None:
        self.world: Reference = reference_of(system, trial.budget)
        self.steps_of: dict[Config, list[tuple[Label, Config]]] = {}
        roles = observed_roles(system)
        self._seen = [(machine_name(m.role, m.instance), m.cell) for m in self.world.machines if m.role.name in roles]
        if roles >= system.roles.keys():
            at = self.world.layout.at
            self._seen += [(f"{SHARED.name}.{name}", at(SHARED.name, 0, name)) for name in system.shared]

    # Nodes

    def first(self) -> Mapping[Label, Node]:
        """The nodes in which it begins, by what is seen there."""
        by_label: dict[Label, set[Config]] = {}
        for s in self.world.initial_states():
            label = Label(changed=tuple((name, s[cell]) for name, cell in self._seen))
            by_label.setdefault(label, set()).add((s, self.world.budgeted))
        return {label: self._node(configs) for label, configs in by_label.items()}

    def following(self, node: Node) -> Mapping[Label, Node]:
        """The nodes that follow, by the label of the step."""
        by_label: dict[Label, set[Config]] = {}
        for config in node:
            for label, to in self.steps(config):
                if label != HIDDEN:
                    by_label.setdefault(label, set()).add(to)
        return {label: self._node(configs) for label, configs in by_label.items()}

    def _node(self, configs: Iterable[Config]) -> Node:
        """The states with those that hidden steps lead to; of the same state only with the most faults left."""
        best: dict[State, list[Left]] = {}
        todo = list(configs)
        while todo:
            state, left = todo.pop()
            known = best.setdefault(state, [])
            if any(dominates(other, left) for other in known):
                continue
            known[:] = [other for other in known if not dominates(left, other)] + [left]
            todo += [to for label, to in self.steps((state, left)) if label == HIDDEN]
        return frozenset((state, left) for state, lefts in best.items() for left in lefts)

    # Steps

    def steps(self, config: Config) -> list[tuple[Label, Config]]:
        """The steps from a state, with their labels; one that shows that the specification is wrong is the last."""
        steps = self.steps_of.get(config)
        if steps is None:
            state, left = config
            steps = self.steps_of[config] = []
            try:
                for action, to in self.world.successors(state, left):
                    rest = after(left, action.cost)
                    if rest is not None:
                        label = self.label(state, action, to)
                        if label != HIDDEN or to != state:
                            steps.append((label, (to, rest)))
            except SpecFault as fault:
                steps.append((Label(("fault", f"fails: {fault}")), config))
        return steps

    def label(self, before: State, action: Action, to: State) -> Label:
        """The part of a step that is seen."""
        sent, entered = [], list(self._entered(action))
        for effect in self.world.effects(before, action):
            if len(effect) == 3:
                lane, message, fields = effect
                sent.append((message, fields, lane.channel.name, lane.sender, lane.receiver))
            elif effect[4] is not None and action.kind != "crash":
                entered.append((effect[0], effect[4]))
        calls = [
            (machine_name(machine.role, machine.instance), task.target)
            for machine, names in self._begun(before, action, to, entered)
            for task, begins in self._calls[machine.role.name, machine.instance]
            if task.name in names and begins(to, (), -1)
        ]
        changed = tuple((name, to[cell]) for name, cell in self._seen if to[cell] != before[cell])
        return Label(self._cause(action), tuple(calls), tuple(sent), changed)

    def _cause(self, action: Action) -> Words:
        kind, role = action.kind, action.role
        if kind in ("deliver", "duplicate", "lose"):
            assert action.lane is not None
            lane = action.lane
            return kind, action.event, action.fields, lane.channel.name, lane.sender, lane.receiver, action.copy
        if kind == "local":
            assert role is not None
            derived = (role, action.event) in self._derived
            return () if derived else (kind, role, action.instance, action.event, action.fields)
        if kind in ("tick", "retry"):
            return ()
        if kind in ("crash", "recover"):
            assert role is not None
            actor = self.world.layout.of[role, action.instance].name
            return kind, action.point.partition("@")[2] or actor if kind == "crash" else actor
        return kind, action.event

    @cached_property
    def _derived(self) -> frozenset[tuple[str, str]]:
        """The events with which a machine learns of its subsidiary machines: a matter of its own."""
        tasks = ((role.name, task) for role in self.world.system.roles.values() for task in role.tasks.values())
        return frozenset((role, a) for role, task in tasks if isinstance(task, Drive) for a in task.answers)

    @cached_property
    def _calls(self) -> Mapping[tuple[str, int], list[tuple[Call, Function]]]:
        """The calls that each machine may make, and when."""
        return {
            (m.role.name, m.instance): [
                (task, _always if task.when is None else m.function(task.when))
                for task in m.role.tasks.values()
                if isinstance(task, Call)
            ]
            for m in self.world.machines
        }

    def _entered(self, action: Action) -> Iterator[tuple[GroundMachine, Any]]:
        """The machine that takes a step, with its transition; one that crashes has called nothing yet."""
        if action.role is not None and action.transition is not None and action.kind != "crash":
            yield self.world.by_name[action.role, action.instance], action.transition

    def _begun(
        self, before: State, action: Action, to: State, entered: Iterable[tuple[GroundMachine, Any]]
    ) -> Iterator[tuple[GroundMachine, tuple[str, ...]]]:
        """The machines that start tasks in a step, with the names of these tasks."""
        if action.kind == "recover":
            assert action.role is not None
            for m in self.world.machines_of[self.world.layout.of[action.role, action.instance].name]:
                yield m, m.role.states[to[m.cell]].tasks
        for machine, transition in entered:
            at_target = () if transition.internal else machine.role.states[transition.target].tasks
            yield machine, (*at_target, *transition.also)


def _always(s: Any, e: tuple[Any, ...], sender: int) -> bool:
    return True


def compared(own: ObservedSystem, mutant: ObservedSystem, trial: Trial, most: int = MOST_STATES) -> Comparison:
    """The shortest difference that is seen between a system and its mutant in a trial, if there is one."""
    came_by: dict[Pair, tuple[Pair | None, Label]] = {}
    wording = SeenWords(own.world.system)

    def way(pair: Pair | None) -> tuple[str, ...]:
        """The steps that lead to a pair of nodes, in words; what is seen at first is none."""
        labels = []
        while pair is not None:
            pair, label = came_by[pair]
            labels.append(label)
        return tuple(wording.text(label) for label in reversed(labels[:-1]))

    todo: list[Pair] = []
    before: Pair | None = None
    met = 0
    while True:
        own_nodes = own.first() if before is None else own.following(before[0])
        mutant_nodes = mutant.first() if before is None else mutant.following(before[1])
        if own_nodes.keys() != mutant_nodes.keys():
            return Comparison(
                ObservedDifference(trial, way(before), *wording.apart(own_nodes.keys(), mutant_nodes.keys()))
            )
        for label, node in own_nodes.items():
            pair = node, mutant_nodes[label]
            if pair not in came_by:
                came_by[pair] = before, label
                todo.append(pair)
                met += len(node) + len(mutant_nodes[label])
        if not todo:
            return Comparison()
        if met > most:
            return Comparison(complete=False)
        before = todo.pop(0)


# Words


class SeenWords:
    """Labels in words."""

    def __init__(self, system: System) -> None:
        self.system = system

    def apart(self, own: Collection[Label], mutants: Collection[Label]) -> tuple[str, str]:
        """The label that only one of two systems has, and the other's for the same cause, or nothing."""
        only = {self.text(label): label for label in own if label not in mutants}
        others = {self.text(label): label for label in mutants if label not in own}
        pairs = [(a, b) for a in only for b in others if only[a].cause == others[b].cause]
        if pairs:
            return min(pairs)
        return ("", min(others)) if others else (min(only), "")

    def text(self, label: Label) -> str:
        """One seen step in a line."""
        parts = [self._cause(label.cause)] if label.cause else []
        parts += [f"{machine} calls {task}" for machine, task in label.calls]
        parts += [
            f"{self._message(message, fields)} is sent {self._between(*ends)}" for message, fields, *ends in label.sent
        ]
        parts += [f"{name} is {value}" for name, value in label.changed]
        return "; ".join(parts)

    def _cause(self, cause: Words) -> str:
        kind = cause[0]
        if kind in RECEIVED:
            _, message, fields, channel, sender, receiver, copy = cause
            again = " and comes again" if copy else ""
            ends = self._between(channel, sender, receiver)
            return f"{self._message(message, fields)} is {RECEIVED[kind]} {ends}{again}"
        if kind == "local":
            _, role, instance, event, fields = cause
            given = _fields(self.system.fields_of(role, event), fields)
            return f"{event}{given} at {machine_name(self.system.roles[role], instance)}"
        verb = {"crash": " crashes", "recover": " restarts"}.get(kind, "")
        return f"{cause[1]}{verb}"

    def _message(self, message: str, fields: Sequence[Any]) -> str:
        return f"{message}{_fields(self.system.messages[message].fields, fields)}"

    def _between(self, channel: str, sender: int, receiver: int) -> str:
        ends = self.system.channels[channel]
        one, other = self.system.roles[ends.sender], self.system.roles[ends.receiver]
        return f"({machine_name(one, sender)} to {machine_name(other, receiver)})"


def _fields(data: Sequence[Datum], values: Sequence[Any]) -> str:
    shown = ", ".join(f"{d.name}={show(d.type, v)}" for d, v in zip(data, values, strict=True))
    return f"({shown})" if shown else ""
