"""Events that policies, handlers and detectors raise: with the actor's leave, on machines there are, once a tick."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorOptions
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.core import Program
from leasehold.impl.events.event import RefusedEvent, StepEvent, read
from leasehold.impl.handlers.detector import CommandDetector
from leasehold.impl.handlers.handler import Done, HandlerAction, HandlerError, NullHandler
from leasehold.impl.policy import plugins
from leasehold.impl.policy.policy import Decision, Lease, Question
from leasehold.impl.raised import RaisedEvent, of_handler, raised_event
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import RecordKey
from tests.impl.actor.alone import alone, program_of
from tests.systems import TESTS

LEAVE = {"unit": ("lost", "recover"), "keeper": ("recover",)}
LOST = RaisedEvent("lost", unit="unit[2]")


@pytest.fixture(scope="module")
def program() -> Program:
    return program_of(TESTS / "impl/actor/systems/site")


class Units(NullHandler):
    """A handler that writes its actions down, and raises what it is told to raise with the next."""

    def __init__(self) -> None:
        self.actions: list[tuple[str, str]] = []
        self.raises: list[Any] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def act(self, action: HandlerAction) -> Done:
        self.actions.append((action.verb, action.unit))
        await self.gate.wait()
        raises, self.raises = tuple(self.raises), []
        return Done(True, raises=raises)


class Sees:
    """A policy that is asked for nothing, and raises what it is told to at the next tick."""

    def __init__(self) -> None:
        self.raises: list[Any] = []

    def recovered(self, lease: Lease) -> None: ...

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        return ()

    def changed(self, lease: Lease, now: int) -> Iterable[Decision]:
        return ()

    def tick(self, now: int) -> Iterable[Any]:
        raises, self.raises = self.raises, []
        return raises


class Scene:
    """An actor whose six units are up."""

    def __init__(self, actor: Actor, units: Units, policy: Sees, disk: Disk) -> None:
        self.actor, self.units, self.policy, self.disk = actor, units, policy, disk

    def states(self) -> list[tuple[str, int]]:
        """State and losses of each unit."""
        records = [self.actor.table.instances[RecordKey(BELOW, f"unit[{n}]")] for n in range(6)]
        return [(one.state, one.record[2]) for one in records]

    async def tick(self, *raises: Any) -> None:
        self.policy.raises += raises
        await self.actor.clock.time.elapse()  # type: ignore[attr-defined]
        await asyncio.sleep(0.5)

    def told(self, kind: type[Any]) -> list[Any]:
        """The actor's events of a kind; of steps the steps themselves, without those that they drive."""
        events = [event for event in map(read, self.disk.chain()) if isinstance(event, kind)]
        return [event.step for event in events] if kind is StepEvent else events


@contextlib.asynccontextmanager
async def up(program: Program, leave: Any = None, **environment: Any) -> AsyncIterator[Scene]:
    disk, units, policy = Disk(), Units(), Sees()
    handlers = {"bring": units, "remove": units}
    options = ActorOptions(seed=0)
    environment = {"raises": LEAVE if leave is None else leave, **environment}
    actor = alone(
        program,
        "keeper",
        MemoryStore(disk),
        handlers,
        SimulatedClock(),
        options=options,
        policies={"keeper": policy},
        **environment,
    )
    await actor.start()
    await actor.begin("own:1", "keeper", "open", {}, {})
    await asyncio.sleep(0.1)
    scene = Scene(actor, units, policy, disk)
    assert scene.states() == [("serving", 0)] * 6
    units.actions.clear()
    yield scene
    await actor.stop()


# Policies


async def test_a_policy_raises_what_its_actor_gives_leave_for(program: Program) -> None:
    async with up(program) as scene:
        await scene.tick(LOST)
        assert scene.states() == [("serving", int(n == 2)) for n in range(6)]
        assert scene.units.actions == [("bring", "unit[2]")]
        (step,) = [one for one in scene.told(StepEvent) if one.event == "lost"]
        assert (step.machine, step.cause) == ("unit[2]", "policy")
        assert scene.actor.counts["raised"] == 1


