"""What is known of a system's claims: proved, contradicted, or neither; never more than was established.

Theory of operation. Induction decides what it can (induct.py). A claim that it cannot keep is asked of the explorer,
in small settings, without faults and with them: if some run contradicts it, that is a bug, and the shortest such run is
its counterexample. If none does within these bounds the claim is undecided: it may need a lemma.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from leasehold.checker.explore import Path, Progress, explore
from leasehold.checker.prove.claims import Kind
from leasehold.checker.prove.guards import Finding, guard_findings
from leasehold.checker.prove.induct import ANY, Induction, Setting, Watch, induct
from leasehold.checker.prove.steps import Scope
from leasehold.faults import Budget
from leasehold.spec.language.model import System

Answer = Literal["proved", "counterexample", "undecided"]
PROVABLE = ("always", "step")


@dataclass(frozen=True)
class Verdict:
    """What is known of one claim.

    Attributes:
        verdict: proved of every run, contradicted by one, or neither.
        method: by which.
        reason: of one that is undecided.
        path: the run that contradicts it.
        faults: the budget of faults under which that was found; empty: none.
    """

    name: str
    kind: Kind
    verdict: Answer
    method: str = ""
    reason: str = ""
    path: Path | None = None
    faults: str = ""


@dataclass
class Proof:
    """What is known of all claims of a system.

    Attributes:
        verdicts: of its properties about states and steps, then of its lemmas.
        others: its other properties, about which induction says nothing.
        helpers: claims that nobody wrote, and that hold.
        any_number: roles and counted types that have any number of instances here.
        explored: what was explored to look for counterexamples.
        induction: what induction has shown, for certificates.
        guards: what is wrong with guards and updates, for all data.
    """

    system: System
    verdicts: list[Verdict] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    helpers: int = 0
    any_number: list[str] = field(default_factory=list)
    scope: Scope = field(default_factory=Scope)
    steps: int = 0
    questions: int = 0
    explored: list[str] = field(default_factory=list)
    induction: Induction | None = None
    guards: list[Finding] = field(default_factory=list)
    seconds: float = 0.0

    def of(self, answer: Answer) -> list[Verdict]:
        return [v for v in self.verdicts if v.verdict == answer]

    @property
    def properties(self) -> list[Verdict]:
        return [v for v in self.verdicts if v.kind in PROVABLE]

    @property
    def holds(self) -> bool:
        """Whether every property that induction is for is proved."""
        return all(v.verdict == "proved" for v in self.properties)


def prove(
    system: System, setting: Setting = ANY, *, jobs: int | None = None, watch: Watch | None = None,
    progress: Callable[[Progress], None] | None = None, small: System | None = None,
) -> Proof:  # fmt: skip
    """Proves what can be proved.

    Args:
        system: with its lemmas.
        setting: for which numbers of instances, and under which faults.
        jobs: processes; left out: one for each processor.
        watch: hears how far induction is.
        progress: hears how far exploring is.
        small: the system with small constants, in which counterexamples are looked for; None: they are not.

    Raises:
        Unsupported: the system has something that has no encoding.
    """
    began = time.perf_counter()
    induction = induct(system, setting, jobs=jobs, watch=watch)
    written = [c for c in induction.claims.values() if c.kind in (*PROVABLE, "lemma")]
    found = Proof(
        system, others=[name for name in system.properties if name not in induction.claims],
        helpers=sum(1 for c in induction.claims.values() if c not in written and c.name in induction.proved),
        any_number=_any_number(system, setting), scope=induction.scope, steps=induction.steps,
        questions=induction.questions, induction=induction,
    )  # fmt: skip
    found.guards = guard_findings(setting.encoding(system))
    method = "induction, with lemmas" if len(written) + found.helpers > 1 else "induction"
    open_ = [c.name for c in written if c.name not in induction.proved and c.kind in PROVABLE]
    runs = dict(_counterexamples(found, small, open_, progress)) if open_ and small is not None else {}
    for claim in written:
        if claim.name in induction.proved:
            found.verdicts.append(Verdict(claim.name, claim.kind, "proved", method))
        elif claim.name in runs:
            path, faults = runs[claim.name]
            found.verdicts.append(Verdict(claim.name, claim.kind, "counterexample", "explored", "", path, faults))
        else:
            found.verdicts.append(Verdict(claim.name, claim.kind, "undecided", "", _why(induction, claim.name, found)))
    found.seconds = time.perf_counter() - began
    return found


def _any_number(system: System, setting: Setting) -> list[str]:
    roles = [role.instance for role in system.roles.values() if role.indexed]
    return [i.name for i in roles if i.counted_by and i.name not in setting.sizes]


def _why(induction: Induction, name: str, found: Proof) -> str:
    if name in induction.undecided:
        return induction.undecided[name]
    at = induction.lost.get(name, "")
    words = f"{at} takes it away from a state that no lemma excludes" if at else "it was not kept"
    return f"{words}; {'; '.join(found.explored)} do not contradict it" if found.explored else words


def _counterexamples(
    found: Proof, small: System, names: Sequence[str], progress: Callable[[Progress], None] | None
) -> Iterator[tuple[str, tuple[Path, str]]]:
    """The shortest runs that contradict claims, without faults first."""
    left = set(names)
    budgets = dict.fromkeys(["", small.faults.check or small.faults.budget or "crash=1"])
    for words in budgets:
        if not left:
            return
        budget = Budget.parse(words) if words else None
        explored = explore(small, progress=progress, budget=budget)
        where = f"{explored.distinct:,} states" + (f" with {words}" if words else " without faults")
        found.explored.append(where)
        for result in explored.properties:
            if result.name in left and result.verdict == "violated" and result.path is not None:
                left.discard(result.name)
                yield result.name, (result.path, words)
