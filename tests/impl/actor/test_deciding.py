"""Decisions of policies, one of each kind: taken, refused, refused for ever, or not heard."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor import outside
from leasehold.impl.actor.environment import ActorOptions
from leasehold.impl.actor.ready import Ready, TellRefused
from leasehold.impl.events.event import StepEvent, read
from leasehold.impl.lease.fleet import TENANT
from leasehold.impl.policy.policy import Decision
from leasehold.impl.store.store import RecordKey
from tests.impl.demand import demand

MACHINE = "service_manager"


async def grown(c: Cluster) -> None:
    """Leases of each age: tenant:1 is forgotten, tenant:2 is over, tenant:3 is active."""
    await c.lease(1, until=4, term=2)
    await c.advance(60)
    await c.lease(1, until=c.time.now + 4, term=2)
    await c.lease(1, until=c.time.now + 300, term=200)
    while not _over(c, "tenant:2"):
        await c.advance()
    assert RecordKey("tenant:1", MACHINE) not in c.tenant.table.instances
    assert c.state("tenant:3")[0] == "active"


def _over(c: Cluster, lease: str) -> bool:
    held = c.tenant.table.instances[RecordKey(lease, MACHINE)]
    return held.core.over(held.state)


REFUSED: list[tuple[str, str, dict[str, Any], int, bool | None, str]] = [
    ("tenant:1", "close", {}, -1, True, "over and forgotten"),
    ("tenant:1", "close", {}, 0, None, ""),
    ("tenant:1", "close", {}, 4, None, ""),
    ("tenant:2", "demand", demand(1, 900), -1, True, ""),
    ("tenant:3", "demand", demand(1, 900), -1, False, ""),
    ("tenant:3", "nonsense", {}, -1, None, ""),
    ("tenant:9", "demand", demand(1, 900), 0, None, ""),
    ("tenant:9", "demand", demand(1, 900), 1, None, ""),
]


@pytest.mark.parametrize("events", [True, False])
async def test_who_hears_of_a_decision_that_is_not_taken(events: bool) -> None:
    """Policies hear of their own decisions that are refused, and whether for ever; of late answers nothing."""

    given = ActorOptions(seed=0, retire_after=20) if events else ActorOptions(seed=0, retire_after=20, events=None)
    async with Cluster(options=given) as c:
        await grown(c)
        for lease, event, fields, epoch, final, reason in REFUSED:
            before = dict(c.tenant.table.instances)
            records = {key: held.record for key, held in before.items()}
            ready = Ready(c.time.now)
            outside.decide(c.tenant.stepper, ready, Decision(lease, MACHINE, event, fields, epoch))
            told = [effect for effect in ready.effects if isinstance(effect, TellRefused)]
            if final is not None:
                assert [(one.decision.lease, one.final) for one in told] == [(lease, final)], (lease, event)
                assert reason in told[0].reason
            elif event != "nonsense":
                assert (told, ready.events, ready.changed) == ([], [], {})
            assert {key: held.record for key, held in c.tenant.table.instances.items()} == records
            assert events or not ready.events
            assert not ready.changed


@pytest.mark.parametrize("answering", [False, True])
async def test_a_decision_of_its_own_accord_ends_no_call_though_it_names_a_state(answering: bool) -> None:
    """Only an answer to a question ends a call, in events too, whatever state the policy has in mind."""

    async with Cluster(options=ActorOptions(seed=0)) as c:
        lease = await c.lease(1, until=c.time.now + 300, term=200)
        held = c.tenant.table.instances[RecordKey(lease, MACHINE)]
        epoch = held.state_epoch if answering else -1
        c.tenant.upcalls.decided([Decision(lease, MACHINE, "close", {}, epoch)])
        await c.settle()
        assert held.state != "active"
        steps = [e.step for body in c.disks[TENANT].events.values() if isinstance(e := read(body), StepEvent)]
        (closed,) = [step for step in steps if step.event == "close"]
        assert (closed.cause, closed.answers) == ("policy", None)


@pytest.mark.parametrize("epoch", [-1, 0, 3])
async def test_what_a_client_is_told_at_once(epoch: int) -> None:
    """Decisions of their own accord are tried while the client waits, answers to questions are not."""

    async with Cluster(options=ActorOptions(seed=0)) as c:
        lease = await c.lease(1, until=c.time.now + 300, term=200)
        decision = Decision(lease, MACHINE, "demand", demand(1, 900), epoch)
        if epoch < 0:
            with pytest.raises(outside.ActorError, match="does not take demand in active"):
                outside.check(c.tenant.stepper, c.tenant.rows.codecs, decision, c.time.now)
        else:
            outside.check(c.tenant.stepper, c.tenant.rows.codecs, decision, c.time.now)
        begins = Decision("tenant:9", MACHINE, "demand", demand(1, 900), epoch)
        outside.check(c.tenant.stepper, c.tenant.rows.codecs, begins, c.time.now)
        assert RecordKey("tenant:9", MACHINE) not in c.tenant.table.instances
