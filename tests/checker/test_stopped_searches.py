"""Places that use a limited search later: one that was stopped before is never taken for a whole one.

Each place of the checker that keeps the result of a search, and asks it again, has rows in PLACES: the searches that it
makes are real, and those that a row names are stopped after a few states, or at once. Either what is asked later is
found all the same, by another search, or it is open. test_cut_short.py asks what the words about one search are.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest

from leasehold.checker.crash import analysis
from leasehold.checker.crash.analysis import crash, deepen
from leasehold.checker.explore import Exploration, Limits, explore
from leasehold.checker.explore.engines import Engine
from leasehold.checker.mutation import judge, mutate, observer
from leasehold.checker.mutation.battery import Battery, SystemLoader, Trial
from leasehold.checker.mutation.mutate import MutantOutcome
from leasehold.checker.mutation.operators import mutations
from leasehold.checker.prove import ANY, FaultScope, Setting, prove
from leasehold.checker.prove import prover as provers
from leasehold.checker.prove.decide.induction import induct
from leasehold.checker.prove.decide.proof_store import store
from leasehold.checker.prove.prover import Strategies
from leasehold.faults.model import Budget
from leasehold.spec import System
from leasehold.spec.language.model import PropertyKind
from tests.checker.explore.every_kind import of_every_kind
from tests.systems import TESTS, edited, files_of, written

TURNS = files_of("checker/prove/systems/turns")
CONVERSATION = files_of("checker/systems/conversation") | files_of("checker/crash/systems/counted")
COUNTS = edited(
    files_of("checker/explore/systems/counts"),
    ("FAIR", "true"),
    ("LIMIT", "constraint: a.k <= 2"),
    ("GUARD", "k < 9"),
)
TAP = TESTS / "checker/mutation/systems/tap"
SEEDS = (6, 13, 54)  # of systems by chance
NO_FAULTS = Setting(scope=FaultScope(crash=False, network=False))


class Searches:
    """Explorations, of which those with some numbers are stopped after a few states.

    Args:
        patch: puts it in the place of `explore` in a module.
        stopped: the numbers of those that are stopped, or that another search asks; counted from 0.
        folder: for systems.

    Attributes:
        states: after which they are stopped.
        made: how many there were.
    """

    states = 1

    def __init__(self, patch: pytest.MonkeyPatch, stopped: tuple[int, ...], folder: Path) -> None:
        self.patch, self.stopped, self.folder, self.made = patch, stopped, folder, 0

    def of(self, module: ModuleType, name: str = "explore") -> None:
        self.patch.setattr(module, name, self._explored)

    def is_stopped(self) -> bool:
        """Returns whether the next search is stopped."""
        self.made += 1
        return self.made - 1 in self.stopped

    def _explored(self, system: System, limits: Limits | None = None, *more: Any, **options: Any) -> Exploration:
        return explore(system, Limits(states=self.states) if self.is_stopped() else limits, *more, **options)


Place = Callable[[Searches], object]

# Proving


MET = "{when: player.here == 2, always: player.here > 1}"
ODD = "{when: player.here == 5, always: player.here > 4}"  # no state has its antecedent, which induction cannot say
TWO = "{always: player.here != 2}"  # a turn contradicts it
FIVE = "{always: player.here != 5}"  # two steps prove it


def turns(searches: Searches, **claims: str) -> System:
    properties = "".join(f"  {name}: {claim}\n" for name, claim in claims.items())
    return written(searches.folder, {**TURNS, "invariants.yaml": f"properties:\n{properties}"})


def counterexamples(searches: Searches) -> object:
    """The short search before induction, and the one after it."""
    searches.of(provers)
    system = turns(searches, never_two=TWO, never_five=FIVE)
    proof = prove(system, NO_FAULTS.limited(600), jobs=1, small=system)
    return {v.name: v.verdict for v in proof.properties}, searches.made


def antecedents(searches: Searches) -> object:
    """Explorations without faults, and with a crash, of an antecedent that is met, and of one that never is."""
    searches.of(provers)
    system = turns(searches, met=MET, odd=ODD)
    proof = prove(system, jobs=1, small=system)
    record = store(proof, ANY)
    assert record is not None
    return proof.vacuity_open, [v.name for v in proof.properties if v.vacuous], record.whole


def stored_proof(searches: Searches) -> object:
    """The same of the proof of a property that is proved and has a case, which is whole."""
    searches.of(provers)
    system = turns(searches, met=MET)
    record = store(prove(system, jobs=1, small=system), ANY)
    assert record is not None
    return record.whole


def steps_for_k_induction(searches: Searches) -> object:
    """The steps of the system, of which induction says whether they are all."""
    system = turns(searches, never_five=FIVE)
    induction = induct(system, NO_FAULTS.limited(0.0) if searches.is_stopped() else NO_FAULTS, jobs=1)
    strategies = Strategies(system, NO_FAULTS, system, induction, jobs=1)
    strategies.k_induction(["never_five"])
    return "never_five" in strategies.proved


def claims_of_before(searches: Searches) -> object:
    """An earlier induction, whose claims are not asked again."""
    system = turns(searches, odd=ODD)
    before = induct(system, ANY.limited(0.0) if searches.is_stopped() else ANY, jobs=1)
    return "odd" in induct(system, before=before, jobs=1).proved


def steps_of_a_round(searches: Searches) -> object:
    """Claims that no step has broken yet, when time is over after the first step; each is broken by its own step."""
    names = "abcd"
    lines = ["role: player", "data: {" + ", ".join(f"{n}: {{type: int, max: 9}}" for n in names) + "}"]
    lines += ["events: {" + ", ".join(f"go_{n}: it goes on" for n in names) + "}", "states:", "  on:"]
    lines += ["    initial: true", "    on:", *(f"      go_{n}: {{stay: true, set: {{{n}: 1}}}}" for n in names)]
    texts = {
        "system.yaml": "system: several\nroles: {player: {}}\nenvironment: {"
        + ", ".join(f"go_{n}: {{to: player}}" for n in names)
        + "}\n",
        "roles/player.yaml": "\n".join(lines) + "\n",
        "invariants.yaml": "properties: {" + ", ".join(f"no_{n}: {{always: player.{n} == 0}}" for n in names) + "}\n",
    }
    setting, stopped = NO_FAULTS.limited(600), searches.is_stopped()

    def watch(*_: int) -> None:
        if stopped:
            object.__setattr__(setting, "until", 0.0)  # the time is over now

    induction = induct(written(searches.folder, texts), setting, jobs=1, watch=watch)
    return [name for name in induction.proved if name.startswith("no_")]


# Crashes


def report_of_a_crash(searches: Searches) -> object:
    searches.of(analysis)
    searches.states = 18 if searches.stopped == (1,) else 1  # it has met cases by then, but not all
    report = crash(written(searches.folder, CONVERSATION), Budget(crash=1))
    assert report.open == (report.convergence is None) == (report.unmet is None) == (not report.complete)
    return report.complete, bool(report.cases)


def weakest_faults(searches: Searches) -> object:
    """Reports of two crashes and of one, which break the same property."""
    searches.of(analysis)
    texts = edited(CONVERSATION, ("mailbox", "bag"))
    report = crash(written(searches.folder, texts), Budget(crash=2))
    return {name: str(budget) for name, budget in report.weakest.items()}


def larger_budgets(searches: Searches) -> object:
    """The largest budget, which is tried before those that follow from it."""
    searches.of(analysis)
    budgets = list(Budget.parse("crash=3").parts())
    reports = deepen(written(searches.folder, CONVERSATION), None, budgets=budgets)
    return [(str(report.budget), report.complete) for report in reports]


def larger_budgets_within_bounds(*budgets: str) -> Place:
    """The same where every search is whole, and bounds leave open whether a system that loses messages stabilises."""

    def open_under(searches: Searches) -> object:
        searches.of(analysis)
        system = written(searches.folder, COUNTS)
        return [(str(r.budget), r.open) for r in deepen(system, None, budgets=[Budget.parse(b) for b in budgets])]

    return open_under


# Mutants


TRIALS = Battery((Trial(), Trial(budget=Budget(crash=1))))


def tried(name: str) -> MutantOutcome:
    """Returns the outcome of a mutant of the tap."""
    loader = SystemLoader(TAP)
    (outcome,) = mutate.mutate(loader, [m for m in mutations(loader()) if m.name == name], TRIALS).outcomes
    return outcome


def mutant(searches: Searches) -> object:
    """Searches of the system (0 to 2), of a mutant with the same steps (3 to 5), and of the system's steps (6, 7)."""
    searches.of(judge)
    try:
        outcome = tried("add_transition tap/open#drip -> open")
    except judge.MutationError as error:
        return str(error).rpartition(": ")[2]
    return outcome.word, outcome.cut_short


