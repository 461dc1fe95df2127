"""Histories of many leases: real ones of a few, with other names.

Two leases at a time live at a site of two units, from the demand to the end, each after the one before, in a cluster of
real actors (service manager, broker, site); their events are what is verified. More live at once by copies of this
history, in which leases and site have other names; the service manager and the broker are the same actors for all.
Recordings begin at different ticks, so that leases are in all stages at any time.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.events.event import AnyEvent, StepEvent, read, write
from leasehold.impl.lease.fleet import BROKER, SITE, TENANT
from leasehold.spec import System

UNITS = 2  # of a site, if nothing else is said, and leases at it at a time
UNTIL, TERM = 25, 10  # ticks: each lease is extended twice
PHASES = 10  # recordings, each of which begins so many ticks later than the one before
APART = 3
SHARED = (TENANT, BROKER)


@dataclass(frozen=True)
class Recording:
    """What real actors have done.

    Attributes:
        bodies: by actor, its events as they were written.
        leases: how many lived; two at a time.
    """

    bodies: dict[str, list[bytes]]
    leases: int


async def _recorded(generations: int, phase: int, units: int) -> tuple[System, Recording]:
    async with Cluster(units=units) as cluster:
        for _ in range(phase * APART):
            await cluster.advance()
        for _ in range(generations):
            until = cluster.time.now + UNTIL
            leases = [await cluster.lease(1, until, TERM) for _ in range(UNITS)]
            while any(set(cluster.state(lease)) != {"closed"} for lease in leases):
                await cluster.advance()
    bodies = {name: [*disk.events.values()] for name, disk in cluster.disks.items()}
    return cluster.system, Recording(bodies, generations * UNITS)


def recorded(generations: int, phases: int = PHASES, units: int = UNITS) -> tuple[System, list[Recording]]:
    """So many times two leases at a site of so many units, one after the other; once for each phase."""
    recordings = [asyncio.run(_recorded(generations, phase, units)) for phase in range(phases)]
    return recordings[0][0], [recording for _, recording in recordings]


def actors(live: int) -> list[str]:
    """The actors of a history in which so many leases live at a time."""
    return [*SHARED, *(f"{SITE}-{site}" for site in range(live // UNITS))]


def history(recordings: Sequence[Recording], live: int, waiting: int = 0) -> Iterator[AnyEvent]:
    """The events of all actors, in an order in which they could have come.

    Args:
        recordings: what is copied.
        live: how many leases live at a time, each from its demand to its end.
        waiting: how many others come first, by an event each: they have asked for a ticket, and wait for the answer.
    """
    positions = dict.fromkeys(actors(live), 0)
    copies = (_copy(recordings[site % len(recordings)], site) for site in range(live // UNITS))
    moving = heapq.merge(*copies, key=lambda e: (e.now, e.time))
    for event in itertools.chain(_waiting(recordings[0], waiting), moving):
        if isinstance(event, StepEvent) or not positions[event.actor]:  # an actor of all begins once
            positions[event.actor] += 1
            yield msgspec.structs.replace(event, position=positions[event.actor])


def _waiting(recording: Recording, count: int) -> Iterator[AnyEvent]:
    """The first step of a recorded lease under other names."""
    first = next(e for e in _copy(recording, 0) if isinstance(e, StepEvent))
    body = write(first)
    for number in range(count):
        named = body.replace(b'"tenant:0-1"', b'"tenant:w%d"' % number)
        yield msgspec.structs.replace(read(named), time=-1.0)


def _copy(recording: Recording, site: int) -> Iterator[AnyEvent]:
    """A recording with the names of another site, and its leases."""
    streams = []
    for bodies in recording.bodies.values():
        streams.append([(event.now, event.time, body) for body in bodies for event in (read(body),)])
    # Real time tells the order within a tick; of the copies, each is a little later than the one before.
    for now, _, body in heapq.merge(*streams, key=lambda e: e[:2]):
        named = body.replace(b'"tenant:', b'"tenant:%d-' % site).replace(b'"site"', b'"site-%d"' % site)
        yield msgspec.structs.replace(read(named), time=now * 1.0 + site * 1e-6)
