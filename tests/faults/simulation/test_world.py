"""The simulated world by itself: its loop, its network, its clocks and its disks."""

from __future__ import annotations

import asyncio
import random

import pytest

from leasehold.faults.simulation.clock import SimulatedClock, TrueTime
from leasehold.faults.simulation.disk import DiskFault, FailingDisk, FailingStore
from leasehold.faults.simulation.loop import Livelock, VirtualLoop
from leasehold.faults.simulation.network import (
    LIMITS,
    NO_FAULTS,
    NetworkConditions,
    SimulatedNetwork,
    SimulatedTransport,
)
from leasehold.faults.simulation.simulation import Simulation
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.store.store import Batch, RecordKey, StoreError
from leasehold.impl.transport.transport import Delivery, Reply, TransportError
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


@pytest.mark.long
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


def test_a_timer_runs_at_its_time_and_those_of_one_time_in_their_order(loop: VirtualLoop) -> None:
    heard: list[tuple[float, object]] = []

    def hear(word: object) -> None:
        heard.append((loop.time(), word))
        if word == "sets more":
            loop.call_soon(hear, "soon")
            loop.call_later(0.5, hear, "within")
            loop.call_at(0.25, hear, "past")
            loop.call_later(2, hear, "beyond")

    loop.call_at(1.0, hear, "sets more")
    loop.call_later(1.0, hear, "second")
    loop.call_at(3.0, hear, "at the end")
    loop.advance(2.5)
    assert heard == [(1.0, "sets more"), (1.0, "second"), (1.0, "soon"), (1.0, "past"), (1.5, "within")]
    assert loop.time() == 2.5
    loop.advance(0.5)
    assert heard[5:] == [(3.0, "at the end"), (3.0, "beyond")]
    loop.advance(0)
    assert loop.time() == 3.0


def test_what_is_cancelled_does_not_run(loop: VirtualLoop) -> None:
    heard: list[object] = []
    for handle in (loop.call_soon(heard.append, 1), loop.call_later(1, heard.append, 2)):
        handle.cancel()
    ready: list[asyncio.Handle] = []
    loop.call_soon(lambda: ready[0].cancel())
    ready.append(loop.call_soon(heard.append, 3))
    loop.advance(2)
    assert heard == []


def test_a_call_is_made_inside_the_loop_and_what_follows_from_it_runs(loop: VirtualLoop) -> None:
    heard: list[object] = []

    def called() -> str:
        assert asyncio.get_running_loop() is loop
        assert loop.is_running()
        asyncio.get_running_loop().call_soon(heard.append, "follows")
        return "answer"

    assert (loop.call(called), heard, loop.time()) == ("answer", ["follows"], 0)


def test_one_loop_may_run_inside_another_and_leaves_it_as_it_was(loop: VirtualLoop) -> None:
    """A simulation may be run by what runs on a loop itself; an error leaves no loop behind either."""
    outer = VirtualLoop()  # type: ignore[abstract]
    with outer.inside():
        with loop.inside(), loop.inside():
            assert asyncio.get_running_loop() is loop
        assert asyncio.get_running_loop() is outer
        assert (outer.is_running(), loop.is_running()) == (True, False)
        with loop.inside():
            with loop.inside():
                pass
            assert loop.is_running()
        with pytest.raises(ZeroDivisionError), loop.inside():
            raise ZeroDivisionError
        assert asyncio.get_running_loop() is outer
    assert (outer.is_running(), loop.is_running()) == (False, False)
    with pytest.raises(RuntimeError, match="no running event loop"):
        asyncio.get_running_loop()


@pytest.mark.parametrize(("seconds", "ends"), [(9.0, True), (10.0, True), (10.5, False)])
def test_work_is_waited_for_as_long_as_patience_lasts(loop: VirtualLoop, seconds: float, ends: bool) -> None:
    done: list[str] = []

    async def work() -> str:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            done.append("cancelled")
            raise
        return "done"

    loop.advance(100)
    if ends:
        assert (loop.run(work(), patience=10), loop.time()) == ("done", 100 + seconds)
    else:
        with pytest.raises(TimeoutError):
            loop.run(work(), patience=10)
        assert done == ["cancelled"]