def observed_mutant(searches: Searches) -> object:
    """The search for what an observer sees, of a mutant of which that is the same in both trials."""

    def compared(*arguments: Any) -> observer.Comparison:
        return observer.compared(*arguments, *([0] if searches.is_stopped() else []))

    searches.patch.setattr(mutate, "compared", compared)
    return tried("drop_update tap/shut#turn red").word


RIGHT = {"never_two": "counterexample", "never_five": "proved"}
PLACES: list[tuple[Place, tuple[int, ...], object]] = [  # the numbers of the searches that are stopped; the answer
    (counterexamples, (), (RIGHT, 1)),
    (counterexamples, (0,), (RIGHT, 2)),
    (antecedents, (), ([], ["odd"], False)),
    (antecedents, (0,), (["odd"], [], False)),
    (antecedents, (1,), (["odd"], [], False)),
    (antecedents, (0, 1), (["met", "odd"], [], False)),
    (stored_proof, (), True),
    (stored_proof, (0, 1), False),
    (steps_for_k_induction, (), True),
    (steps_for_k_induction, (0,), False),
    (claims_of_before, (), True),
    (claims_of_before, (0,), True),
    (steps_of_a_round, (), []),
    (steps_of_a_round, (0,), []),
    (report_of_a_crash, (), (True, True)),
    (report_of_a_crash, (0,), (False, True)),
    (report_of_a_crash, (1,), (False, False)),
    (weakest_faults, (), {"asked_once": "crash=1"}),
    (weakest_faults, (2,), {}),
    (larger_budgets, (), [("crash=1", True), ("crash=3", True)]),
    *((larger_budgets, (n,), [("crash=1", False)]) for n in (0, 1)),
    (larger_budgets, (2,), [("crash=1", True), ("crash=2", True), ("crash=3", True)]),
    (
        larger_budgets_within_bounds("lose=1", "lose=2", "lose=3"),
        (),
        [("lose=1", True), ("lose=2", True), ("lose=3", True)],
    ),
    (  # what the last leaves open says nothing of the one before it
        larger_budgets_within_bounds("duplicate=1", "duplicate=1,lose=1", "duplicate=1,lose=2"),
        (),
        [("duplicate=1", False), ("duplicate=1,lose=2", True), ("duplicate=1,lose=1", True)],
    ),
    (mutant, (), ("equivalent", False)),
    *((mutant, (n,), "stopped after 1 states") for n in (0, 1, 2, 6, 7)),
    *((mutant, (n,), ("survives", True)) for n in (3, 4)),
    (mutant, (5,), ("equivalent", True)),
    (observed_mutant, (), "unseen"),
    *((observed_mutant, (n,), "survives") for n in (0, 1)),
]


