"""Lemmas that prove properties: candidates that induction keeps, and of those a few that suffice.

Theory of operation. Candidates (candidates.py) become lemmas beside the system's own, and induction leaves out those
that some step does not preserve (the Houdini algorithm); what is left is proved together with the properties. First
that is done with the numbers of instances that were explored, where a solver is much faster: a candidate that is not
inductive there is not inductive for any number. Then a few lemmas that suffice are selected: those that the solver has
used, and of these one after the other is left out as time allows. The proof is of these, for the numbers that were
asked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from leasehold.checker.prove.decide.assumptions import any_number
from leasehold.checker.prove.decide.induction import Induction, Setting, Watch, induct
from leasehold.checker.prove.decide.obligation import ProofObligation
from leasehold.checker.prove.discover.candidates import LEVELS, MOST, ExploredStates, candidates, explored_states
from leasehold.checker.prove.encode.lemma import CandidateLemma, lemmas_yaml, with_lemmas
from leasehold.checker.prove.encode.properties import claims as claims_of
from leasehold.checker.prove.encode.transitions import SymbolicStep
from leasehold.spec.language.model import System

SHRINK_SECONDS = 20.0


@dataclass(frozen=True)
class Strengthened:
    """The inductive part of some candidates, and the properties that it proves.

    Attributes:
        wanted: the properties that were to be proved.
        candidates: how many candidates there were.
        kept: the candidates that hold, for as many instances as were explored.
        lemmas: a few of them that suffice for what is proved.
        induction: of the system with these lemmas, for the numbers that were asked for.
        fixed: the properties that are proved for as many instances as were explored, if for no other numbers.
        cut_short: the properties that are not proved, and of which time, a limit of a query or the number of candidates
            has kept something from being tried. Of the others it is known that no candidates prove them.
        rounds: for each level: how many candidates, how many of them hold, and seconds.
    """

    wanted: Sequence[str]
    candidates: int
    kept: list[CandidateLemma]
    lemmas: list[CandidateLemma]
    induction: Induction
    fixed: frozenset[str]
    rounds: tuple[tuple[int, int, float], ...] = ()
    cut_short: frozenset[str] = frozenset()

    @property
    def proved(self) -> dict[str, str]:
        """The properties that are proved, and by which method."""
        return {name: self.induction.proved[name] for name in self.wanted if name in self.induction.proved}

    @property
    def missing(self) -> dict[str, str]:
        """The properties that are not, and why."""
        return {name: _why(self.induction, name) for name in self.wanted if name not in self.induction.proved}

    @property
    def yaml(self) -> str:
        """The lemmas as lemmas.yaml has them; empty where none is needed, or none helps."""
        return lemmas_yaml(self.lemmas) if self.lemmas else ""


def strengthened(
    system: System,
    setting: Setting,
    small: System,
    wanted: Iterable[str],
    *,
    jobs: int | None = None,
    watch: Watch | None = None,
    states: ExploredStates | None = None,
    levels: Sequence[int] = LEVELS,
    shrink_seconds: float = SHRINK_SECONDS,
) -> Strengthened:
    """Searches for lemmas that prove properties.

    Args:
        system: with the lemmas that it has.
        setting: for which numbers of instances, and under which faults.
        small: the system with small constants, of which candidates are made.
        wanted: names of properties, or lemmas, that are not proved.
        jobs: processes; left out: one for each processor.
        watch: hears how far induction is.
        states: the explored states of `small`; left out: it is explored.
        levels: of candidates, one after the other until all that is wanted is proved.
        shrink_seconds: for leaving lemmas out, once a part that suffices is known; 0: that part is the answer.

    Raises:
        Unencodable: the system has something that has no encoding.
    """
    names = list(wanted)
    known = states or explored_states(small)
    rounds: list[tuple[int, int, float]] = []
    fixed = frozenset[str]()
    best: Strengthened | None = None
    last: set[tuple[str, str]] = set()
    cut_short = set[str]()
    for level in levels:
        started = time.perf_counter()
        every = candidates(small, known, level)
        claims = {(c.when, c.always) for c in every}
        if best is not None and claims <= last:
            continue  # a level that adds nothing
        last = claims
        tried = houdini(system, setting, small, every, names, jobs, watch, shrink_seconds)
        rounds.append((len(every), len(tried.kept), time.perf_counter() - started))
        fixed |= tried.fixed
        cut_short |= tried.cut_short
        if best is None or len(tried.proved) > len(best.proved):
            best = tried
        if not best.missing or setting.is_over:
            break
    assert best is not None, "there is no level"
    short = frozenset(name for name in best.missing if name in cut_short or setting.is_over)
    return replace(best, fixed=fixed - best.proved.keys(), rounds=tuple(rounds), cut_short=short)


def houdini(
    system: System,
    setting: Setting,
    small: System,
    every: Sequence[CandidateLemma],
    names: Sequence[str],
    jobs: int | None = None,
    watch: Watch | None = None,
    seconds: float = SHRINK_SECONDS,
) -> Strengthened:
    """The candidates that hold, a few that are needed, and the proof with these.

    Args:
        system: with the lemmas that it has.
        setting: for which numbers of instances, and under which faults.
        small: the system with small constants, for whose numbers of instances candidates are asked about first.
        every: the candidates.
        names: the properties to be proved with them.
        jobs: processes; left out: one for each processor.
        watch: hears how far induction is.
        seconds: for leaving lemmas out.
    """

    def proved(lemmas: Sequence[CandidateLemma], where: Setting = setting) -> Induction:
        return induct(with_lemmas(system, lemmas), where, jobs=jobs, watch=watch)

    some = any_number(system, setting)
    few_of_each = {type_.name: type_.count for type_ in small.counted() if type_.name in some}
    sizes = replace(setting, sizes={**few_of_each, **setting.sizes})
    induction = proved(every, sizes)
    kept = [c for c in every if c.name in induction.proved]
    aim = [name for name in names if name in induction.proved]
    is_whole = len(every) < MOST and not any(c.name in induction.undecided for c in every)
    short = frozenset(name for name in names if not is_whole or name in induction.undecided)
    if not aim:
        return Strengthened(names, len(every), kept, [], induction, frozenset(), cut_short=short)
    few = _few(system, sizes, kept, induction, aim)
    shown = proved(few)
    if _count(shown, aim) < len(aim) and len(few) < len(kept):
        # More instances may need more: then all that is left is asked of any number, and a few are chosen of that.
        induction = proved(kept)
        if _count(induction, names) > _count(shown, names):
            few, shown = [c for c in kept if c.name in induction.proved], induction
            fewer = _few(system, setting, few, induction, [name for name in names if name in induction.proved])
            induction = proved(fewer)
            if _count(induction, names) == _count(shown, names):
                few, shown = fewer, induction
    until = time.perf_counter() + seconds
    for lemma in few:
        if time.perf_counter() > until or setting.is_over:
            break
        fewer = [c for c in few if c is not lemma]
        induction = proved(fewer)
        if _count(induction, names) == _count(shown, names):
            few, shown = fewer, induction
    return Strengthened(names, len(every), kept, few, shown, frozenset(aim), cut_short=short)


def _count(induction: Induction, names: Iterable[str]) -> int:
    return sum(1 for name in names if name in induction.proved)


def _why(induction: Induction, name: str) -> str:
    if name in induction.undecided:
        return induction.undecided[name]
    if name in induction.broken_by:
        return f"{induction.broken_by[name]} breaks it"
    return "there is no such claim" if name not in induction.claims else "it was not proved"


def _few(
    system: System, setting: Setting, kept: Sequence[CandidateLemma], induction: Induction, aim: Iterable[str]
) -> list[CandidateLemma]:
    """The candidates, among those that hold, that the proof of some properties needs."""
    needed = _needed(with_lemmas(system, kept), setting, induction, aim)
    return [c for c in kept if c.name in needed]


def _needed(system: System, setting: Setting, induction: Induction, aim: Iterable[str]) -> set[str]:
    """Names of claims that suffice to prove some, and to prove those, and so on.

    Each claim is asked of each step knowing only what is needed already; where that is not enough, knowing all.
    """
    encoding = setting.encoding(system)
    claims = {c.name: c for c in claims_of(encoding) if c.name in induction.proved}
    known = [c.name for c in claims.values() if not c.about_steps]
    steps = list(encoding.relation.steps(encoding.before))

    def broken(
        step: SymbolicStep, asked: Iterable[str], given: Iterable[str], side_conditions: bool = False
    ) -> tuple[list[str], set[str]]:
        before = [claims[n] for n in known if n in set(given)]
        about = [claims[name] for name in asked]
        obligation = ProofObligation(encoding, step, before, about, side_conditions=side_conditions)
        return [failed.claim for failed in obligation.undischarged()], obligation.used

    needed, fresh = set(aim), set(aim)
    if any(c.speaks_of_messages for c in claims.values()):
        for step in steps:  # side conditions are then asked as well, and may need something
            if step.side_conditions:
                fresh |= broken(step, [], known, True)[1]
        needed |= fresh
    while fresh:
        if setting.is_over:
            return {*known, *needed}
        asked, fresh = sorted(fresh), set()
        for step in steps:
            for name in broken(step, asked, needed)[0]:
                _, used = broken(step, [name], known)
                for one in sorted(used - needed):
                    missing, fewer = broken(step, [name], used - {one})
                    if not missing and one in used:
                        used = fewer
                fresh |= used - needed
                needed |= used
    return needed
