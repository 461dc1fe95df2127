"""For properties that are not inductive, the prover searches for counterexamples and lemmas.

1. Exploring small settings: is there a run that violates the property?
2. k-induction (decide/k_induction.py): does it hold after several steps along which it has held?
3. Lemmas (discover/): candidates from explored states, of which induction keeps those that hold for any number.
4. What is still open has its counterexample to induction (decide/cti.py), and whether the explorer reaches it.

Each has its limit, which the user sets. Nothing is ever assumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from leasehold.checker.explore import Path, Progress, explore
from leasehold.checker.prove.decide.cti import CounterexampleToInduction, counterexample_to_induction
from leasehold.checker.prove.decide.induction import START, Induction, Setting, Watch
from leasehold.checker.prove.decide.k_induction import KInduction, k_induction
from leasehold.checker.prove.decide.set_aside import map_in_workers
from leasehold.checker.prove.discover.candidates import explored_states
from leasehold.checker.prove.discover.strengthen import strengthened
from leasehold.checker.prove.encode.lemma import CandidateLemma, with_lemmas
from leasehold.checker.prove.encode.properties import claims as claims_of
from leasehold.checker.prove.encode.properties import steps_read_reachability
from leasehold.checker.prove.encode.transitions import FaultScope
from leasehold.faults import Budget
from leasehold.spec.language.model import System

Tell = Callable[[str], None]  # hears what is being tried
NO_FAULTS = FaultScope(crash=False, network=False)
HANGS = 3.0  # times the limit, after which a solver is given up that does not keep to it


@dataclass
class SearchResults:
    """What the strategies have found about properties that are not inductive.

    Attributes:
        system: the system with the lemmas that were found.
        induction: the last that was made, with these lemmas.
        runs: for each property that is violated: the shortest run, and the faults that it takes.
        proved: for each property that is proved: by which method.
        fixed: for each property that is proved for some numbers of instances only: for which.
        lemmas: found lemmas that prove some, for the user to keep.
        ctis: for each property that is still open: its counterexample to induction.
        explored: what was explored to look for runs.
        spent: seconds by property.
    """

    system: System
    induction: Induction
    runs: dict[str, tuple[Path, str]] = field(default_factory=dict)
    proved: dict[str, str] = field(default_factory=dict)
    fixed: dict[str, str] = field(default_factory=dict)
    lemmas: list[CandidateLemma] = field(default_factory=list)
    ctis: dict[str, CounterexampleToInduction] = field(default_factory=dict)
    explored: list[str] = field(default_factory=list)
    spent: dict[str, float] = field(default_factory=dict)


class Strategies:
    """Searches for counterexamples and lemmas.

    Args:
        system: with its lemmas.
        setting: for which numbers of instances, and under which faults.
        small: the system with small constants.
        induction: what it has shown.
        jobs: processes.
        watch: hears how far induction is.
        tell: hears what is tried.
    """

    def __init__(
        self, system: System, setting: Setting, small: System, induction: Induction, *, jobs: int | None = None,
        watch: Watch | None = None, tell: Tell | None = None,
    ) -> None:  # fmt: skip
        self.system, self.setting, self.small, self.jobs, self.watch = system, setting, small, jobs, watch
        self.tell = tell or (lambda words: None)
        self.found = SearchResults(system, induction)

    def search(self, names: Sequence[str], progress: Callable[[Progress], None] | None = None) -> SearchResults:
        """Tries everything for some properties.

        Args:
            names: those that are not proved.
            progress: hears how far exploring is.
        """
        self.explore(names, progress)
        for attempt in (self.k_induction, self.discover):
            can = [n for n in self._open(names) if n in self.found.induction.claims and not self._why_not(n)]
            if can:
                attempt(can)
        for name in self._open(names):
            self._cti(name)
        return self.found

    def _open(self, names: Sequence[str]) -> list[str]:
        return [n for n in names if n not in self.found.runs and n not in self.found.proved]

    def _why_not(self, name: str) -> str:
        return self.found.induction.claims[name].why_not

    def explore(self, names: Sequence[str], progress: Callable[[Progress], None] | None = None) -> None:
        """The shortest runs that violate properties, without faults first."""
        parted = ["partition=1"] if steps_read_reachability(self.small) else []  # `reachable` is arbitrary in a proof
        faults = [*parted, self.small.faults.usual]
        for words in dict.fromkeys(["", *(faults if self.found.induction.scope != NO_FAULTS else [])]):
            if not self._open(names):
                return
            self.tell("exploring")
            explored = explore(self.small, progress=progress, budget=Budget.parse(words) if words else None)
            where = f"{explored.distinct:,} states" + (f" with {words}" if words else " without faults")
            self.found.explored.append(where)
            for result in explored.properties:
                if result.name in self._open(names) and result.verdict == "violated" and result.path is not None:
                    self.found.runs[result.name] = result.path, words

    def k_induction(self, names: Sequence[str]) -> None:
        """Properties that hold after several steps along which they have held."""
        if not self.found.induction.whole:
            return
        proved = tuple(sorted(self.found.induction.proved))
        asked = [n for n in names if self.found.induction.broken_by.get(n) != START]
        works = [_KInductionWork(self.system, self.setting, name, proved) for name in asked]
        self.tell(f"k-induction of {', '.join(asked)}")
        limit = HANGS * self.setting.limit_seconds
        for work, found in map_in_workers(_run_k_induction, works, limit, self.jobs):
            self._spend(work.name, found.seconds if found is not None else limit)
            if found is not None and found.depth:
                self.found.proved[work.name] = f"induction over {found.depth} steps"

    def discover(self, names: Sequence[str]) -> None:
        """Properties that are inductive with lemmas from explored states."""
        self.tell("lemmas from explored states")
        began = time.perf_counter()
        # The limit is for each property, and so for some of them together.
        limited = replace(self.setting, until=began + len(names) * self.setting.limit_seconds)
        found = strengthened(
            self.system, limited, self.small, names, jobs=self.jobs, watch=self.watch,
            states=explored_states(self.small), shrink_seconds=self.setting.limit_seconds,
        )  # fmt: skip
        for name in names:
            self._spend(name, (time.perf_counter() - began) / len(names))
        sizes = ", ".join(f"{type_.name}={type_.count}" for type_ in self.small.counted())
        self.found.fixed |= dict.fromkeys(found.fixed, sizes)
        if found.proved and found.induction is not None:
            self.found.lemmas = list(found.lemmas)
            self.found.proved |= dict.fromkeys(found.proved, "induction, with lemmas from explored states")
            self.found.system = with_lemmas(self.system, found.lemmas)
            self.found.induction = found.induction

    def _cti(self, name: str) -> None:
        at = self.found.induction.broken_by.get(name)
        if at is None or self._why_not(name):
            return
        self.tell(f"a counterexample to induction for {name}")
        began = time.perf_counter()
        self.found.ctis[name] = counterexample_to_induction(
            self.system, self.setting, name, at, set(self.found.induction.proved), self.small
        )
        self._spend(name, time.perf_counter() - began)

    def _spend(self, name: str, seconds: float) -> None:
        self.found.spent[name] = self.found.spent.get(name, 0.0) + seconds


# In other processes


@dataclass(frozen=True)
class _KInductionWork:
    """A property to be proved by k-induction, and what is proved already."""

    system: System
    setting: Setting
    name: str
    proved: tuple[str, ...]


def _run_k_induction(work: _KInductionWork) -> KInduction:
    encoding = work.setting.encoding(work.system)
    claims = {c.name: c for c in claims_of(encoding)}
    known = [claims[name] for name in work.proved if name in claims]
    return k_induction(encoding, claims[work.name], known, seconds=work.setting.limit_seconds)
