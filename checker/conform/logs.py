"""Reads the logs of actors as whole chains, and judges those that belong together.

A log has to begin at its beginning: with event 1, or behind events that an event says were dropped. It ends where its
source says that it ends, and has events.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from leasehold.checker.conform.coverage import Coverage, CoverageCollector
from leasehold.checker.conform.findings import JudgedLog, Nonconformity
from leasehold.checker.conform.judge import LogConformance
from leasehold.checker.conform.known import KnownSystem
from leasehold.checker.history.chains import read_chain
from leasehold.checker.history.merge import records
from leasehold.impl.events.chain import ChainError, Tampering
from leasehold.impl.events.event import AnyEvent, MachineRecord, SealEvent
from leasehold.impl.identity.trust import Trust
from leasehold.spec.language.model import System
from leasehold.spec.language.types import over_members


@dataclass
class WholeLog:
    """The log of an actor, verified as a chain.

    Attributes:
        pruned: the position up to which events were dropped; 0: none were.
        sealed: up to which position signatures vouch; None: no signature was checked.
    """

    actor: str
    events: list[AnyEvent]
    pruned: int = 0
    sealed: int | None = None

    def judged(self) -> JudgedLog:
        first, last = (self.events[0].position, self.events[-1].position)
        return JudgedLog(self.actor, 0, first, last, pruned=self.pruned, sealed=self.sealed)


def read_log(lines: Iterable[bytes], trust: Trust | None, unsigned: bool = False) -> WholeLog:
    """Reads the whole log of an actor.

    Args:
        lines: as impl/events/lines.py has them.
        trust: has the keys of the actor; None: digests are checked, and no signature is.
        unsigned: whether the end need not be signed.

    Raises:
        ChainError: it is empty, it is not as the actor wrote it, or its beginning or end is missing.
    """
    actor, events = read_chain(lines, trust, unsigned, whole=True)
    if not events:
        raise ChainError(Tampering.ROOTLESS, 1, f"the log of {actor} has no events, so nothing can be judged")
    pruned = events[0].position - 1
    seals = [event.position for event in events if isinstance(event, SealEvent)]
    return WholeLog(actor, events, pruned, None if trust is None else max(seals, default=0))


@dataclass
class ConformanceResult:
    """The result of judging logs: what was judged of all, what is wrong, and what they have exercised.

    Attributes:
        logs, findings: by source, in order.
        coverage: of all of them together.
    """

    logs: list[JudgedLog] = field(default_factory=list)
    findings: list[Nonconformity] = field(default_factory=list)
    coverage: Coverage | None = None

    @property
    def conforms(self) -> bool:
        return not self.findings and bool(self.logs)

    def as_json(self) -> dict[str, object]:
        data: dict[str, object] = {
            "conforms": self.conforms,
            "logs": [log.as_json() for log in self.logs],
            "findings": [finding.as_json() for finding in self.findings],
        }
        return data | ({} if self.coverage is None else {"coverage": self.coverage.as_json()})


def judge_logs(known: KnownSystem, logs: Mapping[str, WholeLog], into: ConformanceResult) -> None:
    """Judges the logs of actors that have run together.

    Args:
        known: their system.
        logs: by actor.
        into: takes the result.
    """
    conformance = LogConformance(known, [log.judged() for log in logs.values()])
    collector = CoverageCollector(known.system, known.program, logs)
    for event in conformance.merged((name, log.events) for name, log in logs.items()):
        conformance.take(event)
        if event.spec == known.program.digest:
            collector.take(event)
    conformance.end()
    into.logs += conformance.judged
    into.findings += conformance.findings
    if into.coverage is None:
        into.coverage = Coverage(known.system)
    into.coverage.add(collector.end())


def more_machines(system: System, logs: Iterable[WholeLog]) -> dict[str, int]:
    """Settings with which a system has all machines of dynamic roles that logs tell of; empty: it has them."""
    highest: dict[str, int] = {}
    for log in logs:
        for event in log.events:
            for _, name, record in records(event):
                for one in (name, *_entered(system, name, record)):
                    of, bracket, rest = one.partition("[")
                    if bracket and rest.rstrip("]").isdigit():
                        highest[of] = max(highest.get(of, 0), int(rest.rstrip("]")))
    settings: dict[str, int] = {}
    for role in system.roles.values():
        counted = role.instance.counted_by
        if role.instance.dynamic and counted and highest.get(role.name, 0) >= role.count:
            settings[counted] = max(settings.get(counted, 0), highest[role.name] + 1)
    return settings


def _entered(system: System, machine: str, record: MachineRecord) -> Iterator[str]:
    """Yields the machines that a record has entries for."""
    role = system.roles.get(machine.partition("[")[0])
    for name, datum in role.data.items() if role is not None else ():
        entries = record.data.get(name)
        if over_members(datum.type) and isinstance(entries, dict):
            yield from entries
