"""Proving a system: induction first, then strategies for the properties that are not inductive.

Theory of operation. Induction decides what it can (decide/induction.py). For properties that are not inductive, the
prover searches for counterexamples and lemmas:

1. Exploring small settings: is there a run that violates the property? The shortest is its counterexample.
2. k-induction (decide/k_induction.py): does it hold after several steps along which it has held?
3. Lemmas (discover/): candidates from explored states, of which induction keeps those that hold for any number.
4. Vacuity: an antecedent that no explored state or step has is negated, and proved as a property is.
5. What is still open is undecided; it has its counterexample to induction (decide/cti.py), and whether the explorer
   reaches that.

Each has its limit, which the user sets. Nothing is ever assumed. Where all of it has a limit of time, a short search of
the small setting comes before induction, so that a run that violates a property is found however hard its proof is;
what does not look at the clock is broken off (checker/host/deadline.py), and the rest stays as it was found.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from math import inf

import z3

from leasehold.checker.explore import Limits, Path, Progress, explore
from leasehold.checker.host.deadline import OutOfTime, alarm_at, grace
from leasehold.checker.prove.decide.assumptions import any_number, assumptions, held
from leasehold.checker.prove.decide.cti import CounterexampleToInduction, counterexample_to_induction
from leasehold.checker.prove.decide.guards import GuardFinding, guard_findings
from leasehold.checker.prove.decide.induction import ANY, START, Induction, Setting, Watch, induct
from leasehold.checker.prove.decide.k_induction import k_induction
from leasehold.checker.prove.decide.proof import PROVABLE, ClaimVerdict, Proof
from leasehold.checker.prove.decide.set_aside import GRACE_SECONDS, map_in_workers
from leasehold.checker.prove.discover.candidates import EXPLORE_SECONDS, explored_states
from leasehold.checker.prove.discover.strengthen import strengthened
from leasehold.checker.prove.encode.encoding import SLOWEST, Kind, known_sizes
from leasehold.checker.prove.encode.fault_scope import FaultScope
from leasehold.checker.prove.encode.lemma import CandidateLemma, with_lemmas
from leasehold.checker.prove.encode.properties import claims as claims_of
from leasehold.checker.prove.encode.properties import steps_read_reachability, written_claims
from leasehold.checker.prove.encode.transitions import TransitionRelation
from leasehold.faults.model import Budget
from leasehold.spec.language.check.first_states import no_first_state
from leasehold.spec.language.expression import negation
from leasehold.spec.language.model import Property, System

Tell = Callable[[str], None]  # hears what is being tried
VACUITY_LIMITS = 8.0  # times the limit, for the proof that antecedents are never true
EXPLORED_FIRST = 0.15  # of the time that all has, for the search that comes before induction
MOST_EXPLORED = 4_000_000  # states of one search for a counterexample, which take a few GB
ANTECEDENT_LIMITS = 3.0  # times the limit, for exploring antecedents
OUT_OF_TIME = "time: all of it ended before this was decided; give --time more"
INTERRUPTED = "interrupted before this was decided"
OUT_OF_MEMORY = "memory: the solver came to its limit before this was decided; give --memory more"


def prove(
    system: System,
    setting: Setting = ANY,
    *,
    jobs: int | None = None,
    watch: Watch | None = None,
    progress: Callable[[Progress], None] | None = None,
    tell: Tell | None = None,
    small: System | None = None,
    cases: Sequence[System] = (),
) -> Proof:
    """Proves what can be proved.

    Args:
        system: with its lemmas.
        setting: for which numbers of instances, and under which faults.
        jobs: processes; left out: one for each processor.
        watch: hears how far induction is.
        progress: hears how far exploring is.
        tell: hears which strategy is tried.
        small: the system with small constants, in which counterexamples and lemmas are looked for; None: they are not.
        cases: the system with other constants, in which antecedents are looked for, too.

    Raises:
        Unencodable: the system has something that has no encoding.
        SpecError: it has no first state in any setting that the proof would be for, so a proof would say nothing.
    """
    began = time.perf_counter()
    kinds = written_claims(system)
    more = Strategies(system, setting, small or system, jobs=jobs, watch=watch, tell=tell, cases=cases)
    searches = small is not None and setting.relation is TransitionRelation  # only induction takes another
    guards: list[GuardFinding] = []
    end = None if setting.until is None else setting.until + grace(0.0)
    with more.within_limits(), alarm_at(end):
        _require_first_state(system, setting)
        if searches and setting.until is not None:
            more.explore([*kinds], progress, EXPLORED_FIRST * setting.seconds_left)
        more.take(induct(system, setting, jobs=jobs, watch=watch, contradicted=more.runs))
        open_ = more.open(kinds)
        if open_ and searches:
            more.search(open_, progress)
        more.cut_short = OUT_OF_TIME if setting.is_over else ""
        more.antecedents(progress, is_asked=small is not None and not setting.is_over)
        guards = [] if setting.is_over else guard_findings(setting.encoding(system))
    over = setting.is_over or bool(more.cut_short)
    guards = [g for g in guards if g.certain or not over]  # what the solver could not say, it might with more time
    induction, scope = more.first, setting.scope or FaultScope.of(system)
    return Proof(
        system,
        [more.verdict(name, kind) for name, kind in kinds.items()],
        others=[n for n in (*system.properties, *["refines"] * bool(system.refines)) if n not in kinds],
        helpers=sum(1 for name in induction.claims if name not in kinds and name in induction.proved),
        any_number=any_number(system, setting),
        held=held(system, setting),
        scope=scope,
        steps=induction.steps,
        questions=induction.questions,
        explored=more.explored,
        induction=more.induction,
        guards=guards,
        guards_open=over,
        lemmas=more.lemmas,
        strengthened=more.strengthened,
        assumptions=assumptions(system, setting, searches=small is not None),
        vacuity_open=more.vacuity_open,
        interrupted=more.cut_short == INTERRUPTED,
        seconds=time.perf_counter() - began,
    )


class Strategies:
    """Searches for counterexamples and lemmas, where induction alone has not proved a property.

    Args:
        system: with its lemmas.
        setting: for which numbers of instances, and under which faults.
        small: the system with small constants.
        induction: what it has shown; left out: `take` hears it later.
        jobs: processes.
        watch: hears how far induction is.
        tell: hears what is tried.
        cases: the system with other constants, in which antecedents are looked for, too.

    Attributes:
        strengthened: the system with the lemmas that were found.
        first: induction without these lemmas.
        induction: the last that was made, with these lemmas.
        runs: for each property that is violated: the shortest run, and the faults that it takes.
        proved: for each property that is proved: by which method.
        fixed: for each property that is proved for some numbers of instances only: for which.
        lemmas: found lemmas that prove some, for the user to keep.
        ctis: for each property and lemma that is still open: its counterexample to induction.
        cut_off: for each property: the searches that ended at a limit; that they found nothing says nothing.
        explored: what was explored to look for runs.
        spent: seconds by property.
        vacuous: for each property that is proved, and whose antecedent is never true: why.
        vacuity_explored: those of them of which only exploring says so, within its bounds.
        vacuity_open: properties that are proved, of which it is not known.
        models: the small setting, that of the system and the other cases, but for those of which the proof is not.
        cut_short: why not everything was tried, if all time or memory was over before.
    """

    def __init__(
        self,
        system: System,
        setting: Setting,
        small: System,
        induction: Induction | None = None,
        *,
        jobs: int | None = None,
        watch: Watch | None = None,
        tell: Tell | None = None,
        cases: Sequence[System] = (),
    ) -> None:
        self.system, self.setting, self.small, self.jobs, self.watch = system, setting, small, jobs, watch
        self._tell = tell or (lambda message: None)
        self.strengthened = system
        self.take(Induction(scope=setting.scope or FaultScope.of(system)) if induction is None else induction)
        self.runs: dict[str, tuple[Path, str]] = {}
        self.fixed: dict[str, str] = {}
        self.lemmas: list[CandidateLemma] = []
        self.ctis: dict[str, CounterexampleToInduction] = {}
        self.cut_off: dict[str, list[str]] = {}
        self.explored: list[str] = []
        self.vacuous: dict[str, str] = {}
        self.vacuity_explored: set[str] = set()
        self.vacuity_open: list[str] = []
        by_values: dict[tuple[object, ...], System] = {}
        for model in (small, system, *cases):
            by_values.setdefault((*model.values().values(),), model)
        self.models = [model for model in by_values.values() if _is_a_case(model, system, setting)]
        self.cut_short = ""
        self.searched: set[str] = set()  # the budgets of faults under which all states were explored

    @contextmanager
    def within_limits(self) -> Iterator[None]:
        """Ends the block, and notes why, where time or the memory of the solver comes to its limit, or at Ctrl-C.

        Raises:
            KeyboardInterrupt: at Ctrl-C before anything was established.
        """
        try:
            yield
        except OutOfTime:
            self.cut_short = OUT_OF_TIME
        except KeyboardInterrupt:
            if not self.first.claims and not self.runs:
                words = "induction proves nothing before its last round; the same begins anew"
                raise KeyboardInterrupt(words) from None
            self.cut_short = INTERRUPTED
        except z3.Z3Exception as error:
            if "memory" in str(error):
                self.cut_short = OUT_OF_MEMORY
            elif "canceled" in str(error) and self.setting.is_over:  # the alarm rang while the solver was at work
                self.cut_short = OUT_OF_TIME
            else:
                raise

    def tell(self, strategy: str) -> None:
        """Tells what is tried now, and how far the proof has come."""
        claims = written_claims(self.system).keys()
        violated = [f"{len(self.runs):,} violated"] if self.runs else []
        self._tell(", ".join((strategy, f"{len(claims & self.proved.keys()):,} of {len(claims):,} proved", *violated)))

    def take(self, induction: Induction) -> None:
        """Goes on from what induction has shown."""
        self.first = self.induction = induction
        self.proved, self.spent = dict(induction.proved), dict(induction.spent)

    def search(self, names: Sequence[str], progress: Callable[[Progress], None] | None = None) -> None:
        """Tries everything for some properties.

        Args:
            names: properties and lemmas that are not proved. For lemmas, k-induction and other lemmas are not tried.
            progress: hears how far exploring is.
        """
        self.explore(names, progress)
        properties = [n for n in names if self.induction.claims[n].kind in PROVABLE]
        for attempt in (self.k_induction, self.discover):
            if self.setting.is_over:
                return
            can = [n for n in self.open(properties) if n in self.induction.claims and not self._why_not(n)]
            if can:
                attempt(can)
        for name in self.open(names):
            if not self.setting.is_over:
                self._cti(name)

    def verdict(self, name: str, kind: Kind) -> ClaimVerdict:
        """Returns what is known of a claim."""
        verdict = ClaimVerdict(name, kind, "undecided", seconds=self.spent.get(name, 0.0))
        if name in self.proved:
            return replace(
                verdict,
                verdict="proved",
                method=self.proved[name],
                vacuous=self.vacuous.get(name, ""),
                vacuity_explored=name in self.vacuity_explored,
            )
        if name in self.runs:
            path, faults = self.runs[name]
            return replace(verdict, verdict="counterexample", method="explored", path=path, faults=faults)
        fixed = self.fixed.get(name, "")
        return replace(verdict, fixed=fixed, reason=self._reason(name, fixed), cti=self.ctis.get(name))

    def _reason(self, name: str, fixed: str) -> str:
        ended = f"; cut short: {', '.join(self.cut_off[name])}" if name in self.cut_off else ""
        proved = ended + (f"; proved for {fixed}" if fixed else "")
        if self.cut_short and not self._why_not(name):
            return self.cut_short + proved
        if name in self.induction.undecided:
            return self.induction.undecided[name] + proved
        at = self.induction.broken_by.get(name, "")
        reason = f"{at} breaks it from a state that no lemma excludes" if at else "it was not proved"
        return reason + (f"; {'; '.join(self.explored)} do not contradict it" if self.explored else "") + proved

    def open(self, names: Iterable[str]) -> list[str]:
        """Returns those of some claims that are neither proved nor contradicted."""
        return [n for n in names if n not in self.runs and n not in self.proved]

    def _why_not(self, name: str) -> str:
        return self.induction.claims[name].why_not if name in self.induction.claims else ""

    def explore(
        self, names: Sequence[str], progress: Callable[[Progress], None] | None = None, seconds: float = inf
    ) -> None:
        """The shortest runs that violate properties or lemmas, without faults first; in so many seconds at most."""
        if not self.models:
            return
        small, until = self.models[0], time.perf_counter() + seconds
        asked = replace(small, properties={**small.lemmas, **small.properties})
        parted = ["partition=1"] if steps_read_reachability(small) else []  # `reachable` is arbitrary in a proof
        faults = [*parted, self.induction.scope.usual(small)]
        for budget in dict.fromkeys(["", *(faults if self.induction.scope.any else [])]):
            if not self.open(names):
                return
            if budget in self.searched:
                continue
            self.tell("exploring")
            left = min(until - time.perf_counter(), self.setting.seconds_left)
            if left <= 0:
                return
            limits = Limits(states=MOST_EXPLORED, seconds=None if left == inf else left, memory=self.setting.memory)
            explored = explore(asked, limits, progress=progress, budget=Budget.parse(budget) if budget else None)
            if explored.interrupted:
                raise KeyboardInterrupt
            short = "" if explored.complete else f" ({explored.why_incomplete})"
            under = f" with {budget}" if budget else " without faults"
            if explored.complete:
                self.searched.add(budget)
            self.explored.append(f"{explored.distinct:,} states{under}{short}")
            for result in explored.properties:
                if result.name in self.open(names) and result.verdict == "violated" and result.path is not None:
                    self.runs[result.name] = result.path, budget

    def k_induction(self, names: Sequence[str]) -> None:
        """Properties that hold after several steps along which they have held."""
        if not self.induction.whole:
            return
        asked = [n for n in names if self.induction.broken_by.get(n) != START]
        self.tell(f"k-induction of {', '.join(asked)}")
        limit = self.setting.limit_seconds
        run = partial(_run_k_induction, self.system, self.setting, frozenset(self.induction.proved))
        for name, outcome in map_in_workers(
            run, asked, SLOWEST * limit + GRACE_SECONDS, self.jobs, until=self.setting.until
        ):
            depth, seconds = (None, limit) if outcome is None else outcome
            self._spend(name, seconds)
            if depth is None:
                self.cut_off.setdefault(name, []).append("k-induction")
            if depth:
                self.proved[name] = f"induction over {depth} steps"

    def discover(self, names: Sequence[str]) -> None:
        """Properties that are inductive with lemmas from explored states."""
        self.tell("lemmas from explored states")
        began = time.perf_counter()
        # The limit is for each property, and so for some of them together.
        limited = self.setting.limited(len(names) * self.setting.limit_seconds)
        strengthening = strengthened(
            self.system,
            limited,
            self.small,
            names,
            jobs=self.jobs,
            watch=self.watch,
            states=explored_states(self.small, seconds=min(EXPLORE_SECONDS, limited.seconds_left / 4)),
            shrink_seconds=self.setting.limit_seconds,
        )
        for name in names:
            self._spend(name, (time.perf_counter() - began) / len(names))
        some = any_number(self.system, self.setting)
        sizes = ", ".join(f"{type_.name}={type_.count}" for type_ in self.small.counted() if type_.name in some)
        self.fixed |= dict.fromkeys(strengthening.fixed, sizes)
        for name in strengthening.cut_short:
            self.cut_off.setdefault(name, []).append("the search for lemmas")
        if strengthening.proved:
            self.lemmas, self.induction = strengthening.lemmas, strengthening.induction
            self.proved |= dict.fromkeys(strengthening.proved, "induction, with lemmas from explored states")
            again = {n: how for n, how in strengthening.induction.proved.items() if n in self.system.lemmas}
            self.proved = {**again, **self.proved}
            self.strengthened = with_lemmas(self.system, strengthening.lemmas)

    def antecedents(self, progress: Callable[[Progress], None] | None = None, *, is_asked: bool = True) -> None:
        """Finds the properties that are proved because their antecedents are never true.

        Args:
            progress: hears how far exploring is.
            is_asked: whether the small setting, and that of the system, are explored; else all are left open.
        """
        properties = self.small.properties
        unseen = {n for n in self.proved if n in properties and properties[n].when is not None}
        if not unseen or not is_asked:
            self.vacuity_open = sorted(unseen)
            return
        self.tell("antecedents")
        if not self.models:
            self.vacuity_open = sorted(unseen)
        for model in self.models:  # the small setting may be too small for some
            unseen = unseen and self._never_explored(model, unseen, "", progress)
        if unseen:
            self._prove_vacuous(unseen)
        unseen -= self.vacuous.keys()
        if unseen and self.models and self.induction.scope.any:
            usual = self.induction.scope.usual(self.small)
            unseen = self._never_explored(self.models[0], unseen, usual, progress)
        self.vacuity_open = [n for n in self.vacuity_open if n in unseen]
        unseen -= {*self.vacuity_open}
        self.vacuity_explored = unseen
        for name in unseen:
            self.vacuous[name] = f"no explored {_case(properties[name])} has its antecedent"

    def _never_explored(
        self, model: System, names: set[str], faults: str, progress: Callable[[Progress], None] | None
    ) -> set[str]:
        """The properties whose antecedents no explored case has; they are open where exploring is cut short."""
        asked = replace(model, properties={n: model.properties[n] for n in sorted(names)}, ends=None)
        limits = Limits(seconds=min(ANTECEDENT_LIMITS * self.setting.limit_seconds, self.setting.seconds_left))
        explored = explore(asked, limits, progress=progress, budget=Budget.parse(faults) if faults else None)
        if explored.interrupted:
            raise KeyboardInterrupt
        if not explored.complete:
            self.vacuity_open = sorted(names)
            return names
        return names & {*explored.vacuous}

    def _prove_vacuous(self, names: set[str]) -> None:
        """Proves, as properties are proved, that antecedents are never true."""
        system, negated = self.strengthened, {}
        for name in sorted(names):
            p = system.properties[name]
            assert p.when is not None
            negated[f"the antecedent of {name} is never true"] = replace(p, claim=negation(p.when), when=None)
        claims = {claim_name: replace(p, name=claim_name) for claim_name, p in negated.items()}
        limited = self.setting.limited(VACUITY_LIMITS * self.setting.limit_seconds)
        induction = induct(
            replace(system, properties={**system.properties, **claims}),
            limited,
            jobs=self.jobs,
            watch=self.watch,
            before=self.induction,
        )
        for claim_name, p in negated.items():
            if claim_name in induction.proved:
                self.vacuous[p.name] = f"no {_case(p)} has its antecedent"

    def _cti(self, name: str) -> None:
        at = self.induction.broken_by.get(name)
        if at is None or self._why_not(name):
            return
        self.tell(f"a counterexample to induction for {name}")
        began = time.perf_counter()
        limited = self.setting.limited(self.setting.limit_seconds)
        self.ctis[name] = counterexample_to_induction(
            self.system, limited, name, at, set(self.induction.proved), self.small
        )
        self._spend(name, time.perf_counter() - began)

    def _spend(self, name: str, seconds: float) -> None:
        self.spent[name] = self.spent.get(name, 0.0) + seconds


def _require_first_state(system: System, setting: Setting) -> None:
    """An error where no state is as `initially` says."""
    if system.initially is None or setting.is_over:
        return
    encoding = setting.encoding(system)
    first = encoding.first(encoding.before)
    solver, cardinals = encoding.solver(), encoding.sorts.cardinals
    solver.add(*encoding.given, first, *cardinals.facts([first], subtracted=cardinals.subtracted([first])))
    if solver.check() == z3.unsat:
        asked = ", ".join(held(system, setting))
        raise no_first_state(system, f"with {asked}" if asked else "with any constants")


def _is_a_case(model: System, system: System, setting: Setting) -> bool:
    """Returns whether a proof of a system is about this model of it too, whose constants may have other values."""
    sizes, values = known_sizes(system, setting.sizes), model.values()
    same = all(values[name] == system.constants[name].value for name in {*system.bounding, *setting.values})
    return same and all(type_.count == sizes.get(type_.name, type_.count) for type_ in model.counted())


def _case(p: Property) -> str:
    return "step" if p.kind == "step" else "state"


def _run_k_induction(system: System, setting: Setting, proved: frozenset[str], name: str) -> tuple[int | None, float]:
    """Returns, in another process, with how many steps a property is inductive, as `k_induction` does, and seconds."""
    began = time.perf_counter()
    encoding = setting.encoding(system)
    claims = {c.name: c for c in claims_of(encoding)}
    known = [c for c in claims.values() if c.name in proved]
    depth = k_induction(encoding, claims[name], known, seconds=setting.limit_seconds)
    return depth, time.perf_counter() - began
