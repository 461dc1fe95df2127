"""Actors with nothing to do but to wait: what that costs of a processor."""

from __future__ import annotations

import asyncio
import time

from leasehold.faults.simulation.lease import Cluster
from leasehold.faults.simulation.loop import VirtualLoop
from tests.benchmarks.measure import Row, Section, Table

WAITING, MINUTES, UNTIL = 10_000, 30, 1_000_000
HOW = """
A holder has asked its broker for {waiting:,} leases of a site's only unit, which another lease has. Nothing changes for
{minutes} minutes, in which the clock of all three actors ticks once a second, and the requests are said again from time
to time (`ask_again_seconds` as it is where nobody sets it). The three actors are in one process, with stores and
transport in memory, on virtual time: the CPU time of the process is what waiting costs all three of them.
"""


def benchmark(quick: bool) -> Section:
    waiting, minutes = (50, 2) if quick else (WAITING, MINUTES)
    loop = VirtualLoop()
    try:
        shares = loop.run(_shares(waiting, minutes))
    finally:
        loop.close()
    rows = [
        Row("the first minute", shares[:1]),
        Row("all minutes", shares),
    ]
    how = HOW.format(waiting=waiting, minutes=minutes)
    return Section("idle", f"Idle actors with {waiting:,} requests", how, [Table("of a processor", "%", rows)])


async def _shares(waiting: int, minutes: int) -> list[float]:
    """By minute, the CPU time of a second, in percent."""
    async with Cluster(units=1) as cluster:
        await cluster.lease(1, UNTIL, UNTIL)
        for n in range(waiting):
            await cluster.tenant.command("service_manager", "demand", f"tenant:{n + 2}", 1, UNTIL, UNTIL)
        await cluster.settle()
        shares = []
        for _ in range(minutes):
            began = time.process_time()
            for _ in range(60):
                await cluster.advance()
                await asyncio.sleep(1)
            shares.append((time.process_time() - began) / 60 * 100)
        return shares
