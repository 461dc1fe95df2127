"""How the cost of verifying grows with the units of a site: a run has a machine for each of them."""

from __future__ import annotations

from leasehold.checker.verify.database import IN_MEMORY
from leasehold.checker.verify.system import CutsOfSystem
from tests.benchmarks.many_leases import actors, history, recorded
from tests.benchmarks.measure import Row, Section, Table, rounds
from tests.benchmarks.verify import Following, batches

SIZE = 100  # events that come at once
HOW = """
The events of a service manager, a broker and a site, where two leases of one unit live at a time, {leases} one after
the other, verified {size} at a time in SQLite in memory. What differs is how many units the site has: the state of a
run has a machine for each unit and each guest, whether the lease uses them or not, so it has as many rows, and what a
property says of all units is asked of all. Events per second of the processor.
"""


def benchmark(quick: bool) -> Section:
    """Events verified per second at sites of few and of many units."""
    generations, turns = (1, 1) if quick else (6, 3)

    def run(units: int) -> float:
        system, recordings = recorded(generations, 1, units)
        following, events, seconds = Following(CutsOfSystem(system), actors(2), IN_MEMORY), 0, 0.0
        for batch in batches(history(recordings, 2), SIZE):
            seconds += following.feed(batch)
            events += len(batch)
        following.close()
        return events / seconds

    counts = (2, 8) if quick else (2, 20, 200)
    figures_by_units = rounds({f"{n} units": lambda n=n: run(n) for n in counts}, turns)  # type: ignore[misc]
    base = figures_by_units[f"{counts[0]} units"]
    rows = [Row(label, figures, base if figures is not base else ()) for label, figures in figures_by_units.items()]
    table = Table("a site of", "events/s", rows, f"{counts[0]} units")
    how = HOW.format(leases=generations, size=SIZE)
    return Section("verify_units", "Verifying leases of large sites", how, [table])
