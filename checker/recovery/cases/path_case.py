"""Counterexamples as files: a path of the explorer, step by step, in the words of the specification.

Theory of operation. A step is told by what happens (kind, machine, event, fields, sender) and by what it changes:
control states, data, messages on their way, and the time. A model that reads it follows, from its first state, the step
that is told; so a file is as short as its path, a person can write one, and a specification that has changed since says
at which step it goes another way.

`leasehold explore --json` tells its paths with the same words, and is read alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leasehold.checker.explore.labels import Labels
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.result import Path, Snapshot, Step
from leasehold.checker.recovery.cases.counterexample import NoSuchStep, followed, path_states
from leasehold.checker.recovery.cases.properties import RunProperties
from leasehold.faults import Budget
from leasehold.spec import System

CASE = "counterexample"  # what such a file calls itself, as `case`
TOLD = ("kind", "machine", "event", "fields", "sender", "data")  # keys of a step; those that are empty are left out


class CaseError(Exception):
    """A file is no case. The message says what is wrong, and where."""


@dataclass(frozen=True)
class PathCase:
    """A counterexample out of a file.

    Attributes:
        system: its name or folder.
        settings: its constants.
        budget: the faults under which the explorer has found it; None: none.
        property: that it breaks.
        initial: what its first state has that the system's first one has not: control states and data.
        steps: what happens, and what it changes; also as `leasehold explore --json` tells them.
        loop: the index of the step that an endless run returns to; None: it ends.
    """

    system: str
    settings: Mapping[str, Any]
    budget: Budget | None
    property: str
    initial: Mapping[str, str]
    steps: Sequence[Mapping[str, Any]]
    loop: int | None = None

    def path(self, system: System) -> Path:
        """The path in the system.

        Raises:
            NoSuchStep: the system has none like it.
        """
        paths = self._paths(system)
        world = paths.world
        firsts = [(state, paths.snapshot(state)) for state in world.initial_states()]
        state = next((s for s, shown in firsts if self.initial.items() <= _flat(shown).items()), None)
        if state is None:
            raise NoSuchStep(0, "the system has no first state like that of the path")
        initial = paths.snapshot(state)
        found, furthest = followed(
            state, len(self.steps), lambda n, one: _alike(paths, one, paths.snapshot(one), self.steps[n])
        )
        if furthest < len(self.steps):
            wanted = self.steps[furthest]
            words = " ".join(filter(None, (wanted.get("machine"), wanted["kind"], wanted.get("event"))))
            raise NoSuchStep(furthest + 1, f"the system has no such step any more: {words}")
        steps = [step for step, _ in found]
        return Path(initial, tuple(steps), self.loop)

    def _paths(self, system: System) -> Paths:
        properties = RunProperties(system) if self.budget is None else RunProperties(system, self.budget)
        return Paths(properties.world, (), Labels())

    def brief(self, system: System) -> PathCase:
        """The same case, of which the first state and each step tell only what they need.

        Raises:
            NoSuchStep: the system has no such path.
        """
        paths, path = self._paths(system), self.path(system)
        known = _flat(paths.snapshot(paths.world.initial_states()[0]))
        initial = {name: value for name, value in _flat(path.initial).items() if known.get(name) != value}
        state = next(s for s in paths.world.initial_states() if paths.snapshot(s) == path.initial)
        before, steps = path.initial, []
        for step, (_, after) in zip(path.steps, path_states(paths, state, path.steps), strict=True):
            words = _words(step, before)
            channels = words.pop("channels", None)
            words = {name: value for name, value in words.items() if value not in (None, {}, [], "")}
            alike = {after: one for one, after in _alike(paths, state, before, words)}
            if len(alike) > 1:  # messages tell them apart
                words["channels"] = channels
            steps.append(words)
            state, before = after, step.state
        return replace(self, initial=initial, steps=steps)


def _alike(paths: Paths, state: State, before: Snapshot, wanted: Mapping[str, Any]) -> Iterator[tuple[Step, State]]:
    """The steps from a state that are told so, and the states after them."""
    for action, after in paths.world.successors(state):
        if action.kind == wanted["kind"] and _is(step := paths.describe(state, action, after), before, wanted):
            yield step, after


def _words(step: Step, before: Snapshot) -> dict[str, Any]:
    after = step.state
    words: dict[str, Any] = {"kind": step.kind, "machine": step.machine, "event": step.event}
    words |= {"fields": dict(step.fields), "sender": step.sender}
    words["state"] = {m: s for m, s in after.control.items() if before.control.get(m) != s}
    words["data"] = {n: v for n, v in after.data.items() if before.data.get(n, "") != v}
    if after.channels != before.channels:
        words["channels"] = {name: list(messages) for name, messages in after.channels.items()}
    if after.now != before.now:
        words["now"] = after.now
    return words


def _is(step: Step, before: Snapshot, wanted: Mapping[str, Any]) -> bool:
    """Returns whether a step of the model is the one that is told."""
    words = _words(step, before)
    if any((wanted.get(name) or None) != (words[name] or None) for name in TOLD):
        return False
    for name, value in (("state", words["state"]), ("before", step.before), ("after", step.after)):
        if name in wanted and wanted[name] != value:
            return False
    if wanted.get("now") not in (None, step.state.now):
        return False
    return "channels" not in wanted or wanted["channels"] == words.get("channels")


def _flat(state: Snapshot) -> dict[str, str]:
    return {**state.control, **state.data}


def plain_case(case: PathCase) -> dict[str, Any]:
    """A case as its file has it."""
    written = {
        "case": CASE, "system": case.system, "settings": dict(case.settings), "property": case.property,
        "faults": None if case.budget is None else str(case.budget), "initial": dict(case.initial),
        "loop": case.loop, "steps": [dict(step) for step in case.steps],
    }  # fmt: skip
    return {name: value for name, value in written.items() if value not in (None, {})}


def read_case(value: Mapping[str, Any], where: str) -> PathCase:
    """A case out of a file.

    Raises:
        CaseError: it is none.
    """
    for name, kind in (("system", str), ("property", str), ("steps", list)):
        if not isinstance(value.get(name), kind):
            raise CaseError(f"{where}: the key `{name}` is missing, or no {'list' if kind is list else 'text'}")
    for number, step in enumerate(value["steps"], 1):
        if not isinstance(step, dict) or not isinstance(step.get("kind"), str):
            raise CaseError(f"{where}: step {number} has no `kind`")
    faults = value.get("faults")
    return PathCase(
        value["system"], value.get("settings") or {}, None if faults is None else Budget.parse(faults),
        value["property"], value.get("initial") or {}, value["steps"], value.get("loop"),
    )  # fmt: skip


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
    faults = report.get("faults")
    found = []
    for result in report["properties"]:
        if result.get("verdict") != "violated" or "path" not in result:
            continue
        path = result["path"]
        initial = {**path["initial"]["control"], **path["initial"]["data"]}
        found.append(
            PathCase(
                system or report["system"], report["constants"], None if faults is None else Budget.parse(faults),
                result["name"], initial, [{"channels": None, **step} for step in path["steps"]], path["loop"],
            )
        )  # fmt: skip
    return found
