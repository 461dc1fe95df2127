"""How an actor begins and ends, what it leaves behind, and that nobody sees of a turn what is not durable."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.faults.simulation.lease import Cluster
from leasehold.faults.simulation.network import PacketOutcome
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorError, ActorOptions, Backoff, EnvironmentMismatch
from leasehold.impl.core.codec import RecordError
from leasehold.impl.core.core import CoreError, Program
from leasehold.impl.lease.fleet import BROKER, SITE, TENANT
from leasehold.impl.notices import Kind, Notice, SimulatedCrash
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import Batch, Fenced, Older, RecordKey, StoreError, Transient
from leasehold.impl.transport.transport import Delivery, TransportError
from tests.impl.actor.alone import GatedHandler, alone, program_of
from tests.impl.actor.test_boundaries import KEEPER

OWN = RecordKey("own:1", "owner")
ACTIVE = ("active", "ticketed", "active")
OPTIONS = ActorOptions(seed=0, reopen_pause=5.0, backoff=Backoff(first=0.01, longest=0.05))


class Breaking(MemoryStore):
    """A store of which each step raises the errors that are set for it, one at each call; it counts its calls.

    Attributes:
        gate: while it is not set, no commit ends.
    """

    def __init__(self, disk: Disk | None = None) -> None:
        super().__init__(disk)
        self.errors: dict[str, list[BaseException]] = {}
        self.calls: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()

    def _step(self, name: str) -> None:
        self.calls.append(name)
        if self.errors.get(name):
            raise self.errors[name].pop(0)

    async def _take(self, owner: str) -> int:
        self._step("open")
        return await super()._take(owner)

    async def _page(self, after: RecordKey | None) -> Any:
        self._step("records")
        return await super()._page(after)

    async def _metadata(self) -> Any:
        self._step("words")
        return await super()._metadata()

    async def _commit(self, batch: Batch) -> None:
        self._step("commit")
        await self.gate.wait()
        await super()._commit(batch)

    async def close(self) -> None:
        self.calls.append("close")
        await super().close()


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return program_of(tmp_path, KEEPER)


def owner(program: Program, store: MemoryStore, backup: GatedHandler | None = None) -> Actor:
    return alone(program, "owner", store, {"backup": backup or GatedHandler()}, SimulatedClock())


async def begun(program: Program, disk: Disk, count: int = 1) -> None:
    """Leaves records on a disk."""
    actor = owner(program, MemoryStore(disk))
    await actor.start()
    await asyncio.gather(*(actor.begin(f"own:{n}", "owner", "leave", {}, {}) for n in range(1, count + 1)))
    await actor.stop()


async def tasks_but_mine() -> set[asyncio.Task[Any]]:
    return {task for task in asyncio.all_tasks() if task is not asyncio.current_task()}


# Beginning

ENDS = [
    ("open", StoreError("no store")),
    ("words", StoreError("no words")),
    ("records", Transient("no records")),
    ("records", RuntimeError("odd")),
    ("words", asyncio.CancelledError()),
    ("commit", StoreError("no commit")),
]


@pytest.mark.parametrize(("step", "error"), ENDS, ids=[f"{step} {error!r}" for step, error in ENDS])
async def test_a_start_that_fails_leaves_nothing_open_and_may_be_tried_again(
    program: Program, step: str, error: BaseException
) -> None:
    store, backup = Breaking(), GatedHandler()
    await begun(program, store.disk)
    actor = owner(program, store, backup)
    if step == "commit":  # what recovery has to say of the environment is committed with it
        actor.upcalls._kept["a word"] = b"1"
    store.errors[step] = [error]
    with pytest.raises(type(error)):
        await actor.start()
    assert (actor.running, store.disk.owner, store.calls[-1]) == (False, None, "close")
    assert actor.transport._network._members == {}  # type: ignore[attr-defined]
    assert (await actor.receive(b"garbage")).answer is Delivery.UNREACHABLE
    for _ in range(5):
        await asyncio.sleep(0)
    assert not {task for task in await tasks_but_mine() if not task.done()}
    await actor.start()
    assert (actor.running, list(actor.table.instances)) == (True, [OWN])
    await asyncio.sleep(1)
    assert backup.runs == 1
    await actor.stop()


async def test_a_start_without_a_transport_gives_the_store_back(program: Program) -> None:
    store = MemoryStore()
    first, second = owner(program, MemoryStore()), owner(program, store)
    await first.start()
    second.transport = first.transport.__class__(first.transport._network, "own")  # type: ignore[attr-defined,call-arg]
    with pytest.raises(TransportError, match="is in use"):
        await second.start()
    assert (store.disk.owner, second.running) == (None, False)
    assert first.running
    await first.stop()
    await second.start()
    await second.stop()


async def test_records_that_are_spoilt_are_refused_and_stay(program: Program) -> None:
    """A row that is not whole, one of a machine that the system has not, or that the actor does not play."""

    disk = Disk()
    await begun(program, disk)
    whole = dict(disk.records)
    torn, other = "own:1 owner: the row is not whole", RecordKey("own:1", "guest")
    for key, row, words in (
        (OWN, whole[OWN][:-1], torn),
        (OWN, b"", torn),
        (OWN, b"\x91\x01", torn),
        (OWN, b"\x01", torn),
        (OWN, b"\x93\xc4\x00\x01\x80", "own:1 owner: the bytes are no record"),
        (other, whole[OWN], "own:1 guest: keeper has no such machine"),
    ):
        disk.records, disk.order = {key: row}, None
        with pytest.raises(RecordError, match=words):
            await owner(program, MemoryStore(disk)).start()
        assert disk.records == {key: row}
    disk.records, disk.order = whole, None
    actor = owner(program, MemoryStore(disk))
    await actor.start()
    await actor.stop()


@pytest.mark.parametrize("described", [True, False])
async def test_records_of_another_specification_are_refused_with_the_command_that_maps_them(
    tmp_path: Path, program: Program, described: bool
) -> None:
    """Also where nothing but the record says by which it was written."""
    (tmp_path / "other").mkdir()
    text = KEEPER["roles/owner.yaml"].replace("saving", "storing")
    other = program_of(tmp_path / "other", {**KEEPER, "roles/owner.yaml": text})

    disk = Disk()
    await begun(program, disk)
    if not described:
        disk.metadata.clear()
    before = dict(disk.records), dict(disk.metadata)
    with pytest.raises(RecordError, match=r"map the records: leasehold migrate memory \./keeper") as refused:
        await owner(other, MemoryStore(disk)).start()
    assert refused.value.digest == program.digest
    assert described or str(refused.value).endswith(f" --from FOLDER_OF_{program.digest[:12]}")
    assert (disk.records, disk.metadata, disk.owner) == (*before, None)


async def test_an_empty_store_says_nothing_of_a_specification_until_there_is_a_record(program: Program) -> None:
    """So that an actor which nobody has used can be started with another."""

    disk = Disk()
    for _ in range(2):
        actor = owner(program, MemoryStore(disk))
        await actor.start()
        with pytest.raises(ActorError):
            await actor.tell("own:1", "owner", "leave")
        await actor.stop()
        assert (disk.metadata, disk.records) == ({}, {})
    await begun(program, disk, 2)
    described = disk.metadata["specification"]
    assert disk.metadata.pop("specification")
    actor = owner(program, MemoryStore(disk))
    await actor.start()  # with what is there already
    assert disk.metadata["specification"] == described
    assert actor.counts["commits"] == 1
    await actor.tell("own:1", "owner", "back")
    assert (disk.metadata["specification"], actor.counts["commits"]) == (described, 2)
    await actor.stop()


# Ending


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_an_end_gives_up_all_that_the_actor_had(program: Program, how: str) -> None:
    disk, backup = Disk(), GatedHandler()
    actor = owner(program, MemoryStore(disk), backup)
    clock: Any = actor.clock
    address = await actor.start()
    await actor.begin("own:1", "owner", "leave", {}, {})
    await asyncio.sleep(1)
    assert (backup.runs, len(clock._heard), actor.calls.under_way()) == (1, 1, 1)
    members = actor.transport._network._members  # type: ignore[attr-defined]
    assert address in members
    await getattr(actor, how)()
    assert (actor.running, actor.turns, actor.calls.under_way(), members, clock._heard) == (False, None, 0, {}, [])
    assert disk.owner is (None if how == "stop" else actor.store)
    assert not {task for task in await tasks_but_mine() if not task.done()}
    if how == "stop":
        await asyncio.wait_for(actor.over(), 1)
    with pytest.raises(ActorError, match="the actor has ended"):
        await actor.read()
    await getattr(actor, how)()  # another time does no harm


async def test_a_stop_waits_for_a_commit_that_is_under_way(program: Program) -> None:
    store = Breaking()
    actor = owner(program, store)
    await actor.start()
    begun = actor.begin("own:1", "owner", "leave", {}, {})
    store.gate.clear()
    await asyncio.sleep(1)
    assert "commit" in store.calls
    stop = asyncio.ensure_future(actor.stop())
    await asyncio.sleep(1)
    assert not stop.done()
    later = actor.begin("own:2", "owner", "leave", {}, {})
    store.gate.set()
    await stop
    assert (await begun).taken
    assert list(store.disk.records) == [OWN]
    with pytest.raises(ActorError, match="the actor has ended"):
        await later


async def test_an_actor_that_has_stopped_taking_steps_can_be_stopped(program: Program) -> None:
    """While its store is away nothing can be committed, and nobody waits for that."""

    store = Breaking()
    actor = owner(program, store)
    await actor.start()
    store.errors = {"commit": [StoreError("away")], "open": [StoreError("away")] * 100}
    with pytest.raises(ActorError, match="away"):
        await actor.begin("own:1", "owner", "leave", {}, {})
    waiting = actor.begin("own:2", "owner", "leave", {}, {})
    await asyncio.sleep(10)
    await asyncio.wait_for(actor.stop(), 1)
    with pytest.raises(ActorError, match="the actor has ended"):
        await waiting
    assert not {task for task in await tasks_but_mine() if not task.done()}


FINAL: list[tuple[str, Exception]] = [
    ("open", Fenced("taken over")),
    ("open", Older("an older copy")),
    ("records", RecordError("spoilt")),
    ("words", CoreError("at fault")),
    ("words", EnvironmentMismatch("another unit")),
]


@pytest.mark.parametrize(("step", "error"), FINAL, ids=[type(error).__name__ for _, error in FINAL])
async def test_what_no_other_try_would_cure_ends_the_actor(program: Program, step: str, error: Exception) -> None:
    """Who waits for its end hears of it; it does nothing more, and holds nothing up."""

    store, backup = Breaking(), GatedHandler()
    actor = owner(program, store, backup)
    await actor.start()
    over = asyncio.ensure_future(actor.over())
    await actor.begin("own:1", "owner", "leave", {}, {})
    await asyncio.sleep(1)
    store.errors = {"commit": [StoreError("away")], step: [error]}
    with pytest.raises(ActorError, match="away"):
        await actor.begin("own:2", "owner", "leave", {}, {})
    with pytest.raises(type(error), match=str(error)):
        await asyncio.wait_for(over, 60)
    opened = store.calls.count("open")
    with pytest.raises(ActorError, match="the actor has ended"):
        await actor.read()
    assert (actor.running, actor.calls.under_way(), backup.runs) == (False, 0, 1)
    await asyncio.sleep(60)
    assert store.calls.count("open") == opened
    assert (await actor.receive(b"garbage")).answer is Delivery.UNREACHABLE
    await actor.stop()


async def test_what_may_be_cured_is_tried_again_after_a_pause_each_time(program: Program) -> None:
    errors: list[Exception] = [StoreError("away"), Transient("away"), RuntimeError("odd"), OSError("odd")]

    store, told = Breaking(), list[Notice]()
    actor = owner(program, store)
    object.__setattr__(actor.context, "options", OPTIONS)
    await actor.start()
    await actor.begin("own:1", "owner", "leave", {}, {})
    actor.notices.subscribe(told.append)
    store.errors = {"commit": [StoreError("full")], "open": list(errors)}
    began = asyncio.get_running_loop().time()
    with pytest.raises(ActorError, match="could not be committed: full"):
        await actor.begin("own:2", "owner", "leave", {}, {})
    store.calls.clear()
    while not actor.running:
        await asyncio.sleep(0.1)
    pauses = len(errors) + 1 + 2  # an odd error costs one more: it may have come before the pause
    assert round(asyncio.get_running_loop().time() - began) == OPTIONS.reopen_pause * pauses
    assert store.calls.count("open") == len(errors) + 1
    assert store.calls.index("close") < store.calls.index("open")
    assert actor.counts["errors"] == 2
    (stopped,) = [notice for notice in told if notice.kind is Kind.STOPPED]
    (recovered,) = [notice for notice in told if notice.kind is Kind.RECOVERED]
    assert (stopped.data, recovered.data) == ({"reason": "full"}, {"machines": 1})
    assert actor.epoch == 2
    await actor.stop()


@pytest.mark.parametrize(
    "kind", [Kind.REFUSED, Kind.COMMIT, Kind.COMMITTED, Kind.TRANSITION, Kind.CALL, Kind.RECOVERED]
)
async def test_a_crash_at_any_moment_ends_the_actor_with_it(program: Program, kind: Kind) -> None:
    """In the middle of a turn, of a start, or of what comes from outside: nothing goes on that could act."""

    store, backup = MemoryStore(), GatedHandler()
    actor = owner(program, store, backup)

    def crash(notice: Notice) -> None:
        if notice.kind is kind:
            raise SimulatedCrash

    if kind is Kind.RECOVERED:
        actor.notices.subscribe(crash)
        with pytest.raises(SimulatedCrash):
            await actor.start()
    else:
        await actor.start()
        actor.notices.subscribe(crash)
        over = asyncio.ensure_future(actor.over())
        if kind is Kind.REFUSED:
            with pytest.raises(SimulatedCrash):
                await actor.receive(b"garbage")
        else:
            with pytest.raises(ActorError, match="the actor has ended"):
                await actor.begin("own:1", "owner", "leave", {}, {})
        with pytest.raises(SimulatedCrash):
            await asyncio.wait_for(over, 1)
        with pytest.raises(ActorError, match="the actor has ended"):
            await actor.begin("own:2", "owner", "leave", {}, {})
    await asyncio.sleep(10)
    assert (actor.running, actor.calls.under_way(), backup.runs) == (False, 0, 0)
    assert set(store.disk.records) == (set() if kind in (Kind.REFUSED, Kind.COMMIT, Kind.RECOVERED) else {OWN})
    await actor.kill()
    assert not {task for task in await tasks_but_mine() if not task.done()}


# Nothing is seen of a turn before it is durable


@pytest.mark.parametrize("name", [TENANT, BROKER, SITE])
async def test_nothing_follows_from_a_turn_before_its_commit(name: str) -> None:
    """No message, no call of a policy or handler, no notice, and no reply."""
    stores: dict[str, Breaking] = {}
    sent: list[str] = []

    def rule(source: str, target: str, frame: bytes) -> PacketOutcome:
        sent.append(source)
        return PacketOutcome()

    def store(of: str) -> Breaking:
        stores[of] = Breaking()
        return stores[of]

    async with Cluster(store=store, rule=rule) as c:
        heard = list[Notice]()
        c.actors[name].notices.subscribe(heard.append)
        stores[name].gate.clear()
        wish = c.tenant.command("service_manager", "demand", "tenant:1", 2, 30, 10)
        await asyncio.sleep(1)
        assert stores[name].calls[-1] == "commit"
        assert {notice.kind for notice in heard} <= {Kind.RECEIVE, Kind.COMMIT}
        assert f"memory:{name}" not in sent
        assert (wish.done(), c.handler.world.on()) == (name != TENANT, set())
        stores[name].gate.set()
        await asyncio.sleep(20)
        await c.settle()
        assert c.state("tenant:1") == ACTIVE
        kinds = [notice.kind for notice in heard]
        first = {kind: kinds.index(kind) for kind in (Kind.COMMIT, Kind.COMMITTED, Kind.TRANSITION, Kind.SEND)}
        assert sorted(first, key=lambda kind: first[kind]) == list(first)


async def test_a_turn_whose_record_would_be_spoilt_is_not_committed_and_the_actor_goes_on(program: Program) -> None:
    """Nor is what else was in it; those who asked for it hear so, and may ask again."""

    store = Breaking()
    actor = owner(program, store)
    await actor.start()
    await actor.begin("own:1", "owner", "leave", {}, {})
    take, spoilt = actor.turn_loop.take, [True]

    def spoils(ready: Any, request: Any) -> Any:
        answer = take(ready, request)
        if spoilt and getattr(request, "key", None) == RecordKey("own:3", "owner"):
            spoilt.clear()
            raise CoreError("owner.units would be -1")
        return answer

    actor.turn_loop.take = spoils  # type: ignore[method-assign]
    before = dict(store.disk.records)
    several = [actor.begin(f"own:{n}", "owner", "leave", {}, {}) for n in (2, 3, 4)]
    for waiting in several:
        with pytest.raises(ActorError, match=r"owner\.units would be -1"):
            await waiting
    assert store.disk.records == before
    await asyncio.sleep(10)
    assert (actor.running, set(actor.table.instances)) == (True, {OWN})
    for n in (2, 3, 4):
        assert (await actor.begin(f"own:{n}", "owner", "leave", {}, {})).taken
    await actor.stop()


async def test_one_request_that_cannot_be_harms_no_other_of_its_turn(program: Program) -> None:
    store = MemoryStore()
    actor = owner(program, store)
    await actor.start()
    asked: list[Awaitable[Any]] = [
        actor.begin("own:1", "owner", "leave", {}, {}),
        actor.begin("own:1", "owner", "leave", {}, {}),
        actor.tell("own:7", "owner", "leave"),
        actor.begin("own:2", "owner", "back", {}, {}),
        actor.recover("own:8", "owner"),
        actor.command("owner", "demand"),
        actor.tell("own:1", "owner", "nonsense"),
        actor.begin("own:3", "owner", "leave", {}, {}),
        actor.read(lambda: sorted(actor.table.instances)),
    ]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    assert [isinstance(answer, ActorError) for answer in answers] == [False, *[True] * 6, False, False]
    assert answers[-1] == [OWN, RecordKey("own:3", "owner")] == sorted(store.disk.records)
    assert actor.counts["commits"] == 1
    await actor.stop()


# Whether there is anything to do


async def test_an_actor_is_idle_when_nothing_waits_and_nothing_is_under_way(program: Program) -> None:
    store, backup = Breaking(), GatedHandler()
    actor = owner(program, store, backup)
    await actor.start()
    await asyncio.sleep(1)
    assert actor.idle
    waiting = actor.begin("own:1", "owner", "leave", {}, {})
    assert not actor.idle  # it waits for its turn
    store.gate.clear()
    await asyncio.sleep(1)
    assert (waiting.done(), actor.idle) == (False, False)  # for its commit
    store.gate.set()
    await asyncio.sleep(1)
    assert (waiting.done(), actor.idle) == (True, False)  # for its handler
    backup.gate.set()
    await asyncio.sleep(1)
    assert actor.idle
    await actor.stop()


async def test_an_actor_is_at_work_until_its_messages_were_answered() -> None:
    gate = asyncio.Event()
    async with Cluster() as c:
        carry = c.network.carry

        async def held(source: str, target: str, frame: bytes, *more: Any) -> Any:
            await gate.wait()
            return await carry(source, target, frame, *more)

        c.network.carry = held  # type: ignore[method-assign]
        await c.tenant.command("service_manager", "demand", "tenant:1", 1, 30, 10)
        await asyncio.sleep(5)
        assert (c.tenant.idle, c.broker.idle) == (False, True)
        gate.set()
        await c.settle()
        assert c.tenant.idle
        assert c.state("tenant:1") == ACTIVE
