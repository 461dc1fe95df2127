"""The judgement of a test's actors: the properties of their system are asked of their events."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from leasehold.checker.conform.logs import read_log
from leasehold.checker.history.fault import UNDECIDED
from leasehold.checker.verify.history import HistoryVerification
from leasehold.checker.verify.refined import RunRefinement
from leasehold.checker.verify.result import Violation, cuts_of, drawn_path
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.core.core import Program
from leasehold.impl.events.event import AnyEvent
from leasehold.impl.words import counted, visible_lines
from leasehold.reports.trace import trace_text
from leasehold.reports.verification import violation_text
from leasehold.spec import System


class RunJudgement(NamedTuple):
    """The judgement of the events of a test's actors.

    Attributes:
        findings: each in words; none: nothing is wrong.
        expected: of the properties that were to be violated, those that are.
    """

    findings: tuple[str, ...]
    expected: frozenset[str]


def judgement(
    system: System, program: Program, logs: Mapping[str, Sequence[bytes]], now: int, expected: Collection[str] = ()
) -> RunJudgement:
    """Judges a run that goes on.

    Args:
        system: of the actors.
        program: the same, compiled.
        logs: by actor, its events as the lines of a file.
        now: the tick at which the test has ended.
        expected: the properties that are to be violated; a test may be about that.
    """
    chains = _chains(logs)
    if not chains:
        return RunJudgement((), frozenset())
    known = CutsOfSystem(system, program)
    verification = HistoryVerification(known, chains, whole=True)
    try:
        for actor, chain in chains.items():
            verification.add(actor, chain)
        result = verification.end(now=now)
    finally:
        verification.close()
    found = [*result.violations, *_not_refining(known, chains)]
    violations = [violation for violation in found if violation.of not in expected]
    faults = [str(fault) for fault in result.faults if fault.kind != UNDECIDED]
    violated = {violation.of for violation in found}
    return RunJudgement((*map(violation_text, violations), *faults), frozenset(violated & {*expected}))


def judgement_text(system: str, findings: Sequence[str]) -> str:
    """Returns the findings of a test's actors under a head; empty: there are none."""
    head = f"{system}: {counted(len(findings), 'finding')} in the events of the test"
    return "\n".join([head, *findings]) if findings else ""


def steps_text(system: System, program: Program, logs: Mapping[str, Sequence[bytes]]) -> str:
    """Returns what actors have done, run by run, as sequences of steps."""
    known = CutsOfSystem(system, program)
    paths = {run: drawn_path(known.layout, cuts) for run, cuts in cuts_of(known, _chains(logs)).items()}
    return "\n\n".join(f"{run}:\n{visible_lines(trace_text(path, brief=True))}" for run, path in paths.items())


def _not_refining(known: CutsOfSystem, chains: Mapping[str, Sequence[AnyEvent]]) -> list[Violation]:
    """The runs that do not refine the abstract system, where there is one."""
    if known.system.refines is None:
        return []
    refinement = RunRefinement(known, known.system.refines)
    found = (refinement.violation(cuts) for cuts in cuts_of(known, chains).values())
    return [violation for violation in found if violation is not None]


def _chains(logs: Mapping[str, Sequence[bytes]]) -> dict[str, Sequence[AnyEvent]]:
    """The events of the actors that have any."""
    whole = (read_log(lines, None, unsigned=True) for lines in logs.values() if len(lines) > 2)  # a header and an end
    return {log.actor: log.events for log in whole}
