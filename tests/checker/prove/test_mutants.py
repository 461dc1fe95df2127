"""Every seeded mistake that breaks a property of states or steps: its proof fails, and a run contradicts it.

A mistake is a change of the text, or machines that deviate (encode/deviant.py). What is proved of a system is an
inductive set of its claims. So a claim with a counterexample to induction from a state in which all claims hold is in
no such set, nor is one that has one where all others hold, and so on: that needs few questions, where induction.py asks
hundreds.
The steps are those of the run that contradicts the property.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import pytest
import z3

from leasehold.checker.explore import Exploration, Path, explore
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.layout import State
from leasehold.checker.explore.paths import Paths
from leasehold.checker.explore.properties import PropertyClaims
from leasehold.checker.explore.reference import Reference
from leasehold.checker.explore.step import Action
from leasehold.checker.prove.decide.induction import Setting, induct
from leasehold.checker.prove.decide.obligation import SIDE_CONDITION, ProofObligation
from leasehold.checker.prove.decide.proof import PROVABLE
from leasehold.checker.prove.encode.encoding import Encoding
from leasehold.checker.prove.encode.properties import claims as claims_of
from leasehold.checker.prove.encode.transitions import SymbolicStep
from leasehold.faults.model import Budget
from leasehold.spec import System
from leasehold.spec.language.model import OF_FAIR_RUNS
from tests.checker.prove.test_relations import Written, relations, walk
from tests.mutants.deviant import DeviationError
from tests.mutants.deviant_relation import relation_of
from tests.mutants.deviation import Deviation
from tests.mutants.deviations import deviant, deviating
from tests.mutants.mutant import Mutant, mutants
from tests.systems import load

MUTANTS = mutants()
OF_RUNS = (*OF_FAIR_RUNS, "always_possible")  # what becomes of a system at last is for the explorer
MARKS = {"silence_is_failure": [], "updates_without_numbers": [], "units_before_commit": [pytest.mark.long]}


def deviations(mutant: Mutant) -> tuple[Deviation, ...]:
    return () if mutant.deviation is None else (mutant.deviation,)


def broken(mutant: Mutant) -> list[str]:
    """The properties of states and steps that a mistake breaks."""
    properties = load("lease").properties
    return [name for name in mutant.properties if name in properties and properties[name].kind in PROVABLE]


@dataclass
class Failure:
    """The reason for which a proof fails.

    Attributes:
        lost: claims, and what steps owe, each with the step that takes it away.
        undecided: those of which the solver could not say.
    """

    broken_by: dict[str, str] = field(default_factory=dict)
    undecided: dict[str, str] = field(default_factory=dict)

    def of(self, name: str) -> str:
        """The step that takes a property away, or what all proofs need; empty where none does."""
        return next(
            (step for claim, step in self.broken_by.items() if claim == name or claim.startswith(SIDE_CONDITION)), ""
        )


def failure(encoding: Encoding, steps: Sequence[SymbolicStep], name: str) -> Failure:
    """Takes claims away until a property is among them, or all that it needs follows.

    Asked about are the property and what was needed for something that was asked; what steps owe only where the
    property does not fail by itself.
    """
    claims = {c.name: c for c in claims_of(encoding) if not c.why_not}
    found = Failure()
    for side_conditions in (False, True):
        needed = {name}
        used: dict[int, set[str]] = {}
        waiting = {n: {name} for n in range(len(steps))}
        while waiting:
            more, gone = set[str](), set[str]()
            for n, asked in waiting.items():
                known = [c for c in claims.values() if not c.about_steps and c.name not in found.broken_by]
                some = [claims[a] for a in sorted(asked - found.broken_by.keys())]
                question = ProofObligation(encoding, steps[n], known, some, side_conditions=side_conditions)
                for loss in question.undischarged():
                    found.broken_by[loss.claim] = steps[n].name
                    gone.add(loss.claim)
                    if loss.model is None:
                        found.undecided[loss.claim] = loss.reason
                if found.of(name):
                    return found
                used[n] = used.get(n, set()) | question.used
                more |= question.used - needed
            needed |= more
            stale = {n for n, names in used.items() if names & gone}
            waiting = {n: (needed if n in stale else more) - found.broken_by.keys() for n in used}
            waiting = {n: asked for n, asked in waiting.items() if asked}
            for n in stale:
                used[n] = set()
    return found


def along(path: Path, steps: Sequence[SymbolicStep]) -> list[SymbolicStep]:
    """The relations of the steps of a run."""
    taken = {step.transition for step in path.steps}
    ignored = {f"{(step.machine or '').partition('[')[0]} ignores {step.event}" for step in path.steps}
    kinds = {step.kind for step in path.steps}
    ends = (
        *([" crashes", " recovers", " crashes again", ", before its commit"] if "crash" in kinds else []),
        *([" again"] if kinds & {"retry", "duplicate"} else []),
        *(["time passes"] if "clock" in kinds else []),
        *([" loses a message"] if "lose" in kinds else []),
    )
    return [
        step
        for step in steps
        if (step.transition is not None and step.transition.name in taken)
        or step.name in ignored
        or (ends and step.name.endswith(tuple(ends)))
    ]


@cache
def explored(name: str) -> Exploration:
    (mutant,) = [m for m in MUTANTS if m.name == name]
    return explore(mutant.load(), budget=mutant.budget, reference=deviating(mutant.deviation))


def counterexample(mutant: Mutant, name: str) -> Path:
    """The shortest run that contradicts a property."""
    (result,) = [p for p in explored(mutant.name).properties if p.name == name]
    assert result.verdict == "violated"
    assert result.path is not None
    return result.path


def contradicts(mutant: Mutant, path: Path, name: str) -> bool:
    """Takes a run again, in a system that was made anew, and asks whether its last state or step has the property."""
    system = mutant.load()
    if mutant.deviation is None:
        world = reference_of(system, mutant.budget)
    else:
        world = deviant(system, mutant.budget, mutant.deviation)
    shown, claims = Paths(world, (), explored(mutant.name).paths.labels), PropertyClaims(system, world)
    (state,) = [s for s in world.initial_states() if shown.snapshot(s) == path.initial]
    before, action = state, None
    for step in path.steps:
        assert not any(c.found is not None for c in claims.steps if c.of.name == name)
        before = state
        # Who deviates may have cells that nobody sees: the first that looks alike, as the explorer takes it.
        action, state = next((a, s) for a, s in world.successors(before) if shown.describe(before, a, s) == step)
        claims.step(0, before, action, state)
    claims.state(0, state)
    return any(c.found is not None for c in (*claims.invariants, *claims.steps) if c.of.name == name)


SEEDED = [
    pytest.param(m, name, id=f"{m.name}-{name}", marks=MARKS.get(m.name, [pytest.mark.slow]))
    for m in MUTANTS
    for name in broken(m)
]


@pytest.mark.parametrize(("mutant", "name"), SEEDED)
def test_a_seeded_mistake_is_not_proved_and_a_run_shows_why(mutant: Mutant, name: str) -> None:
    path = counterexample(mutant, name)
    if name == mutant.properties[0]:
        assert len(path) == mutant.steps
    assert contradicts(mutant, path, name)
    system = mutant.load()
    # As many units as in the run: among any number the solver looks for a model in vain.
    sizes = {role.name: role.instance.count for role in system.roles.values() if role.indexed}
    encoding = Setting(sizes, relation=relation_of(deviations(mutant)), limit_seconds=10).encoding(system)
    found = failure(encoding, along(path, list(encoding.relation.steps(encoding.before))), name)
    assert found.of(name)
    assert not found.undecided  # each of them has a model


@pytest.mark.slow
@pytest.mark.parametrize(("mutant", "name"), SEEDED)
def test_the_lease_keeps_it_over_the_same_steps(mutant: Mutant, name: str) -> None:
    """The proof fails by the mistake alone."""
    encoding = Setting(limit_seconds=10).encoding(mutant.original())
    found = failure(encoding, along(counterexample(mutant, name), list(encoding.relation.steps(encoding.before))), name)
    assert not found.broken_by


def test_other_mistakes_break_nothing_that_is_proved() -> None:
    """They keep something from happening at last, which is no property of states or steps."""
    properties = load("lease").properties
    kinds = {
        properties[name].kind
        for m in MUTANTS
        if not broken(m)
        for name in m.properties
        if name in properties  # or it is freedom from deadlock
    }
    assert kinds <= set(OF_RUNS)
    assert len(SEEDED) == 18


MADE = sorted({m.deviation for m in MUTANTS if m.deviation is not None}, key=str)


def has_one_message_for_each_number(world: Reference, cells: State) -> bool:
    queues = [cells[lane.cell][1] for lane in world.layout.lanes]
    return all(len({entry[0] for entry in queue}) == len(queue) for queue in queues)


@pytest.mark.slow
@pytest.mark.parametrize("deviation", MADE, ids=str)
def test_what_deviating_machines_do_is_allowed(deviation: Deviation) -> None:
    """The same as in test_relations.py. Two messages under one number are no state of the relations; steps owe that."""
    system = load("lease", {"max_units": "1", "last_end": "2"})
    world = deviant(system, Budget(crash=2, lose=1, duplicate=1), deviation)
    encoding = Setting({"unit": 1}, relation=relation_of((deviation,))).encoding(system)
    steps, written = list(encoding.relation.steps(encoding.before)), Written(system, world, encoding)
    constants = [
        encoding.sorts.equal(encoding.constants[c.name], encoding.sorts.literal(c.type, c.value))
        for c in system.constants.values()
    ]
    walked = [
        (before, action, after)
        for before, action, after in walk(world, 2500)
        if action.kind not in ("duplicate", "retry")
        and all(has_one_message_for_each_number(world, cells) for cells in (before, after))
    ]
    faults = [step for step in walked if step[1].kind in ("crash", "recover")]
    again = [step for step in walked if step[1].kind == "deliver" and _comes_again(*step[:2])]
    for before, action, after in [*faults[:: len(faults) // 30], *again[:20], *walked[:: len(walked) // 10]]:
        known = [*constants, *written.machines(before, encoding.before), *written.exactly(before, encoding.before)]
        among = relations(steps, action)
        if action.kind == "crash" and action.transition is None:
            among += [step for step in steps if step.name.endswith(", before its commit")]
        answers = []
        for step in among:
            solver = z3.Solver()
            solver.set("timeout", 20_000)
            solver.add(*encoding.given, *known, *step.given)
            solver.add(*written.machines(after, step.after), *written.at_least(after, step.after))
            answers.append(solver.check())
            if answers[-1] == z3.sat:
                break
        assert z3.sat in answers, (action, answers)


def _comes_again(before: State, action: Action) -> bool:
    assert action.lane is not None
    return bool(before[action.lane.cell][1][action.position][0] == 0)


@pytest.mark.long
def test_every_deviation_has_relations() -> None:
    """No fewer than those of machines that do not deviate."""
    system = load("lease")
    names = {step.name for step in every(system, ())}
    assert all(names <= {step.name for step in every(system, (deviation,))} for deviation in MADE)


def every(system: System, some: tuple[Deviation, ...]) -> list[SymbolicStep]:
    encoding = Setting(relation=relation_of(some)).encoding(system)
    return list(encoding.relation.steps(encoding.before))


@pytest.mark.long
def test_induction_knows_of_deviations() -> None:
    """A coordinator that was to commit, stopped, and aborts: of two-phase commit both readings say so."""
    system = load("two_phase_commit", {"participants": "2"})
    forgetful = Deviation("recover_to", ("coordinator/committing -> aborting",))
    found = induct(system, Setting(relation=relation_of((forgetful,))))
    assert "agreement" in induct(system).proved
    assert "agreement" not in found.proved
    runs = explore(system, budget=Budget(crash=1), reference=deviating(forgetful))
    assert "agreement" in {p.name for p in runs.properties if p.verdict == "violated"}


def test_a_deviation_that_there_is_not() -> None:
    with pytest.raises(DeviationError, match="did you mean `recover_to`"):
        Setting(relation=relation_of((Deviation("recover_two"),))).encoding(load("two_phase_commit"))
