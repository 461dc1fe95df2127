"""Policies that sleep, loop, raise and answer late: each harms the leases that it decides on, and nothing else."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any, Self

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.faults.simulation.loop import VirtualLoop
from leasehold.impl.actor.environment import ActorError, ActorOptions, Backoff, DecisionLimits, Environment
from leasehold.impl.lease.authority import FirstFit
from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.lease.fleet import BROKER, SITE, TENANT
from leasehold.impl.lease.service_manager import FixedDemand
from leasehold.impl.observe.metrics import Metrics
from leasehold.impl.observe.watchdog import Watchdog
from leasehold.impl.policy.policy import Decision, Lease, Question, is_quick
from leasehold.impl.policy.thread import PolicyThread
from tests.impl.policies import IdlePolicy
from tests.impl.virtual import virtual
from tests.waiting import until

LIMIT, PAUSE = 0.2, 0.05


def options(limit: float = LIMIT, pause: float = PAUSE) -> ActorOptions:
    deciding = DecisionLimits(longest=limit, pause=pause)
    return ActorOptions(seed=0, backoff=Backoff(first=0.01, longest=0.05), deciding=deciding)


class Hostile(IdlePolicy):
    """A site's policy that places each lease by itself, and does something strange for some; copies share what."""

    def __init__(self, wrong: Callable[[Any], Any], on: frozenset[str], asked: list[str]) -> None:
        self.wrong, self.on, self.asked = wrong, on, asked
        self.held: dict[str, frozenset[int]] = {}

    def __deepcopy__(self, memo: Any) -> Hostile:
        return type(self)(self.wrong, self.on, self.asked)

    def recovered(self, lease: Lease) -> None:
        self.held[lease.name] = frozenset(lease.data["assigned"])

    def changed(self, lease: Lease, now: int) -> Iterable[Decision]:
        self.recovered(lease)
        return []

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        lease = question.lease
        self.asked.append(lease.name)
        if lease.name in self.on:
            found: Iterable[Decision] | None = self.wrong(question)
            if found is not None:
                return found
        free = sorted(frozenset(range(4)).difference(*self.held.values()))
        self.held[lease.name] = frozenset(free[: lease.data["wanted"]])
        return [question.answer("placed", units=self.held[lease.name])]


class Site(Cluster):
    """Its site has such a policy."""

    def __init__(self, wrong: Callable[[Any], Any], on: Iterable[str], **rest: Any) -> None:
        super().__init__(**{"units": 4, "options": options(), **rest})
        self.wrong, self.on, self.asked = wrong, frozenset(on), list[str]()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await until(lambda: all(actor.idle for actor in self.actors.values()))  # policies have heard the time
        return self

    def _environment(self, name: str) -> Environment:
        made = super()._environment(name)
        if name == SITE:
            made.policies["authority"] = Hostile(self.wrong, self.on, self.asked)
        return made


async def demanded(c: Cluster, lease: str, units: int = 1) -> None:
    await c.tenant.command(  # not `Cluster.lease`, which waits until the policy has decided
        "service_manager", "demand", lease, units, 60, 30
    )


def test_only_the_shipped_policies_are_asked_on_the_loop() -> None:
    class Derived(FirstComeFirstServed):
        pass

    class Declared(FixedDemand):
        quick = True

    c = Cluster()
    assert all(is_quick(policy) for policy in (FirstFit(c.inventory), FirstComeFirstServed(c.inventory), FixedDemand()))
    assert not any(is_quick(policy) for policy in (Derived(c.inventory), Declared()))


# Real threads


def _sleeps(question: Question) -> None:
    time.sleep(3)


def _loops(question: Question) -> None:
    while True:
        pass


_never = threading.Event()


def _waits(question: Question) -> None:
    _never.wait(5)


