"""Cases of the recovery campaign in which units are real processes: found again, made once, and gone in the end."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.recovery.campaign import CaseOutcome
from leasehold.checker.recovery.cases.steps import Script
from leasehold.checker.recovery.lease.case import LeaseCaseRun
from leasehold.checker.recovery.lease.runner import LeaseCaseRunner
from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from leasehold.faults.simulation.loop import VirtualLoop
from leasehold.impl.handlers import processes
from leasehold.impl.handlers.command import CommandHandler
from leasehold.impl.handlers.handler import Done, HandlerAction, HandlerError
from leasehold.impl.handlers.place import UnitDirectory, read_file
from leasehold.impl.handlers.process import ProcessHandler
from leasehold.impl.notices import Notice
from tests.simulation.real_handlers import OnProcesses, RealHandler, RealLoop
from tests.systems import lease_cases, load

SHORT = load("lease", {"max_units": 1, "last_end": 1})  # all but extensions, and explored in no time
WHOLE = load("lease", {"max_units": 1, "last_end": 2})
AROUND = (
    "crash:authority/priming#after-setup",
    "crash:unit/priming#before-commit",
    "crash:unit/priming#recovering",
    "crash:authority/closing#after-commit",
    "crash:unit/closing#before-commit",
    "crash:unit/closing#recovering",
)
AMID = {  # where the site stops while an action on a unit is under way, and the handler's points that are passed then
    "crash:unit/priming#before-commit": ("setup", ("guarded", "wanted", "locked", "started")),
    "crash:unit/modifying#before-commit": ("modify", ("guarded", "wanted", "kept")),
    "crash:unit/closing#before-commit": ("teardown", ("guarded", "wanted", "asked", "cleared", "removed")),
}


class Worlds:
    """Makes worlds, and keeps them to be looked at.

    Attributes:
        made: the worlds, in order.
        handler: what makes their handlers.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made: list[OnProcesses] = []
        self.handler: Callable[..., ProcessHandler] = ProcessHandler

    def __call__(self, program: Any, **settings: Any) -> OnProcesses:
        self.made.append(OnProcesses(program, folder=self.folder, handler=self.handler, **settings))
        return self.made[-1]

    @property
    def last(self) -> OnProcesses:
        return self.made[-1]


@pytest.fixture
def worlds(tmp_path: Path) -> Iterator[Worlds]:
    """Their folders are in memory, if there is such a place: what a power loss leaves is asked elsewhere."""
    memory = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=memory if os.access(memory, os.W_OK) else tmp_path))
    made = Worlds(folder)
    yield made
    for world in made.made:  # also those of a test that has failed
        world.close()
        assert world.living() == []
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def scripts() -> list[Script]:
    return lease_cases(max_units=1, last_end=1)


def chosen(scripts: list[Script], *points: str) -> list[Script]:
    """One script of each of the points (all, if none is named) in each mode: the last, in which the lease may go on."""
    found = {(script.point.partition("@")[0], script.mode): script for script in scripts}
    some = [found[key] for key in sorted(found) if key[0] in points or not points]
    assert {script.mode for script in some} == {"alive", "over"}
    return some


def words(outcome: CaseOutcome) -> str:
    return f"{outcome.name}: " + "; ".join(f"{f.check}: {f.words}" for f in outcome.findings)


def said(outcome: CaseOutcome) -> dict[str, str]:
    """Returns what each check has said first."""
    return {f.check: f.words for f in reversed(outcome.findings)}


def before(stage: LeaseCaseRunner, worlds: Worlds, script: Script) -> int:
    """Returns which action is under way when the actor of a case crashes, counted from 1."""
    plain = stage.play(script)
    assert plain.passed, words(plain)
    which = worlds.last.before
    assert worlds.last.acted[which - 1].verb == AMID[script.point.partition("@")[0]][0]
    return which


def amid(
    stage: LeaseCaseRunner, worlds: Worlds, script: Script, which: int, point: str, lost: bool = False
) -> CaseOutcome:
    """Plays a case in which an action is ended at a point of the handler."""
    outcome = stage.play(script, lost, simulate=partial(worlds, amid=(which, point)))
    assert worlds.last.died is not None, f"nobody came to {point}"
    assert worlds.last.died is worlds.last.acted[which - 1]
    return outcome


# Cases


