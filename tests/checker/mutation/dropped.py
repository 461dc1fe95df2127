"""Each `set:` of a specification dropped by itself, and who notices.

First an exploration is compared with expected.yaml, setting by setting: its properties and its numbers. A setting in
which a transition is never taken shows nothing of it, so it is left out. What is left is tried as `leasehold mutate`
tries mutants, under faults as well: a property is violated, nobody outside can tell the two systems apart, or
mutation.yaml explains it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from leasehold.checker.explore import Limits, explore
from leasehold.checker.explore.expectations import differences
from leasehold.checker.mutation.battery import SystemLoader, battery_of
from leasehold.checker.mutation.mutate import MutantOutcome, mutate
from leasehold.checker.mutation.operators import Mutation, mutations, refused
from leasehold.spec import System
from leasehold.spec.language.expectation import Expectation
from tests.systems import load

TIMES = 3  # as many states as the system has, after which a mutant is another system


def dropped(system: System) -> list[Mutation]:
    """The mutants."""
    return [m for m in mutations(system) if m.rule == "drop_update"]


class ExpectedSettings:
    """The settings of an expected.yaml, the smallest first; those of more states than `most` are left out."""

    def __init__(self, name: str | Path, most: int | None = None) -> None:
        self.system = load(name)
        runs = [run for run in self.system.expectations if not run.slow]
        self.runs = sorted(
            (run for run in runs if most is None or run.numbers["distinct"] <= most),
            key=lambda run: run.numbers["distinct"],
        )
        self.models = {run.name: load(name, {n: str(v) for n, v in run.settings.items()}) for run in self.runs}
        self.taken: dict[str, Mapping[str, int]] = {}

    def noticed(self, mutation: Mutation) -> str:
        """Who notices a mutant: lint, or the first setting that differs and in what; empty: nobody."""
        if words := refused(self.system, mutation.applied(self.system)):
            return f"lint: {words}"
        for run in self.runs:
            if self._taken(run).get(mutation.subject):
                found = explore(mutation.applied(self.models[run.name]), Limits(states=TIMES * run.numbers["distinct"]))
                if differ := differences(found, run):
                    return f"{run.name}: {differ[0]}"
        return ""

    def _taken(self, run: Expectation) -> Mapping[str, int]:
        if run.name not in self.taken:
            found = explore(self.models[run.name])
            assert not differences(found, run)
            self.taken[run.name] = found.taken
        return self.taken[run.name]


def unnoticed(name: str | Path, mutants: Iterable[Mutation], most: int | None = None) -> list[MutantOutcome]:
    """The mutants that nobody notices, and that an observer outside can tell from the system, without a reason."""
    expected = ExpectedSettings(name, most)
    left = [mutation for mutation in mutants if not expected.noticed(mutation)]
    if not left:
        return []
    loader = SystemLoader(name)
    return mutate(loader, left, battery_of(loader), whole=mutations(load(name), every_target=True)).unexplained
