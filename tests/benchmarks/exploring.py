"""Times of explorers for every state of two-phase commit and of the lease, from the command to its answer."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType

from leasehold.checker.explore import explore
from leasehold.checker.explore.graph import liveness
from leasehold.checker.explore.graph.edges import Graph
from leasehold.checker.explore.packed import library
from leasehold.checker.explore.properties import PropertyClaims
from leasehold.faults.model import Budget
from leasehold.spec import load
from tests.benchmarks.measure import Missing, Row, Section, Table, Target, rounds, say

TWO_PHASE = Path(__file__).parents[1] / "truth" / "two_phase"
LIVE = TWO_PHASE.with_name("two_phase_live")
DISTINCT = {3: 288, 4: 1_568, 5: 8_832, 7: 296_448, 8: 1_745_408, 9: 10_340_352, 10: 61_515_776}
SLOWEST = {"reference": 7, "SPIN": 9}  # the most resource managers that each is asked about
AT_MOST = {7: 1.0, 9: 5.0, 10: 30.0}  # seconds that were aimed at
BYTES = 30
# A process is held to have had the memory of that which started it, so a small one does.
LAUNCHER = """
import os, sys, time
begun = time.perf_counter()
nowhere = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
process = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=nowhere)
_, status, usage = os.wait4(process, 0)
print(time.perf_counter() - begun, os.waitstatus_to_exitcode(status), usage.ru_maxrss, file=sys.stderr)
"""
WITH_FAULTS = 10.0  # seconds that were aimed at, for the lease under its default faults
DECIDED = 1.0  # seconds that were aimed at, for `every run decides` after the search, of 7 resource managers
HOW = """
Two-phase commit as in Gray and Lamport's TLA+ (tests/truth/two_phase), where messages are never consumed, for 7 to 10
resource managers; and the lease, with the largest constants that are checked, and under its default faults with all
that `leasehold crash` decides. Each figure is the wall time of a whole command in a process of its own, start-up
included. SPIN's verifiers are compiled before, and the packed explorer when the package is installed. SPIN runs the
model that `leasehold export --to promela` writes, with `-O3 -DNOREDUCE -DSAFETY` and a hash table that is large enough.
The packed explorer searches by all processors, the others by one. Beyond 7 resource managers the reference takes too
long, and beyond 9 SPIN. Long rounds are run once, others three times. All must count the same states, or nothing is
written. Memory is the most that the process held, over the number of states. That every run decides, under weak
fairness (tests/truth/two_phase_live), is measured within one process: with the search, and alone on the finished graph.
"""


def benchmark(quick: bool) -> Section:
    if not library.FILE.exists():
        raise Missing("the C engine was not built")
    sizes = (3, 4) if quick else (7, 8, 9, 10)
    skipped = [] if shutil.which("spin") else ["SPIN is not installed"]
    tables = []
    with tempfile.TemporaryDirectory() as name:
        for n in sizes:
            tables += _two_phase(n, Path(name), 1 if quick or n > 8 else 3)
        tables.append(_every_run_decides(3 if quick else 7, 1 if quick else 3))
        tables += _lease(quick, Path(name))
        tables += _lease_with_faults(quick, 1 if quick else 3)
    return Section("exploring", "Exploring: every state, from the command to its answer", HOW, tables, skipped)


def _two_phase(n: int, folder: Path, count: int) -> list[Table]:
    settings = ("--set", f"resource_managers={n}")
    explore = (sys.executable, "-m", "leasehold", "explore", str(TWO_PHASE), *settings, "--json", "--engine")
    memory: dict[str, list[float]] = {}
    runs: dict[str, Callable[[], float]] = {}
    for engine in ("packed", "reference"):
        if n <= SLOWEST.get(engine, n):
            bytes_held = memory.setdefault(engine, [])
            runs[engine] = partial(_timed, (*explore, engine), folder, _ours, DISTINCT[n], bytes_held)
    if shutil.which("spin") and n <= SLOWEST["SPIN"]:
        verifier = _spin(str(TWO_PHASE), settings, folder / f"two_phase{n}", DISTINCT[n])
        runs["SPIN"] = partial(_timed, verifier, folder, _spins, DISTINCT[n], memory.setdefault("SPIN", []))
    figures = rounds(runs, count)
    base = figures.get("SPIN", [])
    rows = []
    for label, seconds in figures.items():
        targets = []
        if label == "packed":
            targets = [Target(AT_MOST[n], least=False, of_ratio=False)] if n in AT_MOST else []
            targets += [Target(1 / 3, least=False)] if n == 9 and base else []
        rows.append(Row(label, seconds, base if label != "SPIN" else (), targets))
    title = f"two-phase commit, {n} resource managers: {DISTINCT[n]:,} states"
    aimed = {"packed": [Target(BYTES, least=False, of_ratio=False)]} if n == 10 else {}
    held_each = _memory(f"the same, {n}", DISTINCT[n], memory, aimed)
    return [Table(title, "s", rows, "SPIN" if base else ""), held_each]


def _memory(
    title: str,
    states: int,
    bytes_held: Mapping[str, Sequence[float]],
    aimed: Mapping[str, Sequence[Target]] = MappingProxyType({}),
) -> Table:
    """The bytes that were held at most by whoever searched, over the number of states."""
    rows = [Row(who, [b / states for b in each], (), aimed.get(who, ())) for who, each in bytes_held.items()]
    return Table(f"{title}: memory", "bytes/state", rows)


def _every_run_decides(n: int, count: int) -> Table:
    system = load(LIVE, {"resource_managers": n})
    exploration = explore(system, engine="packed")
    if exploration.distinct != DISTINCT[n] or not exploration.holds:
        raise RuntimeError(f"{LIVE} with {n} resource managers is not as expected")
    claims, whole = PropertyClaims(system, exploration.paths.world).graphical, exploration.graph

    def alone() -> float:
        graph = Graph()  # of which nothing is known yet but its edges
        graph.kinds, graph.names = whole.kinds, whole.names
        graph.take(whole.first, whole.targets, whole.rows)
        begun = time.perf_counter()
        (decided,) = liveness.decide(claims, graph, exploration.paths, True, "")
        seconds = time.perf_counter() - begun
        if decided.verdict != "exhausted":
            raise RuntimeError(f"that every run decides is {decided.verdict}")
        return seconds

    both = {"search and liveness": lambda: explore(system, engine="packed").seconds, "liveness": alone}
    figures = rounds(both, count)
    aimed = {"liveness": [Target(DECIDED, least=False, of_ratio=False)]} if n == 7 else {}
    rows = [Row(label, seconds, (), aimed.get(label, [])) for label, seconds in figures.items()]
    return Table(f"every run decides, {n} resource managers", "s", rows)


def _lease(quick: bool, folder: Path) -> list[Table]:
    """The lease with the largest settings of its expected.yaml."""
    chosen = {"max_units": "1" if quick else "3", "last_end": "2"}
    settings = tuple(word for name, value in chosen.items() for word in ("--set", f"{name}={value}"))
    states = explore(load("lease", chosen)).distinct
    command = (sys.executable, "-m", "leasehold", "explore", "lease", *settings, "--json", "--engine")
    memory: dict[str, list[float]] = {label: [] for label in ("packed", "reference")}
    runs = {
        engine: partial(_timed, (*command, engine), folder, _ours, states, bytes_held)
        for engine, bytes_held in memory.items()
    }
    if shutil.which("spin"):
        verifier, memory["SPIN"] = _spin("lease", settings, folder / "lease", states), []
        runs["SPIN"] = partial(_timed, verifier, folder, _spins, states, memory["SPIN"])
    figures = rounds(runs, 1)
    base = figures["reference"]
    rows = [Row(label, seconds, base if label != "reference" else ()) for label, seconds in figures.items()]
    title = f"the lease, {', '.join(f'{name}={value}' for name, value in chosen.items())}: {states:,} states"
    return [Table(title, "s", rows, "the reference"), _memory("the same lease", states, memory)]


def _lease_with_faults(quick: bool, count: int) -> list[Table]:
    """`leasehold crash lease`: explored without faults and with them, convergence and the worst of every case."""
    system = load("lease")
    system = load("lease", system.faults.settings)
    budget = Budget.parse("crash=1" if quick else system.faults.budget)
    states = explore(system, budget=budget).distinct
    command = (sys.executable, "-m", "leasehold", "crash", "lease", "--faults", str(budget), "--json")
    memory: dict[str, list[float]] = {"packed": []}
    figures = rounds({"packed": partial(_timed, command, Path("."), _ours, states, memory["packed"])}, count)
    targets = [] if quick else [Target(WITH_FAULTS, least=False, of_ratio=False)]
    rows = [Row(label, seconds, (), targets) for label, seconds in figures.items()]
    title = f"crash lease --faults {budget}: {states:,} states"
    return [Table(title, "s", rows), _memory("the same crashes", states, memory)]


def _spin(system: str, settings: Sequence[str], folder: Path, states: int) -> tuple[str, ...]:
    """SPIN's verifier for the exported model, made in a new folder, with a table for so many states."""
    say(f"SPIN: a verifier for {folder.name}")
    folder.mkdir()
    export = (sys.executable, "-m", "leasehold", "export", system, *settings, "--to", "promela")
    subprocess.run((*export, "--out", str(folder / "model.pml")), check=True, capture_output=True)
    subprocess.run(("spin", "-a", "model.pml"), cwd=folder, check=True, capture_output=True)
    compiler = ("cc", "-O3", "-DNOREDUCE", "-DSAFETY", "-DNOFAIR", "-DMEMLIM=20000", "-o", "pan", "pan.c")
    subprocess.run(compiler, cwd=folder, check=True, capture_output=True)
    return str(folder / "pan"), "-m1000000", f"-w{max(18, states.bit_length() + 1)}"


def _timed(
    command: Sequence[str], folder: Path, states: Callable[[str], int], expected: int, bytes_held: list[float]
) -> float:
    """Seconds that a command takes; the bytes that it held at most are added to `held`."""
    known = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    launch = (sys.executable, "-S", "-c", LAUNCHER, *command)
    done = subprocess.run(launch, cwd=folder, capture_output=True, text=True, env=known, check=True)
    seconds, code, most = done.stderr.split()
    if int(code) not in (0, 1):
        raise RuntimeError(f"{' '.join(command)} ends with {code}")
    if states(done.stdout) != expected:
        raise RuntimeError(f"{' '.join(command)} counts {states(done.stdout):,} states, not {expected:,}")
    bytes_held.append(float(most) * (1 if sys.platform == "darwin" else 1024))
    return float(seconds)


def _ours(text: str) -> int:
    return int(json.loads(text)["distinct"])


def _spins(text: str) -> int:
    match = re.search(r"(\d+) states, stored", text)
    if match is None:
        raise RuntimeError(f"SPIN does not say how many states it stored: {text[-300:]}")
    return int(match[1])
