"""Nothing of a lease that is forgotten stays in an actor's memory, whatever has happened to the lease (mentions.py).

A site remembers for each of its units the lease that had it last; so of several leases after one another the last one
is left out there.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.faults.simulation.network import PacketOutcome
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorError, ActorOptions, Backoff, DecisionLimits, Environment, RetryPolicy
from leasehold.impl.handlers.simulated import SimulatedHandler, SimulatedUnits
from leasehold.impl.identity.trust import Trust
from leasehold.impl.lease.authority import FirstFit
from leasehold.impl.lease.failures import HoldBack
from leasehold.impl.observe.watch import watch
from leasehold.impl.policy.policy import Decision, Lease, Question
from tests.impl.actor.mentions import mentions
from tests.waiting import until

RETIRE = 3
OPTIONS = ActorOptions(
    retire_after=RETIRE,
    reopen_pause=0.01,
    seed=0,
    backoff=Backoff(0.1, 1.0, 1.0),
    retry=RetryPolicy(1, 0.1, 5.0),
    deciding=DecisionLimits(0.5, 0.1),
)
Life = Callable[..., Awaitable[None]]  # of a cluster, and a lease's name


class Observed(Cluster):
    """Actors with all their observers."""

    def __init__(self, world: SimulatedUnits) -> None:
        super().__init__(1, handler=SimulatedHandler(world), options=OPTIONS)
        self.world, self.observers = world, dict[str, object]()

    async def start(self, name: str) -> Actor:
        actor = await super().start(name)
        self.observers[name] = watch(actor)
        return actor

    def left(self, lease: str) -> dict[str, list[str]]:
        """By actor, where it still names a lease; what it made is outside of it, and so are the tests' own objects."""
        around = self.world, self.network, self.time, self.clocks, self.disks
        beside = (self, *around, *(d.events for d in self.disks.values()))
        found = {name: mentions((actor, self.observers[name]), lease, beside) for name, actor in self.actors.items()}
        return {name: places for name, places in found.items() if places}


async def plain(c: Cluster, lease: str) -> None:
    """It is renewed, extended, and over."""
    await c.lease(1, c.time.now + 6, 3, lease)
    await c.advance(2)
    await c.tenant.command("service_manager", "prolong", lease, c.time.now + 9)
    await c.advance(8)


async def closed_early(c: Cluster, lease: str) -> None:
    """It is closed while it runs."""
    await c.lease(1, c.time.now + 40, 20, lease)
    await c.tenant.tell(lease, "service_manager", "close")
    await c.settle()


async def denied(c: Cluster, lease: str) -> None:
    """It waits for units that another has, and its demand ends meanwhile."""
    other = f"tenant:{int(lease.partition(':')[2]) + 500}"
    await c.lease(1, c.time.now + 12, 12, other)
    await c.lease(1, c.time.now + 4, 4, lease)
    await c.advance(13)


async def refused_by(judge: str, c: Cluster, lease: str) -> None:
    """From its close on an actor takes nothing that others say of it, as it does not trust them for a while."""
    await c.lease(1, c.time.now + 9, 9, lease)
    identity = c._identities[judge]
    trusted = identity.trust
    identity.trust = Trust({judge: trusted.actors[judge]})
    await c.tenant.tell(lease, "service_manager", "close")
    await asyncio.sleep(3)
    others = [actor for name, actor in c.actors.items() if name != judge]
    assert any(lease == key.lease for actor in others for key in actor.outbox.refusals)
    await c.advance(9 + 2 * RETIRE)
    identity.trust = trusted
    await asyncio.sleep(3)


async def lossy(c: Cluster, lease: str) -> None:
    """Each message is said several times, as its answer is lost at first."""
    heard: dict[bytes, int] = {}

    def rule(source: str, target: str, frame: bytes) -> PacketOutcome:
        heard[frame] = heard.get(frame, 0) + 1
        return PacketOutcome((0, 0.003), heard[frame] > 1)

    c.network.rule = rule
    await c.lease(1, c.time.now + 6, 6, lease)
    await asyncio.sleep(5)
    await c.advance(7)
    await asyncio.sleep(5)
    c.network.rule = None


async def failing(c: Cluster, lease: str) -> None:
    """Its unit fails as it is set up and as it is torn down, and an operator repairs it."""
    assert isinstance(c, Observed)
    c.world._fails = lambda action, chance: True
    await c.lease(1, c.time.now + 6, 6, lease)
    await c.advance(7)
    c.world._fails = lambda action, chance: False
    await c.site.tell("-", "unit[0]", "repaired")
    await c.settle()
    await c.advance(HoldBack().ticks)  # after three leases that failed the site gives nothing for a while