@pytest.mark.real_time
@pytest.mark.parametrize("wrong", [_sleeps, _loops, _waits])
async def test_a_policy_that_hangs_on_one_lease_leaves_the_others_alone(
    wrong: Callable[[Question], None], caplog: pytest.LogCaptureFixture
) -> None:
    """Steps, messages, timers and views go on all the time, and other leases get their decisions."""

    caplog.set_level(logging.ERROR)
    async with Site(wrong, ["tenant:1"]) as c:
        watchdog = Watchdog(c.site, limit=1.0)
        watchdog.start()
        longest = 0.0

        async def beats() -> None:
            nonlocal longest
            while True:
                began = time.monotonic()
                await c.site.read()
                await asyncio.sleep(0.01)
                longest = max(longest, time.monotonic() - began)

        beating = asyncio.ensure_future(beats())
        await demanded(c, "tenant:1")
        await until(lambda: "tenant:1" in c.asked)
        for n in (2, 3):
            await demanded(c, f"tenant:{n}")
        await until(lambda: [c.state(f"tenant:{n}")[2] for n in (2, 3)] == ["active", "active"])
        await c.time.elapse()
        await until(lambda: c.site.counts["policy timeouts"] >= 2)  # it was asked again
        assert c.state("tenant:1") == ("redeeming", "ticketed", "priming")
        assert c.asked.count("tenant:1") >= 2
        assert (c.site.running, c.site.counts["errors"], watchdog.stalls) == (True, 0, 0)
        assert longest < 1.0
        assert "the policy of authority at site has not answered within 0.2 s (begin tenant:1" in caplog.text
        text = Metrics(c.site, watchdog).render().decode()
        assert f"leasehold_policy_timeouts_total {float(c.site.counts['policy timeouts'])}" in text
        await c.tenant.tell("tenant:1", "service_manager", "close")
        await until(lambda: c.state("tenant:1")[2] == "closed")  # what needs no policy needs no answer of it
        beating.cancel()
        watchdog.close()


def test_a_thread_that_loops_is_ended_and_few_are_left_behind() -> None:
    thread = PolicyThread("loops")
    thread.submit(_loops, None)
    time.sleep(0.05)
    assert thread.alive
    thread.abandon()
    for _ in range(500):
        if not thread.alive:
            break
        time.sleep(0.01)
    assert not thread.alive
    idle = PolicyThread("idle")
    assert idle.submit(lambda: 7).result(5) == 7
    idle.abandon()
    idle._thread.join(5)
    assert not idle.alive


@pytest.mark.real_time
async def test_a_late_answer_is_dropped_and_the_next_one_counts() -> None:
    """The late answer names a unit that another lease has got meanwhile."""
    gate = threading.Event()

    def late(question: Question) -> list[Decision] | None:
        if gate.is_set():
            return None
        gate.wait(5)
        return [question.answer("placed", units=[0])]

    async with Site(late, ["tenant:1"]) as c:
        await demanded(c, "tenant:1")
        await until(lambda: c.site.counts["policy timeouts"] == 1)
        await demanded(c, "tenant:2")
        await until(lambda: c.state("tenant:2")[2] == "active")
        assert c.handler.world.on() == {"unit-0"}
        gate.set()
        await until(lambda: c.state("tenant:1") == ("active", "ticketed", "active"))
        assert c.handler.world.on() == {"unit-0", "unit-1"}
        assert c.site.counts["policy errors"] == 0, "the late answer would have broken the contract"
        await until(lambda: c.site.upcalls.abandoned == 0)


@pytest.mark.real_time
async def test_a_process_ends_although_a_policy_never_does() -> None:
    """Abandoned threads are daemons: `stop` waits for no policy, nor does the end of the process."""
    async with Site(lambda question: threading.Event().wait(), ["tenant:1"]) as c:
        await demanded(c, "tenant:1")
        await until(lambda: "tenant:1" in c.asked)
        began = time.monotonic()
    assert time.monotonic() - began < 2.0
    assert all(thread.daemon for thread in threading.enumerate() if thread.name.startswith("policy-"))


@pytest.mark.real_time
async def test_a_policy_that_cannot_be_copied_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    class Locked(Hostile):
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("it has a lock")

    gate = threading.Event()
    async with Site(lambda question: gate.wait(10) and None, ["tenant:1"]) as c:
        policy = Locked(c.wrong, c.on, c.asked)
        c.site.environment.policies["authority"] = policy
        await demanded(c, "tenant:1")
        await until(lambda: c.site.counts["policy timeouts"] == 1)
        await demanded(c, "tenant:2")
        await asyncio.sleep(0.5)
        assert c.state("tenant:2")[2] == "priming"
        gate.set()
        await until(lambda: {c.state(f"tenant:{n}")[2] for n in (1, 2)} == {"active"})
        assert c.site.environment.policies["authority"] is policy
    assert "cannot be copied" in caplog.text


