"""What follows a turn: the last word of each machine, what it gives up, and what comes back."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.faults.simulation.lease import Cluster
from leasehold.faults.simulation.network import PacketOutcome
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorOptions, Backoff
from leasehold.impl.actor.ready import Complete, SendNext
from leasehold.impl.handlers.handler import Done, HandlerAction
from leasehold.impl.handlers.simulated import SimulatedHandler
from leasehold.impl.identity.envelope import open_frame
from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.lease.fleet import BROKER, SITE, TENANT
from leasehold.impl.notices import Consumed, Kind, Notice
from leasehold.impl.policy.policy import Decision, Lease, Question
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import Batch, RecordKey
from tests.impl.actor.alone import GatedHandler, alone, program_of
from tests.impl.actor.test_boundaries import KEEPER
from tests.impl.actor.test_timers import LAMPLIGHTER
from tests.impl.demand import demand
from tests.systems import TESTS

ACTIVE = ("active", "ticketed", "active")
OWN = RecordKey("own:1", "owner")


class Post:
    """A network that writes down what is said."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, bytes]] = []

    def rule(self, source: str, target: str, frame: bytes) -> PacketOutcome:
        self.sent.append((source, target, frame))
        return PacketOutcome()

    def messages(self, c: Cluster, source: str) -> list[str]:
        trust = c.tenant.identity.trust
        frames = ((target.partition(":")[2], frame) for who, target, frame in self.sent if who == f"memory:{source}")
        return [open_frame(frame, trust, target).message for target, frame in frames]


async def test_of_several_transitions_of_a_turn_only_the_last_one_s_message_is_sent() -> None:
    post = Post()

    async with Cluster(rule=post.rule) as c:
        peers = c.tenant.environment.peers
        both = [
            c.tenant.begin("tenant:1", "service_manager", "demand", demand(1, 9), peers),
            c.tenant.tell("tenant:1", "service_manager", "close"),
        ]
        await asyncio.gather(*both)
        await c.settle()
        assert post.messages(c, TENANT) == ["relinquish"]
        assert c.state("tenant:1")[0] == "closed"


async def test_of_several_transitions_of_a_turn_only_the_last_one_s_handler_is_called(tmp_path: Path) -> None:
    program, backup = program_of(tmp_path, KEEPER), GatedHandler()

    actor = alone(program, "owner", MemoryStore(), {"backup": backup}, SimulatedClock())
    await actor.start()
    told = [
        actor.begin(*OWN, "leave", {}, {}),
        actor.tell(*OWN, "back"),
        actor.begin("own:2", "owner", "leave", {}, {}),
    ]
    told += [actor.tell("own:2", "owner", event) for event in ("back", "leave")]
    await asyncio.gather(*told)
    await asyncio.sleep(1)
    assert backup.runs == 1  # of the second, for the state that it is in
    assert [list(actor.calls.of(RecordKey(f"own:{n}", "owner"))) for n in (1, 2)] == [[], ["backup"]]
    backup.gate.set()
    await asyncio.sleep(1)
    assert [actor.table.instances[RecordKey(f"own:{n}", "owner")].state for n in (1, 2)] == ["waiting", "waiting"]
    await actor.stop()


BELL = TESTS / "impl/actor/systems/bell"


