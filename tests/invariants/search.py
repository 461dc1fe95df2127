"""Searches mutants of a system for one that violates each of its properties, and if possible nothing else.

``python -m tests.invariants.search SYSTEM... [--seconds N] [--tries N] [--more PROPERTY] [--again]``

Theory of operation. One exploration of a mutant decides all properties, so each mutant counts for all that it violates.
The property for which least was tried comes next, with the mutant that shares most names with it (rare names count
more), in the settings of the system's battery in which the property has a case and the mutant's transition is taken. A
property is done when a mutant violates nothing else, or when `TRIES` were made for it; of several mutants the one
counts that violates least, then the one with the shortest counterexample.

What was found is kept in tests/invariants/SYSTEM.json (stored.py). `--again` searches nothing: it explores the stored
mutants again, and writes what they show now.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

from leasehold.checker.explore import Limits, explore
from leasehold.checker.explore.properties import only_these
from leasehold.checker.explore.result import PropertyResult
from leasehold.checker.mutation.battery import SystemLoader, Trial, battery_of
from leasehold.checker.mutation.judge import Baseline, baseline_of
from leasehold.checker.mutation.operators import Mutation, mutations, refused
from leasehold.checker.verify.queries import claim_text, end_claim
from leasehold.faults import Budget
from leasehold.spec import SHIPPED, System
from leasehold.spec.language.model import Property
from tests.invariants.stored import Counterexample, Stored, read, write

TRIES = 30
LATER = 5  # a mutant is tried in its next setting after so many others
# Settings for the systems that have no battery of their own; under all faults they have too many states.
SMALL = {
    "three_phase_commit": (Trial(), Trial((("participants", "2"),), Budget(crash=1))),
    "three_phase_commit_termination": (Trial(), Trial((("participants", "2"),), Budget(crash=1))),
    "contention": (Trial((("last_end", "1"),)),),
}
_NAME = re.compile(r"[a-z_]{3,}")


@dataclass(frozen=True, slots=True)
class Tried:
    """What a mutant violates in a trial; nothing where it is no specification."""

    mutation: Mutation
    trial: Trial
    violated: Mapping[str, PropertyResult]


class Campaign:
    """The mutants of a system, and what each was seen to violate."""

    def __init__(self, name: str, best: Mapping[str, Counterexample] = MappingProxyType({})) -> None:
        self.loader = SystemLoader(name)
        self.system: System = self.loader()
        self.mutants = mutations(self.system)
        self.trials = SMALL.get(name) or battery_of(self.loader).trials
        self.tried: set[tuple[str, Trial]] = set()
        self.best = dict(best)

    @cached_property
    def baselines(self) -> dict[Trial, Baseline]:
        """The system itself in each trial."""
        return {trial: baseline_of(self.loader(trial.settings), trial) for trial in self.trials}

    @cached_property
    def _names(self) -> dict[str, set[str]]:
        return {m.name: set(_NAME.findall(f"{m.name} {m.what}")) for m in self.mutants}

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

    def candidates(self, name: str) -> Iterator[tuple[Mutation, Trial]]:
        """Mutants for a property, the likeliest first, each in the settings to try it in."""
        mine = set(_NAME.findall(claim_text(self.wanted[name])))

        def likely(mutation: Mutation) -> float:
            return -sum(self._rare[word] for word in mine & self._names[mutation.name])

        cases = [t for t, b in self.baselines.items() if name in b.holds and name not in b.vacuous]
        found = []
        for place, mutation in enumerate(sorted(self.mutants, key=likely)):
            met = (t for t in cases if mutation.subject not in self.baselines[t].unvisited)
            found += [(place + LATER * turn, mutation, trial) for turn, trial in enumerate(met)]
        found.sort(key=lambda one: one[0])
        yield from ((mutation, trial) for _, mutation, trial in found)

    def run(self, seconds: float, most: int, names: Iterable[str]) -> None:
        """Tries mutants until each of the properties has one, so many were tried for it, or time is over."""
        until = time.monotonic() + seconds
        waiting = {name: self.candidates(name) for name in names}
        tries: Counter[str] = Counter()
        while waiting and time.monotonic() < until:
            name = min(waiting, key=lambda n: (tries[n], self._others(n)))
            tries[name] += 1
            found = next((c for c in waiting[name] if (c[0].name, c[1]) not in self.tried), None)
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
        self.tried.add((tried.mutation.name, tried.trial))
        for name in self.wanted.keys() & tried.violated.keys():
            before, fresh = self.best.get(name), counterexample(self.system, tried, self.wanted[name])
            if before is None or (len(fresh.also), fresh.steps) < (len(before.also), before.steps):
                self.best[name] = fresh

    def judge(self, mutation: Mutation, trial: Trial) -> Tried:
        """What a mutant violates, of what the system satisfies there."""
        if refused(self.system, mutation.applied(self.system)):
            return Tried(mutation, trial, {})
        baseline = self.baselines[trial]
        mutant = only_these(mutation.applied(self.loader(trial.settings)), baseline.holds)
        found = explore(mutant, Limits(states=3 * baseline.states + 1000), budget=trial.budget)
        if found.interrupted:
            raise KeyboardInterrupt
        violated = {p.name: p for p in found.properties if p.verdict == "violated" and p.kind != "sometimes"}
        if any(p.kind == "guards" for p in violated.values()):
            violated = {}
        return Tried(mutation, trial, {n: p for n, p in violated.items() if p.path is not None})


def counterexample(system: System, tried: Tried, p: Property) -> Counterexample:
    """What is stored of a mutant for a property."""
    also = [other for other in tried.violated if other != p.name]
    return Counterexample.of(system, tried.mutation, tried.trial, p, tried.violated[p.name], also)


def searched(name: str, seconds: float, most: int, more: Sequence[str]) -> Stored:
    """The counterexamples of a system's properties, after a search of at most so long; of `more`, beside those kept."""
    before = read(name) if more else Stored(name, 0, {})
    campaign = Campaign(name, before.counterexamples)
    campaign.run(seconds, most, more or campaign.wanted)
    found = {n: campaign.best[n] for n in campaign.wanted if n in campaign.best}
    return Stored(name, before.tried + len(campaign.tried), found)


def again(name: str) -> Stored:
    """The same mutants, explored again: what they violate now. A property that one violates no more is left out."""
    before, campaign = read(name), Campaign(name)
    by_name = {m.name: m for m in campaign.mutants}
    found = {}
    for one, stored in before.counterexamples.items():
        if stored.mutant in by_name:
            tried = campaign.judge(by_name[stored.mutant], stored.trial)
            if one in tried.violated:
                found[one] = counterexample(campaign.system, tried, campaign.wanted[one])
    return Stored(name, before.tried, found)


def main() -> int:
    parser = argparse.ArgumentParser(description="Searches mutants that violate each property of a system.")
    parser.add_argument("systems", nargs="+", choices=[*SHIPPED])
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--tries", type=int, default=TRIES, help="mutants for each property")
    parser.add_argument("--more", action="append", default=[], help="search for this property, and keep what is stored")
    parser.add_argument("--again", action="store_true", help="search nothing, explore the stored mutants again")
    given = parser.parse_args()
    for name in given.systems:
        write(again(name) if given.again else searched(name, given.seconds, given.tries, given.more))
    return 0


if __name__ == "__main__":
    sys.exit(main())
