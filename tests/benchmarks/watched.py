"""What it costs the actors that a verifier follows them."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from leasehold.impl.lease.fleet import TENANT, Fleet
from tests.benchmarks.measure import Row, Section, Table, Target, median, rounds, say

UNITS = 16
TICK_SECONDS = 0.1
LIVES, TERM = 5, 3  # ticks until which a lease is wanted, and of a term
HOW = """
Service manager, broker and site run as three processes, as in production: HTTP, signed messages and tickets, SQLite
with full synchronisation. A client wants {units} leases of one unit all the time, for {lives} ticks of {tick} s each:
whenever one is over, it asks for the next. So leases go through their whole life, about 45 events each, as fast as
actors and ticks allow, for {seconds:g} s. The three ways take turns: without events; with events; with events and
`leasehold verify --follow` beside, which asks all properties of what the three actors do, as it comes, with its own
database in memory. The processor's seconds are those of the three actors alone, over the leases that they have ended:
what the verifier takes itself is another's. Wall time is shared by all processes of the machine, of which there were
others.
"""


@dataclass(frozen=True)
class Watched:
    """What actors have done in a while.

    Attributes:
        leases: that are over.
        cpu: seconds of the actors.
        seconds: of the clock.
        verifier: seconds of the processor of the verifier.
        behind: seconds after which it has judged all.
        found: what it said in the end; None: there was none.
    """

    leases: int
    cpu: float
    seconds: float
    verifier: float = 0.0
    behind: float = 0.0
    found: dict[str, object] | None = None


def benchmark(quick: bool) -> Section:
    """Leases that are over by second, and what each has cost the actors, without events, with them, and followed."""
    seconds, turns = (2.0, 1) if quick else (8.0, 5)
    runs: dict[str, list[Watched]] = {"without events": [], "with events": [], "followed": []}

    def run(way: str) -> float:
        runs[way].append(watched(seconds, way != "without events", way == "followed"))
        return runs[way][-1].leases / runs[way][-1].seconds

    speed = rounds({way: lambda way=way: run(way) for way in runs}, turns)  # type: ignore[misc]
    cost = {way: [1000 * w.cpu / w.leases for w in measured] for way, measured in runs.items()}
    tables = [
        Table(
            "leases that are over",
            "per second",
            [
                Row("without events", speed["without events"]),
                Row("with events", speed["with events"]),
                Row("followed", speed["followed"], speed["with events"], [Target(1 / 1.2)]),
            ],
            "with events",
        ),
        Table(
            "the actors' processor time",
            "ms a lease",
            [
                Row("without events", cost["without events"]),
                Row("with events", cost["with events"], cost["without events"]),
                Row("followed", cost["followed"], cost["with events"], [Target(1.2, least=False)]),
            ],
            "the row above",
        ),
    ]
    notes = [note(runs["followed"])]
    how = HOW.format(units=UNITS, lives=LIVES, tick=TICK_SECONDS, seconds=seconds)
    return Section("watched", "Actors that are followed", how, tables, (), notes)


def note(followed: list[Watched]) -> str:
    """Returns what the verifier said, which must not be that something is wrong."""
    last = followed[-1].found or {}
    wrong = [w.found for w in followed if w.found is None or w.found["violations"] or w.found["faults"]]
    if wrong:
        raise RuntimeError(f"the verifier found something: {str(wrong[0])[:500]}")
    share, behind = median([w.verifier / w.seconds for w in followed]), median([w.behind for w in followed])
    return (
        f"The verifier took {share:.0%} of a processor while the actors worked, and had judged all {behind:.1f} s after"
        f" that. In the last run that was {last['events']:,} events of {last['runs']:,} leases, {last['cuts']:,} cuts,"
        " without a violation or a fault."
    )


def watched(seconds: float, events: bool, followed: bool) -> Watched:
    """Actors at work for so many seconds."""
    folder = Path(tempfile.mkdtemp(prefix="leasehold-bench-"))
    more = {"log": {"level": "error"}, "events": events}
    verifier = None
    try:
        with Fleet(folder, units=UNITS, tick_seconds=TICK_SECONDS, handler="null", more=more) as fleet:
            if followed:
                verifier = _verifier(fleet)
            idle = 0.0 if verifier is None else cpu(verifier.pid)
            pids = [process.pid for process in fleet.processes.values()]
            before, began = sum(map(cpu, pids)), time.perf_counter()
            leases = asyncio.run(_demand(fleet, seconds))
            took, used = time.perf_counter() - began, sum(map(cpu, pids)) - before
            if verifier is None:
                return Watched(leases, used, took)
            spent, ended = cpu(verifier.pid) - idle, time.perf_counter()
            verifier.terminate()
            output, progress = verifier.communicate(timeout=120)
            say(progress.strip().splitlines()[-1])
            return Watched(leases, used, took, spent, time.perf_counter() - ended, json.loads(output))
    finally:
        if verifier is not None and verifier.poll() is None:
            verifier.kill()
        shutil.rmtree(folder)


def _verifier(fleet: Fleet) -> subprocess.Popen[str]:
    settings = [word for name, value in fleet.settings.items() for word in ("--set", f"{name}={value}")]
    sources = [str(fleet.folder / f"{name}.yaml") for name in fleet.roles]
    command = [sys.executable, "-m", "leasehold", "verify", *sources, "--follow", *settings, "--json"]
    verifier = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert verifier.stderr is not None
    for line in verifier.stderr:  # it tells how far it is from its first round on
        if "behind" in line:
            return verifier
    raise RuntimeError("the verifier does not begin")


def cpu(pid: int) -> float:
    """Seconds of the processor that a process has taken."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


async def _demand(fleet: Fleet, seconds: float) -> int:
    """Keeps so many leases wanted as there are units; returns how many are over in the end."""
    until = time.perf_counter() + seconds
    connector = aiohttp.UnixConnector(str(fleet.folder / f"{TENANT}.sock"), limit=UNITS)
    asked = over = 0
    async with aiohttp.ClientSession("http://actor", connector=connector) as session:

        async def ask() -> bool:
            now = int(time.time() / TICK_SECONDS)
            async with session.post("/demand", json={"units": 1, "until": now + LIVES, "term": TERM}) as response:
                # A busy actor may come to it when that is over already.
                assert response.status == 200 or "needs a time after now" in await response.text()
                return response.status == 200

        while time.perf_counter() < until:
            async with session.get("/states") as response:
                states = (await response.json()).get("service_manager", {})
            over = states.get("closed", 0) + states.get("failed", 0)
            asked += sum(await asyncio.gather(*(ask() for _ in range(UNITS - (asked - over)))))
            await asyncio.sleep(TICK_SECONDS / 2)
    return over
