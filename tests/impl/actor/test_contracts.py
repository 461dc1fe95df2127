"""Policies that break what `environment` promises of them: the decision is refused, said and counted."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from itertools import pairwise
from typing import Any

import pytest

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.environment import ActorError, ActorOptions, Backoff, Environment, RetryPolicy
from leasehold.impl.actor.ready import TellPolicy
from leasehold.impl.core.values import OPAQUE_BYTES
from leasehold.impl.handlers.handler import Done, NullHandler
from leasehold.impl.handlers.simulated import SimulatedHandler, SimulatedUnits
from leasehold.impl.lease.authority import FirstFit
from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.lease.fleet import SITE
from leasehold.impl.policy.policy import Decision, Lease, Question
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import RecordKey
from tests.impl.actor.alone import alone, program_of
from tests.impl.policies import IdlePolicy
from tests.systems import TESTS


class Answers(IdlePolicy):
    """A policy that answers every question alike."""

    def __init__(self, event: str, fields: dict[str, Any]) -> None:
        self.event, self.fields = event, fields
        self.asked: list[Question] = []

    def begin(self, question: Question, now: int) -> Iterable[Decision]:
        self.asked.append(question)
        return [question.answer(self.event, **self.fields)]


async def test_a_question_whose_answer_was_refused_is_asked_again_after_pauses_that_double() -> None:
    async with Cluster(units=2) as c:
        c.site.environment.policies["authority"] = policy = Answers("placed", {"units": [0]})
        first = await c.lease(1, until=500, term=400)
        second = await c.lease(1, until=500, term=400)
        assert (c.state(first)[2], c.state(second)[2]) == ("active", "priming")
        pause = c.site.context.options.deciding.pause
        times = []
        for _ in range(100):
            before = len(policy.asked)
            await asyncio.sleep(pause / 2)
            times += [asyncio.get_running_loop().time()] * (len(policy.asked) - before)
        gaps = [round((b - a) / pause) for a, b in pairwise(times)]
        assert gaps[:4] == [2, 4, 8, 16]
        assert c.site.counts["policy errors"] == len(policy.asked) - 1
        policy.fields = {"units": [1]}
        await asyncio.sleep(64 * pause)
        assert c.state(second)[2] == "active"


async def test_a_unit_is_not_given_out_twice_whatever_the_policy_says(caplog: pytest.LogCaptureFixture) -> None:
    async with Cluster(units=2, options=ActorOptions(seed=0, backoff=Backoff(first=0.01, longest=0.05))) as c:
        policy = Answers("placed", {"units": [1]})
        c.site.environment.policies["authority"] = policy
        first = await c.lease(1, until=60, term=30)
        assert c.state(first) == ("active", "ticketed", "active")
        with caplog.at_level(logging.ERROR):
            second = await c.lease(1, until=60, term=30)
        assert len(policy.asked) == 2
        assert c.state(second) == ("redeeming", "ticketed", "priming")
        assert c.handler.world.on() == {"unit-1"}
        assert not c.handler.world.overlaps
        assert c.handler.world.units["unit-1"].lease == first
        assert (
            "the policy of authority answers wrongly: placed: it breaks the contract `placed`: What the" in caplog.text
        )
        assert c.site.counts["policy errors"] == 1
        c.site.environment.policies["authority"] = policy = Answers("placed", {"units": [0]})
        await asyncio.sleep(4)  # an operator has mended the policy, which is asked again by itself
        await c.settle()
        assert c.state(second) == ("active", "ticketed", "active")
        assert c.handler.world.on() == {"unit-0", "unit-1"}


async def test_a_ticket_that_could_not_be_sent_is_not_granted(caplog: pytest.LogCaptureFixture) -> None:
    """A grant is committed before its ticket is signed, so its size is judged before."""

    async with Cluster(units=1) as c:
        policy: dict[str, Any] = c.broker.environment.policies
        policy["broker"] = Answers(
            "granted", {"units": 1, "later": 0, "longer": 0, "properties": {"a": "x" * OPAQUE_BYTES}}
        )
        with caplog.at_level(logging.ERROR):
            lease = await c.lease(1, until=60, term=30)
        assert "granted: field `properties`: it has 16392 bytes, and 16384 are the most" in caplog.text
        assert c.state(lease)[:2] == ("ticketing", "ticketing")
        policy["broker"] = Answers(
            "granted", {"units": 1, "later": 0, "longer": 0, "properties": {"a": "x" * (OPAQUE_BYTES - 8)}}
        )
        await c.broker.recover(lease, "broker")
        await c.settle()
        assert c.state(lease) == ("active", "ticketed", "active")


async def test_two_decisions_for_one_unit_in_one_turn() -> None:
    """The first is taken; the second finds the unit in use, though it was free when it was decided."""

    async with Cluster(units=2) as c:
        for n in (1, 2):
            c.site.environment.policies["authority"] = Answers("placed", {"units": [n]})  # no unit 2: refused
        lease = await c.lease(1, until=60, term=30)
        other = await c.lease(1, until=60, term=30)
        assert {c.state(name)[2] for name in (lease, other)} == {"priming"}
        held = [c.site.table.instances[RecordKey(name, "authority")] for name in (lease, other)]
        decisions = [Decision(m.key.lease, "authority", "placed", {"units": [0]}, m.state_epoch) for m in held]
        c.site.upcalls.decided(decisions)
        await c.settle()
        assert sorted(c.state(name)[2] or "" for name in (lease, other)) == ["active", "priming"]
        assert c.handler.world.on() == {"unit-0"}
        assert not c.handler.world.overlaps


@pytest.mark.parametrize("units", [5, 10**6])
async def test_a_broker_gives_no_more_than_its_inventory(units: int) -> None:
    async with Cluster(units=4) as c:
        c.broker.environment.policies["broker"] = Answers(
            "granted", {"units": units, "later": 0, "longer": 0, "properties": {"type": "unit"}}
        )
        lease = await c.lease(1, until=60, term=30)
        assert c.state(lease) == ("ticketing", "ticketing", None)
        assert c.broker.counts["policy errors"] == 1


async def test_what_is_not_enforced_is_the_policy_s_own(caplog: pytest.LogCaptureFixture) -> None:
    """A site whose units are of several types has no room sooner than the specification, which knows one type."""

    async with Cluster(units=4) as c:
        c.site.environment.policies["authority"] = Answers("no_room", {"reason": "no unit of this type"})
        lease = await c.lease(1, until=60, term=30)
        assert c.state(lease)[2] == "closed"
        assert c.site.counts["policy errors"] == 0


async def test_the_shipped_policies_keep_their_contracts() -> None:
    async with Cluster(units=4) as c:
        assert isinstance(c.broker.environment.policies["broker"], FirstComeFirstServed)
        assert isinstance(c.site.environment.policies["authority"], FirstFit)
        for n in range(8):
            await c.lease(1 + n % 3, until=10 + 7 * n, term=5)
            await c.advance(5)
        await c.advance(80)
        assert [actor.counts["policy errors"] for actor in c.actors.values()] == [0, 0, 0]


class Listener(FirstFit):
    """The site's policy, which writes down what it hears."""

    def __init__(self, inventory: Any) -> None:
        super().__init__(inventory)
        self.heard: list[tuple[str, str]] = []
        self.told: dict[str, Lease] = {}

    def recovered(self, lease: Lease) -> None:
        self.heard.append(("recovered", lease.name))
        self.told[lease.name] = lease
        super().recovered(lease)

    def changed(self, lease: Lease, now: int) -> Iterable[Decision]:
        self.heard.append(("changed", lease.name))
        assert lease.machine == "authority"
        return super().changed(lease, now)