def test_an_error_of_what_is_run_is_raised(loop: VirtualLoop) -> None:
    async def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        loop.run(fails())
    assert loop.errors == []


def test_a_loop_that_is_closed_has_nothing_left_to_do(loop: VirtualLoop) -> None:
    heard: list[object] = []
    loop.call_soon(heard.append, 1)
    loop.call_later(1, heard.append, 2)
    assert (loop.is_closed(), loop.is_running()) == (False, False)
    loop.close()
    assert loop.is_closed()
    loop.advance(2)
    assert heard == []


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


def test_what_is_said_to_nobody_is_answered_at_once_and_what_is_lost_when_it_was_waited_for(loop: VirtualLoop) -> None:
    ends = Ends(loop)
    nobody = loop.create_task(ends.ends["a"].send("memory:c", b"x"))
    loop.quiesce()
    assert (nobody.result().answer, loop.time()) == (Delivery.UNREACHABLE, 0)
    ends.network.cut.add(("memory:a", "memory:b"))
    lost = ends.send(b"y")
    loop.advance(LIMITS.send_seconds - 0.1)
    assert not lost.done()
    loop.advance(0.1)
    assert lost.result().answer is Delivery.UNREACHABLE
    assert (ends.heard, ends.network.lost) == ([], 1)


@pytest.mark.parametrize("delay", [0.0, 0.5])
@pytest.mark.parametrize("back", [True, False])
def test_an_answer_comes_only_where_its_way_is_not_cut(loop: VirtualLoop, delay: float, back: bool) -> None:
    ends = Ends(loop)
    ends.network.conditions = NetworkConditions(delay=delay) if delay else NO_FAULTS
    ends.network.cut.add(("memory:b", "memory:a") if back else ("memory:a", "memory:b"))
    sent = ends.send(b"x")
    loop.advance(3)
    assert ends.heard == ([b"x"] if back else [])
    assert sent.result().answer is Delivery.UNREACHABLE
    assert ends.network.lost == (0 if back else 1)
    ends.network.cut.clear()
    again = ends.send(b"y")
    loop.advance(1)
    assert again.result().answer is Delivery.TAKEN


def test_a_link_that_is_cut_while_a_packet_is_under_way_loses_it(loop: VirtualLoop) -> None:
    ends = Ends(loop, seed=1)
    ends.network.conditions = NetworkConditions(delay=1.0)
    ends.send(b"x")
    ends.network.cut.add(("memory:a", "memory:b"))
    loop.advance(1)
    assert (ends.heard, ends.network.lost) == ([], 1)


def test_a_packet_that_is_held_knows_whence_and_whither(loop: VirtualLoop) -> None:
    ends = Ends(loop)
    ends.network.holds = True
    ends.network.cut.add(("memory:a", "memory:b"))
    for n in (1, 2):
        ends.send(b'signature\n{"number":%d}' % n)
    first, second = ends.network.in_transit
    assert (first.number + 1, first.source, first.target) == (second.number, "memory:a", "memory:b")
    assert [packet.envelope for packet in (first, second, first)] == [{"number": 1}, {"number": 2}, {"number": 1}]
    assert ends.network.lost == 0, "who holds packets decides what becomes of them"


def test_what_is_delivered_while_the_network_holds_is_remembered_once_it_was_taken(loop: VirtualLoop) -> None:
    """Not where nobody takes it, or nobody hears that."""
    ends = Ends(loop)
    ends.network.holds = True
    for word in (b"1", b"2", b"3"):
        ends.send(word)
    nobody = loop.create_task(ends.ends["a"].send("memory:c", b"4"))
    loop.quiesce()
    one, two, three, four = ends.network.in_transit
    for packet, answered in ((three, True), (one, True), (two, False), (four, True), (three, True)):
        loop.call(lambda packet=packet, answered=answered: ends.network.deliver(packet, answered))  # type: ignore[misc]
    assert ends.heard == [b"3", b"1", b"2", b"3"]
    assert ends.network.delivered == [three, one]
    assert ends.network.in_transit == []
    assert nobody.result().answer is Delivery.UNREACHABLE
    ends.network.release()
    ends.send(b"5")
    assert ends.network.delivered == [three, one]


