"""The states, time and memory that symmetry saves, system by system, with searches in the C engine.

``python -m tests.benchmarks.symmetry [--states 3000000]`` writes reports/symmetry.md. Each search is a process of its
own and counts its own CPU time and memory; one that comes to more states is cut off.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from leasehold.checker.explore import Limits, explore, symmetry
from leasehold.checker.explore.properties import only_these
from leasehold.spec import System, load
from leasehold.spec.language.model import OF_FAIR_RUNS
from tests.benchmarks import page
from tests.benchmarks.measure import say
from tests.systems import TRUTH

REPORT = page.PAGE.parent / "symmetry.md"
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Case:
    """A system with values for its constants."""

    system: str
    settings: Mapping[str, int]

    @property
    def name(self) -> str:
        return " ".join([f"`{Path(self.system).name}`", ", ".join(f"{k}={v}" for k, v in self.settings.items())])

    def load(self) -> System:
        """The system without properties of endless runs, which switch symmetry off."""
        system = load(ROOT / self.system if "/" in self.system else self.system, self.settings)
        names = [name for name, p in system.properties.items() if p.kind not in OF_FAIR_RUNS]
        return only_these(system, names)


@dataclass(frozen=True, slots=True)
class Found:
    """The result of one search: states or orbits, the states that orbits stand for, CPU seconds, bytes."""

    distinct: int
    states: int
    whole: bool
    seconds: float
    memory: int


LOCKS = (
    *(Case(str(TRUTH / "lock_server"), {"clients": n}) for n in (6, 9, 12, 16)),
    *(Case(str(TRUTH / "maekawa"), {"processes": p, "voters": v}) for p, v in ((3, 3), (4, 5), (4, 7), (5, 7))),
    *(Case("examples/waiting_list", {"clients": n}) for n in (4, 6)),
    Case(str(TRUTH / "lock"), {"processes": 6}),
)
LEASES = (
    Case("contention", {"leases": 2, "last_end": 1, "max_units": 1}),
    Case("contention", {"leases": 2, "last_end": 1, "max_units": 2}),
    Case("contention", {"leases": 3, "last_end": 1, "max_units": 1}),
    Case("contention", {"leases": 4, "last_end": 1, "max_units": 1}),
)
OTHERS = (
    Case(str(TRUTH / "acp_nb_wrong"), {"participants": 3}),
    Case(str(TRUTH / "cache_directory"), {"caches": 10}),
    Case(str(TRUTH / "paxos_commit"), {"resource_managers": 2, "acceptors": 3}),
    Case(str(TRUTH / "server_allocator"), {"clients": 4, "resources": 3}),
    Case(str(TRUTH / "two_phase"), {"resource_managers": 10}),
    Case("spec/systems/starter", {"clients": 5}),
)
PARTS = (("Locks", LOCKS), ("Leases that compete", LEASES), ("Others", OTHERS))


def search(case: Case, reduced: bool, most: int) -> Found:
    """Searches in this process."""
    system = case.load()
    began = time.process_time()
    found = explore(system, Limits(states=most), engine="packed", symmetry=reduced)
    states = found.orbits.states if found.orbits is not None else found.distinct
    return Found(found.distinct, states, found.complete, time.process_time() - began, found.peak_memory_bytes)


def apart(case: Case, reduced: bool, most: int) -> Found:
    """Searches in a process of its own."""
    asked = json.dumps([case.system, dict(case.settings), reduced, most])
    command = [sys.executable, "-m", "tests.benchmarks.symmetry", "--one", asked]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return Found(**json.loads(done.stdout))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--states", type=int, default=3_000_000, help="that each search may visit")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        system, settings, reduced, most = json.loads(asked.one)
        print(json.dumps(asdict(search(Case(system, settings), reduced, most))))
        return
    sections = []
    for title, cases in PARTS:
        rows = []
        for case in cases:
            orbits, every = (apart(case, reduced, asked.states) for reduced in (True, False))
            if orbits.whole and every.whole and orbits.states != every.distinct:
                raise AssertionError(
                    f"{case.name}: orbits of {orbits.states:,} states, and there are {every.distinct:,}"
                )
            rows.append(_row(case, orbits, every))
            say(rows[-1])
        sections += [f"## {title}", "", *HEAD, *rows, ""]
    REPORT.write_text(_page(asked.states, sections), encoding="utf-8")


HEAD = (
    "| system | permutations | states | orbits | mean | CPU s | MB | CPU s, all states | MB, all states |",
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
)


def _row(case: Case, orbits: Found, every: Found) -> str:
    groups = symmetry.symmetry_of(case.load()).groups
    permutations = " · ".join(f"{group.count}!" for group in groups)
    states = f"{orbits.states:,}" if orbits.whole else f"over {orbits.states:,}"
    mean = f"{orbits.states / orbits.distinct:,.1f}"
    cut = "" if every.whole else ", cut off"
    figures = [states, f"{orbits.distinct:,}", mean, f"{orbits.seconds:,.2f}", f"{orbits.memory / 1e6:,.0f}"]
    figures += [f"{every.seconds:,.2f}{cut}", f"{every.memory / 1e6:,.0f}"]
    return f"| {case.name} | {permutations} | {' | '.join(figures)} |"


def _page(most: int, sections: list[str]) -> str:
    lines: list[Any] = [
        "# Symmetry",
        "",
        "One state for each orbit, and all states: two searches in the C engine of each system, in processes of their",
        "own. Properties of endless runs are left out of both, as they switch symmetry off. Where both are done, the",
        "sizes of the orbits add up to the number of states; `mean` is their mean. CPU time is that of all threads,",
        "with what Python works out for the engine; memory is the peak, some 65 MB of which any search takes. A search",
        f"of all states is cut off after {most:,}; what it took till then is shown.",
        f"`python -m tests.benchmarks.symmetry --states {most}` repeats it.",
        "",
        *sections,
        page.machine(),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
