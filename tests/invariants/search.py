"""Searches mutants of a system for one that violates each of its properties, and if possible nothing else.

``python -m tests.invariants.search SYSTEM... [--seconds N] [--tries N] [--more PROPERTY] [--only PATTERN] [--pairs]
[--again] [--every PROPERTY]``

Theory of operation. One exploration of a mutant decides all properties, so each mutant counts for all that it violates.
The property for which least was tried comes next, with the mutant that shares most names with it (rare names count
more), in the settings of the system's battery in which the property has a case and the mutant's transition is taken. A
property is done when a mutant violates nothing else, or when `TRIES` were made for it; of several mutants the one
counts that violates least, then the one with the shortest counterexample.

`--pairs` tries two changes at once, for a property that no change alone was seen to violate: every pair of the mutants
whose names fit a pattern.

What was found is kept in tests/invariants/SYSTEM.json (stored.py). `--again` searches nothing: it explores the stored
mutants again, and writes what they show now. `--every` writes nothing: it asks all mutants for one property alone, in
the first of the settings, and names those that violate it.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from types import MappingProxyType
from typing import TypeAlias

from leasehold.checker.explore import Limits, explore
from leasehold.checker.explore.expectations import fits_pattern
from leasehold.checker.explore.properties import only_these
from leasehold.checker.explore.result import PropertyResult
from leasehold.checker.mutation.battery import SystemLoader, Trial, battery_of
from leasehold.checker.mutation.judge import Baseline, baseline_of
from leasehold.checker.mutation.operators import Mutation, mutations, refused
from leasehold.checker.verify.queries import claim_text, end_claim
from leasehold.faults.model import Budget
from leasehold.spec import SHIPPED, System
from leasehold.spec.language.model import Property
from tests.invariants.stored import Counterexample, Stored, read, write

TRIES = 30
LATER = 5  # a mutant is tried in its next setting after so many others
# Settings for the systems that have no battery of their own; under all faults they have too many states.
SMALL = {
    "three_phase_commit": (Trial(), Trial((("participants", "2"),), Budget(crash=1))),
    "three_phase_commit_termination": (Trial(), Trial((("participants", "2"),), Budget(crash=1))),
    "contention": (Trial((("last_end", "1"),)), Trial()),
}
_NAME = re.compile(r"[a-z_]{3,}")


Mutant: TypeAlias = tuple[Mutation, ...]  # its changes


def name_of(mutant: Mutant) -> str:
    return " + ".join(m.name for m in mutant)


def applied(mutant: Mutant, system: System) -> System:
    """A system with all changes of a mutant.

    Raises:
        KeyError: one change leaves nothing for another to change.
    """
    for mutation in mutant:
        system = mutation.applied(system)
    return system


@dataclass(frozen=True, slots=True)
class Tried:
    """What a mutant violates in a trial; nothing where it is no specification."""

    mutant: Mutant
    trial: Trial
    violated: Mapping[str, PropertyResult]


class Campaign:
    """The mutants of a system, and what each was seen to violate."""

    def __init__(
        self,
        name: str,
        best: Mapping[str, Counterexample] = MappingProxyType({}),
        only: Collection[str] = (),
        pairs: bool = False,
    ) -> None:
        self.loader = SystemLoader(name)
        self.system: System = self.loader()
        some = [m for m in mutations(self.system) if not only or any(fits_pattern(m.name, one) for one in only)]
        self.mutants: list[Mutant] = [*combinations(some, 2)] if pairs else [(m,) for m in some]
        self.trials = SMALL.get(name) or battery_of(self.loader).trials
        self.tried: set[tuple[str, Trial]] = set()
        self.best = dict(best)

    @cached_property
    def baselines(self) -> dict[Trial, Baseline]:
        """The system itself in each trial."""
        return {trial: baseline_of(self.loader(trial.settings), trial) for trial in self.trials}

    @cached_property
    def _names(self) -> dict[str, set[str]]:
        return {name_of(m): set(_NAME.findall(" ".join(f"{c.name} {c.what}" for c in m))) for m in self.mutants}

    @cached_property
    def _rare(self) -> dict[str, float]:
        counts = Counter(name for names in self._names.values() for name in names)
        return {name: math.log(len(self.mutants) / count) for name, count in counts.items()}

    @cached_property
    def wanted(self) -> dict[str, Property]:
        """The properties that a mutant is wanted of: all but coverage, and that a run ends only where it may."""
        return {
            p.name: p
            for p in (*self.system.properties.values(), *end_claim(self.system).values())
            if p.kind != "sometimes"
        }

    def candidates(self, name: str) -> Iterator[tuple[Mutant, Trial]]:
        """Mutants for a property, the likeliest first, each in the settings to try it in."""
        mine = set(_NAME.findall(claim_text(self.wanted[name])))

        def likely(mutant: Mutant) -> float:
            return -sum(self._rare[word] for word in mine & self._names[name_of(mutant)])

        cases = [t for t, b in self.baselines.items() if name in b.holds and name not in b.vacuous]
        found = []
        for place, mutant in enumerate(sorted(self.mutants, key=likely)):
            # The first change may be what makes the system come to the second one.
            met = (t for t in cases if not all(c.subject in self.baselines[t].unvisited for c in mutant))
            found += [(place + LATER * turn, mutant, trial) for turn, trial in enumerate(met)]
        found.sort(key=lambda one: one[0])
        yield from ((mutant, trial) for _, mutant, trial in found)

    def run(self, seconds: float, most: int, names: Iterable[str]) -> None:
        """Tries mutants until each of the properties has one, so many were tried for it, or time is over."""
        until = time.monotonic() + seconds
        waiting = {name: self.candidates(name) for name in names}
        tries: Counter[str] = Counter()
        while waiting and time.monotonic() < until:
            name = min(waiting, key=lambda n: (tries[n], self._others(n)))
            tries[name] += 1
            found = next((c for c in waiting[name] if (name_of(c[0]), c[1]) not in self.tried), None)
            if found is None:
                del waiting[name]
                continue
            self._note(self.judge(*found))
            for done in [n for n in waiting if tries[n] >= most or self._others(n) == 0]:
                del waiting[done]
            alone = sum(self._others(n) == 0 for n in self.wanted)
            if len(self.tried) % 20 == 0:
                words = f"{alone} of {len(self.wanted)} alone, {len(self.best)} at all, {len(waiting)} open"
                print(f"{len(self.tried)} mutants: {words}, {tries[name]} tries", file=sys.stderr, flush=True)

    def _others(self, name: str) -> int:
        return len(self.best[name].also) if name in self.best else len(self.wanted)

    def _note(self, tried: Tried) -> None:
        self.tried.add((name_of(tried.mutant), tried.trial))
        for name in self.wanted.keys() & tried.violated.keys():
            before, fresh = self.best.get(name), counterexample(self.system, tried, self.wanted[name])
            if before is None or (len(fresh.also), fresh.steps) < (len(before.also), before.steps):
                self.best[name] = fresh

    def judge(self, mutant: Mutant, trial: Trial, names: Collection[str] | None = None) -> Tried:
        """Returns what a mutant violates, of what the system satisfies there, or of some of that."""
        try:
            wrong = applied(mutant, self.system)
        except KeyError:
            return Tried(mutant, trial, {})
        if refused(self.system, wrong):
            return Tried(mutant, trial, {})
        baseline = self.baselines[trial]
        wrong = only_these(applied(mutant, self.loader(trial.settings)), baseline.holds if names is None else names)
        found = explore(wrong, Limits(states=3 * baseline.states + 1000), budget=trial.budget)
        if found.interrupted:
            raise KeyboardInterrupt
        violated = {p.name: p for p in found.properties if p.verdict == "violated" and p.kind != "sometimes"}
        if any(p.kind == "guards" for p in violated.values()):
            violated = {}
        return Tried(mutant, trial, {n: p for n, p in violated.items() if p.path is not None})


def counterexample(system: System, tried: Tried, p: Property) -> Counterexample:
    """Returns what is stored of a mutant for a property."""
    also = [other for other in tried.violated if other != p.name]
    return Counterexample.of(system, tried.mutant, tried.trial, p, tried.violated[p.name], also)


def searched(name: str, seconds: float, most: int, more: Sequence[str], only: Sequence[str], pairs: bool) -> Stored:
    """The counterexamples of a system's properties, after a search of at most so long; of `more`, beside those kept."""
    before = read(name) if more else Stored(name, 0, {})
    campaign = Campaign(name, before.counterexamples, only, pairs)
    campaign.run(seconds, most, more or campaign.wanted)
    found = {n: campaign.best[n] for n in campaign.wanted if n in campaign.best}
    return Stored(name, before.tried + len(campaign.tried), found)