# Virtual time: what takes how long is the loop's to say


class Strange(BaseException):
    """What no `except Exception` takes."""


def _raises(error: BaseException) -> Callable[[Question], None]:
    def wrong(question: Question) -> None:
        raise error

    return wrong


WRONG: dict[str, Callable[[Question], Any]] = {
    "an error": _raises(KeyError("a mistake")),
    "an exit": _raises(SystemExit(3)),
    "an interrupt": _raises(KeyboardInterrupt()),
    "a cancellation": _raises(asyncio.CancelledError()),
    "the end of an iteration": _raises(StopIteration()),
    "what is no exception": _raises(Strange()),
    "nonsense": lambda question: [7],
    "no list": lambda question: 7,
    "a unit that is not there": lambda question: [question.answer("placed", units=[99])],
    "no such event": lambda question: [question.answer("explode")],
    "an answer for a machine that is gone": lambda question: [Decision("tenant:99", "authority", "placed", {}, 3)],
    "an answer for a role that nobody plays": lambda question: [Decision("tenant:1", "nobody", "placed", {}, 3)],
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_whatever_a_policy_raises_or_says_others_go_on(wrong: Callable[[Question], Any]) -> None:
    async with Site(wrong, ["tenant:1"]) as c:
        await demanded(c, "tenant:1")
        await asyncio.sleep(1)
        other = await c.lease(1, until=60, term=30, name="tenant:2")
        assert c.state(other) == ("active", "ticketed", "active")
        assert c.state("tenant:1") == ("redeeming", "ticketed", "priming")
        assert (c.site.running, c.site.counts["errors"]) == (True, 0)
        c.on = frozenset()


def test_a_question_that_was_answered_by_an_error_is_asked_again_later_and_later() -> None:
    asked: list[float] = []

    def wrong(question: Question) -> None:
        asked.append(loop.time())
        raise KeyError("a mistake")

    loop = VirtualLoop()  # type: ignore[abstract]

    async def story() -> None:
        async with Site(wrong, ["tenant:1"], options=options(limit=5.0, pause=1.0)) as c:
            await demanded(c, "tenant:1")
            await asyncio.sleep(300)
            pauses = [round(b - a) for a, b in pairwise(asked)]
            assert pauses == [1, 2, 4, 8, 16, 32, 64, 64, 64]
            assert c.site.counts["policy errors"] == len(asked)
            await c.tenant.tell("tenant:1", "service_manager", "close")
            await c.settle()
            before = len(asked)
            await asyncio.sleep(300)
            assert len(asked) == before, "a state that was left asks no more"
            assert not c.site.upcalls._desks["authority"]._muted

    loop.run(story())
    loop.close()
    assert loop.errors == []


class SlowLoop(VirtualLoop):
    """Its executors take virtual time: what is called ends after the seconds that `takes` gives for it."""

    takes: Callable[[], float] = staticmethod(lambda: 0.0)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        future = super().run_in_executor(executor, func, *args)
        later, seconds = self.create_future(), self.takes()
        if not seconds:
            return future

        def done(ended: asyncio.Future[Any]) -> None:
            self.call_later(seconds, lambda: later.done() or later.set_result(ended.result()))

        future.add_done_callback(done)
        return later


slow = pytest.mark.loop(kind=SlowLoop)


def slow_loop() -> SlowLoop:
    """Returns the loop of a test that is marked to have it."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SlowLoop)
    return loop


@slow
async def test_a_decision_that_a_change_has_overtaken_is_late() -> None:
    """Its lease was closed, and its unit given to another, while it was on its way: the record of now judges it."""
    loop = slow_loop()
    async with Site(lambda question: None, [], options=options(limit=30.0)) as c:
        loop.takes = lambda: 3.0
        await demanded(c, "tenant:1")
        await asyncio.sleep(1)
        assert c.state("tenant:1")[2] == "priming"
        await c.tenant.tell("tenant:1", "service_manager", "close")
        await asyncio.sleep(1)
        assert c.state("tenant:1")[2] == "closed", "the close waits for no policy"
        await asyncio.sleep(30)
        assert c.site.counts["late"] == 1
        assert (c.site.counts["policy errors"], c.handler.world.on()) == (0, set())


@slow
async def test_a_policy_that_takes_its_time_is_not_made_anew() -> None:
    loop = slow_loop()
    async with Site(lambda question: None, [], options=options(limit=5.0)) as c:
        policy = c.site.environment.policies["authority"]
        loop.takes = lambda: 4.9
        await demanded(c, "tenant:1")
        await asyncio.sleep(60)
        assert c.state("tenant:1") == ("active", "ticketed", "active")
        assert c.site.environment.policies["authority"] is policy
        assert c.site.counts["policy timeouts"] == 0
        loop.takes = lambda: 5.1
        await c.time.elapse()
        await asyncio.sleep(60)
        assert c.site.environment.policies["authority"] is not policy
        assert c.site.counts["policy timeouts"]


async def hung_once(c: Site, loop: SlowLoop) -> None:
    """The site's policy takes too long at one tick, is made anew, and answers at once from then on."""
    loop.takes = lambda: 6.0
    await c.time.elapse()
    await asyncio.sleep(5.5)
    loop.takes = lambda: 0.0
    await asyncio.sleep(60)
    assert c.site.counts["policy timeouts"] == 1


@slow
async def test_a_policy_that_is_made_anew_hears_of_all_leases_first() -> None:
    """What it keeps is as after a restart, so the next lease gets a free unit."""
    loop = slow_loop()
    async with Site(lambda question: None, [], options=options(limit=5.0)) as c:
        first = await c.lease(2, until=90, term=80)
        await hung_once(c, loop)
        second = await c.lease(2, until=90, term=80)
        assert c.state(first) == c.state(second) == ("active", "ticketed", "active")
        assert (len(c.handler.world.on()), c.handler.world.overlaps) == (4, [])
        assert c.site.counts["policy errors"] == 0


@slow
async def test_a_policy_that_has_hung_on_the_clock_hears_of_it_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks: list[int] = []

    def tick(self: Hostile, now: int) -> list[Decision]:
        ticks.append(now)
        return []

    monkeypatch.setattr(Hostile, "tick", tick)
    loop = slow_loop()
    async with Site(lambda question: None, [], options=options(limit=5.0, pause=1.0)) as c:
        await c.lease(2, until=90, term=80)
        await hung_once(c, loop)
        for _ in range(3):
            before = len(ticks)
            await c.time.elapse()
            await asyncio.sleep(1)
            assert ticks[before:] == [c.time.now]


class Client(FixedDemand):
    """A service manager's policy that is not quick."""


class Tenant(Cluster):
    def _environment(self, name: str) -> Environment:
        made = super()._environment(name)
        if name == TENANT:
            made.policies["service_manager"] = Client()
        return made


@slow
async def test_a_client_s_command_is_durable_when_it_is_answered_and_refused_when_it_hangs() -> None:
    loop = slow_loop()
    async with Tenant(options=options(limit=5.0)) as c:
        wish = c.tenant.command("service_manager", "demand", "tenant:1", 1, 60, 30)
        await wish
        assert c.disks[TENANT].metadata["wish of tenant:1"]
        await c.settle()
        assert c.state("tenant:1") == ("active", "ticketed", "active")
        with pytest.raises(ActorError, match="nothing is wanted of lease 'tenant:9'"):
            await c.tenant.command("service_manager", "prolong", "tenant:9", 99)
        loop.takes = lambda: 6.0
        hangs = c.tenant.command("service_manager", "demand", "tenant:2", 1, 60, 30)
        behind = c.tenant.command("service_manager", "demand", "tenant:3", 1, 60, 30)
        await asyncio.sleep(5.5)
        loop.takes = lambda: 0.0
        for refused in (hangs, behind):
            with pytest.raises(ActorError, match="has not answered within 5 s"):
                await refused
        await asyncio.sleep(200)
        assert "wish of tenant:2" not in c.disks[TENANT].metadata
        await c.tenant.command("service_manager", "flex", "tenant:1", 2)  # the wish was given back
        await c.tenant.command("service_manager", "demand", "tenant:2", 1, 60, 30)
        await c.settle()
        assert c.state("tenant:2") == ("active", "ticketed", "active")
        await c.kill(TENANT)
        await c.start(TENANT)
        await c.settle()
        wishes = {name: c.wish(name) for name in ("tenant:1", "tenant:2")}
        assert {name: wish and wish.units for name, wish in wishes.items()} == {"tenant:1": 2, "tenant:2": 1}


@slow
async def test_the_wishes_of_all_answers_of_a_turn_are_kept() -> None:
    async with Tenant(options=options(limit=5.0)) as c:
        committed = c.tenant.counts["commits"]
        taken: list[bool] = []
        take = c.tenant.upcalls._take

        def counted(*given: Any) -> Any:
            taken.append(c.tenant.counts["commits"] > committed)
            return take(*given)

        c.tenant.upcalls._take = counted  # type: ignore[method-assign]
        desk = c.tenant.upcalls._desk("service_manager")
        assert desk is not None
        desk._take = counted
        demands = [c.tenant.command("service_manager", "demand", f"tenant:{n}", 1, 60, 30) for n in (1, 2, 3)]
        await asyncio.gather(*demands)
        assert taken[:2] == [False, False], "before anything was committed"
        assert {f"wish of tenant:{n}" for n in (1, 2, 3)} <= c.disks[TENANT].metadata.keys()


async def test_a_policy_that_fails_while_it_is_told_of_its_leases_decides_nothing_before_it_has_heard_of_all() -> None:
    class Forgetful(FirstComeFirstServed):
        fails: list[int]

        def __deepcopy__(self, memo: Any) -> Any:
            made = Forgetful(c.inventory)
            made.fails = self.fails
            return made

        def recovered(self, lease: Lease) -> None:
            if self.fails:
                self.fails.pop()
                raise OSError("the calendar's server is away")
            super().recovered(lease)

    class Broker(Cluster):
        def _environment(self, name: str) -> Environment:
            made = super()._environment(name)
            if name == BROKER:
                policy = Forgetful(self.inventory)
                policy.fails = fails
                made.policies["broker"] = policy
            return made

    fails: list[int] = []
    c = Broker(units=2, options=options(limit=5.0, pause=1.0))

    async with c:
        first = await c.lease(2, until=900, term=900)
        await c.kill(BROKER)
        fails.extend([1, 1, 1])
        await c.start(BROKER)
        await demanded(c, "tenant:2", 2)
        await asyncio.sleep(2.5)
        assert c.state("tenant:2")[1] == "ticketing"
        assert c.broker.running
        await asyncio.sleep(20)
        assert (fails, c.broker.counts["policy errors"]) == ([], 3)
        assert c.state("tenant:2")[1] == "ticketing", "there is no room, as the first lease has it all"
        await c.tenant.tell(first, "service_manager", "close")
        await asyncio.sleep(5)
        assert c.state("tenant:2") == ("active", "ticketed", "active")


def test_one_seed_gives_one_run_with_such_policies_too() -> None:
    """The simulation has no threads: what a policy does takes its turn as everything else."""

    def told() -> list[Any]:
        seen: list[Any] = []

        async def story() -> None:
            async with Site(lambda question: None, []) as c:
                c.site.notices.subscribe(lambda n: seen.append((n.kind, n.lease, n.machine, n.name, n.now)))
                for n in range(4):
                    await c.lease(1 + n % 2, until=20 + n, term=7)
                    await c.advance(3)
                await c.advance(30)

        virtual(story())
        return seen

    first = told()
    assert len(first) > 100
    assert told() == first


@slow
async def test_the_recovery_of_a_store_asks_policies_anew() -> None:
    """What was asked before the store failed was never so; it is not answered into the time after."""
    loop = slow_loop()
    async with Site(lambda question: None, [], options=replace(options(limit=60.0), reopen_pause=0.1)) as c:
        loop.takes = lambda: 3.0
        await demanded(c, "tenant:1")
        await asyncio.sleep(1)
        desk = c.site.upcalls._desks["authority"]
        c.disks[SITE].capacity = 0
        c.site.upcalls._kept["a word"] = b"1"
        with pytest.raises(ActorError):
            await c.site.read()
        c.disks[SITE].capacity = None
        await asyncio.sleep(60)
        assert c.site.upcalls._desks["authority"] is not desk
        assert c.state("tenant:1") == ("active", "ticketed", "active")
        assert c.asked.count("tenant:1") == 2