async def test_the_recovery_event_begins_the_work_of_a_state_anew_and_changes_no_record(program: Program) -> None:
    async with up(program) as scene:
        scene.units.gate.clear()
        await scene.tick(LOST)
        assert scene.units.actions == [("bring", "unit[2]")]
        before = scene.told(StepEvent)
        await scene.tick(RaisedEvent(unit="unit[2]"))
        assert scene.units.actions == [("bring", "unit[2]")] * 2
        assert scene.told(StepEvent) == before
        scene.units.gate.set()
        await scene.tick()
        assert scene.states()[2] == ("serving", 1)
        await scene.tick(RaisedEvent(lease="own:1"))  # its only machine here: it drives its units again, which are up
        assert (scene.actor.counts["raised"], scene.actor.counts["raised refused"]) == (3, 0)


@pytest.mark.parametrize(
    ("raised", "why"),
    [
        (RaisedEvent("lst", unit="unit[2]"), "no leave to raise lst of unit: .*lost, recover.*did you mean lost"),
        (RaisedEvent("up", unit="unit[2]"), "no leave to raise up of unit"),
        (RaisedEvent("close", lease="own:1", machine="keeper"), "no leave to raise close of keeper"),
        (RaisedEvent("lost", unit="unit[6]"), r"there is no unit 'unit\[6\]' here"),
        (RaisedEvent("lost", unit="keeper"), "there is no unit 'keeper' here"),
        (RaisedEvent(lease="own:2"), "there is no own:2 here"),
        (RaisedEvent(lease="own:1", machine="kepper"), "there is no kepper of own:1 here"),
        (RaisedEvent(lease=BELOW), "there is no - here"),
        (RaisedEvent("lost"), "there is no"),
    ],
)
async def test_what_is_refused_changes_nothing_and_is_told(program: Program, raised: RaisedEvent, why: str) -> None:
    async with up(program) as scene:
        steps, states = scene.told(StepEvent), scene.states()
        await scene.tick(raised)
        assert (scene.states(), scene.told(StepEvent), scene.units.actions) == (states, steps, [])
        await scene.actor.tell("own:1", "keeper", "close")  # what is refused is kept with the next commit
        (refusal,) = scene.told(RefusedEvent)
        assert (refusal.cause, refusal.event) == ("policy", raised.event)
        assert re.search(why, refusal.reason)
        assert scene.actor.counts["raised refused"] == 1


async def test_what_its_machine_refuses_is_told_once_with_the_reason_of_the_specification(program: Program) -> None:
    """So `conform` finds nothing wrong with it."""
    async with up(program, leave={"unit": ("mended",)}) as scene:
        await scene.tick(RaisedEvent("mended", unit="unit[2]"))
        await scene.actor.tell("own:1", "keeper", "close")
        (refusal,) = scene.told(RefusedEvent)
        assert (refusal.machine, refusal.event, refusal.reason) == ("unit[2]", "mended", "it is not broken")
        assert scene.actor.counts["raised refused"] == 1


async def test_without_leave_nothing_is_raised_and_no_decision_moves_a_unit(program: Program) -> None:
    async with up(program, leave={}) as scene:
        await scene.tick(LOST, RaisedEvent(unit="unit[1]"), Decision(BELOW, "unit[3]", "lost", {}))
        assert (scene.states(), scene.units.actions) == ([("serving", 0)] * 6, [])
        await scene.actor.tell("own:1", "keeper", "close")
        assert [one.machine for one in scene.told(RefusedEvent)] == ["unit[2]", "unit[1]", "unit[3]"]
        assert all("the actor gives no leave to raise" in one.reason for one in scene.told(RefusedEvent))


async def test_a_decision_moves_a_unit_with_leave(program: Program) -> None:
    async with up(program) as scene:
        await scene.tick(Decision(BELOW, "unit[3]", "lost", {}))
        assert scene.states()[3] == ("serving", 1)


