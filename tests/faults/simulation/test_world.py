"""The simulated world by itself: its loop, its network, its clocks and its disks."""

from __future__ import annotations

import asyncio
import random

import pytest

from leasehold.faults.simulation.clock import SimulatedClock, TrueTime
from leasehold.faults.simulation.disk import DiskFault, FailingDisk, FailingStore
from leasehold.faults.simulation.loop import Livelock, VirtualLoop
from leasehold.faults.simulation.network import NetworkConditions, SimulatedNetwork, SimulatedTransport
from leasehold.faults.simulation.simulation import Simulation
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.store.store import Batch, RecordKey, StoreError
from leasehold.impl.transport.transport import Delivery, Reply
from tests.systems import load


@pytest.fixture
def loop() -> VirtualLoop:
    return VirtualLoop()  # type: ignore[abstract]


def test_an_hour_takes_no_time(loop: VirtualLoop) -> None:
    async def sleeper() -> float:
        await asyncio.sleep(3000)
        async with asyncio.timeout(600):
            await asyncio.sleep(500)
        return asyncio.get_running_loop().time()

    assert loop.run(sleeper()) == 3500


def test_what_is_ready_runs_in_order_and_timers_by_their_time(loop: VirtualLoop) -> None:
    heard: list[object] = []
    loop.call_later(2, heard.append, "late")
    loop.call_later(1, heard.append, "early")
    cancelled = loop.call_later(1, heard.append, "never")
    cancelled.cancel()
    for n in range(3):
        loop.call_soon(heard.append, n)
    loop.quiesce()
    assert heard == [0, 1, 2]
    loop.advance(1)
    assert heard == [0, 1, 2, "early"]
    loop.advance(1)
    assert heard == [0, 1, 2, "early", "late"]


def test_what_never_ends_is_given_up(loop: VirtualLoop) -> None:
    async def waits() -> None:
        await loop.create_future()

    with pytest.raises(TimeoutError):
        loop.run(waits())

    def again() -> None:
        loop.call_soon(again)

    loop.call_soon(again)
    with pytest.raises(Livelock):
        loop.quiesce()


def test_an_error_that_nobody_takes_is_kept(loop: VirtualLoop) -> None:
    def fails() -> None:
        raise ZeroDivisionError

    loop.call_soon(fails)
    loop.quiesce()
    assert [type(context["exception"]) for context in loop.errors] == [ZeroDivisionError]


class Ends:
    """Two members of a network, of which one writes down what it hears."""

    def __init__(self, loop: VirtualLoop, seed: int = 0) -> None:
        self.loop, self.network = loop, SimulatedNetwork(seed)
        self.heard: list[bytes] = []
        self.ends = {name: SimulatedTransport(self.network, name) for name in ("a", "b")}
        for end in self.ends.values():
            loop.run(end.start(self.receive))

    async def receive(self, parcel: bytes) -> Reply:
        self.heard.append(parcel)
        return Reply(Delivery.TAKEN)

    def send(self, parcel: bytes) -> asyncio.Task[Reply]:
        task = self.loop.create_task(self.ends["a"].send("memory:b", parcel))
        self.loop.quiesce()
        return task


def test_the_network_holds_until_it_is_told(loop: VirtualLoop) -> None:
    ends = Ends(loop)
    ends.network.holds = True
    first, second, third = (ends.send(word) for word in (b"1", b"2", b"3"))
    parcels = tuple(ends.network.in_transit)
    loop.call(lambda: ends.network.deliver(parcels[1]))
    assert ends.heard == [b"2"]
    assert second.result().answer is Delivery.TAKEN
    ends.network.lose(parcels[0])
    loop.call(ends.network.release)
    assert ends.heard == [b"2", b"3"]
    loop.advance(2)
    assert first.result().answer is Delivery.UNREACHABLE
    assert third.result().answer is Delivery.TAKEN


def test_one_way_is_cut_and_the_other_is_not(loop: VirtualLoop) -> None:
    ends = Ends(loop)
    ends.network.cut.add(("memory:b", "memory:a"))
    ends.network.conditions = NetworkConditions(delay=0.5)  # what is delayed meets the cut when it arrives
    sent = ends.send(b"x")
    loop.advance(3)
    assert ends.heard == [b"x"]
    assert sent.result().answer is Delivery.UNREACHABLE
    ends.network.cut.add(("memory:a", "memory:b"))
    ends.send(b"y")
    loop.advance(3)
    assert ends.heard == [b"x"]


def test_weather_loses_repeats_and_reorders_and_is_the_same_again(loop: VirtualLoop) -> None:
    def run() -> list[bytes]:
        own = VirtualLoop()  # type: ignore[abstract]
        ends = Ends(own, seed=7)
        ends.network.conditions = NetworkConditions(lose=0.2, duplicate=0.3, delay=1)
        for n in range(200):
            ends.send(b"%d" % n)
        own.advance(5)
        return ends.heard

    heard = run()
    assert heard == run()
    assert 100 < len(set(heard)) < 190
    assert len(heard) > len(set(heard))
    assert heard != sorted(heard, key=int)


def test_nothing_gets_out_of_a_process_that_is_gone(loop: VirtualLoop) -> None:
    ends = Ends(loop)
    ends.ends["b"].die()
    sent = ends.send(b"x")
    loop.advance(2)
    assert ends.heard == []
    assert sent.result().answer is Delivery.UNREACHABLE


def test_clocks_differ_and_never_go_back() -> None:
    time = TrueTime()
    ahead, behind = SimulatedClock(time, 2), SimulatedClock(time, -1)
    assert (ahead.now(), behind.now()) == (2, 0)
    time.advance()
    assert (ahead.now(), behind.now()) == (3, 0)
    ahead.ahead = 0
    assert ahead.now() == 3


@pytest.mark.parametrize("fault", list(DiskFault))
def test_a_disk_that_fails(loop: VirtualLoop, fault: DiskFault) -> None:
    """A failed commit is there or not; what was acknowledged is there; the store is opened again when it is mended."""
    disk = FailingDisk(random.Random(1))
    store = FailingStore(disk)
    one, two = RecordKey("a:1", "broker"), RecordKey("a:2", "broker")
    loop.run(store.open("a"))
    loop.run(store.commit(Batch({one: b"1"})))
    disk.fault = fault
    with pytest.raises(StoreError, match=fault.value):
        loop.run(store.commit(Batch({two: b"2"})))
    loop.run(store.close())
    with pytest.raises(StoreError, match=fault.value):
        loop.run(store.open("a"))
    disk.fault = None
    loop.run(store.open("a"))
    assert disk.records[one] == b"1"
    assert fault is DiskFault.FSYNC or two not in disk.records
    assert disk.failed == 2


def test_a_lease_of_any_system_of_actors() -> None:
    """Two-phase commit has no policies and no units; its actors run here as those of the lease do."""
    sim = Simulation(compile_system(load("two_phase_commit", {"participants": 2})))
    sim.start_all()
    names = list(sim.roles)
    assert len(names) == len(sim.actors) >= 2
    for name in names:
        sim.crash(name)
        sim.start(name)
    assert sim.crashes == len(names)
    sim.close()
