"""The battery of a system: in which settings and under which faults its mutants are tried (`mutation.yaml`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from leasehold.checker.explore.expectations import Explanation, explanations_of, read_checked
from leasehold.checker.host.mutant_results import BATTERY
from leasehold.checker.mutation.operators import Mutation, mutations
from leasehold.faults.model import Budget, BudgetError
from leasehold.spec import SpecError, System, load
from leasehold.spec.language.declare.declare import text_of
from leasehold.spec.language.diagnostics import NOWHERE, Place, Sink
from leasehold.spec.language.read import shape
from leasehold.spec.language.read.source import YamlNode

Settings: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Trial:
    """One setting of the constants, with or without faults."""

    settings: Settings = ()
    budget: Budget | None = None
    place: Place = field(default=NOWHERE, compare=False)

    def __str__(self) -> str:
        parts = [f"{name}={value}" for name, value in self.settings] or ["the declared constants"]
        return " ".join([*parts, *([f"faults {self.budget}"] if self.budget is not None else [])])


@dataclass(frozen=True, slots=True)
class Battery:
    """Trials, the cheapest first, and the survivors that are known."""

    trials: tuple[Trial, ...]
    explanations: tuple[Explanation, ...] = ()

    def reason(self, name: str) -> str:
        """Returns why a mutant is known to survive, or nothing."""
        return next((e.reason for e in self.explanations if e.fits(name)), "")

    def within(self, settings: Mapping[str, str]) -> Battery:
        """The same with these constants in every trial."""
        trials = (replace(t, settings=tuple({**dict(t.settings), **settings}.items())) for t in self.trials)
        return replace(self, trials=tuple(dict.fromkeys(trials)))


class SystemLoader:
    """Gives a system with constants, and reads its files only once for each setting."""

    def __init__(self, name_or_folder: str | Path) -> None:
        self.name_or_folder = name_or_folder
        self.loaded: dict[tuple[tuple[str, str], ...], System] = {}

    def __call__(self, settings: Settings = ()) -> System:
        """The system in a setting.

        Raises:
            SpecError: the specification or the setting is wrong.
        """
        if settings not in self.loaded:
            self.loaded[settings] = load(self.name_or_folder, dict(settings))
        return self.loaded[settings]


# What a system is tried in that says nothing about it.
DEFAULT = Battery((Trial(), Trial(budget=Budget(crash=1)), Trial(budget=Budget.parse("default"))))


def battery_of(loader: SystemLoader) -> Battery:
    """The battery of a system's mutation.yaml, or DEFAULT where there is none.

    Raises:
        SpecError: the file is wrong: its shape, a budget, a constant, or an explanation of what is no mutant.
    """
    sink = Sink()
    node = read_checked(loader.name_or_folder, BATTERY, shape.FILES["mutation"], sink)
    if node is None:
        return DEFAULT
    trials = tuple(_trial(item, loader, sink) for item in node.get("battery") or ())
    if not trials:
        sink.error("empty_battery", node.key_place("battery"))
    names = [m.name for m in mutations(loader(), every_target=True)]
    remedy = "the explanation is out of date: remove it, or write the mutant's name as `mutate` prints it"
    explanations = explanations_of(node.get("explained"), names, "mutant", remedy, sink)
    sink.raise_errors()
    return Battery(trials, explanations)


def _trial(node: YamlNode, loader: SystemLoader, sink: Sink) -> Trial:
    settings = tuple((name, value.text) for name, _, value in node.pairs_of("set"))
    budget = None
    if (text := text_of(node, "faults")) not in ("", "none"):
        try:
            budget = Budget.parse(text)
        except BudgetError as error:
            sink.error("no_budget", (node.get("faults") or node).place, words=text[:40], error=error)
    try:
        loader(settings)
    except SpecError as error:
        for d in error.diagnostics:
            sink.add(replace(d, place=node.place) if d.place == NOWHERE else d)
    return Trial(settings, budget, node.place)


def known_survivors(battery: Battery, mutants: Iterable[Mutation]) -> dict[str, list[str]]:
    """Returns the mutants that each explanation speaks of, by its pattern."""
    names = [m.name for m in mutants]
    return {e.pattern: [n for n in names if e.fits(n)] for e in battery.explanations}
