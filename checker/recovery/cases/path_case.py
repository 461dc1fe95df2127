"""Counterexamples as files: a path of the explorer, step by step, in the words of the specification.

Theory of operation. A step is told by what happens (kind, machine, event, fields, sender) and by what it changes:
control states, data, messages on their way, and the time. A model that reads it follows, from its first state, the step
that is told; so a file is as short as its path, a person can write one, and a specification that has changed since says
at which step it goes another way.

`leasehold explore --json` tells its paths with the same words, and is read alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from leasehold.checker.explore.labels import Labels
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.result import Path, Snapshot, Step
from leasehold.checker.explore.step import Action
from leasehold.checker.recovery.properties import RunProperties
from leasehold.checker.verify.system import CRASH
from leasehold.faults.model import Budget
from leasehold.spec import System

TOLD = ("kind", "machine", "event", "fields", "sender", "data")  # keys of a step; those that are empty are left out
Told = Mapping[str, Any]  # a step, in words
Following = tuple[Action, State]  # a step of the model, and the state after it

T = TypeVar("T")


class CaseError(Exception):
    """A file is no case. The message says what is wrong, and where."""


class NoSuchStep(LookupError):
    """The model has no step that a path tells of.

    Attributes:
        number: of the step, from 1 on; 0: the first state.
    """

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"step {number}: {reason}" if number else reason)
        self.number = number


@dataclass(frozen=True)
class ModelRun:
    """A path that the model has.

    Attributes:
        properties: of the system, under the budget with whose faults the path goes.
        first: its first state.
        steps: from there on.
        loop: the index of the step that an endless run returns to; None: it ends.
    """

    properties: RunProperties
    first: State
    steps: Sequence[Following]
    loop: int | None = None

    @property
    def path(self) -> Path:
        """The path as a person reads it."""
        paths, before, steps = _paths(self.properties), self.first, []
        for action, after in self.steps:
            steps.append(paths.describe(before, action, after))
            before = after
        return Path(paths.snapshot(self.first), tuple(steps), self.loop)


class PathCase(Struct, tag="counterexample", tag_field="case", frozen=True, kw_only=True, omit_defaults=True):
    """A counterexample out of a file.

    Attributes:
        system: its name or folder.
        settings: its constants.
        property: that it breaks.
        budget: the faults under which the explorer has found it; None: none.
        initial: what its first state has that the system's first one has not: control states and data.
        loop: the index of the step that an endless run returns to; None: it ends.
        steps: what happens, and what it changes; also as `leasehold explore --json` tells them.
    """

    system: str
    settings: dict[str, Any] = {}
    property: str
    budget: Budget | None = field(default=None, name="faults")
    initial: dict[str, str] = {}
    loop: int | None = None
    steps: list[dict[str, Any]]

    def __post_init__(self) -> None:
        for number, step in enumerate(self.steps, 1):
            if not isinstance(step.get("kind"), str):
                raise ValueError(f"step {number} has no `kind`")

    @classmethod
    def of(cls, system: System, name: str, path: Path, budget: Budget | None) -> PathCase:
        """A path that the explorer has found under a budget, and that breaks a property."""
        steps = [{"channels": None, **_words(step, before)} for before, step in path.moves()]
        return cls(
            system=system.name, property=name, budget=budget, initial=_flat(path.initial), loop=path.loop, steps=steps
        )

    def run(self, system: System) -> ModelRun:
        """The path in the system; errors are those of `follow`."""
        return self.follow(RunProperties(system, CRASH if self.budget is None else self.budget))

    def follow(self, properties: RunProperties) -> ModelRun:
        """The path in a system under the budget.

        Raises:
            NoSuchStep: the model has none like it.
        """
        paths, initial = _paths(properties), self.initial.items()
        firsts = properties.world.initial_states()
        first = next((state for state in firsts if initial <= _flat(paths.snapshot(state)).items()), None)
        if first is None:
            raise NoSuchStep(0, "the system has no first state like that of the path")
        steps, furthest = followed(first, len(self.steps), lambda n, state: _alike(paths, state, self.steps[n]))
        if furthest < len(self.steps):
            wanted = self.steps[furthest]
            label = " ".join(filter(None, (wanted.get("machine"), wanted["kind"], wanted.get("event"))))
            raise NoSuchStep(furthest + 1, f"the system has no such step any more: {label}")
        return ModelRun(properties, first, steps, self.loop)

    def brief(self, system: System) -> PathCase:
        """The same case, of which the first state and each step tell only what they need.

        Raises:
            NoSuchStep: the system has no such path.
        """
        run = self.run(system)
        paths, path, state = _paths(run.properties), run.path, run.first
        known = _flat(paths.snapshot(run.properties.world.initial_states()[0]))
        initial = {name: value for name, value in _flat(path.initial).items() if known.get(name) != value}
        steps = []
        for (before, step), (_, after) in zip(path.moves(), run.steps, strict=True):
            facts = _words(step, before)
            channels = facts.pop("channels", None)
            facts = {name: value for name, value in facts.items() if value not in (None, {}, [], "")}
            if len({other for _, other in _alike(paths, state, facts)}) > 1:  # messages tell them apart
                facts["channels"] = channels
            steps.append(facts)
            state = after
        return replace(self, initial=initial, steps=steps)


def followed(
    first: State, many: int, fitting: Callable[[int, State], Iterator[tuple[T, State]]]
) -> tuple[list[tuple[T, State]], int]:
    """A way through steps that are told in words, each with the state after it; and how many fit at most.

    Words may fit several steps, as they tell no numbers of messages; so all ways are followed at once.

    Args:
        first: the state before them.
        many: how many steps there are.
        fitting: the steps from a state that fit the words of this number, from 0 on.
    """
    layers: list[dict[State, tuple[T, State]]] = []  # by state after each step: the step, and the state before
    states = [first]
    for n in range(many):
        layer: dict[State, tuple[T, State]] = {}
        for before in states:
            for step, after in fitting(n, before):
                layer.setdefault(after, (step, before))
        if not layer:
            return [], n
        layers.append(layer)
        states = list(layer)
    state, way = states[0], list[tuple[T, State]]()
    for layer in reversed(layers):
        step, before = layer[state]
        way.append((step, state))
        state = before
    return way[::-1], many


def _paths(properties: RunProperties) -> Paths:
    return Paths(properties.world, (), Labels())


def _alike(paths: Paths, state: State, wanted: Told) -> Iterator[Following]:
    """The steps from a state that are told so, and the states after them."""
    before = paths.snapshot(state)
    for action, after in paths.world.successors(state):
        if action.kind == wanted["kind"] and _is(paths.describe(state, action, after), before, wanted):
            yield action, after


def _words(step: Step, before: Snapshot) -> dict[str, Any]:
    """A step in words: what happens, and what it changes."""
    facts: dict[str, Any] = {"kind": step.kind, "machine": step.machine, "event": step.event}
    return facts | {"fields": dict(step.fields), "sender": step.sender, **step.changes(before)}


def _is(step: Step, before: Snapshot, wanted: Told) -> bool:
    """Returns whether a step of the model is the one that is told."""
    facts = _words(step, before)
    if any((wanted.get(name) or None) != (facts[name] or None) for name in TOLD):
        return False
    for name, value in (("state", facts["state"]), ("before", step.before), ("after", step.after)):
        if name in wanted and wanted[name] != value:
            return False
    if wanted.get("now") not in (None, step.state.now):
        return False
    return "channels" not in wanted or wanted["channels"] == facts.get("channels")


def _flat(state: Snapshot) -> dict[str, str]:
    return {**state.control, **state.data}


def reported_cases(report: Mapping[str, Any], where: str, system: str | None = None) -> list[PathCase]:
    """The counterexamples of what `leasehold explore --json` has printed.

    Args:
        report: as it was printed.
        where: the file, for errors.
        system: the folder, where the report names a system that is not shipped.

    Raises:
        CaseError: it is no such report.
    """
    if not isinstance(report.get("properties"), list) or "constants" not in report:
        raise CaseError(f"{where}: it is neither a case nor what `leasehold explore --json` prints")
    faults, cases = report.get("faults"), []
    for result in report["properties"]:
        if result.get("verdict") != "violated" or "path" not in result:
            continue
        path = result["path"]
        cases.append(
            PathCase(
                system=system or report["system"],
                settings=report["constants"],
                property=result["name"],
                budget=None if faults is None else Budget.parse(faults),
                loop=path["loop"],
                initial={**path["initial"]["control"], **path["initial"]["data"]},
                steps=[{"channels": None, **step} for step in path["steps"]],
            )
        )
    return cases