@pytest.mark.parametrize(
    ("conditions", "heard", "answers"),
    [
        (NetworkConditions(lose=1.0), 0, Delivery.UNREACHABLE),
        (NetworkConditions(duplicate=1.0), 2, Delivery.TAKEN),
        (NetworkConditions(unanswered=1.0), 1, Delivery.UNREACHABLE),
        (NetworkConditions(), 1, Delivery.TAKEN),
    ],
)
def test_each_kind_of_weather(loop: VirtualLoop, conditions: NetworkConditions, heard: int, answers: Delivery) -> None:
    ends = Ends(loop)
    ends.network.conditions = conditions
    sent = [ends.send(b"%d" % n) for n in range(20)]
    loop.advance(2)
    assert len(ends.heard) == heard * len(sent)
    assert {one.result().answer for one in sent} == {answers}
    assert ends.network.lost == (len(sent) if conditions.lose else 0)


def test_a_delay_is_at_most_what_the_weather_says(loop: VirtualLoop) -> None:
    ends = Ends(loop)
    ends.network.conditions = NetworkConditions(delay=1.0)
    for n in range(50):
        ends.send(b"%d" % n)
    loop.advance(0.5)
    assert 10 < len(ends.heard) < 40
    loop.advance(0.5)
    assert len(ends.heard) == 50


def test_an_address_belongs_to_one_incarnation_at_a_time(loop: VirtualLoop) -> None:
    ends = Ends(loop)
    again = SimulatedTransport(ends.network, "b")
    with pytest.raises(TransportError, match="memory:b is in use"):
        loop.run(again.start(ends.receive))
    ends.ends["b"].die()
    assert loop.run(again.start(ends.receive)) == "memory:b"
    ends.ends["b"].die()  # it was gone already
    loop.run(ends.ends["b"].close())
    sent = ends.send(b"x")
    assert (sent.result().answer, ends.heard) == (Delivery.TAKEN, [b"x"])


def test_who_has_not_begun_takes_nobody_along(loop: VirtualLoop) -> None:
    network = SimulatedNetwork()
    lives, never = SimulatedTransport(network, "b"), SimulatedTransport(network, "b")

    async def take(parcel: bytes) -> Reply:
        return Reply(Delivery.TAKEN)

    loop.run(lives.start(take))
    never.die()
    assert loop.run(lives.send("memory:b", b"x")).answer is Delivery.TAKEN


def test_who_dies_while_it_receives_answers_nothing_also_where_another_has_its_address(loop: VirtualLoop) -> None:
    network, heard = SimulatedNetwork(), list[bytes]()

    async def slow(parcel: bytes) -> Reply:
        await asyncio.sleep(0.5)
        heard.append(parcel)
        return Reply(Delivery.TAKEN)

    first, second, other = (SimulatedTransport(network, name) for name in ("b", "b", "a"))
    for one in (first, other):
        loop.run(one.start(slow))
    sent = loop.create_task(other.send("memory:b", b"x"))
    loop.quiesce()
    first.die()
    loop.run(second.start(slow))
    loop.advance(1)
    assert (heard, sent.done()) == ([b"x"], False)
    loop.advance(1)
    assert sent.result().answer is Delivery.UNREACHABLE


def test_who_closes_ends_what_it_is_receiving(loop: VirtualLoop) -> None:
    network, heard = SimulatedNetwork(), list[bytes]()

    async def slow(parcel: bytes) -> Reply:
        await asyncio.sleep(0.5)
        heard.append(parcel)
        return Reply(Delivery.TAKEN)

    ends = {name: SimulatedTransport(network, name) for name in ("a", "b")}
    for one in ends.values():
        loop.run(one.start(slow))
    loop.create_task(ends["a"].send("memory:b", b"x"))
    loop.quiesce()
    loop.run(ends["b"].close())
    assert heard == [b"x"]
    assert loop.time() == 0.5