async def broken(c: Cluster, lease: str) -> None:
    """All stores fail while it begins."""
    for actor in c.actors.values():
        await actor.store.close()
    with pytest.raises(ActorError):
        await c.lease(1, c.time.now + 6, 6, lease)
    await asyncio.sleep(1)
    await c.lease(1, c.time.now + 6, 6, lease)
    await asyncio.sleep(3)
    assert all(actor.epoch > 1 for actor in c.actors.values())
    await c.advance(8)


def named(life: Life, judge: str = "") -> Any:
    return pytest.param(partial(life, judge) if judge else life, id=f"{life.__name__} {judge}".strip())


LIVES = (
    *map(named, (plain, closed_early, denied, lossy, failing, broken)),
    *(named(refused_by, judge) for judge in ("tenant", "broker", "site")),
)


@pytest.mark.parametrize("life", LIVES)
async def test_nothing_names_a_lease_that_is_forgotten(life: Life) -> None:
    async with Observed(SimulatedUnits()) as c:
        names = [f"tenant:{n}" for n in (101, 102, 103)]
        for name in names:
            await life(c, name)
            await c.advance(2 * RETIRE + 2)
        await closed_early(c, "tenant:999")  # the one that had the unit last
        await asyncio.sleep(100)  # timers end
        await c.advance(50)  # and so does what a policy has planned for the end of a demand
        assert {name: places for name in names if (places := c.left(name))} == {}


async def test_what_is_still_remembered_is_found_everywhere() -> None:
    """The search itself: while a lease runs, its name is found in what each actor has of it."""

    async with Observed(SimulatedUnits()) as c:
        lease = await c.lease(1, c.time.now + 50, 50)
        found = c.left(lease)
        assert set(found) == {"tenant", "broker", "site"}
        for places in found.values():
            assert any(".table.instances" in place for place in places)
        assert any("_wishes" in place for place in found["tenant"])
        assert any("_holdings" in place for place in found["broker"])


class Slow(FirstFit):
    """A policy that does not answer in time when something is said of a lease first; copies share what."""

    on: set[tuple[str, str]] = set()  # noqa: RUF012 - shared

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        self._wait(question.lease)
        return super().begin(question, now)

    def changed(self, lease: Lease, now: int) -> Iterable[Decision]:
        self._wait(lease)
        return super().changed(lease, now)

    def _wait(self, lease: Lease) -> None:
        if (word := (lease.name, lease.state)) in self.on:
            self.on.discard(word)
            time.sleep(0.5)

    def late(self, lease: str, now: int) -> Iterable[Decision]:
        """A client's command that is not answered in time."""
        time.sleep(0.5)
        return []


class Patient(Observed):
    """Its site has such a policy, with short pauses."""

    def __init__(self, pause: float = 0.005) -> None:
        super().__init__(SimulatedUnits())
        self.options = replace(OPTIONS, deciding=DecisionLimits(longest=0.2, pause=pause))

    def _environment(self, name: str) -> Environment:
        made = super()._environment(name)
        if name == "site":
            made.policies["authority"] = Slow(self.inventory)
        return made


@pytest.mark.real_time
async def test_nothing_names_a_lease_about_which_a_policy_was_too_late() -> None:
    """With threads, and so on real time: a question, and the last word about the lease, are not answered at first."""

    async with Patient() as c:
        Slow.on |= {("tenant:101", "priming"), ("tenant:101", "closed")}
        await c.tenant.command("service_manager", "demand", "tenant:101", 1, 40, 20)
        await until(lambda: c.state("tenant:101") == ("active", "ticketed", "active"))
        assert c.site.counts["policy timeouts"] == 1
        await c.tenant.tell("tenant:101", "service_manager", "close")
        await until(lambda: c.site.counts["policy timeouts"] == 2)
        with pytest.raises(ActorError, match="has not answered"):
            await c.site.command("authority", "late", "tenant:101")
        await c.tenant.command("service_manager", "demand", "tenant:999", 1, 40, 20)
        await until(lambda: c.state("tenant:999") == ("active", "ticketed", "active"))
        for _ in range(60):
            await c.time.elapse()
        await until(lambda: c.state("tenant:101") == (None, None, None))
        await until(lambda: not c.left("tenant:101"))


@pytest.mark.real_time
async def test_what_a_desk_would_forget_later_is_not_waited_for_once_it_is_closed() -> None:
    async with Patient(pause=0.1) as c:  # long enough to be stopped in between
        await c.tenant.command("service_manager", "demand", "tenant:101", 1, 40, 20)
        await until(lambda: c.state("tenant:101") == ("active", "ticketed", "active"))
        Slow.on |= {("tenant:101", "closed")}
        await c.tenant.tell("tenant:101", "service_manager", "close")
        (desk,) = c.site.upcalls._desks.values()
        await until(lambda: any(muted.forget is not None for muted in desk._muted.values()))
        timers = [muted.forget for muted in desk._muted.values() if muted.forget is not None]
        await c.site.stop()
        assert all(timer.cancelled() for timer in timers)
