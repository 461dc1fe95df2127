"""The answers of policies and handlers that are none: each is its author's mistake, and stops no actor."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.calls import HandlerCalls
from leasehold.impl.actor.environment import ActorError, ActorOptions, RetryPolicy
from leasehold.impl.actor.table import BELOW, MachineInstance
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.work import CallWork
from leasehold.impl.handlers.handler import FACTS, Done, HandlerAction, checked
from leasehold.impl.handlers.simulated import SimulatedHandler
from leasehold.impl.policy.policy import Decision
from leasehold.impl.store.store import RecordKey
from tests.impl.actor.test_actor import up
from tests.systems import load


def decided(**wrong: Any) -> Callable[[], list[Decision]]:
    return lambda: [Decision(**{"lease": "tenant:1", "machine": "authority", "event": "close", "fields": {}} | wrong)]


def raising() -> Iterator[Decision]:
    yield decided()()[0]
    raise KeyError("half way")


POLICIES: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "a number": lambda: 7,
    "a list for a decision": lambda: [["tenant:1", "close"]],
    "a decision for a list": lambda: decided()()[0],
    "no fields": decided(fields=None),
    "a list of fields": decided(fields=[1]),
    "an unhashable lease": decided(lease=["tenant:1"]),
    "no machine": decided(machine=None),
    "an epoch in words": decided(state_epoch="1"),
    "an event of no system": decided(event="explode"),
    "a field of no event": decided(fields={1: 2}),
    "half a surrogate pair": decided(event="\ud800"),
    "a lease of no form": decided(lease="\x00" * 70_000),
    "an error half way": raising,
}


@pytest.mark.parametrize("answer", POLICIES.values(), ids=POLICIES)
async def test_a_policy_s_nonsense_decides_nothing(answer: Callable[[], Any]) -> None:
    async with Cluster() as c:
        for actor, call in product(c.actors.values(), ("begin", "changed", "tick")):
            (policy,) = actor.environment.policies.values()
            right = getattr(policy, call)
            setattr(policy, call, lambda *args, right=right: [*right(*args), *answer()])
        await c.lease(1, until=30)
        await c.advance(3)
        for actor in c.actors.values():
            assert actor.running
            assert not actor.counts["errors"]


@pytest.mark.parametrize("answer", POLICIES.values(), ids=POLICIES)
async def test_a_command_that_a_policy_answers_with_nonsense_is_refused(answer: Callable[[], Any]) -> None:
    async with Cluster() as c:
        c.tenant.environment.policies["service_manager"].flex = lambda *words, now, **more: answer()  # type: ignore[attr-defined]
        lease = await c.lease(1, until=30)
        with pytest.raises(ActorError):
            await c.tenant.command("service_manager", "flex", lease)
        await c.settle()
        assert c.state(lease) == ("active", "ticketed", "active")


async def test_wishes_that_are_no_bytes_are_not_kept() -> None:
    async with Cluster() as c:
        policy = c.tenant.environment.policies["service_manager"]
        policy.changed_wishes = lambda: {"tenant:1": 7.5}  # type: ignore[attr-defined]
        lease = await c.lease(1, until=30)
        assert c.state(lease) == ("active", "ticketed", "active")
        assert c.tenant.counts["policy errors"]


def _exits() -> None:
    raise SystemExit(3)


def _interrupts() -> None:
    raise KeyboardInterrupt


def _strange() -> None:
    raise Strange


class Strange(BaseException):
    """What no `except Exception` takes."""


def _cancels() -> None:
    raise asyncio.CancelledError


deep: Any = {}
for _ in range(3000):
    deep = {"d": deep}
HANDLERS: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "a word": lambda: "done",
    "no truth": lambda: Done(well="yes"),  # type: ignore[arg-type]
    "beyond 64 bits": lambda: Done(True, facts={"address": 2**64}),
    "half a surrogate pair": lambda: Done(True, facts={"address": "\ud800"}),
    "half a surrogate pair as a name": lambda: Done(True, facts={"\ud800": 1}),
    "an object": lambda: Done(True, facts={"address": object()}),
    "a list for facts": lambda: Done(True, facts=[1]),  # type: ignore[arg-type]
    "a number for a name": lambda: Done(True, facts={1: 2}),  # type: ignore[dict-item]
    "bottomless": lambda: Done(True, facts=deep),
    "too many": lambda: Done(True, facts={"log": "x" * FACTS}),
    "its own cancellation": _cancels,
    "an exit": _exits,
    "an interrupt": _interrupts,
    "what is no exception": _strange,
}


@pytest.mark.parametrize("answer", HANDLERS.values(), ids=HANDLERS)
async def test_a_handler_s_nonsense_is_a_failure_that_is_tried_again(answer: Callable[[], Any]) -> None:
    class Nonsense(SimulatedHandler):
        tries = 0

        async def act(self, action: HandlerAction) -> Done:
            if action.verb != "setup":
                return await super().act(action)
            self.tries += 1
            right: Done = await super().act(action)
            return answer() if self.tries < 3 else right

    handler = Nonsense()
    async with Cluster(handler=handler, options=ActorOptions(seed=0, retry=RetryPolicy(tries=3, pause=0.0))) as c:
        lease = await c.lease(1, until=30)
        for _ in range(20):
            await asyncio.sleep(0.005)
            await c.settle()
        assert c.state(lease) == ("active", "ticketed", "active")
        assert len(up(c)) == 1
        assert c.site.counts["commits"]
        assert handler.tries == 3


def test_facts_are_kept_as_they_are() -> None:
    facts = {"pid": 2**63 - 1, "name": "häß", "ports": [1, 2], "on": None}
    assert checked(Done(True, "up", facts)) == Done(True, "up", facts)


@pytest.mark.parametrize("actions", range(2, 6))
async def test_quick_actions_on_one_unit_never_overlap(actions: int) -> None:
    """The one before is cancelled and waited for, also when it was itself waiting for those before it."""
    running: set[int] = set()
    ran: list[int] = []

    class Slow:
        async def act(self, action: HandlerAction) -> Done:
            assert not running
            running.add(action.number)
            ran.append(action.number)
            try:
                await asyncio.sleep(10)
            except asyncio.CancelledError:
                await asyncio.sleep(1)  # it takes its time to end
                raise
            finally:
                running.clear()
            return Done(True)

    core = compile_system(load("lease")).roles["unit"]
    instance = MachineInstance(RecordKey(BELOW, "unit[0]"), core, core.first(0), [])
    answers: list[int] = []
    slow = Slow()
    calls = HandlerCalls(lambda *call: slow, lambda *answer: answers.append(len(ran)), RetryPolicy())
    call = CallWork("setup", "handler.setup", ("up", "broken"))
    for number in range(actions):
        calls.begin(instance, call, HandlerAction("setup", "tenant:1", "unit-0", number, {}))
        await asyncio.sleep(0.1)
    await asyncio.sleep(30)
    assert ran == [0, actions - 1], "those between were given up before they had begun"
    assert answers == [2], "only the last answers"
    assert not calls.under_way()
    calls.begin(instance, call, HandlerAction("setup", "tenant:1", "unit-0", 9, {}))
    await asyncio.sleep(0.1)
    calls.begin(instance, call, HandlerAction("setup", "tenant:1", "unit-0", 10, {}))
    await calls.close()
    assert not running, "closing waits for those that were cancelled before, too"
