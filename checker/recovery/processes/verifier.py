"""A verifier of the actors of a fleet: its properties, asked of their events, and each step of theirs.

Theory of operation. The events of all actors are read in rounds, while they come or once all is over. Every cut of
their runs is judged as `leasehold verify` judges it, and when nothing more comes, every step as `leasehold conform`
does. Nobody need be asked for records: each event says what it has left.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from leasehold.checker.conform.coverage import Coverage
from leasehold.checker.conform.findings import Nonconformity
from leasehold.checker.conform.known import KnownSystem
from leasehold.checker.conform.logs import ConformanceResult, WholeLog, judge_logs
from leasehold.checker.explore.reference import Reference
from leasehold.checker.history.fold import EventFold, FoldedMachine
from leasehold.checker.history.merge import Place
from leasehold.checker.verify.blame import speaks_of_time
from leasehold.checker.verify.cuts import GOES_BACK
from leasehold.checker.verify.follow import ChainReader, Lag, SourceVerification
from leasehold.checker.verify.history import HistoryVerification
from leasehold.checker.verify.queries import end_claim
from leasehold.checker.verify.result import HistoryResult
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.events.event import AnyEvent, SealEvent
from leasehold.impl.identity.trust_file import TrustFile
from leasehold.impl.processes.fleet import SystemFleet
from leasehold.impl.server.client import ClientError
from leasehold.spec.language.model import Property

PAUSE_SECONDS = 0.25
PATIENCE_SECONDS = 60.0  # for the last events, once all is over
NAME = "fleet"


class FleetVerifier:
    """Verifies what the actors of a fleet do.

    Args:
        fleet: is configured; its specification and constants are those that are asked.
        world: of which the states of runs have the cells; left out: the system as its actors run it.
        properties: those that are asked; left out: all.
        clocks: the actors' clocks are right; else what speaks of time is not asked, and one may go back.

    Attributes:
        verification: of the events that were read.
        findings: steps that the specification does not allow, once nothing more comes.
        worst, last: how far the verification was behind.
        missing: why the last events were not judged, in words, once nothing more comes.
        steps: how many steps of machines were judged, once nothing more comes.
        coverage: of the specification by these steps; None before.
        moments: of the last event of each violation, by its actor's clock.
    """

    def __init__(
        self,
        fleet: SystemFleet,
        world: Reference | None = None,
        properties: Mapping[str, Property] | None = None,
        clocks: bool = True,
    ) -> None:
        trust = TrustFile(fleet.folder / "trust.yaml").current()
        readers = [ChainReader(str(fleet.folder / f"{name}.yaml"), trust) for name in fleet.roles]
        self._known, self._clocks = KnownSystem(fleet.model, fleet.program), clocks
        cuts = CutsOfSystem(fleet.model, fleet.program, world or self._known.world)
        asked = {**fleet.model.properties, **end_claim(fleet.model)} if properties is None else properties
        asked = {name: p for name, p in asked.items() if clocks or not speaks_of_time(p)}
        self.verification = FoldedVerification(cuts, [*fleet.roles], asked)
        self.following = SourceVerification(self.verification, readers, NAME)
        self.findings: list[Nonconformity] = []
        self.worst = self.last = Lag(0, 0.0)
        self.missing: list[str] = []
        self.steps = 0
        self.coverage: Coverage | None = None
        self.moments: dict[Place, int] = {}

    @property
    def result(self) -> HistoryResult:
        """Returns what was found so far."""
        return self.verification.result

    def step(self) -> bool:
        """Reads and judges what has come; returns whether anything has."""
        come = self.following.step()
        self.following.pass_time()
        self.last = self.following.lag()
        self.worst = Lag(max(self.worst.events, self.last.events), max(self.worst.seconds, self.last.seconds))
        return come

    def end(self, complete: bool = False) -> None:
        """Judges the last events; what nobody answers for within a minute is a fault.

        Args:
            complete: nothing can happen any more: each run is over with its last event.
        """
        until = time.monotonic() + PATIENCE_SECONDS
        while (self.step() or self.last.events or self.following.unreachable) and time.monotonic() < until:
            time.sleep(PAUSE_SECONDS)
        self.following.leave()
        self.judge_all(complete)

    def judge_all(self, complete: bool = False) -> None:
        """Judges all events of actors that have stopped, or do nothing any more."""
        verification = self.verification
        verification.complete = complete
        with suppress(ClientError):
            self.following.to_the_end()
        self.last = self.following.lag()
        self.missing = [*self.following.unreachable.values()]
        if self.last.events:
            self.missing.append(f"{self.last.events} events are not judged")
        chains = verification.kept.chains(verification.cursor)
        logs = {actor: WholeLog(actor, events, events[0].position - 1) for actor, events in chains.items() if events}
        conformance = ConformanceResult()
        judge_logs(self._known, logs, conformance)
        self.steps = sum(log.steps + log.not_judged for log in conformance.logs)
        self.findings, self.coverage = conformance.findings, conformance.coverage
        verification.blame()
        shown = {violation.events[-1] for violation in self.result.violations}
        every = ((actor, event) for actor, events in chains.items() for event in events if shown)
        self.moments = {(actor, e.position): e.now for actor, e in every if (actor, e.position) in shown}
        verification.close()

    @property
    def complaints(self) -> list[str]:
        """Returns what is wrong, in words."""
        return self.complaints_where(self._clocks)

    def complaints_where(self, clocks: bool) -> list[str]:
        """Returns what is wrong, in words; where clocks may be off, without what speaks of time."""
        asked = self.verification.known.system.properties
        complaints = [
            f"{v.property} is violated in {v.run}, as events {_told(v.events)} show"
            for v in self.result.violations
            if clocks or v.of not in asked or not speaks_of_time(asked[v.of])
        ]
        faults = [fault for fault in self.result.faults if clocks or GOES_BACK not in fault.reason]
        complaints += [f"verifier: {fault}" for fault in faults]
        complaints += [f"conform: {finding}" for finding in self.findings if clocks or finding.what != "clock"]
        return [*complaints, *(f"verifier: {reason}" for reason in self.missing)]

    def summary(self) -> dict[str, Any]:
        return {
            "violations": len(self.result.violations),
            "faults": len(self.result.faults),
            "findings": len(self.findings),
            "events": self.result.events,
            "cuts": self.result.cuts,
            "runs": self.result.runs,
            "properties": self.result.asked,
            "lag": {
                "most_events": self.worst.events,
                "most_seconds": round(self.worst.seconds, 2),
                "events": self.last.events,
                "seconds": round(self.last.seconds, 2),
            },
        }


class FoldedVerification(HistoryVerification):
    """A verification that knows what was read and is not judged yet.

    Attributes:
        machines: as their last events have left them.
        moved: when the last event came that is more than a seal.
    """

    def __init__(
        self, known: CutsOfSystem, actors: Iterable[str], properties: Mapping[str, Property] | None = None
    ) -> None:
        super().__init__(known, actors, properties)
        self.machines: EventFold[FoldedMachine] = EventFold(FoldedMachine)
        self.moved = time.monotonic()

    def add(self, actor: str, events: Iterable[AnyEvent], bodies: Iterable[bytes] | None = None) -> None:
        given = [*events]
        super().add(actor, given, bodies)
        for event in given:
            self.machines.take(event)
            if not isinstance(event, SealEvent):
                self.moved = time.monotonic()


def _told(events: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{actor} {position}" for actor, position in events[-4:])