async def test_a_policy_hears_of_its_leases_once_a_turn_and_of_nothing_else() -> None:
    """Of one whose units have changed as well: several of them in one turn are one change of the lease."""

    async with Cluster(units=4) as c:
        policy = c.site.environment.policies["authority"] = Listener(c.inventory)
        turns: list[int] = []
        carry_out = c.site.effects.carry_out

        def counted(ready: Any) -> None:
            names = [effect.key.lease for effect in ready.effects if isinstance(effect, TellPolicy)]
            assert len(set(names)) == len(names)
            turns.extend([len(ready.changed)] if names else [])
            carry_out(ready)

        c.site.effects.carry_out = counted  # type: ignore[method-assign]
        first, second = await c.lease(3, until=12, term=6), await c.lease(1, until=30, term=30)
        await c.advance(20)
        assert {name for _, name in policy.heard} == {first, second}
        assert max(turns) > 2  # units that changed together
        assert c.state(first)[2] == "closed"


class Heard(Cluster):
    """Its site has the policy that writes down what it hears."""

    listener: Listener

    def _environment(self, name: str) -> Environment:
        made = super()._environment(name)
        if name == SITE:
            self.listener = Listener(self.inventory)
            made.policies["authority"] = self.listener
        return made


async def test_a_policy_is_told_at_recovery_of_all_leases_that_have_units_here() -> None:
    """Also of one that is over and forgotten, if a unit still remembers it; and of each before anything else."""
    world = SimulatedUnits(fails=lambda action, chance: action.verb == "teardown" and action.unit == "unit-0")
    options = ActorOptions(seed=0, retire_after=5, retry=RetryPolicy(tries=1))

    async with Heard(units=4, handler=SimulatedHandler(world), options=options) as c:
        old, new = await c.lease(1, until=8, term=8), await c.lease(2, until=60, term=60)
        await c.advance(12)
        for _ in range(20):
            await asyncio.sleep(0.005)
            await c.settle()
        await c.advance(12)
        assert (c.state(old), c.state(new)[2]) == ((None, None, None), "active")
        assert c.listener.heard[0] == ("changed", old)
        await c.kill(SITE)
        await c.start(SITE)
        await c.settle()
        assert sorted(c.listener.heard[:2]) == [("recovered", old), ("recovered", new)]
        assert [word for word, _ in c.listener.heard[2:]].count("recovered") == 0
        over, core = c.listener.told[old], c.program.roles["authority"]
        assert (over.machine, over.state, dict(over.data)) == ("authority", "closed", core.view(core.first()))
        assert {key: unit["state"] for key, unit in over.units.items()} == {("unit", 0): "failed"}
        assert (c.listener.told[new].state, len(c.listener.told[new].units)) == ("active", 2)


