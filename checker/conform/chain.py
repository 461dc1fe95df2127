"""One actor's log as far as it was judged."""

from __future__ import annotations

from leasehold.checker.conform.compiled import CompiledMachines
from leasehold.checker.conform.findings import JudgedLog
from leasehold.impl.core.core import Program
from leasehold.impl.store.store import RecordKey


class JudgedChain:
    """One actor's log as far as it was judged.

    Attributes:
        machines: as its events have left them.
        digests: by machine, of the record that its last event has left.
        serves: by machine that belongs to the actor, the lease that drove it last.
        epoch, now, commit: of the last event.
        moments: the times at which what was refused since the last commit may have come.
        found: how many records follow that no event tells of; None: any number.
        stepped: the machines that have taken a step in this incarnation.
        whole: the machines that were recovered in this incarnation as they were left.
        over: the leases of which a machine is forgotten.
        spec_told: whether it was said that events are of another specification.
    """

    def __init__(self, program: Program, judged: JudgedLog) -> None:
        self.machines = CompiledMachines(program)
        self.judged = judged
        self.digests: dict[RecordKey, str] = {}
        self.serves: dict[RecordKey, str] = {}
        self.epoch = self.now = self.commit = 0
        self.moments: range = range(1)
        self.found: int | None = None if judged.pruned else 0
        self.stepped: set[RecordKey] = set()
        self.whole: set[RecordKey] = set()
        self.over: set[str] = set()
        self.spec_told = False
