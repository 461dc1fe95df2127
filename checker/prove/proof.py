"""What is known of a system's claims: proved, contradicted, or neither; never more than was established.

Theory of operation. Induction decides what it can (induct.py). What it cannot keep is tried otherwise (beyond.py): a
run that contradicts it is a bug, and the shortest such run is its counterexample; lemmas that are found prove it. What
is then still open is undecided.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from leasehold.checker.explore import Path, Progress
from leasehold.checker.prove.beyond import Beyond, Found, Tell
from leasehold.checker.prove.claims import Kind
from leasehold.checker.prove.guards import Finding, guard_findings
from leasehold.checker.prove.induct import ANY, Induction, Setting, Watch, induct
from leasehold.checker.prove.mining import Candidate
from leasehold.checker.prove.steps import Scope
from leasehold.checker.prove.unkept import Unkept
from leasehold.spec.language.model import Call, System

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
        fixed: for which numbers of instances it is proved, where it is not for those that were asked for.
        unkept: why induction does not keep one that is undecided.
        seconds: of the solver; of a question about several claims each has its share.
    """

    name: str
    kind: Kind
    verdict: Answer
    method: str = ""
    reason: str = ""
    path: Path | None = None
    faults: str = ""
    fixed: str = ""
    unkept: Unkept | None = None
    seconds: float = 0.0


@dataclass
class Proof:
    """What is known of all claims of a system.

    Attributes:
        verdicts: of its properties about states and steps, then of its lemmas.
        others: its other properties, about which induction says nothing.
        helpers: claims that nobody wrote, and that hold.
        any_number: roles and counted types that have any number of instances here.
        held: constants whose values types have in them, with these values.
        piecewise: roles of which one actor plays several machines: what it does when it recovers each does by itself.
        explored: what was explored to look for counterexamples.
        induction: what induction has shown, for certificates.
        guards: what is wrong with guards and updates, for all data.
        lemmas: found on the way, that prove something; for the user to keep.
        strengthened: the system with these lemmas.
    """

    system: System
    verdicts: list[Verdict] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    helpers: int = 0
    any_number: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    piecewise: list[str] = field(default_factory=list)
    scope: Scope = field(default_factory=Scope)
    steps: int = 0
    questions: int = 0
    explored: list[str] = field(default_factory=list)
    induction: Induction | None = None
    guards: list[Finding] = field(default_factory=list)
    lemmas: list[Candidate] = field(default_factory=list)
    strengthened: System | None = None
    seconds: float = 0.0

    def of(self, answer: Answer) -> list[Verdict]:
        return [v for v in self.verdicts if v.verdict == answer]

    @property
    def for_what(self) -> str:
        """For what a property holds that is proved."""
        some = [f"any number of {' and '.join(self.any_number)} machines"] if self.any_number else []
        parts = [f"recovery of {' and '.join(self.piecewise)} machines one by one"] if self.piecewise else []
        return ", ".join([*some, *self.held, "all values", "runs without end", self.scope.words, *parts])

    @property
    def properties(self) -> list[Verdict]:
        return [v for v in self.verdicts if v.kind in PROVABLE]

    @property
    def holds(self) -> bool:
        """Whether every property that induction is for is proved."""
        return all(v.verdict == "proved" for v in self.properties)


def prove(
    system: System, setting: Setting = ANY, *, jobs: int | None = None, watch: Watch | None = None,
    progress: Callable[[Progress], None] | None = None, tell: Tell | None = None, small: System | None = None,
) -> Proof:  # fmt: skip
    """Proves what can be proved.

    Args:
        system: with its lemmas.
        setting: for which numbers of instances, and under which faults.
        jobs: processes; left out: one for each processor.
        watch: hears how far induction is.
        progress: hears how far exploring is.
        tell: hears what is tried of what induction does not keep.
        small: the system with small constants, in which counterexamples and lemmas are looked for; None: they are not.

    Raises:
        Unsupported: the system has something that has no encoding.
    """
    began = time.perf_counter()
    induction = induct(system, setting, jobs=jobs, watch=watch)
    written = [c for c in induction.claims.values() if c.kind in (*PROVABLE, "lemma")]
    found = Proof(
        system, others=[name for name in system.properties if name not in induction.claims],
        helpers=sum(1 for c in induction.claims.values() if c not in written and c.name in induction.proved),
        any_number=_any_number(system, setting), held=_held(system, setting),
        scope=induction.scope, steps=induction.steps,
        questions=induction.questions, induction=induction,
    )  # fmt: skip
    encoding = setting.encoding(system)
    found.piecewise = [
        role.name
        for role in system.roles.values()
        if encoding.steps.at_once(role) and any(not isinstance(task, Call) for task in role.tasks.values())
    ]
    found.guards = guard_findings(encoding)
    open_ = [c.name for c in written if c.name not in induction.proved and c.kind in PROVABLE]
    more = Found(system, induction)
    if open_ and small is not None and not setting.deviations:  # of which nothing else knows
        more = Beyond(system, setting, small, induction, jobs=jobs, watch=watch, tell=tell).look(open_, progress)
        found.explored, found.lemmas = more.explored, more.lemmas
        found.strengthened, found.induction = more.system, more.induction
    for claim in written:
        name = claim.name
        spent = induction.spent.get(name, 0.0) + more.spent.get(name, 0.0)
        verdict = Verdict(name, claim.kind, "undecided", seconds=spent, fixed=more.fixed.get(name, ""))
        if name in induction.proved or name in more.proved:
            method = induction.proved.get(name) or more.proved[name]
            verdict = replace(verdict, verdict="proved", method=method, fixed="")
        elif name in more.runs:
            path, faults = more.runs[name]
            verdict = replace(verdict, verdict="counterexample", method="explored", path=path, faults=faults, fixed="")
        else:
            why = _why(more.induction, name, found, verdict.fixed)
            verdict = replace(verdict, reason=why, unkept=more.unkept.get(name))
        found.verdicts.append(verdict)
    found.seconds = time.perf_counter() - began
    return found


def _any_number(system: System, setting: Setting) -> list[str]:
    known = {*setting.sizes, *(i.name for i in system.counted() if i.counted_by in system.bounding)}
    return [i.name for i in system.counted() if i.counted_by and i.name not in known]


def _held(system: System, setting: Setting) -> list[str]:
    fixed = [f"{name}={count}" for name, count in setting.sizes.items()]
    return [*fixed, *(f"{name}={system.constants[name].value}" for name in sorted(system.bounding))]


def _why(induction: Induction, name: str, found: Proof, fixed: str) -> str:
    proved = f"; proved for {fixed} by Spacer" if fixed else ""
    if name in induction.undecided:
        return induction.undecided[name] + proved
    at = induction.lost.get(name, "")
    words = f"{at} takes it away from a state that no lemma excludes" if at else "it was not kept"
    explored = f"; {'; '.join(found.explored)} do not contradict it" if found.explored else ""
    return words + explored + proved
