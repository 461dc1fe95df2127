"""The results of the prover: each claim is proved, violated by a run, or undecided; never more than was established."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from leasehold.checker.explore import Path
from leasehold.checker.prove.decide.assumptions import Assumptions
from leasehold.checker.prove.decide.cti import CounterexampleToInduction
from leasehold.checker.prove.decide.guards import GuardFinding
from leasehold.checker.prove.decide.induction import Induction
from leasehold.checker.prove.encode.encoding import Kind
from leasehold.checker.prove.encode.fault_scope import FaultScope
from leasehold.checker.prove.encode.lemma import CandidateLemma
from leasehold.spec.language.model import System

ProofVerdict = Literal["proved", "counterexample", "undecided"]
PROVABLE = ("always", "step")


@dataclass(frozen=True)
class ClaimVerdict:
    """The verdict on one claim, with what is known of it.

    Attributes:
        verdict: proved of every run, contradicted by one, or neither.
        method: by which.
        reason: of one that is undecided.
        path: the run that contradicts it.
        faults: the budget of faults under which that was found; empty: none.
        fixed: for which numbers of instances it is proved, where it is not for those that were asked for.
        cti: the counterexample to induction of one that is undecided.
        vacuous: why one that is proved says nothing: its antecedent is never true; empty: it is, or was not asked.
        vacuity_explored: only exploring says so, within its bounds; nothing proves it.
        seconds: of the solver; of a question about several claims each has its share.
    """

    name: str
    kind: Kind
    verdict: ProofVerdict
    method: str = ""
    reason: str = ""
    path: Path | None = None
    faults: str = ""
    fixed: str = ""
    cti: CounterexampleToInduction | None = None
    vacuous: str = ""
    vacuity_explored: bool = False
    seconds: float = 0.0


@dataclass
class Proof:
    """A proof: what is known of all claims of a system.

    Attributes:
        verdicts: of its properties about states and steps, then of its lemmas.
        others: its other properties, about which induction says nothing.
        helpers: auxiliary invariants that hold.
        any_number: roles and counted types that have any number of instances here.
        held: constants whose values types have in them, with these values.
        explored: what was explored to look for counterexamples.
        induction: what induction has shown, for certificates.
        guards: what is wrong with guards and updates, for all data.
        guards_open: whether time ended before all of that was asked.
        lemmas: found on the way, that prove something; for the user to keep.
        strengthened: the system with these lemmas.
        assumptions: all that the proof depends on.
        vacuity_open: properties of which it is not known whether their antecedents are ever true.
        kept: the day on which a proof that was read from the proof store was made; empty: it is made now.
        kept_for: for what that one holds, in words.
        interrupted: Ctrl-C has ended it, and the rest is as far as it had come.
    """

    system: System
    verdicts: list[ClaimVerdict] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    helpers: int = 0
    any_number: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    scope: FaultScope = field(default_factory=FaultScope)
    steps: int = 0
    questions: int = 0
    explored: list[str] = field(default_factory=list)
    induction: Induction | None = None
    guards: list[GuardFinding] = field(default_factory=list)
    guards_open: bool = False
    lemmas: list[CandidateLemma] = field(default_factory=list)
    strengthened: System | None = None
    assumptions: Assumptions | None = None
    vacuity_open: list[str] = field(default_factory=list)
    kept: str = ""
    kept_for: str = ""
    interrupted: bool = False
    seconds: float = 0.0

    def of(self, answer: ProofVerdict) -> list[ClaimVerdict]:
        return [v for v in self.verdicts if v.verdict == answer]

    @property
    def for_what(self) -> str:
        """The scope in words for which a proved property holds."""
        if self.kept:
            return self.kept_for
        some = [f"any number of {' and '.join(self.any_number)} machines"] if self.any_number else []
        return ", ".join([*some, *self.held, "all values", "runs without end", self.scope.words])

    @property
    def properties(self) -> list[ClaimVerdict]:
        return [v for v in self.verdicts if v.kind in PROVABLE]

    @property
    def holds(self) -> bool:
        """Returns whether every property that induction is for is proved, and every lemma."""
        return all(v.verdict == "proved" for v in self.verdicts)

    @property
    def lemma_verdicts(self) -> list[ClaimVerdict]:
        """The verdicts on the lemmas of lemmas.yaml."""
        return [v for v in self.verdicts if v.kind == "lemma"]
