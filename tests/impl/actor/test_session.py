"""What is sent over a `fifo` comes once and in order, whoever is killed and whatever the network does."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.recovery.cases.campaign import campaign
from leasehold.faults.model import Budget
from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.faults.simulation.cluster import SystemCluster
from leasehold.faults.simulation.network import PacketOutcome
from leasehold.impl.actor import session
from leasehold.impl.actor.environment import ActorOptions, Backoff, Environment
from leasehold.impl.actor.session import SESSIONS, ChannelFull, queued
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.compiler.program import NotRunnable, compile_system
from leasehold.impl.core.work import SendWork, local
from leasehold.impl.handlers.handler import NullHandler
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import RecordKey
from tests.impl.actor.alone import GatedHandler, alone, program_of
from tests.systems import TESTS, edited, files_of, load, written

PIPE = Path(__file__).parent / "pipe"
LINES = 40


def held(cluster: SystemCluster, machine: str, name: str) -> object:
    found = cluster.held("pipe:1", machine)
    assert found is not None
    return found.core.view(found.record)[name]


@pytest.mark.real_time
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(1, 6))])
async def test_every_line_comes_once_and_in_order(seed: int) -> None:
    """Actors are killed and the network loses, repeats and delays; the writer goes on writing, and waits for room."""
    rng = random.Random(seed)

    def rule(source: str, target: str, frame: bytes) -> PacketOutcome:
        delays = rng.choice(((), (0.0,), (rng.randrange(9) / 1000, rng.randrange(9) / 1000)))
        return PacketOutcome(delays, rng.random() < 0.7)

    async with SystemCluster(compile_system(load(PIPE, {"most": LINES}))) as cluster:
        cluster.network.rule = rule
        full = 0
        while held(cluster, "writer", "written") != LINES:
            try:
                await cluster.actors["writer"].tell("pipe:1", "writer", "write")
            except ChannelFull:
                full += 1
                await asyncio.sleep(0.01)
            if rng.random() < 0.2:
                name = rng.choice(("writer", "reader"))
                await cluster.kill(name)
                await cluster.start(name)
            assert not held(cluster, "reader", "disorder")
        cluster.network.rule = None
        await cluster.settle()
        for _ in range(200):
            if SESSIONS not in cluster.held("pipe:1", "writer").metadata:  # type: ignore[union-attr]
                break
            await asyncio.sleep(0.05)
        assert (held(cluster, "reader", "read"), held(cluster, "reader", "disorder")) == (LINES, False)
        assert full > 0
        assert SESSIONS not in cluster.held("pipe:1", "writer").metadata  # type: ignore[union-attr]


@pytest.mark.real_time
async def test_a_writer_that_is_killed_has_kept_what_was_not_read() -> None:
    async with SystemCluster(compile_system(load(PIPE, {"most": LINES}))) as cluster:
        await cluster.kill("reader")
        for _ in range(2):
            await cluster.actors["writer"].tell("pipe:1", "writer", "write")
        with pytest.raises(ChannelFull, match="writer of pipe:1 waits for room to send line"):
            await cluster.actors["writer"].tell("pipe:1", "writer", "write")
        await cluster.kill("writer")
        await cluster.start("writer")
        writer = cluster.held("pipe:1", "writer")
        assert writer is not None
        assert [(m.number, m.fields) for m in queued(writer, 0)] == [(1, {"at": 1}), (2, {"at": 2})]
        await cluster.start("reader")
        await cluster.settle()
        assert held(cluster, "reader", "read") == 2
        await cluster.actors["writer"].tell("pipe:1", "writer", "write")
        await cluster.settle()
        assert held(cluster, "reader", "read") == 3


@pytest.mark.real_time
async def test_a_reader_that_is_killed_amid_a_commit_gets_the_line_again() -> None:
    """Only the commit of what it has read answers for the line: until then the writer keeps it."""
    async with SystemCluster(compile_system(load(PIPE, {"most": LINES}))) as cluster:
        store = cluster.actors["reader"].store

        async def never(batch: object) -> None:
            await asyncio.Event().wait()

        store.commit = never  # type: ignore[method-assign, assignment]
        await cluster.actors["writer"].tell("pipe:1", "writer", "write")
        for _ in range(200):
            await asyncio.sleep(0)
        writer = cluster.held("pipe:1", "writer")
        assert writer is not None
        assert [m.number for m in queued(writer, 0)] == [1]
        await cluster.kill("reader")
        await cluster.start("reader")
        for _ in range(200):
            if held(cluster, "reader", "read") == 1:
                break
            await asyncio.sleep(0.05)
        assert (held(cluster, "reader", "read"), held(cluster, "reader", "disorder")) == (1, False)


FETCHING = TESTS / "impl/actor/systems/fetching"


async def test_an_answer_for_which_there_is_no_room_comes_when_there_is_some() -> None:
    """Each answer sends a line, and the next one asks for another: one that were lost would be the last."""
    program = program_of(FETCHING)

    async with SystemCluster(program, environment=lambda name: Environment(handlers={"fetch": NullHandler()})) as c:
        await c.kill("reader")
        await c.kill("writer")
        c.disks = {name: Disk() for name in c.disks}
        await c.start("writer")
        await c.settle()
        writer = c.held("fetching:1", "writer")
        assert writer is not None
        assert (len(queued(writer, 0)), len(c.actors["writer"].table.held)) == (2, 1), "full, and an answer waits"
        await c.start("reader")
        await asyncio.sleep(60)
        reader = c.held("fetching:1", "reader")
        assert reader is not None
        assert reader.core.view(reader.record) == {"read": 6}


def test_crashes_and_faults_of_the_network_change_nothing_of_a_fifo_in_the_model() -> None:
    system = load(PIPE)
    for budget in ("crash=2", "power_cut=1", "lose=1,duplicate=1,reorder=1", "partition=1,crash=1"):
        found = explore(system, budget=Budget.parse(budget))
        assert {p.name: p.verdict for p in found.properties} == {"in_order": "exhausted", "all_read": "exhausted"}


def test_the_actors_do_in_every_case_what_the_model_does() -> None:
    found = campaign(load(PIPE, {"most": 3}))
    assert (found.failures, found.played > 10) == ([], True)


def test_a_fifo_that_declares_faults_does_not_run(tmp_path: Path) -> None:
    files = edited(files_of("impl/actor/pipe"), ("fifo(2)", "fifo(2), lose: any"))
    with pytest.raises(NotRunnable, match="channel `pipe` is a fifo that declares faults: lose"):
        compile_system(written(tmp_path, files))


LETTERS = files_of("impl/actor/systems/letters")


async def test_a_run_is_not_forgotten_before_its_last_message_is_taken(tmp_path: Path) -> None:
    """However long its receiver is away; then the run goes as any other."""
    program = program_of(tmp_path, LETTERS)
    options = ActorOptions(retire_after=3, seed=0, backoff=Backoff(0.1, 0.5, 0.5))

    async with SystemCluster(program, options=options) as c:
        await c.kill("reader")
        writer, reader = c.actors["writer"], c.players["reader"]
        await writer.begin("writer:1", "writer", "write", {}, {"reader": reader})
        for event in ("write", "finish"):
            await writer.tell("writer:1", "writer", event)
        for _ in range(20):
            await c.time.elapse()
        held = c.held("writer:1", "writer")
        assert held is not None
        assert (held.state, len(queued(held, 0))) == ("done", 2)
        await c.start("reader")
        await asyncio.sleep(10)
        found = c.held("writer:1", "reader")
        assert found is not None
        assert found.core.view(found.record) == {"read": 2}
        await c.advance(8)
        assert c.held("writer:1", "writer") is None


@pytest.mark.parametrize("seed", range(4))
def test_a_session_is_a_list_of_messages_of_each_neighbour(tmp_path: Path, seed: int) -> None:
    """Adding puts one at its end; an acknowledgement of a number removes all up to it; nothing is left of an end."""
    program, chance = program_of(tmp_path, LETTERS), random.Random(seed)
    core, shape = program.roles["writer"], program.messages["letter"]
    writer = MachineInstance(RecordKey("writer:1", "writer"), core, core.first(), ["reader"])
    plain: dict[int, list[int]] = {}
    for number in range(1, 200):
        at = chance.randrange(3)
        if chance.random() < 0.5:
            session.add(writer, SendWork("put", "letter", at, lambda record: ()), shape, number, (number * 2,))
            plain.setdefault(at, []).append(number)
        else:
            upto = chance.choice([0, *plain.get(at, [0]), number])
            left = [n for n in plain.get(at, []) if n > upto]
            assert session.acknowledge(writer, at, upto) == (left != plain.get(at, []))
            plain[at] = left
        assert sorted(session.neighbours(writer)) == sorted(n for n in plain if plain[n])
        for n in range(3):
            assert [(m.number, m.message, m.fields) for m in queued(writer, n)] == [
                (k, "letter", {"at": k * 2}) for k in plain.get(n, [])
            ]
            assert [m.values(program) for m in queued(writer, n)] == [(k * 2,) for k in plain.get(n, [])]
    for n in range(3):
        session.acknowledge(writer, n, 10**6)
    assert SESSIONS not in writer.metadata
    assert not session.acknowledge(writer, 0, 10**6)


def test_a_channel_has_room_for_as_many_messages_as_it_says(tmp_path: Path) -> None:
    """A channel with no capacity has room for any number; each neighbour has its own channel."""
    folders = (tmp_path / "a", tmp_path / "b")
    for folder in folders:
        folder.mkdir()
    bounded = LETTERS | {"system.yaml": LETTERS["system.yaml"].replace("kind: fifo", "kind: fifo(3)")}
    for folder, files, most in ((folders[0], LETTERS, 50), (folders[1], bounded, 3)):
        program = program_of(folder, files)
        core, shape = program.roles["writer"], program.messages["letter"]
        writer = MachineInstance(RecordKey("writer:1", "writer"), core, core.first(), ["reader"])
        write = local("write")
        work = core.step(writer.record, write, 0)[1].work
        assert [type(piece) for piece in work] == [SendWork]
        for number in range(1, most + 1):
            session.add(writer, SendWork("put", "letter", 1, lambda record: ()), shape, number, (number,))
            assert session.has_room(program, writer, write, 0)
            session.check_room(program, writer, work)
            session.add(writer, work[0], shape, number, (number,))
        full = most == 3
        assert session.has_room(program, writer, write, 0) != full
        if full:
            with pytest.raises(ChannelFull, match="writer of writer:1 waits for room to send letter"):
                session.check_room(program, writer, work)
            session.acknowledge(writer, 0, 1)
            session.check_room(program, writer, work)
        session.check_room(program, writer, ())


async def test_a_machine_that_stands_from_the_first_start_on_begins_its_work_once() -> None:
    """A tick begins what is new, and nothing again; a restart begins it anew."""
    program, disk, handler = program_of(FETCHING), Disk(), GatedHandler()

    for starts in (1, 2):
        clock = SimulatedClock()
        actor = alone(program, "writer", MemoryStore(disk), {"fetch": handler}, clock)
        await actor.start()
        await clock.time.elapse(4)
        await asyncio.sleep(1)
        assert actor.table.instances[RecordKey("fetching:1", "writer")].state == "fetching"
        assert handler.runs == starts
        await actor.stop()


async def test_what_was_owed_in_a_session_goes_once_and_in_order_when_somebody_is_there_to_read() -> None:
    frames: list[bytes] = []

    def rule(source: str, target: str, frame: bytes) -> PacketOutcome:
        frames.append(frame)
        return PacketOutcome((0,), True)

    cluster = SystemCluster(compile_system(load(PIPE, {"most": LINES})), rule)
    player = cluster.players.pop("reader")
    async with cluster:
        for _ in range(2):
            await cluster.actors["writer"].tell("pipe:1", "writer", "write")
        await cluster.advance(2)
        assert frames == []
        cluster.players["reader"] = player
        await cluster.kill(player)
        await cluster.start(player)
        await cluster.advance(2)
        assert held(cluster, "reader", "read") == 2
        assert len(frames) == 2
