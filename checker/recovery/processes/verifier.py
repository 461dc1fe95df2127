"""A verifier that follows the actors of a fleet, in a thread of its own."""

from __future__ import annotations

import threading
import time
from typing import Any

from leasehold.checker.verify.follow import Lag, SourceVerification
from leasehold.checker.verify.history import HistoryResult, HistoryVerification
from leasehold.checker.verify.source import ChainReader
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.impl.identity.trust_file import TrustFile
from leasehold.impl.processes.fleet import SystemFleet

PAUSE_SECONDS = 0.25
PATIENCE_SECONDS = 60.0  # for the last events, once all is over
NAME = "demo"


class FleetVerifier:
    """Verifies what the actors of a fleet do, while they do it.

    Args:
        fleet: whose actors are followed; its specification and constants are those that are asked.
    """

    def __init__(self, fleet: SystemFleet) -> None:
        self.fleet = fleet
        self.result = HistoryResult()
        self.worst = self.last = Lag(0, 0.0)
        self.error: Exception | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="verifier", daemon=True)

    def start(self) -> None:
        """Begins to follow."""
        self._thread.start()

    def end(self) -> None:
        """Comes back when all that has happened is judged; what nobody answers for within a minute is a fault."""
        self._over.set()
        self._thread.join()

    @property
    def complaints(self) -> list[str]:
        """Returns what is wrong, in words."""
        found = [f"the verifier ended with an error: {self.error}"] if self.error is not None else []
        found += [
            f"{v.property} is violated in {v.run}, as events {_told(v.events)} show" for v in self.result.violations
        ]
        found += [f"verifier: {fault}" for fault in self.result.faults]
        if self.last.events:
            found.append(f"the verifier has not judged {self.last.events} events")
        return found

    def summary(self) -> dict[str, Any]:
        return {
            "violations": len(self.result.violations),
            "faults": len(self.result.faults),
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

    def _run(self) -> None:
        try:
            trust = TrustFile(self.fleet.folder / "trust.yaml").current()
            readers = [ChainReader(str(self.fleet.folder / f"{name}.yaml"), trust) for name in self.fleet.roles]
            known = CutsOfSystem(self.fleet.model, self.fleet.program)
            verification = HistoryVerification(known, [reader.actor for reader in readers])
            try:
                self._follow(SourceVerification(verification, readers, NAME))
                self.result = verification.end()
            finally:
                verification.close()
        except Exception as error:  # it is a complaint
            self.error = error

    def _follow(self, following: SourceVerification) -> None:
        self.result = following.verification.result
        until = None
        while until is None or time.monotonic() < until:
            come = following.step()
            following.pass_time()
            self.last = following.lag()
            self.worst = Lag(max(self.worst.events, self.last.events), max(self.worst.seconds, self.last.seconds))
            if self._over.is_set():
                until = until or time.monotonic() + PATIENCE_SECONDS
                if not come and not self.last.events and not following.unreachable:
                    break
            if not come:
                self._over.wait(PAUSE_SECONDS) if until is None else time.sleep(PAUSE_SECONDS)
        following.leave()


def _told(events: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{actor} {position}" for actor, position in events[-4:])