def test_a_transport_that_is_closed_sends_and_hears_nothing(loop: VirtualLoop) -> None:
    ends = Ends(loop)
    loop.run(ends.ends["b"].close())
    assert ends.send(b"x").result().answer is Delivery.UNREACHABLE
    closed = loop.create_task(ends.ends["b"].send("memory:a", b"y"))
    loop.quiesce()
    assert closed.result().answer is Delivery.UNREACHABLE
    assert ends.heard == []


def test_clocks_differ_and_never_go_back() -> None:
    time = TrueTime()
    ahead, behind = SimulatedClock(time, 2), SimulatedClock(time, -1)
    assert (ahead.now(), behind.now()) == (2, 0)
    time.advance()
    assert (ahead.now(), behind.now()) == (3, 0)
    time.advance()
    assert (ahead.now(), behind.now()) == (4, 1)
    ahead.ahead = 0
    assert ahead.now() == 4


def test_a_clock_tells_its_actor_the_time_while_it_runs_and_nothing_is_held(loop: VirtualLoop) -> None:
    """What is due is due at the start."""
    time, heard = TrueTime(), list[int]()
    clock = SimulatedClock(time, 1)

    async def hear(now: int) -> None:
        heard.append(now)

    def tick() -> list[int]:
        loop.call(time.advance)
        return heard

    assert tick() == []
    running = loop.create_task(clock.run(hear))
    loop.quiesce()
    assert heard == [2]
    assert tick() == [2, 3]
    time.held = True
    assert tick() == [2, 3]
    assert clock.now() == 4, "it shows the time all the same"
    time.held = False
    loop.call(time.notify)
    assert heard == [2, 3, 4]
    running.cancel()
    loop.quiesce()
    assert tick() == [2, 3, 4]
    assert loop.call(time.notify) == []
    time.held = True
    loop.create_task(clock.run(hear))
    loop.quiesce()
    assert heard == [2, 3, 4]


@pytest.mark.parametrize("fault", list(DiskFault))
def test_a_disk_that_fails(loop: VirtualLoop, fault: DiskFault) -> None:
    """A failed commit is there or not; what was acknowledged is there; the store is opened again when it is mended."""
    written = set()
    for seed in range(8):
        disk = FailingDisk(random.Random(seed))
        store = FailingStore(disk)
        one, two = RecordKey("a:1", "broker"), RecordKey("a:2", "broker")
        loop.run(store.open("a"))
        loop.run(store.commit(Batch({one: b"1"})))
        assert (disk.fault, disk.failed) == (None, 0)
        disk.fault = fault
        with pytest.raises(StoreError, match=fault.value):
            loop.run(store.commit(Batch({two: b"2"})))
        loop.run(store.close())
        with pytest.raises(StoreError, match=fault.value):
            loop.run(store.open("a"))
        disk.fault = None
        loop.run(store.open("a"))
        assert disk.records[one] == b"1"
        written.add(two in disk.records)
        assert disk.failed == 2
        loop.run(store.close())
    assert written == ({False, True} if fault is DiskFault.FSYNC else {False})


def test_a_lease_of_any_system_of_actors() -> None:
    """Two-phase commit has no policies and no units; its actors run here as those of the lease do."""
    sim = Simulation(compile_system(load("two_phase_commit", {"participants": 2})))
    sim.start_all()
    names = list(sim.roles)
    assert names == [*sim.actors] == ["coordinator", "participant-0", "participant-1"]
    assert sim.players == {"coordinator": names[0], "participant[0]": names[1], "participant[1]": names[2]}
    for name in names:
        sim.crash(name)
        sim.start(name)
    assert sim.crashes == len(names)
    sim.close()