GATE = TESTS / "impl/actor/systems/gate"


@pytest.mark.parametrize("by", [3, 4])
@pytest.mark.parametrize("way", ["begin", "policy", "handler", "tell"])
async def test_whatever_brings_an_event_from_outside_it_is_held_to_its_contract(
    way: str, by: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A client that begins a run or tells one, a policy that decides, and a handler that answers."""
    program, key = program_of(GATE), RecordKey("own:1", "keeper")
    steps = {"begin": "shut", "policy": "choosing", "handler": "lifting", "tell": "wide"}

    class Lifts(NullHandler):
        async def act(self, action: Any) -> Done:
            return Done(True, answer="lifted", fields={"by": by if way == "handler" else 1})

    caplog.set_level(logging.ERROR)
    actor = alone(program, "keeper", MemoryStore(Disk()), {"lift": Lifts()}, SimulatedClock())
    actor.environment.policies["keeper"] = Answers("chosen", {"by": by if way == "policy" else 1})
    await actor.start()
    with nullcontext() if by == 3 else suppress(ActorError):
        await actor.begin(*key, "open", {"by": by if way == "begin" else 1}, {})
        await asyncio.sleep(1)
        await actor.tell(*key, "widen", {"by": by if way == "tell" else 1})
    held = actor.table.instances.get(key)
    if by == 3:
        assert held is not None
        assert held.state == "wide"
    else:
        assert (None if held is None else held.state) == (None if way == "begin" else steps[way])
        if way in ("policy", "handler"):
            assert "it breaks the contract" in caplog.text
    await actor.stop()
