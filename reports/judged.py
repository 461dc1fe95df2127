"""The judgement of a test's actors: the properties of their system are asked of their events."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from leasehold.checker.conform.logs import read_log
from leasehold.checker.history.fault import UNDECIDED
from leasehold.checker.verify.history import HistoryVerification
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.core.core import Program
from leasehold.impl.words import counted
from leasehold.reports.verification import violation_text
from leasehold.spec import System


def judgement(
    system: System, program: Program, logs: Mapping[str, Sequence[bytes]], now: int, expected: Collection[str] = ()
) -> str:
    """Says what is wrong with a run that goes on; empty: nothing is.

    Args:
        system: of the actors.
        program: the same, compiled.
        logs: by actor, its events as the lines of a file.
        now: the tick at which the test has ended.
        expected: the properties that are to be violated; a test may be about that.
    """
    whole = (read_log(lines, None, unsigned=True) for lines in logs.values() if len(lines) > 2)  # a header and an end
    chains = {log.actor: log.events for log in whole}
    if not chains:
        return ""
    verification = HistoryVerification(CutsOfSystem(system, program), chains, whole=True)
    try:
        for actor, chain in chains.items():
            verification.add(actor, chain)
        result = verification.end(now=now)
    finally:
        verification.close()
    violations = [violation for violation in result.violations if violation.of not in expected]
    faults = [str(fault) for fault in result.faults if fault.kind != UNDECIDED]
    missed = sorted({*expected} - {violation.of for violation in result.violations})
    findings = [*map(violation_text, violations), *faults]
    findings += [f"{name} was to be violated, and is not" for name in missed]
    head = f"{system.name}: {counted(len(findings), 'finding')} in the events of the test"
    return "\n".join([head, *findings]) if findings else ""