@pytest.mark.long
def test_cases_around_setup_and_teardown(scripts: list[Script], worlds: Worlds) -> None:
    stage = LeaseCaseRunner(SHORT, worlds)
    some = chosen(scripts, *AROUND)
    assert len(some) == 2 * len(AROUND)
    for script in some:
        for lost in (False, True):
            outcome = stage.play(script, lost)
            assert outcome.passed, words(outcome)
            verbs = [action.verb for action in worlds.last.acted]
            assert min(verbs.count("setup"), verbs.count("teardown")) >= 2
    stage.close()


@pytest.mark.long
@pytest.mark.parametrize("point", [p for p in AMID if "modifying" not in p])
def test_the_site_dies_amid_an_action(scripts: list[Script], worlds: Worlds, point: str) -> None:
    """What the action has left half done is found by the next, at each point of the handler."""
    stage = LeaseCaseRunner(SHORT, worlds)
    modes = [(script, before(stage, worlds, script)) for script in chosen(scripts, point)]
    for n, at in enumerate(AMID[point][1]):
        outcome = amid(stage, worlds, *modes[n % 2], at, lost=n % 4 > 1)
        assert outcome.passed, f"{at}: {words(outcome)}"
    stage.close()


@pytest.mark.slow
def test_each_point_of_the_site(worlds: Worlds) -> None:
    """The whole campaign's points, also amid each action, in both modes."""
    stage = LeaseCaseRunner(WHOLE, worlds)
    scripts = [
        s for s in lease_cases(max_units=1, last_end=2) if s.point.startswith(("crash:authority/", "crash:unit/"))
    ]
    some = chosen(scripts)
    assert len(some) > 90
    for script in some:
        for lost in (False, True):
            outcome = stage.play(script, lost)
            assert outcome.passed, words(outcome)
    for script in chosen(scripts, *AMID):
        which = before(stage, worlds, script)
        for at in AMID[script.point.partition("@")[0]][1]:
            for lost in (False, True):
                outcome = amid(stage, worlds, script, which, at, lost)
                assert outcome.passed, f"{at}: {words(outcome)}"
    stage.close()


def told(world: LeaseSimulation, stage: LeaseCaseRunner, script: Script) -> list[tuple[Any, ...]]:
    """Every notice of a case up to the end of what follows at once; what handlers say of their actions is theirs."""
    heard: list[tuple[Any, ...]] = []

    def hear(notice: Notice) -> None:
        heard.append((notice.kind, notice.actor, notice.lease, notice.machine, notice.name))

    played = LeaseCaseRun(stage.program, stage.properties, script, simulate=lambda program, units: world)
    world.subscribers.append(hear)
    played.to_the_restart()
    played.at_once()
    played.close()
    return heard


@pytest.mark.long
def test_actors_do_the_same_as_with_simulated_units(scripts: list[Script], worlds: Worlds) -> None:
    stage = LeaseCaseRunner(SHORT)
    for script in chosen(scripts, "crash:unit/priming#before-commit", "crash:unit/closing#recovering"):
        runs = [told(make(stage.program, units=2), stage, script) for make in (LeaseSimulation, worlds, worlds)]
        assert len(runs[0]) > 20
        assert runs[0] == runs[1] == runs[2]


# The cases can fail


class Leaks(ProcessHandler):
    """A teardown that only says so."""

    async def act(self, action: HandlerAction) -> Done:
        return Done(True) if action.verb == "teardown" else await super().act(action)


class KillsTheFirst(ProcessHandler):
    """A teardown that does not look for what a unit has started. Here units start something."""

    def __init__(self, directory: Path, **settings: Any) -> None:
        super().__init__(directory, **{**settings, "command": ("sh", "-c", "sleep 900 & exec sleep 900")})

    async def act(self, action: HandlerAction) -> Done:
        place = UnitDirectory(self._base / action.unit)
        if action.verb == "teardown" and (leader := place.leader()) is not None:
            processes.send(leader, signal.SIGKILL)
            while place.alive():
                await asyncio.sleep(0.002)
            place.remove()
            return Done(True)
        return await super().act(action)


class Forgets(ProcessHandler):
    """A setup that does not find what an earlier one has made, as if the name were not persistent."""

    async def act(self, action: HandlerAction) -> Done:
        if action.verb == "setup":
            shutil.rmtree(self._base / action.unit, ignore_errors=True)
        return await super().act(action)


