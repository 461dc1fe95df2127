"""Many members of one system: a ring in one process, and one whose members are processes of their own."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeAlias

from leasehold.faults.simulation.cluster import SystemCluster
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.processes.fleet import SystemFleet
from leasehold.spec import load
from tests.benchmarks.measure import Row, Section, Table, rounds

RING = Path(__file__).parents[2] / "examples/ring"
RUN = "ring:1"
MEMBERS, PROCESSES = 1_000, 30
OVER = {"leading", "following"}
HOW = """
examples/ring (Chang and Roberts, with members that join). Every member is an actor with a key, a store and a durable
record, and signs what it says. They enter one after the other, each behind the one before it, so a candidate passes all
of them; then the first one starts an election, or all do at once. It is over when all know the leader. In one process
({members:,} members) stores and transport are in memory; as processes ({processes}) each has SQLite and HTTP on one
machine. Memory in one process is its resident size over its members, less what that was before the first; of processes
it is the median of their proportional sizes (PSS: shared pages count by their share).
"""

Figures: TypeAlias = dict[str, float]
PHASES = ("start", "enter, one after the other", "elect, one starts", "elect, all start at once")


def benchmark(quick: bool) -> Section:
    members, processes, times = (20, 3, 1) if quick else (MEMBERS, PROCESSES, 3)
    figures_by_way: dict[str, list[Figures]] = {"one": [], "own": []}
    runs: dict[str, Callable[[], float]] = {
        f"{members:,} members in one process": partial(_noted, figures_by_way["one"], partial(_one_process, members)),
        f"{processes} processes": partial(_noted, figures_by_way["own"], partial(_processes, processes)),
    }
    rounds(runs, times)
    tables = [
        Table(f"{label}, time to", "s", [Row(name, [f[name] for f in figures]) for name in PHASES])
        for label, figures in zip(runs, figures_by_way.values(), strict=True)
    ]
    memory = [
        Row(label, [f["memory"] for f in figures]) for label, figures in zip(runs, figures_by_way.values(), strict=True)
    ]
    how = HOW.format(members=members, processes=processes)
    return Section("ring", "Many members: the election on a ring", how, [*tables, Table("a member", "kB", memory)])


def _noted(figures: list[Figures], run: Callable[[], Figures]) -> float:
    """Runs both elections anew; returns the time of the first."""
    figures.append(run())
    return figures[-1]["elect, one starts"]


# In one process


def _one_process(members: int) -> Figures:
    figures, other = (_apart(members, all_at_once) for all_at_once in (False, True))
    figures["elect, all start at once"] = other["elect, one starts"]
    return figures


def _apart(members: int, all_at_once: bool) -> Figures:
    """In a new process, whose memory holds nothing that another run has left."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_in_one, members, all_at_once).result()


def _in_one(members: int, all_at_once: bool) -> Figures:
    return asyncio.run(_ring(members, all_at_once))


async def _ring(members: int, all_at_once: bool) -> Figures:
    gc.collect()
    before, figures = _resident(), Figures()
    began = time.perf_counter()
    players = {f"node[{n}]": f"node-{n}" for n in range(members)}
    async with SystemCluster(compile_system(load(RING, {"nodes": 2})), players=players) as ring:

        async def tell(number: int, event: str, **fields: object) -> None:
            await ring.actors[f"node-{number}"].tell(RUN, f"node[{number}]", event, fields)

        def state(number: int) -> str:
            instance = ring.held(RUN, f"node[{number}]")
            assert instance is not None
            return instance.state

        began = _passed(figures, "start", began)
        for number in range(1, members):
            await tell(number, "enter", after=number - 1)
            while state(number) in {"outside", "joining"}:
                await asyncio.sleep(0)
        began = _passed(figures, "enter, one after the other", began)
        for number in range(members) if all_at_once else (0,):
            await tell(number, "start")
        while state(members - 1) != "leading" or any(state(n) != "following" for n in range(members - 1)):
            await asyncio.sleep(0.001)
        _passed(figures, "elect, one starts", began)
        gc.collect()
        figures["memory"] = (_resident() - before) / members
    return figures


def _passed(figures: Figures, phase: str, began: float) -> float:
    now = time.perf_counter()
    figures[phase] = now - began
    return now


def _resident() -> float:
    """The resident size of this process, in kB."""
    return _kilobytes("/proc/self/status", "VmRSS:")


def _kilobytes(path: str, name: str) -> float:
    line = next(line for line in Path(path).read_text().splitlines() if line.startswith(name))
    return float(line.split()[1])


# As processes


def _processes(count: int) -> Figures:
    figures = _fleet(count, all_at_once=False)
    figures["elect, all start at once"] = _fleet(count, all_at_once=True)["elect, one starts"]
    return figures


def _fleet(count: int, all_at_once: bool) -> Figures:
    figures = Figures()
    with tempfile.TemporaryDirectory(prefix="leasehold-ring-") as folder:
        players = {f"node[{n}]": f"node-{n}" for n in range(count)}
        began = time.perf_counter()
        with SystemFleet(str(RING), Path(folder), {"nodes": 2}, players=players) as fleet:
            clients = [fleet.client(name) for name in fleet.roles]

            def tell(number: int, event: str, **fields: object) -> None:
                clients[number].post("leases", RUN, "tell", event=event, fields=fields)

            def state(number: int) -> str:
                name: str = clients[number].get("leases")[0]["state"]
                return name

            began = _passed(figures, "start", began)
            for number in range(1, count):
                tell(number, "enter", after=number - 1)
                while state(number) in {"outside", "joining"}:
                    time.sleep(0.001)
            began = _passed(figures, "enter, one after the other", began)
            for number in range(count) if all_at_once else (0,):
                tell(number, "start")
            while state(count - 1) != "leading" or any(state(n) != "following" for n in range(count - 1)):
                time.sleep(0.001)
            _passed(figures, "elect, one starts", began)
            sizes = sorted(_kilobytes(f"/proc/{p.pid}/smaps_rollup", "Pss:") for p in fleet.processes.values())
            figures["memory"] = sizes[len(sizes) // 2]
    return figures