class GatedStore(MemoryStore):
    """Its commits wait for `gate`."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.gate.set()

    async def _commit(self, batch: Batch) -> None:
        await self.gate.wait()
        await super()._commit(batch)


async def test_a_transition_is_whole_before_the_next_event_and_then_its_tasks_begin_in_order() -> None:
    """Paper, section 3.1: a transition under a lock; then the task list, in its order."""
    program, told = program_of(BELL), list[tuple[Kind, str]]()

    store, handler = GatedStore(), GatedHandler()
    actor = alone(program, "ringer", store, dict.fromkeys(("swing", "pull", "tie"), handler), SimulatedClock())
    await actor.start()
    actor.notices.subscribe(lambda notice: told.append((notice.kind, notice.name)))
    store.gate.clear()
    key = RecordKey("own:1", "ringer")
    rung = actor.begin(*key, "ring", {}, {})
    await asyncio.sleep(1)
    hushed = actor.tell(*key, "hush")
    await asyncio.sleep(1)
    assert (actor.table.instances[key].state, told) == ("ringing", [(Kind.COMMIT, "")])
    store.gate.set()
    await asyncio.gather(rung, hushed)
    await asyncio.sleep(1)
    await actor.stop()
    whole = [(Kind.COMMIT, ""), (Kind.COMMITTED, "")]
    assert told == [
        *whole,
        (Kind.TRANSITION, "ringer/still#ring"),
        (Kind.CALL, "handler.swing"),
        (Kind.CALL, "handler.pull"),
        *whole,
        (Kind.TRANSITION, "ringer/ringing#hush"),
        (Kind.CALL, "handler.tie"),
        *whole,  # the seal of its events, at the stop
    ]


async def test_a_state_that_is_left_gives_up_its_handler_and_its_message(tmp_path: Path) -> None:
    program, backup = program_of(tmp_path, KEEPER), GatedHandler()

    actor = alone(program, "owner", MemoryStore(), {"backup": backup}, SimulatedClock())
    await actor.start()
    await actor.begin(*OWN, "leave", {}, {})
    await asyncio.sleep(1)
    assert actor.calls.under_way() == 1
    await actor.tell(*OWN, "back")
    await asyncio.sleep(1)
    assert (actor.calls.under_way(), backup.runs) == (0, 1)
    backup.gate.set()
    await asyncio.sleep(1)
    assert actor.table.instances[OWN].state == "waiting"
    await actor.stop()
    async with Cluster(options=ActorOptions(seed=0, backoff=Backoff(first=1, longest=2))) as c:
        await c.kill(BROKER)
        lease = await c.lease(1, until=9)
        key = RecordKey(lease, "service_manager")
        assert [pending.message for pending in c.tenant.outbox.of(key)] == ["ticket"]
        await c.tenant.tell(lease, "service_manager", "close")
        await c.settle()
        assert [pending.message for pending in c.tenant.outbox.of(key)] == ["relinquish"]
        await c.start(BROKER)
        await asyncio.sleep(5)
        await c.settle()
        assert c.state(lease)[0] == "closed"


async def test_of_a_lease_that_is_forgotten_nothing_more_is_said() -> None:
    """Nor are the refusals of its messages remembered."""

    async with Cluster(options=ActorOptions(seed=0, retire_after=5)) as c:
        lease = await c.lease(1, until=6, term=6)
        key = RecordKey(lease, "service_manager")
        await c.kill(BROKER)
        await c.advance(8)
        assert c.state(lease)[0] == "closed"
        assert [pending.message for pending in c.tenant.outbox.of(key)] == ["relinquish"]
        c.tenant.outbox.refusals[key] = "redeem", "no"
        await c.advance(8)
        assert c.state(lease)[0] is None
        assert (c.tenant.outbox.of(key), len(c.tenant.outbox), c.tenant.outbox.refusals) == ((), 0, {})
        await c.start(BROKER)


async def test_of_a_session_whose_machine_is_gone_nothing_is_said() -> None:
    """What recovery begins comes between the turns, and its machine may be forgotten by then."""

    async with Cluster() as c:
        c.tenant.effects.start([SendNext(RecordKey("tenant:9", "service_manager"), 0)])
        assert c.tenant.counts["errors"] == 0


async def test_the_refusal_of_a_message_is_forgotten_when_its_machine_moves_on() -> None:
    async with Cluster() as c:
        first, second = await c.lease(1, until=60), await c.lease(1, until=60)
        keys = [RecordKey(lease, "service_manager") for lease in (first, second)]
        c.tenant.outbox.refusals.update(dict.fromkeys(keys, ("redeem", "no")))
        await c.tenant.tell(first, "service_manager", "close")
        await c.settle()
        assert set(c.tenant.outbox.refusals) == {keys[1]}


async def test_the_mistake_of_one_effect_harms_no_other(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    program, backup = program_of(tmp_path, KEEPER), GatedHandler()

    actor = alone(program, "owner", MemoryStore(), {"backup": backup}, SimulatedClock())
    await actor.start()
    begin = actor.calls.begin

    def fails(instance: Any, *rest: Any) -> None:
        if instance.key == OWN:
            raise ZeroDivisionError("a mistake")
        begin(instance, *rest)

    actor.calls.begin = fails  # type: ignore[method-assign]
    begun = [actor.begin(f"own:{n}", "owner", "leave", {}, {}) for n in (1, 2)]
    assert all(outcome.taken for outcome in await asyncio.gather(*begun))
    await asyncio.sleep(1)
    assert (backup.runs, actor.counts["errors"], actor.running) == (1, 1, True)
    assert "a mistake" in caplog.text
    await actor.stop()


async def test_a_subscriber_may_consume_a_call() -> None:
    """Of a policy or a handler: it is not asked, until recovery asks again."""

    for consumed, name, then in (
        ("policy.allocate", BROKER, ("ticketing", "ticketing", None)),
        ("handler.setup", SITE, ("redeeming", "ticketed", "priming")),
    ):
        async with Cluster() as c:
            targets: list[str] = []

            def consume(notice: Notice, consumed: str = consumed, targets: list[str] = targets) -> None:
                if notice.kind is Kind.CALL:
                    targets.append(notice.name)
                    if notice.name == consumed:
                        raise Consumed

            leave = c.actors[name].notices.subscribe(consume)
            lease = await c.lease(1, until=60)
            assert consumed in targets
            assert c.state(lease) == then
            leave()
            for key in tuple(c.actors[name].table.instances):
                await c.actors[name].recover(*key)
            await c.settle()
            assert c.state(lease) == ACTIVE


# What comes back


class Facts:
    """A handler that tells facts, when the test lets it."""

    def __init__(self) -> None:
        self.gates: list[asyncio.Future[dict[str, Any]]] = []

    async def act(self, action: HandlerAction) -> Done:
        self.gates.append(asyncio.get_running_loop().create_future())
        return Done(True, "", await self.gates[-1])


async def test_facts_of_a_handler_are_kept_while_its_state_waits_for_them(tmp_path: Path) -> None:
    """Those of an earlier state are of no interest any more; and all that it says is told."""
    program, disk, facts = program_of(tmp_path, KEEPER), Disk(), Facts()

    actor = alone(program, "owner", MemoryStore(disk), {"backup": facts}, SimulatedClock())
    told = list[Notice]()
    await actor.start()
    actor.notices.subscribe(lambda notice: told.append(notice) if notice.kind is Kind.ANSWERED else None)
    await actor.begin(*OWN, "leave", {}, {})
    await asyncio.sleep(1)
    held = actor.table.instances[OWN]
    late = Done(True, "late", {"pid": 1})
    actor.queue.put_quietly(Complete(OWN, "saved", held.state_epoch - 1, late))
    actor.queue.put_quietly(Complete(RecordKey("own:9", "owner"), "saved", 1, late))  # of a lease that is forgotten
    await asyncio.sleep(1)
    assert (held.state, "facts" in held.metadata) == ("saving", False)
    facts.gates[0].set_result({"pid": 2})
    await asyncio.sleep(1)
    assert (held.state, held.metadata["facts"]) == ("waiting", {"pid": 2})
    assert b"pid" in disk.records[OWN]
    assert [(notice.lease, notice.machine, notice.name, dict(notice.data)) for notice in told] == [
        ("own:1", "owner", "saved", {"event": "saved", "well": True, "words": words}) for words in ("late", "")
    ]
    await actor.stop()


async def test_a_policy_is_asked_for_the_state_of_its_machine_and_answered_in_that_state() -> None:
    """An answer to a state that was left is late; it moves nothing, and is no mistake of the policy."""

    class Slow(FirstComeFirstServed):
        def __init__(self, inventory: Any) -> None:
            super().__init__(inventory)
            self.asked: list[tuple[Question, list[Decision]]] = []

        def begin(self, question: Question, now: int) -> list[Decision]:
            self.asked.append((question, list(super().begin(question, now))))
            return []

        def changed(self, lease: Lease, now: int) -> Iterable[Decision]:
            return []

        def tick(self, now: int) -> Iterable[Decision]:
            return []

    async with Cluster() as c:
        policy = c.broker.environment.policies["broker"] = Slow(c.inventory)
        lease = await c.lease(2, until=60)
        ((question, decisions),) = policy.asked
        assert (question.call, question.lease.name, question.lease.machine) == ("allocate", lease, "broker")
        assert question.state_epoch == c.broker.table.instances[RecordKey(lease, "broker")].state_epoch
        assert [(d.lease, d.event, d.state_epoch) for d in decisions] == [(lease, "granted", question.state_epoch)]
        await c.tenant.tell(lease, "service_manager", "close")
        await c.settle()
        before = c.state(lease)
        c.broker.upcalls.decided(decisions)
        await c.settle()
        assert (c.state(lease), c.broker.counts["late"]) == (before, 1)
        assert c.broker.counts["policy errors"] == 0


async def test_a_decision_for_a_lease_that_is_not_there() -> None:
    """One that begins a lease does so, once; one that answers a state of a lease that is forgotten does nothing."""

    async with Cluster(options=ActorOptions(seed=0, retire_after=3)) as c:
        begins = Decision("tenant:1", "service_manager", "demand", demand(1, 5))
        answers = Decision("tenant:2", "service_manager", "joined", {}, 4)
        wrong = Decision("tenant:3", "service_manager", "demand", demand("one", 5))
        c.tenant.upcalls.decided([answers, wrong, begins])
        await c.settle()
        assert {key.lease for key in c.tenant.table.instances} == {"tenant:1"}
        assert c.state("tenant:1") == ACTIVE
        await c.advance(30)
        assert c.state("tenant:1") == (None, None, None)
        c.tenant.upcalls.decided([begins])
        await c.settle()
        assert c.tenant.table.instances == {}
        assert c.tenant.running


async def test_whom_an_action_is_for(tmp_path: Path) -> None:
    """The last that drove the unit, also where others did before; its record is given to the handler as it is then."""
    program, seen = program_of(tmp_path, LAMPLIGHTER), list[HandlerAction]()

    class Seen(GatedHandler):
        async def act(self, action: HandlerAction) -> Done:
            seen.append(action)
            return await super().act(action)

    actor: Actor = alone(program, "keeper", MemoryStore(), {"burn": Seen()}, SimulatedClock())
    await actor.start()
    for n in (1, 2):
        await actor.begin(f"own:{n}", "keeper", "begin", {}, {})
        await asyncio.sleep(1)
    assert [(a.verb, a.lease, a.unit, a.answers) for a in seen] == [("burn", "own:1", "lamp[0]", ("out",))]
    lamp = RecordKey("-", "lamp[0]")
    assert actor.table.drivers[lamp] == [RecordKey(f"own:{n}", "keeper") for n in (1, 2)]
    assert actor.table.instances[lamp].metadata["lease"] == "own:2"
    await actor.recover(*lamp)
    await asyncio.sleep(1)
    assert [(a.lease, a.number - seen[0].number) for a in seen[1:]] == [("own:2", 1)]
    await actor.stop()


async def test_what_a_handler_is_told_of_a_unit_and_its_lease() -> None:
    """The unit by its name and properties, its own record, and that of the lease that has it now."""

    seen: list[HandlerAction] = []

    class Seen(SimulatedHandler):
        async def act(self, action: HandlerAction) -> Done:
            seen.append(action)
            return await super().act(action)

    async with Cluster(units=2, handler=Seen()) as c:
        first = await c.lease(1, until=8, term=8)
        await c.advance(12)
        second = await c.lease(2, until=40, term=20)
        assert c.state(second) == ACTIVE
        setups = [action for action in seen if action.verb == "setup"]
        assert [action.lease for action in setups] == [first, second, second]
        assert {action.unit for action in setups[1:]} == {"unit-0", "unit-1"}
        for action in setups:
            assert action.lease_data["wanted"] == (1 if action.lease == first else 2)
            assert action.lease_data["end"] == (10 if action.lease == first else 34)
            assert {"deadline", "repairs", "quarantined", "properties", "reason"} <= set(action.unit_data)
            assert action.unit_data["deadline"] > 0
            number = c.inventory.number(action.unit)
            assert number is not None
            assert action.properties == c.inventory.properties(number)
            assert action.type == c.inventory.type(number) == "unit"
            assert action.answers == ("up", "broken")
        (teardown,) = (action for action in seen if action.verb == "teardown")
        assert (teardown.lease, teardown.unit) == (first, setups[0].unit)


async def test_what_was_told_of_a_unit_stays_for_its_lease_until_a_handler_says_otherwise() -> None:
    """A site's `modify` may say nothing, as most do; the guest has to know its address all the same."""

    said = {"setup": {"address": "10.0.0.7"}, "modify": {}}
    seen: list[HandlerAction] = []

    class Says(SimulatedHandler):
        async def act(self, action: HandlerAction) -> Done:
            done = await super().act(action)
            return dataclasses.replace(done, properties=said.get(action.verb, {}))

    class Guest(SimulatedHandler):
        async def act(self, action: HandlerAction) -> Done:
            seen.append(action)
            return await super().act(action)

    async with Cluster(units=1, handler=Says(), guest=Guest(), settings={"repair_limit": 3}) as c:
        lease = await c.lease(1, until=40, term=10)
        await c.advance(10)
        assert c.state(lease) == ACTIVE
        assert [(a.verb, a.properties.get("address")) for a in seen] == [
            ("join", "10.0.0.7"),
            ("modify", "10.0.0.7"),
        ]
        assert seen[1].properties["fence"] > seen[0].properties["fence"]
        said["modify"] = {"address": "10.0.0.8"}
        await c.advance(10)
        said["modify"] = {}
        await c.advance(10)
        assert [a.properties["address"] for a in seen[2:]] == ["10.0.0.8", "10.0.0.8"]
        said["setup"] = {}
        await c.advance(20)
        other = await c.lease(1, until=90, term=30)
        assert c.state(other) == ACTIVE
        assert (seen[-1].lease, seen[-1].verb) == (other, "join")
        assert set(seen[-1].properties) == {"name", "site", "fence"}  # nothing of the lease before