async def test_the_same_is_taken_once_in_a_tick(program: Program) -> None:
    async with up(program) as scene:
        await scene.tick(LOST, LOST, RaisedEvent("lost", unit="unit[4]"), RaisedEvent(unit="unit[2]"), LOST)
        assert [losses for _, losses in scene.states()] == [0, 0, 1, 0, 1, 0]
        assert [one.reason for one in scene.told(RefusedEvent)] == ["it was raised at this tick already (1)"] * 2
        await scene.tick(LOST)
        assert [losses for _, losses in scene.states()] == [0, 0, 2, 0, 1, 0]


async def test_a_policy_that_raises_something_else_has_failed(program: Program) -> None:
    async with up(program) as scene:
        await scene.tick("lost")
        assert (scene.states(), scene.actor.counts["policy errors"]) == ([("serving", 0)] * 6, 1)


# Handlers


async def test_a_handler_raises_events_beside_its_answer(program: Program) -> None:
    """Setting one unit up again, it finds that the host of two others is gone."""
    async with up(program) as scene:
        scene.units.raises = [RaisedEvent("lost", unit="unit[0]"), {"unit": "unit[1]", "event": "lost"}]
        await scene.tick(LOST)
        assert [losses for _, losses in scene.states()] == [1, 1, 1, 0, 0, 0]
        assert [one.cause for one in scene.told(StepEvent) if one.event == "lost"] == ["policy", "probe", "probe"]


@pytest.mark.parametrize("raises", ["lost", [{"unit": "unit[0]", "evnt": "lost"}], [{"event": "lost"}], [3]])
async def test_a_handler_that_raises_what_is_no_event_has_failed(program: Program, raises: Any) -> None:
    with pytest.raises(ValueError, match="raise"):
        of_handler(raises)
    async with up(program) as scene:

        async def act(action: HandlerAction) -> Done:
            return Done(True, raises=raises)

        scene.units.act = act  # type: ignore[method-assign]
        await scene.tick(LOST)
        assert [losses for _, losses in scene.states()] == [0, 0, 1, 0, 0, 0]
        assert scene.states()[2][0] != "serving"


# Detectors


class Finds:
    """A detector that yields what is put into its queue."""

    def __init__(self) -> None:
        self.found: asyncio.Queue[Any] = asyncio.Queue()
        self.begun = self.ended = 0

    async def watch(self) -> AsyncIterator[Any]:
        self.begun += 1
        try:
            while True:
                found = await self.found.get()
                if isinstance(found, BaseException):
                    raise found
                if found is None:
                    return
                yield found
        finally:
            self.ended += 1


async def test_a_detector_raises_what_it_finds_and_a_refusal_does_not_end_it(program: Program) -> None:
    detector = Finds()
    async with up(program, detectors={"kernel": detector}) as scene:
        for found in LOST, RaisedEvent("lost", unit="no_such"), RaisedEvent("lost", unit="unit[5]"):
            detector.found.put_nowait(found)
        await asyncio.sleep(0.5)
        assert [losses for _, losses in scene.states()] == [0, 0, 1, 0, 0, 1]
        assert [one.cause for one in scene.told(StepEvent) if one.event == "lost"] == ["probe"] * 2
        assert (detector.begun, detector.ended) == (1, 0)
    assert (detector.begun, detector.ended) == (1, 1)


@pytest.mark.parametrize("end", [None, OSError("gone"), SystemExit(3), asyncio.CancelledError(), "lost"])
async def test_a_detector_that_ends_is_begun_again_after_a_pause_that_grows(program: Program, end: Any) -> None:
    detector = Finds()
    async with up(program, detectors={"kernel": detector}) as scene:
        for _ in range(4):
            detector.found.put_nowait(end)
        await asyncio.sleep(0.5)
        assert detector.begun == 1
        await asyncio.sleep(1)
        assert detector.begun == 2
        await asyncio.sleep(1)
        assert detector.begun == 2
        await asyncio.sleep(20)
        assert (detector.begun, scene.actor.counts["detectors ended"], scene.actor.running) == (5, 4, True)
        detector.found.put_nowait(LOST)
        await asyncio.sleep(0.5)
        assert scene.states()[2] == ("serving", 1)