@pytest.mark.parametrize(
    ("place", "stopped", "answer"),
    [pytest.param(*row, id=f"{row[0].__qualname__.partition('.')[0]}-{row[1]}") for row in PLACES],
)
def test_what_is_remembered(
    place: Place, stopped: tuple[int, ...], answer: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches = Searches(monkeypatch, stopped, tmp_path)
    assert place(searches) == answer
    assert searches.made > max(stopped, default=-1), "none of them was stopped"


@pytest.mark.parametrize("engine", ["reference", "packed"])
@pytest.mark.parametrize("budget", [None, Budget(crash=1)], ids=str)
def test_verdicts_of_a_part(engine: Engine, budget: Budget | None, tmp_path: Path) -> None:
    """Wherever a search is stopped, it says nothing of what it has not seen: what it does say is so in the end."""
    said: set[tuple[str, str]] = set()
    for seed in SEEDS:
        system = of_every_kind(tmp_path / str(seed), seed)
        assert system is not None
        found = explore(system, budget=budget)
        whole = {p.name: p for p in found.properties}
        for most in range(1, found.distinct, found.distinct // 8):
            part = explore(system, Limits(states=most), budget=budget, engine=engine)
            assert (part.complete, part.vacuous) == (False, ())
            for result in part.properties:
                said.add((result.kind, result.verdict))
                assert result.verdict in ("bounded", whole[result.name].verdict), (seed, most, result.name)
                assert result.verdict in ("bounded", "witnessed") or result.path is not None, (seed, most, result.name)
    assert {kind for kind, verdict in said if verdict == "bounded"} >= {*get_args(PropertyKind), "deadlock", "refines"}