class Believes(ProcessHandler):
    """A setup that takes what was wanted for what is so."""

    async def act(self, action: HandlerAction) -> Done:
        known = read_file(UnitDirectory(self._base / action.unit).wanted)
        if (known.get("verb"), known.get("lease"), action.verb) == ("setup", action.lease, "setup"):
            return Done(True, "it is up")
        return await super().act(action)


@pytest.mark.long
@pytest.mark.parametrize(
    ("handler", "finding"),
    [
        (Leaks, "unit-1 is up, and its machine is closed"),
        (KillsTheFirst, "a process that was made for unit-1 is there, and is of no unit that is up"),
        (Forgets, "a process that was made for unit-1 is there, and is of no unit that is up"),
    ],
)
def test_a_handler_that_leaves_something_fails_a_case(
    scripts: list[Script], worlds: Worlds, handler: type[ProcessHandler], finding: str
) -> None:
    worlds.handler = handler
    stage = LeaseCaseRunner(SHORT, worlds)
    outcome = stage.play(chosen(scripts, "crash:unit/priming#before-commit")[0])
    assert finding in said(outcome)["world"]
    stage.close()


@pytest.mark.long
def test_only_a_case_amid_an_action_shows_what_is_half_made(scripts: list[Script], worlds: Worlds) -> None:
    worlds.handler = Believes
    stage = LeaseCaseRunner(SHORT, worlds)
    script = chosen(scripts, "crash:unit/priming#before-commit")[0]
    which = before(stage, worlds, script)
    assert amid(stage, worlds, script, which, "started").passed
    found = said(amid(stage, worlds, script, which, "locked"))
    assert "unit-1 is down, and its machine is active" in found["world"]
    stage.close()


# The adaptor by itself


@pytest.fixture
def real() -> Iterator[RealLoop]:
    loop = RealLoop()
    yield loop
    loop.close()


def test_an_action_takes_real_time_and_no_virtual_time(real: RealLoop) -> None:
    loop = VirtualLoop()  # type: ignore[abstract]
    heard: list[str] = []

    async def acts() -> Done:
        loop.call_soon(heard.append, "later")
        done = await RealHandler(CommandHandler(setup="sleep 0.1"), real).act(
            HandlerAction("setup", "a:1", "u-0", 1, {})
        )
        assert heard == []  # nothing else has run meanwhile
        return done

    begun = time.monotonic()
    assert loop.run(acts()).well
    assert time.monotonic() - begun >= 0.1
    assert loop.time() == 0
    assert heard == ["later"]


def test_what_a_handler_raises_is_raised(real: RealLoop) -> None:
    loop = VirtualLoop()  # type: ignore[abstract]
    handler = RealHandler(CommandHandler(teardown="true"), real)
    with pytest.raises(HandlerError, match="no command for setup"):
        loop.run(handler.act(HandlerAction("setup", "a:1", "u-0", 1, {})))


def test_what_does_not_end_is_given_up(real: RealLoop) -> None:
    with pytest.raises(TimeoutError):
        real.run(asyncio.sleep(60), longest=0.05)


@pytest.fixture
def world(worlds: Worlds) -> Iterator[OnProcesses]:
    stage = LeaseCaseRunner(SHORT)
    world = worlds(stage.program, units=1)
    yield world
    world.close()


def test_the_world_is_seen_from_outside(world: OnProcesses) -> None:
    def act(verb: str, number: int, at: tuple[int, str] | None = None) -> None:
        world.amid = at
        work = world._handler("site", "authority").act(HandlerAction(verb, "a:1", "unit-0", number, {"end": 3}))
        if at is None:
            world.loop.run(work)
        else:
            world.loop.create_task(work)
            world.loop.quiesce()

    assert (world.up(), world.strays(), world.living()) == (set(), [], [])
    act("setup", 1)
    assert (world.up(), world.strays(), len(world.living())) == ({"unit-0"}, [], 1)
    assert [world.serves("unit-0", lease) for lease in ("a:1", "a:2")] == [True, False]
    act("teardown", 2, (2, "asked"))
    assert world.died is not None
    act("setup", 3)
    assert (world.up(), len(world.living())) == ({"unit-0"}, 1)
    world.repair("unit-0")
    assert (world.up(), world.strays(), world.living()) == (set(), [], [])
