"""The overhead of leasing, measured as the Shirako paper did (USENIX 2006, section 5.3, "Scaling of Infrastructure
Services"): `python tests/benchmarks/shirako.py [--quick]` writes reports/shirako.md and reports/shirako.svg.

Theory of operation. One site has N = 240 units. Every t ticks one service manager asks a broker for all of them in l
leases of N / l units each, for a term of t ticks and without extensions, so that every term the site takes all units
from the leases that end and gives them to new ones: a flip. The virtual clock goes on as soon as the actors have
nothing left to do at a time. A term is measured as a whole: its t ticks, the end of the old leases, and the flip.
Handlers do nothing and take no time, so what is left is what leasing itself costs: records and commits, messages with
their signatures, policies, timers. After every flip it is checked that each unit is held by exactly one new lease.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from leasehold.faults.simulation.lease import Cluster  # noqa: E402
from leasehold.impl.actor.environment import ActorOptions  # noqa: E402
from leasehold.impl.lease.fleet import SITE, TENANT  # noqa: E402
from leasehold.impl.store.sqlite import SqliteStore  # noqa: E402
from leasehold.impl.store.store import RecordKey  # noqa: E402
from leasehold.impl.transport.http import HttpTransport  # noqa: E402
from tests.benchmarks.shirako_page import page  # noqa: E402
from tests.benchmarks.shirako_plot import plot  # noqa: E402

UNITS = 240
LEASES = (1, 2, 4, 8, 16, 30, 60, 120, 240)
TERMS_TICKS = (2, 5, 10, 20, 50, 100, 200, 500, 1000)
REPEATS = 3  # terms of which the fastest counts, as other work of the machine only adds
FORGET_TICKS = 10  # after which a lease that is over is forgotten

SETUPS: dict[str, Callable[[Path], dict[str, Any]]] = {
    "memory stores, memory transport": lambda folder: {},
    "SQLite stores, memory transport": lambda folder: {"store": lambda name: SqliteStore(folder / f"{name}.db")},
    "SQLite stores, HTTP on loopback": lambda folder: {
        "store": lambda name: SqliteStore(folder / f"{name}.db"),
        "transport": lambda name: HttpTransport(),
    },
}


@dataclass(frozen=True)
class Point:
    """One measured term.

    Attributes:
        setup: stores and transport.
        leases: at a time.
        term_ticks: of each lease.
        wall_ms: for each tick of the term, the flip included.
        cpu_ms: likewise, of the process's own processor time.
    """

    setup: str
    leases: int
    term_ticks: int
    wall_ms: float
    cpu_ms: float


class Site:
    """A cluster whose units are flipped."""

    def __init__(self, cluster: Cluster, leases: int) -> None:
        self.cluster, self.leases = cluster, leases
        self.named = 0

    async def flip(self, term_ticks: int) -> list[str]:
        """Asks for all units in new leases, and waits until they are there."""
        cluster, until = self.cluster, self.cluster.time.now + term_ticks
        asked, names = [], []
        for _ in range(self.leases):
            self.named += 1
            names.append(f"{TENANT}:{self.named}")
            units = UNITS // self.leases
            asked.append(cluster.tenant.command("service_manager", "demand", names[-1], units, until, term_ticks))
        await asyncio.gather(*asked)
        await cluster.settle(1_000_000)
        return names

    async def term(self, term_ticks: int) -> list[str]:
        """One term: its ticks, at the last of which the old leases end, and the flip."""
        for _ in range(term_ticks):
            await self.cluster.time.elapse()
            await self.cluster.settle(1_000_000)
        return await self.flip(term_ticks)

    def check(self, names: list[str]) -> None:
        """Each unit is held by exactly one lease of these, all of which are active; no other lease holds any."""
        units: list[int] = []
        for key, machine in self.cluster.site.table.instances.items():
            if key.machine == "authority":
                view = machine.core.view(machine.record)
                units += view["assigned"]
                if view["assigned"] and key.lease not in names:
                    raise AssertionError(f"{key.lease} still holds units")
        if sorted(units) != list(range(UNITS)):
            raise AssertionError(f"{len(units)} units are held, and {len(set(units))} different ones; not {UNITS}")
        for name in names:
            holder = self.cluster.actors[TENANT].table.instances[RecordKey(name, "service_manager")]
            if holder.state != "active" or len(self.cluster.actors[SITE].table.driven[name]) != UNITS // self.leases:
                raise AssertionError(f"{name} is {self.cluster.state(name)}, and has not all its units")


async def measure(setup: str, leases: int, terms_ticks: tuple[int, ...], repeats: int) -> list[Point]:
    """All terms of one number of leases, in one cluster."""
    points = []
    with tempfile.TemporaryDirectory() as folder:
        options = SETUPS[setup](Path(folder))
        async with Cluster(UNITS, options=ActorOptions(seed=0, retire_after=FORGET_TICKS), **options) as cluster:
            site = Site(cluster, leases)
            for term_ticks in terms_ticks:
                site.check(await site.flip(term_ticks) if not site.named else await site.term(term_ticks))
                best = (float("inf"), 0.0)
                for _ in range(repeats):
                    gc.collect()
                    wall, cpu = time.perf_counter(), time.process_time()
                    names = await site.term(term_ticks)
                    best = min(best, (time.perf_counter() - wall, time.process_time() - cpu))
                    site.check(names)
                wall_ms, cpu_ms = (1000 * seconds / term_ticks for seconds in best)
                points.append(Point(setup, leases, term_ticks, wall_ms, cpu_ms))
    return points


def run(leases: tuple[int, ...], terms_ticks: tuple[int, ...], repeats: int) -> list[Point]:
    """Measures all points."""
    points = []
    for setup, many in product(SETUPS, leases):
        measured = asyncio.run(measure(setup, many, terms_ticks, repeats))
        figures = "  ".join(f"{p.term_ticks}: {p.cpu_ms:.3g}" for p in measured)
        print(f"{setup}, leases: {many}, ms of processor time per tick by term: {figures}", flush=True)
        points += measured
    return points


def main() -> None:
    parser = argparse.ArgumentParser(description="The overhead of leasing, as the Shirako paper measured it.")
    parser.add_argument("--quick", action="store_true", help="few points, once each; nothing is written unless --out")
    parser.add_argument("--out", type=Path, help="folder of the report; left out: reports")
    parser.add_argument("--keep", type=Path, help="write the measurements to this file, as JSON")
    parser.add_argument("--draw", type=Path, help="measure nothing; report what --keep wrote to this file")
    given = parser.parse_args()
    if given.draw:
        points = [Point(**point) for point in json.loads(given.draw.read_text())]
    elif given.quick:
        points = run((1, 16, 240), (2, 10, 50), 1)
    else:
        points = run(LEASES, TERMS_TICKS, REPEATS)
    if given.keep:
        given.keep.write_text(json.dumps([asdict(point) for point in points], indent=1) + "\n")
    if given.out or not given.quick:
        out = given.out or ROOT / "reports"
        (out / "shirako.md").write_text(page(points, UNITS, 1 if given.quick else REPEATS, FORGET_TICKS))
        (out / "shirako.svg").write_text(plot(points, UNITS))
        print(f"wrote {out / 'shirako.md'} and {out / 'shirako.svg'}")


if __name__ == "__main__":
    main()