def again(name: str) -> Stored:
    """The same mutants, explored again: what they violate now. A property that one violates no more is left out."""
    before, campaign = read(name), Campaign(name)
    by_name = {m.name: m for (m,) in campaign.mutants}
    found = {}
    for one, stored in before.counterexamples.items():
        if all(change.mutant in by_name for change in stored.changes):
            tried = campaign.judge(tuple(by_name[change.mutant] for change in stored.changes), stored.trial)
            if one in tried.violated:
                found[one] = counterexample(campaign.system, tried, campaign.wanted[one])
    return Stored(name, before.tried, found)


def every(name: str, one: str, only: Collection[str] = ()) -> tuple[int, int, list[str]]:
    """How many mutants are explored for a property in the first setting, how many are refused, and which violate it."""
    campaign = Campaign(name, only=only)
    trial = campaign.trials[0]
    campaign.trials = (trial,)
    assert one in campaign.baselines[trial].holds
    refusals, violating = 0, []
    for number, mutant in enumerate(campaign.mutants, 1):
        if refused(campaign.system, applied(mutant, campaign.system)):
            refusals += 1
        elif one in campaign.judge(mutant, trial, [one]).violated:
            violating.append(name_of(mutant))
            print(violating[-1], file=sys.stderr, flush=True)
        if number % 100 == 0:
            print(f"{number} of {len(campaign.mutants)}, {len(violating)} violate it", file=sys.stderr, flush=True)
    return len(campaign.mutants) - refusals, refusals, violating


def main() -> int:
    parser = argparse.ArgumentParser(description="Searches mutants that violate each property of a system.")
    parser.add_argument("systems", nargs="+", choices=[*SHIPPED])
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--tries", type=int, default=TRIES, help="mutants for each property")
    parser.add_argument("--more", action="append", default=[], help="search for this property, and keep what is stored")
    parser.add_argument("--only", action="append", default=[], help="try mutants alone whose names fit this pattern")
    parser.add_argument("--pairs", action="store_true", help="try every two of these mutants at once")
    parser.add_argument("--again", action="store_true", help="search nothing, explore the stored mutants again")
    parser.add_argument("--every", help="explore all mutants for this property, and write nothing")
    given = parser.parse_args()
    for name in given.systems:
        if given.every:
            explored, refusals, violating = every(name, given.every, given.only)
            print(f"{name}: {explored} mutants explored, {refusals} refused, {len(violating)} violate {given.every}")
            print("".join(f"  {one}\n" for one in violating), end="")
            continue
        write(
            again(name)
            if given.again
            else searched(name, given.seconds, given.tries, given.more, given.only, given.pairs)
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
