"""Beyond induction: what is tried, one after the other, for a property that induction cannot keep.

1. The explorer: does a run contradict it, in small settings?
2. Deeper induction (deeper.py): does it hold after several steps along which it has held?
3. Spacer (horn.py): which lemmas prove it, where the numbers of machines are those of the small setting? What it finds
   is said in the language, and asked of any number by induction.
4. Lemmas mined from explored states (mining.py), likewise.
5. What is still open has its counterexample to induction (unkept.py), and whether the explorer reaches it.

Each of them has its limit, which the user sets. Nothing is ever assumed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from leasehold.checker.explore import Path, Progress, explore
from leasehold.checker.prove.aside import asked_aside
from leasehold.checker.prove.deeper import Deep, deeper
from leasehold.checker.prove.encoding import steps_ask_who_is_reachable, steps_read_messages
from leasehold.checker.prove.horn import Horn
from leasehold.checker.prove.induct import START, Induction, Setting, Watch
from leasehold.checker.prove.mining import Candidate, reached, strengthened, tried, with_lemmas
from leasehold.checker.prove.said import lemmas as said
from leasehold.checker.prove.steps import Scope
from leasehold.checker.prove.unkept import Unkept, counterexample_to_induction
from leasehold.checker.prove.values import Unsupported
from leasehold.faults import Budget
from leasehold.spec.language.diagnostics import SpecError
from leasehold.spec.language.model import System

Tell = Callable[[str], None]  # hears what is being tried


@dataclass
class Found:
    """What was found of properties that induction did not keep.

    Attributes:
        runs: of those that are contradicted: the shortest run, and the faults that it takes.
        proved: of those that hold: by which method.
        fixed: of those that hold for known numbers of machines alone: for which, in words.
        lemmas: found lemmas that prove some, for the user to keep.
        unkept: of those that are still open: why induction cannot keep them.
        explored: what was explored to look for runs.
        induction: the last that was made, with the lemmas.
        system: the system with these.
        spent: seconds by property.
    """

    system: System
    induction: Induction
    runs: dict[str, tuple[Path, str]] = field(default_factory=dict)
    proved: dict[str, str] = field(default_factory=dict)
    fixed: dict[str, str] = field(default_factory=dict)
    lemmas: list[Candidate] = field(default_factory=list)
    unkept: dict[str, Unkept] = field(default_factory=dict)
    explored: list[str] = field(default_factory=list)
    spent: dict[str, float] = field(default_factory=dict)


class Beyond:
    """Looks for what induction lacks.

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
        self.found = Found(system, induction)
        self.fixed = {type_.name: type_.count for type_ in small.counted()}
        self.patience = HANGS * setting.limit_seconds

    def look(self, names: Sequence[str], progress: Callable[[Progress], None] | None = None) -> Found:
        """Tries everything for some properties.

        Args:
            names: those that are not proved.
            progress: hears how far exploring is.
        """
        self._runs(names, progress)
        for attempt in (self._deeper, self._spacer, self._mined):
            open_ = self._open(names)
            can = [n for n in open_ if n in self.found.induction.claims and not self._why_not(n)]
            if can:
                attempt(can)
        for name in self._open(names):
            self._unkept(name)
        return self.found

    def _open(self, names: Sequence[str]) -> list[str]:
        return [n for n in names if n not in self.found.runs and n not in self.found.proved]

    def _why_not(self, name: str) -> str:
        return self.found.induction.claims[name].why_not

    def _runs(self, names: Sequence[str], progress: Callable[[Progress], None] | None) -> None:
        """The shortest runs that contradict properties, without faults first."""
        parted = ["partition=1"] if steps_ask_who_is_reachable(self.small) else []  # the proof lets them ask in vain
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

    def _deeper(self, names: Sequence[str]) -> None:
        if not self.found.induction.whole:
            return
        proved = tuple(sorted(self.found.induction.proved))
        asked = [n for n in names if self.found.induction.lost.get(n) != START]
        works = [_Deeper(self.system, self.setting, name, proved) for name in asked]
        self.tell(f"deeper induction of {', '.join(asked)}")
        for work, deep in asked_aside(_deeper, works, self.patience, self.jobs):
            self._spend(work.name, deep.seconds if deep is not None else self.patience)
            if deep is not None and deep.depth:
                self.found.proved[work.name] = f"induction over {deep.depth} steps"

    def _spacer(self, names: Sequence[str]) -> None:
        """First without the numbers of messages, which is easier, then with them."""
        clauses: list[str] = []
        claims = self.found.induction.claims
        for numbered in (False, True):
            open_ = [n for n in names if n not in self.found.fixed]
            if not numbered:
                messages = steps_read_messages(self.small)
                open_ = [n for n in open_ if not messages and not claims[n].speaks_of_messages]
            works = [_Solve(self.small, self.setting, numbered, name) for name in open_]
            if works and numbered and not self._is_whole(replace(works[0], name="")):
                break
            self.tell(f"Spacer: {', '.join(open_)}")
            for work, solved in asked_aside(_solve, works, self.patience, self.jobs):
                self._spend(work.name, solved.seconds if solved is not None else self.patience)
                if solved is not None and solved.holds:
                    self.found.fixed[work.name] = ", ".join(f"{name}={count}" for name, count in self.fixed.items())
                    clauses += solved.lemmas
        self._with_lemmas(clauses, [n for n in names if n in self.found.fixed])

    def _is_whole(self, work: _Solve) -> bool:
        """Whether the steps are all that there are."""
        self.tell("Spacer: messages are sent again as they were")
        ((_, solved),) = asked_aside(_solve, [work], self.patience, self.jobs)
        return solved is not None and solved.holds is True

    def _with_lemmas(self, clauses: Sequence[str], names: Sequence[str]) -> None:
        """Asks of any number of machines what Spacer has found for a few."""
        candidates = []
        for n, words in enumerate(dict.fromkeys(clauses), start=1):
            candidate = Candidate(f"found_{n}", "", words)
            try:
                candidate.of(self.system)
            except SpecError:
                continue
            candidates.append(candidate)
        if candidates and names:
            self.tell("induction with the lemmas that Spacer found")
            began = time.perf_counter()
            _, few, induction = tried(
                self.system, self._limited(names), self.small, candidates, names, self.jobs, self.watch,
                self.setting.limit_seconds,
            )  # fmt: skip
            self._take(few, induction, names, "lemmas that Spacer found", time.perf_counter() - began)
        if self._is_for_all():  # then these numbers are all that was asked for
            for name in names:
                self.found.proved.setdefault(name, "Spacer")

    def _is_for_all(self) -> bool:
        """Whether the small setting's numbers of instances are all that was asked for."""
        asked = {i.name: None if i.counted_by else i.count for i in self.system.counted()} | dict(self.setting.sizes)
        return asked == self.fixed

    def _limited(self, names: Sequence[str]) -> Setting:
        """The limit for each property, and so for some of them together."""
        return replace(self.setting, until=time.perf_counter() + len(names) * self.setting.limit_seconds)

    def _mined(self, names: Sequence[str]) -> None:
        self.tell("lemmas from explored states")
        began = time.perf_counter()
        found = strengthened(
            self.system, self._limited(names), self.small, names, jobs=self.jobs, watch=self.watch,
            states=reached(self.small), shrink_seconds=self.setting.limit_seconds,
        )  # fmt: skip
        if found.induction is not None:
            seconds = time.perf_counter() - began
            self._take(found.lemmas, found.induction, names, "lemmas from explored states", seconds)

    def _take(
        self, candidates: Sequence[Candidate], induction: Induction, names: Sequence[str], whose: str, seconds: float
    ) -> None:  # fmt: skip
        for name in names:
            self._spend(name, seconds / len(names))
        now = [name for name in names if name in induction.proved]
        if not now:
            return
        taken = {c.name for c in self.found.lemmas}
        self.found.lemmas += [c for c in candidates if c.name not in taken]
        self.found.proved |= dict.fromkeys(now, f"induction, with {whose}")
        self.found.system = with_lemmas(self.system, self.found.lemmas)
        self.found.induction = induction

    def _unkept(self, name: str) -> None:
        at = self.found.induction.lost.get(name)
        if at is None or self._why_not(name):
            return
        self.tell(f"why induction cannot keep {name}")
        began = time.perf_counter()
        self.found.unkept[name] = counterexample_to_induction(
            self.system, self.setting, name, at, set(self.found.induction.proved), self.small
        )
        self._spend(name, time.perf_counter() - began)

    def _spend(self, name: str, seconds: float) -> None:
        self.found.spent[name] = self.found.spent.get(name, 0.0) + seconds


