"""A lease that events explain as a path, which is drawn as the explorer's."""

from __future__ import annotations

from leasehold.checker.explain.explanation import ExplainedLease
from leasehold.checker.explore.result import Path
from leasehold.checker.verify.cuts import ConsistentCuts
from leasehold.checker.verify.drawn import drawn_path
from leasehold.checker.verify.run_state import Cut
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.spec import System


def path_of(system: System, told: ExplainedLease) -> Path:
    """The path of a lease up to the moment of its explanation."""
    cuts = ConsistentCuts(CutsOfSystem(system), told.events)
    for actor, events in told.events.items():
        cuts.add(actor, events)
    cuts.close()
    known = cuts.known
    return drawn_path(known.layout, [cut for cut in cuts.ready() if isinstance(cut, Cut) and cut.run == told.lease])
