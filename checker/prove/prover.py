"""Proving a system: induction first, then strategies for the properties that are not inductive.

Theory of operation. Induction decides what it can (decide/induction.py). For properties that are not inductive, the
prover searches for counterexamples and lemmas (strategies.py): the shortest run that violates a property is its
counterexample. What is then still open is undecided.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from leasehold.checker.explore import Progress
from leasehold.checker.prove.decide.guards import guard_findings
from leasehold.checker.prove.decide.induction import ANY, Induction, Setting, Watch, induct
from leasehold.checker.prove.decide.proof import PROVABLE, Proof, Verdict
from leasehold.checker.prove.encode.transitions import TransitionRelation
from leasehold.checker.prove.strategies import SearchResults, Strategies, Tell
from leasehold.spec.language.model import Call, System


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
        tell: hears which strategy is tried.
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
        if encoding.relation.at_once(role) and any(not isinstance(task, Call) for task in role.tasks.values())
    ]
    found.guards = guard_findings(encoding)
    open_ = [c.name for c in written if c.name not in induction.proved and c.kind in PROVABLE]
    more = SearchResults(system, induction)
    if open_ and small is not None and setting.relation is TransitionRelation:  # only induction takes another
        more = Strategies(system, setting, small, induction, jobs=jobs, watch=watch, tell=tell).search(open_, progress)
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
            verdict = replace(verdict, reason=why, cti=more.ctis.get(name))
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
    proved = f"; proved for {fixed}" if fixed else ""
    if name in induction.undecided:
        return induction.undecided[name] + proved
    at = induction.broken_by.get(name, "")
    words = f"{at} breaks it from a state that no lemma excludes" if at else "it was not proved"
    explored = f"; {'; '.join(found.explored)} do not contradict it" if found.explored else ""
    return words + explored + proved
