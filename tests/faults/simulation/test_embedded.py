"""Actors for a test that is no coroutine: on a virtual loop a run depends on what it is given alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from leasehold.faults.simulation.embedded import EmbeddedSystem
from leasehold.faults.simulation.loop import VirtualLoop


def elected(loop: asyncio.AbstractEventLoop | None) -> Mapping[str, list[bytes]]:
    ring = EmbeddedSystem("examples/ring", loop=loop)
    for number in (1, 2):
        ring.tell(f"node[{number}]", "enter", after="node[0]")
    ring.crash("node-1", restart=False)
    ring.tell("node[0]", "start")
    ring.restart("node-1")
    ring.advance(2)
    assert [ring.state(f"node[{number}]") for number in range(3)] == ["following", "following", "leading"]
    events = ring.cluster.events()
    ring.stop()
    return events


def test_a_run_on_a_virtual_loop_is_the_same_to_the_byte() -> None:
    first, again, real = elected(VirtualLoop()), elected(VirtualLoop()), elected(None)
    assert first == again
    assert {name: len(events) for name, events in real.items()} == {name: len(events) for name, events in first.items()}
