"""Lease set-ups across three processes, against what the transport alone carries."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import aiohttp

from leasehold.faults.simulation.lease import Cluster
from leasehold.faults.simulation.network import PacketOutcome
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.lease.fleet import TENANT, Fleet
from leasehold.impl.processes.fleet import free_ports
from tests.benchmarks.measure import Row, Section, Table, Target, rounds
from tests.benchmarks.relay import HOPS, NAMES

HOW = """
Service manager, broker and site run as three processes, as in production: HTTP, signed messages and tickets, SQLite
with full synchronisation, group commit. A client asks the service manager for {count:,} leases of one unit,
{in_flight} at a time; the time runs until the last of them is active. The handlers do nothing, as their work is not the
protocol's. Each transition commits an event (docs/reference/events.md); set-ups without events are measured, too. A
set-up is four messages (ticket, its answer, redeem, its answer), one ticket that is signed and verified, and about a
dozen durable transitions at three actors.

The transport alone: three processes pass frames of the same sizes ({sizes} bytes) along the same way, as many
at a time, with nothing but the HTTP transport; and once more with each frame signed and verified. A message costs an
Ed25519 signature and its verification, and a ticket once more: a tenth of a millisecond each, which the bare transport
does not pay.
"""


def benchmark(quick: bool) -> Section:
    """Set-ups per second, and chains of four frames per second."""
    count, in_flight, turns = (40, 16, 1) if quick else (3000, 256, 5)
    sizes = asyncio.run(_sizes())
    figures = rounds(
        {
            "transport": lambda: _alone(count, in_flight, sizes, sealed=False),
            "sealed": lambda: _alone(count, in_flight, sizes, sealed=True),
            "leases": lambda: _leases(count, in_flight),
            "without events": lambda: _leases(count, in_flight, events=False),
        },
        turns,
    )
    rows = [
        Row("the transport alone, chains of four frames", figures["transport"]),
        Row("the same, signed and verified", figures["sealed"], figures["transport"]),
        Row("lease set-ups", figures["leases"], figures["transport"], [Target(0.5)]),
        Row("lease set-ups, against signed and verified", figures["leases"], figures["sealed"], [Target(0.7)]),
        Row("lease set-ups, to those without events", figures["leases"], figures["without events"], [Target(0.83)]),
    ]
    how = HOW.format(count=count, in_flight=in_flight, sizes=", ".join(map(str, sizes)))
    table = Table("three processes", "per second", rows, "the transport alone")
    return Section("end_to_end", "Lease set-ups, end to end", how, [table])


def _leases(count: int, in_flight: int, events: bool = True) -> float:
    folder = Path(tempfile.mkdtemp(prefix="leasehold-bench-"))
    try:
        more = {"log": {"level": "error"}, "events": events}
        with Fleet(folder, units=count, tick_seconds=1.0, handler="null", more=more) as fleet:
            return count / asyncio.run(demand(fleet, count, in_flight))
    finally:
        shutil.rmtree(folder)


async def demand(fleet: Fleet, count: int, in_flight: int, units: int = 1, look: float = 0.02) -> float:
    """Seconds until so many leases are active, each of so many units; `look` is the pause between two looks."""
    socket = fleet.folder / f"{TENANT}.sock"
    room = asyncio.Semaphore(in_flight)
    until = int(time.time()) + 100_000
    connector = aiohttp.UnixConnector(str(socket), limit=in_flight)
    async with aiohttp.ClientSession("http://actor", connector=connector) as session:

        async def one() -> None:
            body = {"units": units, "until": until, "term": 50_000}
            async with room, session.post("/demand", json=body) as response:
                assert response.status == 200, await response.text()

        began = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(count)))
        while True:
            async with session.get("/states") as response:
                states = (await response.json())["service_manager"]
            if states.get("active", 0) == count:
                return time.perf_counter() - began
            await asyncio.sleep(look)


def _alone(count: int, in_flight: int, sizes: list[int], sealed: bool) -> float:
    with tempfile.TemporaryDirectory() as folder:
        key = Path(folder) / "key"
        PrivateKey.generate().save(key)
        ports = ",".join(map(str, free_ports(len(NAMES))))
        arguments = [ports, str(count), str(in_flight), ",".join(map(str, sizes)), str(key) if sealed else "-"]
        return count / _relayed(arguments)


def _relayed(arguments: list[str]) -> float:
    """Seconds that the chains of three processes take."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.relay", name, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
        )
        for name in NAMES
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        tenant = started[0]
        assert tenant.stdin is not None
        assert tenant.stdout is not None
        tenant.stdin.write("go\n")
        tenant.stdin.flush()
        return float(tenant.stdout.readline())
    finally:
        for process in started:
            process.communicate("end\n", timeout=30)


async def _sizes() -> list[int]:
    """Returns how large the four messages of a set-up are, in bytes: those of a real one."""
    seen: dict[tuple[str, str], int] = {}

    def rule(sender: str, receiver: str, frame: bytes) -> PacketOutcome:
        seen.setdefault((sender.removeprefix("memory:"), receiver.removeprefix("memory:")), len(frame))
        return PacketOutcome()

    async with Cluster(rule=rule) as cluster:
        await cluster.lease(1, until=100)
    return [seen[hop] for hop in HOPS]