async def test_a_detector_watches_again_after_the_store_has_failed(program: Program) -> None:
    detector = Finds()
    async with up(program, detectors={"kernel": detector}) as scene:
        scene.disk.capacity = 1
        detector.found.put_nowait(LOST)
        await asyncio.sleep(0.1)
        scene.disk.capacity = None
        await asyncio.sleep(5)
        detector.found.put_nowait(RaisedEvent("lost", unit="unit[1]"))
        await asyncio.sleep(0.5)
        assert (detector.begun, detector.ended, scene.states()[1]) == (2, 1, ("serving", 1))


# Detectors that are programs

PRINTS = """
import sys, time
print('{"unit": "node1", "event": "lost", "reason": "machine check"}')
print("no JSON"); print('{"unit": "node1", "evnt": "lost"}'); print("x" * 200_000)
print('{"lease": "a:1"}', flush=True)
sys.stdout.write('{"unit": "half"'); sys.stdout.flush()
"""


async def all_of(detector: Any) -> list[RaisedEvent]:
    return [raised async for raised in detector.watch()]


@pytest.mark.real_time
async def test_each_line_of_a_program_raises_an_event_and_others_are_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = await all_of(CommandDetector([sys.executable, "-c", PRINTS]))
    assert found == [RaisedEvent("lost", unit="node1", reason="machine check"), RaisedEvent(lease="a:1")]
    assert [str(raised) for raised in found] == ["lost of node1", "recover of a:1"]
    assert len([message for message in caplog.messages if "raises nothing" in message]) == 3


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("command", "why"), [("/no/such/program", "cannot be started"), ("/bin/false", "ended with 1")]
)
async def test_a_program_that_fails_says_so(command: str, why: str) -> None:
    with pytest.raises(HandlerError, match=why):
        await all_of(CommandDetector(command))


@pytest.mark.real_time
async def test_a_program_ends_with_the_watching_and_with_all_that_it_has_started() -> None:
    shell = 'sleep 1000 & echo "{\\"unit\\": \\"$!\\"}"; wait'
    watching = CommandDetector(["sh", "-c", shell]).watch()
    child = int((await anext(watching)).unit)
    os.kill(child, 0)
    await watching.aclose()  # type: ignore[attr-defined]
    await gone(child)


async def gone(pid: int) -> None:
    for _ in range(500):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return
        if state == "Z":
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{pid} goes on")


WATCHES = """
import asyncio
from leasehold.impl.handlers.detector import CommandDetector
async def main():
    async for raised in CommandDetector(["sh", "-c", 'echo "{\\\\"unit\\\\": \\\\"$$\\\\"}"; exec sleep 1000']).watch():
        print(raised.unit, flush=True)
asyncio.run(main())
"""


@pytest.mark.real_time
async def test_a_program_does_not_outlive_an_actor_that_is_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", WATCHES], stdout=subprocess.PIPE, text=True) as actor:
        assert actor.stdout is not None
        child = int(actor.stdout.readline())
        actor.send_signal(signal.SIGKILL)
        actor.wait()
        await gone(child)


def test_a_function_in_a_file_is_a_detector(tmp_path: Path) -> None:
    file = tmp_path / "watch.py"
    file.write_text(
        "from leasehold.impl.raised import RaisedEvent\n"
        "async def kernel():\n    yield RaisedEvent('lost', unit='node1')\n"
        "def plain():\n    return []\n"
    )
    make: Callable[[str], Any] = lambda name: plugins.make("detector", f"{file}:{name}")  # noqa: E731
    assert asyncio.run(all_of(make("kernel"))) == [RaisedEvent("lost", unit="node1")]
    with pytest.raises(TypeError, match="a detector is one function with `async def` and `yield`"):
        make("plain")


@pytest.mark.parametrize(
    ("plain", "why"),
    [
        ([], "raises no event"),
        ({}, "name a `unit`, or a `lease`"),
        ({"unit": "a", "lease": "b:1"}, "name a `unit`, or a `lease`"),
        ({"unit": "a", "machine": "b"}, "name a `unit`, or a `lease`"),
        ({"unit": 3}, "raises no event"),
        ({"unit": "a", "events": "lost"}, "unknown field `events`"),
        ({"unit": "a" * 300}, "raises no event"),
    ],
)
def test_what_raises_no_event(plain: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        raised_event(plain)
