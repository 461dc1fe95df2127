"""Contracts that speak of several machines: an actor enforces them over all that it has, and says which it cannot."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from leasehold.cli.export import compile_
from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.faults.simulation.cluster import SystemCluster
from leasehold.faults.simulation.lease import Cluster
from leasehold.faults.simulation.silent import NoCredentials, SilentHandler
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorError, ActorOptions, Backoff, Environment
from leasehold.impl.compiler.contract_source import not_enforced
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Program
from leasehold.impl.policy.policy import Decision
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import RecordKey
from tests.impl.actor.alone import alone, program_of
from tests.impl.actor.test_contracts import Answers
from tests.impl.virtual import virtual
from tests.systems import files_of, load

STOCK = files_of("impl/actor/systems/stock")


VOTE = files_of("impl/actor/systems/vote")


@pytest.fixture
def stock(tmp_path: Path) -> Program:
    return program_of(tmp_path, STOCK)


def broker(program: Program, disk: Disk, policy: Any) -> Actor:
    actor = alone(program, "broker", MemoryStore(disk), {}, SimulatedClock(), "cap", options=ActorOptions(seed=0))
    if policy is not None:
        actor.environment.policies["broker"] = policy
    return actor


def units(actor: Actor) -> dict[tuple[str, str], int]:
    held = {key: m.core.view(m.record).get("units") for key, m in actor.table.instances.items()}
    return {(key.lease, key.machine): n for key, n in held.items() if n}


async def test_what_is_promised_twice_is_refused_in_every_machine_and_run(
    stock: Program, caplog: pytest.LogCaptureFixture
) -> None:
    """The stock is 3: what one machine has counts for the others of its run and of all runs, also after a restart."""
    disk = Disk()

    caplog.set_level(logging.ERROR)
    actor = broker(stock, disk, Answers("granted", {"units": 2}))
    await actor.start()
    for run, machine in (("own:1", "broker[0]"), ("own:1", "broker[1]"), ("own:2", "broker[0]")):
        await actor.begin(run, machine, "ask", {}, {})
        await asyncio.sleep(0.1)
    assert units(actor) == {("own:1", "broker[0]"): 2}
    assert actor.counts["policy errors"] == 2
    words = "granted: it breaks the contract `granted`: It grants no more than there is."
    assert f"the policy of broker[1] answers wrongly: {words}" in caplog.text
    await actor.kill()
    disk.crash()
    actor = broker(stock, disk, Answers("granted", {"units": 2}))
    await actor.start()
    await asyncio.sleep(0.1)
    assert units(actor) == {("own:1", "broker[0]"): 2}, "recovery asks again, and it is refused again"
    await actor.begin("own:2", "cap", "set", {}, {})
    await asyncio.sleep(10)  # in this run the stock has become 5, and it is asked again by itself
    assert units(actor) == {("own:1", "broker[0]"): 2, ("own:2", "broker[0]"): 2}
    await actor.tell("own:1", "broker[0]", "back")
    await actor.tell("own:2", "broker[0]", "back")
    await asyncio.sleep(20)
    assert units(actor) == {("own:1", "broker[1]"): 2}
    await actor.stop()


async def test_a_machine_that_nothing_has_begun_counts_as_in_its_first_state(tmp_path: Path) -> None:
    program = program_of(tmp_path, VOTE)

    actor = alone(program, "voter", MemoryStore(Disk()), {}, SimulatedClock(), options=ActorOptions(seed=0))
    await actor.start()
    for voter in range(2):
        await actor.begin("own:1", f"voter[{voter}]", "agree", {}, {})
        with pytest.raises(ActorError, match="it breaks the contract `decide`: All have agreed"):
            await actor.tell("own:1", "voter[0]", "decide")
    await actor.begin("own:1", "voter[2]", "agree", {}, {})
    await actor.tell("own:1", "voter[0]", "decide")
    assert [m.record[0] for m in actor.table.instances.values()] == ["decided", "closed", "closed"]
    await actor.stop()


async def test_each_machine_that_nothing_has_begun_counts_as_in_its_own_first_state(tmp_path: Path) -> None:
    """The third voter has agreed from the start."""
    files = {name: text.replace("v.agreed for", "v.state != open for") for name, text in VOTE.items()}
    voter = files["roles/voter.yaml"].replace("initial: true", "initial: 'self != voter[2]'")
    files["roles/voter.yaml"] = voter.replace("closed: {on", "closed: {initial: 'self == voter[2]', on")
    program = program_of(tmp_path, files)

    actor = alone(program, "voter", MemoryStore(Disk()), {}, SimulatedClock(), options=ActorOptions(seed=0))
    await actor.start()
    await actor.begin("own:1", "voter[0]", "agree", {}, {})
    with pytest.raises(ActorError, match="it breaks the contract `decide`: All have agreed"):
        await actor.tell("own:1", "voter[0]", "decide")
    await actor.begin("own:1", "voter[1]", "agree", {}, {})
    await actor.tell("own:1", "voter[0]", "decide")
    await actor.stop()


def test_decisions_of_one_turn_see_each_other(stock: Program) -> None:
    async def story(order: Iterable[int]) -> dict[tuple[str, str], int]:
        actor = broker(stock, Disk(), Answers("granted", {"units": 5}))
        await actor.start()
        for run in (1, 2, 3):
            await actor.begin(f"own:{run}", "broker[0]", "ask", {}, {})
        await asyncio.sleep(0.1)
        turns = actor.counts["commits"]
        actor.upcalls.decided(Decision(f"own:{run}", "broker[0]", "granted", {"units": 2}, 1) for run in order)
        await asyncio.sleep(0.1)
        assert actor.counts["commits"] == turns + 1, "all in one turn"
        found = units(actor)
        await actor.stop()
        return found

    assert virtual(story((1, 2, 3))) == {("own:1", "broker[0]"): 2}
    assert virtual(story((3, 1, 2))) == {("own:3", "broker[0]"): 2}


async def test_a_client_is_held_to_the_contract_too(stock: Program) -> None:
    actor = broker(stock, Disk(), None)
    await actor.start()
    await actor.begin("own:1", "broker[0]", "ask", {}, {})
    with pytest.raises(ActorError, match="it breaks the contract `granted`: It grants no more"):
        await actor.tell("own:1", "broker[0]", "granted", {"units": 4})
    await actor.tell("own:1", "broker[0]", "granted", {"units": 3})
    assert units(actor) == {("own:1", "broker[0]"): 3}
    await actor.stop()


async def test_a_lease_that_may_not_be_closed_early_is_not() -> None:
    async with Cluster(units=2, settings={"close_early": False}, options=ActorOptions(seed=0)) as c:
        c.broker.environment.policies["broker"] = Answers("denied", {"nonsense": 1})
        lease = await c.lease(1, until=60, term=30)
        with pytest.raises(ActorError, match="it breaks the contract `close`: The holder has no more use"):
            await c.tenant.tell(lease, "service_manager", "close")
        assert c.state(lease)[0] == "ticketing"


@pytest.mark.parametrize(
    ("granted", "placed", "states"),
    [
        (1, [0], (["ticketed", "ticketed"], ["active", "priming"])),  # one unit for two leases
        (2, [0, 1], (["ticketed", "ticketing"], ["active"])),  # both units for each
    ],
)
async def test_leases_of_contention_share_the_units_of_their_site(granted: int, placed: list[int], states: Any) -> None:
    """Policies that promise all to everybody: the contracts of `contention` hold over its leases, in two runs."""
    program = compile_system(load("contention", {"max_units": 2}))

    class Up(SilentHandler):
        async def act(self, action: Any) -> Any:
            from leasehold.impl.handlers.handler import Done

            return Done(True)

    def made(name: str) -> Environment:
        answers = {
            "broker": Answers("granted", {"units": granted, "later": 0, "longer": 0, "properties": 0}),
            "authority": Answers("placed", {"units": placed}),
            "service_manager": Answers("redeem_now", {}),
        }
        roles = {"broker": ("broker",), "site": ("authority",), "service_manager": ("service_manager",)}[name]
        handlers = {verb: Up() for verb in ("setup", "modify", "teardown", "join", "leave")}
        return Environment({role: answers[role] for role in roles}, handlers, credentials=NoCredentials())  # type: ignore[misc]

    options = ActorOptions(seed=0, backoff=Backoff(first=0.01, longest=0.05))
    async with SystemCluster(program, options=options, environment=made) as c:
        for run, n in ((1, 0), (2, 1)):
            manager, machine = c.actors["service_manager"], f"service_manager[{n}]"
            await manager.begin(f"service_manager:{run}", machine, "demand", {"units": granted, "end": 9}, c.players)
            await asyncio.sleep(2)
        for actor, role, wanted in (("broker", "broker", states[0]), ("site", "authority", states[1])):
            held = [
                c.actors[actor].table.instances.get(RecordKey(f"service_manager:{n + 1}", f"{role}[{n}]"))
                for n in (0, 1)
            ]
            assert [m.state for m in held if m is not None] == wanted
        assert c.actors["broker"].counts["policy errors"] + c.actors["site"].counts["policy errors"] >= 1


@pytest.mark.parametrize(
    ("system", "name", "reason"),
    [
        ("contention", "reclaim", "enforced but for `now >= it.end`, as it reads `now`, which is true time"),
        ("lease", "no_room", "it says `enforced: false`"),
        ("two_phase_commit", "no_vote_comes", "it asks `running`, which no actor knows, and it asks `reachable`"),
        ("three_phase_commit_termination", "lost", "it reads machines of `coordinator`, which other actors play"),
        ("three_phase_commit_termination", "lost", "it uses machines as values, whose numbers are those of one run"),
    ],
)
def test_what_cannot_be_enforced_is_said_by_name(system: str, name: str, reason: str) -> None:
    found = {entry.name: entry for entry in not_enforced(load(system))}
    assert reason in str(found[name])
    assert str(found[name]).startswith(f"contract `{name}` (")
    shown = CliRunner().invoke(compile_, [system])  # type: ignore[arg-type]
    assert str(found[name]) in shown.output


@pytest.mark.parametrize(
    ("when", "reason"),
    [
        ("any(b.units > 0 for b in it.friends)", "it uses machines as values, whose numbers are those of one run"),
        ("index(it) == 0", "it uses machines as values, whose numbers are those of one run"),
        ("count(b.units > 0 for b in {b for b in broker if b != it}) == 0", "it uses machines as values"),
        ("broker[1].units == 0", "it reads a machine of `broker` by its number"),
        ("any(b.state == idle2 for b in broker)", ""),
        ("cap.state == many and it.units == 0 and event.units > 1", ""),
        ("it.friends == {} or broker[1] in it.friends", ""),
        ("len(broker - it.friends) == 2 and it.units == 0", ""),
        ("it.friends == {} and any(b.state == idle2 for b in broker)", ""),  # each part by itself
        ("it.friends == {} or any(b.state == idle2 for b in broker)", "it uses machines as values"),
        ("all(b.units == 0 for b in broker - it.friends)", "it uses machines as values"),
        ("it == broker[0]", "it uses machines as values, whose numbers are those of one run"),
    ],
)
def test_numbers_of_machines_are_those_of_one_run(tmp_path: Path, when: str, reason: str) -> None:
    system = STOCK["system.yaml"].replace("sum(b.units for b in broker if b != it) + event.units <= cap.most", when)
    role = STOCK["roles/broker.yaml"].replace("data: {", 'data: {friends: {type: "set[broker]"}, ')
    program = program_of(tmp_path, {**STOCK, "system.yaml": system, "roles/broker.yaml": role})
    found = [entry.reason for entry in not_enforced(load(tmp_path))]
    assert [reason in words for words in found] == ([True] if reason else []), found
    assert ("granted" in program.roles["broker"].contracts) == (not reason)


async def test_a_contract_over_the_machines_that_a_record_names_is_enforced(tmp_path: Path) -> None:
    files = files_of("impl/actor/systems/turns")
    program = program_of(tmp_path, files)
    assert not_enforced(load(tmp_path)) == ()

    async with SystemCluster(program) as c:
        for who in ("guest[1]", "guest[2]"):
            await c.actors["desk"].tell("turns:1", "desk", "call", {"who": who, "bell": "left"})
        with pytest.raises(ActorError, match="Each once"):
            await c.actors["desk"].tell("turns:1", "desk", "call", {"who": "guest[1]", "bell": "right"})


def test_an_event_that_one_action_gives_at_any_time_has_no_contract(tmp_path: Path) -> None:
    files = {**STOCK, "system.yaml": STOCK["system.yaml"] + "  gift: {to: broker, event: granted}\n"}
    assert "granted" not in program_of(tmp_path, files).roles["broker"].contracts
    (found,) = not_enforced(load(tmp_path))
    assert found.reason == "`gift` lets the event come at any time"


async def test_either_of_two_actions_may_give_an_event(tmp_path: Path) -> None:
    more = "  gift: {to: broker, event: granted, when: event.units == 4, doc: Four are a gift.}\n"
    program = program_of(tmp_path, {**STOCK, "system.yaml": STOCK["system.yaml"] + more})

    actor = broker(program, Disk(), None)
    await actor.start()
    for run in (1, 2):
        await actor.begin(f"own:{run}", "broker[0]", "ask", {}, {})
    with pytest.raises(ActorError, match=r"the contract `granted` and `gift`: It grants .* Four are a gift"):
        await actor.tell("own:1", "broker[0]", "granted", {"units": 5})
    await actor.tell("own:1", "broker[0]", "granted", {"units": 4})
    await actor.tell("own:2", "broker[0]", "granted", {"units": 4})
    await actor.stop()