# In other processes


@dataclass(frozen=True)
class _Deeper:
    """A question to deeper induction: a property, and what is proved."""

    system: System
    setting: Setting
    name: str
    proved: tuple[str, ...]


def _deeper(work: _Deeper) -> Deep:
    encoding = work.setting.encoding(work.system)
    claims = {c.name: c for c in encoding.claims()}
    known = [claims[name] for name in work.proved if name in claims]
    return deeper(encoding, claims[work.name], known, seconds=work.setting.limit_seconds)


@dataclass(frozen=True)
class _Solve:
    """A question to Spacer: a property, or nothing: that the steps are all that there are."""

    small: System
    setting: Setting
    numbered: bool
    name: str


@dataclass(frozen=True)
class _Solved:
    """What Spacer says, in words that travel."""

    holds: bool | None
    lemmas: tuple[str, ...] = ()
    seconds: float = 0.0


_horns: dict[bool, Horn] = {}  # with numbers of messages and without, of the one system that a process is asked about


def _solve(work: _Solve) -> _Solved:
    try:
        if work.numbered not in _horns:
            limit = work.setting.limit_seconds
            _horns[work.numbered] = Horn(
                work.small, numbered=work.numbered, scope=work.setting.scope, limit_seconds=limit
            )
    except Unsupported:
        return _Solved(None)
    horn = _horns[work.numbered]
    claims = {c.name: c for c in horn.encoding.claims() if not c.why_not}
    if work.name and work.name not in claims:
        return _Solved(None)
    solved = horn.solve(claims[work.name] if work.name else None)
    return _Solved(solved.holds, tuple(said(horn.encoding, solved.invariant)), solved.seconds)


NO_FAULTS = Scope(crash=False, network=False)
HANGS = 3.0  # times the limit, after which a solver is given up that does not keep to it
