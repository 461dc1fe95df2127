"""A replay by itself: which step of a script is which act on the actors, and what is done at a crash's point."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from leasehold.checker.recovery.cases.player import ReplayDiverged
from leasehold.checker.recovery.cases.replay import Unplayable
from leasehold.checker.recovery.cases.steps import ScriptStep
from leasehold.checker.recovery.lease.case import LeaseReplayer
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.notices import Consumed, Kind, Notice, SimulatedCrash
from tests.systems import load

LEASE, OTHER = "service_manager:2", "service_manager:1"
SYSTEM = load("lease", {"max_units": 2, "last_end": 1, "expiry": False})
PROGRAM = compile_system(SYSTEM)
SM, BROKER, SITE, UNIT = ("service_manager", 0), ("broker", 0), ("authority", 0), ("unit", 0)
MACHINES = (SM, BROKER, SITE, UNIT)
FIRST = ("nascent", "nascent", "nascent", "idle")


class Actor:
    """A running actor that writes down what it is given."""

    def __init__(self, name: str, told: list[Any]) -> None:
        self.name, self.told = name, told
        self.program = PROGRAM
        self.heard: list[Callable[[Notice], None]] = []
        self.notices, self.queue = SimpleNamespace(subscribe=self.heard.append), SimpleNamespace(put=self.put)

    def begin(self, lease: str, machine: str, event: str, fields: Any, peers: Any) -> Any:
        self.told.append(("begin", self.name, lease, machine, event, fields, peers))
        return Done()

    def put(self, request: Any) -> Any:
        self.told.append(("put", self.name, request.key.machine, request.event))
        return Done()


class Done:
    """A future that is done."""

    def done(self) -> bool:
        return True

    def cancelled(self) -> bool:
        return False

    def exception(self) -> None:
        return None


class Sim:
    """A simulation that writes down what it is asked for."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.program = PROGRAM
        self.players = {
            "service_manager": "service_manager",
            "broker": "broker",
            "authority": "site",
            "unit[0]": "site",
            "unit[1]": "site",
        }
        self.actors = {name: Actor(name, self.told) for name in ("service_manager", "broker", "site")}
        self.states: dict[str, str] = {}
        self.subscribers: list[Any] = []
        self.network = SimpleNamespace(
            in_transit=[],
            sent=[],
            lose=self._lose,
            deliver=lambda packet, answered: self.told.append(("deliver", packet.number, answered)),
        )
        self.loop = SimpleNamespace(call=lambda what: what(), quiesce=lambda: self.told.append("quiesce"))

    def _lose(self, packet: Any) -> None:
        self.told.append(("lose", packet.number))
        self.network.in_transit.remove(packet)

    def deliver(self, packet: Any, answered: bool = True) -> None:
        self.network.deliver(packet, answered)

    def tick(self) -> None:
        self.told.append("tick")

    def start(self, name: str) -> None:
        self.told.append(("start", name, len(self.subscribers)))
        self.actors[name] = Actor(name, self.told)

    def crash(self, name: str) -> None:
        self.told.append(("crash", name))
        del self.actors[name]

    def held(self, lease: str, machine: str) -> Any:
        assert lease == LEASE
        core = PROGRAM.roles[machine.partition("[")[0]]
        state = self.states.get(machine)
        key = SimpleNamespace(lease=lease, machine=machine)
        record = list(core.first())
        record[core.state_epoch_at] = 7
        return None if state is None else SimpleNamespace(state=state, core=core, key=key, record=tuple(record))


@pytest.fixture
def sim() -> Sim:
    return Sim()


def replayer(sim: Sim, machines: tuple[tuple[str, int], ...] = MACHINES) -> LeaseReplayer:
    return LeaseReplayer(sim, SYSTEM, SimpleNamespace(machines=machines), LEASE)  # type: ignore[arg-type]


def step(
    kind: str,
    machine: Any = SM,
    event: str = "",
    fields: tuple[Any, ...] = (),
    *,
    sender: Any = None,
    point: str = "",
    done: tuple[str, ...] = (),
    control: tuple[str, ...] = FIRST,
    in_transit: Any = (),
) -> ScriptStep:
    return ScriptStep(kind, machine, event, fields, sender, point, done, control, in_transit)


def packet(
    number: int,
    message: str,
    fields: dict[str, Any],
    sender: str = "service_manager",
    to: str = "broker",
    lease: str = LEASE,
    actor: str = "",
) -> Any:
    envelope = {
        "lease": lease,
        "message": message,
        "sending_machine": sender,
        "receiving_machine": to,
        "fields": fields,
    }
    return SimpleNamespace(number=number, envelope=envelope, source=f"memory:{actor or sender}")


TICKET = {"units": 1, "start": 0, "end": 3, "type": 0, "properties": 0}
SAID = (1, 0, 3, 0, 0)  # the same in a script
TOLD = {**TICKET, "properties": {}, "reason": 0}  # of `update_ticket`


def acts(sim: Sim) -> list[Any]:
    return [told for told in sim.told if told != "quiesce"]


def test_numbers_of_units_are_one_more_and_opaque_values_are_other_than_the_first(sim: Sim) -> None:
    """The bystander has the first unit."""
    replay = replayer(sim)
    assert [replay.machine(m) for m in (*MACHINES, ("unit", 1))] == [
        "service_manager",
        "broker",
        "authority",
        "unit[1]",
        "unit[2]",
    ]
    core = PROGRAM.roles["authority"]
    assert replay.fields(core.events["placed"], (frozenset({0, 1}), 0)) == (frozenset({1, 2}), {"script": 0})
    broker = PROGRAM.roles["broker"]
    assert replay.fields(broker.events["granted"], (2, 1, 0, 0, 0, 0)) == (
        2,
        1,
        0,
        {"script": 0},
        {"script": 0},
        {"script": 0},
    )


def test_time_passes_by_a_tick(sim: Sim) -> None:
    replayer(sim).step(step("clock", None), 0)
    assert sim.told == ["tick", "quiesce"]


def test_a_message_is_delivered_that_is_the_scripts(sim: Sim) -> None:
    """A message is found by lease, name, both machines and fields; it is answered."""
    sim.network.in_transit += [
        packet(1, "ticket", TICKET, lease=OTHER),
        packet(2, "extend_ticket", TICKET),
        packet(3, "ticket", {**TICKET, "units": 2}),
        packet(4, "ticket", TICKET, sender="authority"),
        packet(5, "ticket", TICKET, to="authority"),
        packet(6, "ticket", {**TICKET, "units": "x"}),
        packet(7, "ticket", TICKET),
        packet(8, "ticket", TICKET),
    ]
    replayer(sim).step(step("deliver", BROKER, "ticket", SAID, sender=SM), 0)
    assert acts(sim) == [("deliver", 7, True)]


def test_properties_in_a_message_may_be_any(sim: Sim) -> None:
    fields = {**TOLD, "properties": {"ticket": 9}}
    sim.network.in_transit.append(packet(1, "update_ticket", fields, "broker", "service_manager"))
    replayer(sim).step(step("deliver", SM, "update_ticket", (*SAID, 0), sender=BROKER), 0)
    assert acts(sim) == [("deliver", 1, True)]


def test_a_message_that_came_before_is_delivered_once_more_the_newest_of_its_kind(sim: Sim) -> None:
    replay = replayer(sim)
    sim.network.sent += [packet(n, "ticket", TICKET) for n in (1, 2)]
    replay.step(step("duplicate", BROKER, "ticket", SAID, sender=SM), 0)
    assert acts(sim) == [("deliver", 2, True)]


def test_a_message_that_is_not_under_way_ends_the_replay(sim: Sim) -> None:
    with pytest.raises(ReplayDiverged, match=r"no ticket of \('service_manager', 0\) is under way to \('broker', 0\)"):
        replayer(sim).step(step("deliver", BROKER, "ticket", SAID, sender=SM), 0)


def test_a_message_is_lost_where_it_is_under_way(sim: Sim) -> None:
    replay = replayer(sim)
    sim.network.in_transit.append(packet(1, "ticket", TICKET))
    for n in range(2):
        replay.step(step("lose", BROKER, "ticket", SAID, sender=SM), n)
    assert acts(sim) == [("lose", 1)]


def test_the_first_event_begins_the_lease_and_later_ones_are_of_the_states_epoch(sim: Sim) -> None:
    replay = replayer(sim)
    replay._do(step("local", SM, "demand", (*SAID, 0, 0)))
    assert acts(sim) == [
        (
            "begin",
            "service_manager",
            LEASE,
            "service_manager",
            "demand",
            {**TICKET, "configuration": 0, "local": 0},
            sim.players,
        )
    ]
    sim.told.clear()
    sim.states = {"authority": "priming", "service_manager": "ticketed"}
    replay._do(step("local", SITE, "placed", (frozenset({0}), 0)))
    replay._do(step("tick", SM, "tick"))
    (_, actor, machine, event), (_, _, other, tick) = acts(sim)
    assert (actor, machine, other) == ("site", "authority", "service_manager")
    assert (event[0], frozenset({1}) in tuple(event[1]), 7 in event) == ("placed", True, True)
    assert tick[0] == "tick"


def test_an_event_of_a_machine_that_is_not_there_ends_the_replay(sim: Sim) -> None:
    with pytest.raises(ReplayDiverged, match="there is no broker to take tick"):
        replayer(sim)._do(step("tick", BROKER, "tick"))
    with pytest.raises(ReplayDiverged, match=r"there is no unit\[1\] to take up"):
        replayer(sim)._do(step("local", UNIT, "up"))
    assert sim.told == []


def test_only_the_origin_of_a_lease_may_begin_a_machine_of_it(sim: Sim) -> None:
    """A script in which another is the first to take an event cannot be played."""
    replay = replayer(sim)
    assert [name for name in sim.players if replay.may_begin(name)] == ["service_manager"]
    with pytest.raises(Unplayable, match="authority has not heard of service_manager:2 yet, and takes reclaim in the"):
        replay._do(step("local", SITE, "reclaim"))
    with pytest.raises(ReplayDiverged, match="there is no broker to take granted"):  # no first state takes that
        replay._do(step("local", BROKER, "granted", (1, 0, 0, 0, 0, 0)))
    assert sim.told == []


def test_actors_are_compared_with_the_model_after_each_step(sim: Sim) -> None:
    """A machine that nobody has is in its first state; who is down is not asked."""
    replay = replayer(sim)
    replay.step(step("clock", None), 0)
    sim.states["broker"] = "ticketing"
    with pytest.raises(ReplayDiverged, match=r"^step 5 \(clock \): broker is ticketing, not nascent"):
        replay.step(step("clock", None), 4)
    replay.step(step("clock", None), 4, without_crash=True)
    replay.step(step("clock", None, control=("nascent", "ticketing", "nascent", "idle")), 4)
    sim.states["unit[1]"] = "active"
    with pytest.raises(ReplayDiverged, match=r"unit\[1\] is active, not idle"):
        replay.step(step("clock", None, control=("nascent", "ticketing", "nascent", "idle")), 4)
    del sim.actors["broker"], sim.actors["site"]
    replay.step(step("clock", None, control=("nascent", "x", "y", "z")), 4)
    with pytest.raises(ReplayDiverged, match=r"^step 6 \(lose ticket\): service_manager is nascent, not ticketed"):
        replay.step(step("lose", BROKER, "ticket", SAID, sender=SM, control=("ticketed", "x", "y", "z")), 5)


def test_who_recovers_is_started_unless_it_runs(sim: Sim) -> None:
    replay = replayer(sim)
    replay.step(step("recover", SITE), 0)
    assert acts(sim) == []
    sim.crash("site")
    replay.step(step("recover", UNIT), 0)
    assert acts(sim) == [("crash", "site"), ("start", "site", 0)]


BEFORE, AFTER = "crash:broker/nascent#before-commit@alive", "crash:broker/ticketing#after-commit@alive"


def crash(point: str, event: str = "deliver ticket", **more: Any) -> ScriptStep:
    return step("crash", BROKER, event, SAID if event else (), sender=SM if event else None, point=point, **more)


def test_at_rest_the_actor_just_ends_and_what_it_had_not_sent_in_the_model_is_lost(sim: Sim) -> None:
    sim.network.in_transit += [
        packet(1, "update_ticket", TOLD, "broker", "service_manager"),
        packet(2, "update_ticket", {**TOLD, "units": 2}, "broker", "service_manager"),
        packet(3, "ticket", TICKET),
    ]
    replayer(sim).step(crash(AFTER, "", in_transit=((SM, "update_ticket", (*SAID, 0)),)), 0)
    assert acts(sim) == [("crash", "broker"), ("lose", 2)]


@pytest.mark.parametrize(("point", "kind", "answered"), [(BEFORE, Kind.COMMIT, True), (AFTER, Kind.COMMITTED, False)])
def test_an_actor_stops_before_or_after_the_commit_of_its_step(
    sim: Sim, point: str, kind: Kind, answered: bool
) -> None:
    """Nobody hears that the message was taken; who stopped before the commit has not taken it."""
    sim.network.in_transit.append(packet(1, "ticket", TICKET))
    actor = sim.actors["broker"]
    replayer(sim).step(crash(point), 0)
    assert acts(sim) == [("deliver", 1, answered), ("crash", "broker")]
    (hear,) = actor.heard
    for other in Kind:
        if other is not kind:
            hear(Notice(other, "broker"))
    with pytest.raises(SimulatedCrash):
        hear(Notice(kind, "broker"))


def test_before_the_acknowledgement_all_work_is_done(sim: Sim) -> None:
    sim.network.in_transit.append(packet(1, "ticket", TICKET))
    actor = sim.actors["broker"]
    replayer(sim).step(crash("crash:broker/ticketing#before-acknowledge@alive"), 0)
    assert (acts(sim), actor.heard) == ([("deliver", 1, False), ("crash", "broker")], [])


def test_after_some_tasks_only_their_work_is_done_and_nothing_of_other_machines(sim: Sim) -> None:
    sim.states = {"authority": "priming"}
    actor = sim.actors["site"]
    point = "crash:authority/priming#after-some-setup@alive"
    replayer(sim)._crash(step("crash", SITE, "local placed", (frozenset({0}), 0), point=point, done=("some-place",)))
    (only,) = actor.heard
    only(Notice(Kind.COMMIT, "site", machine="authority"))
    only(Notice(Kind.CALL, "site", machine="authority", name="policy.place"))
    for machine, name in (("authority", "policy.other"), ("unit[1]", "policy.place"), ("authority", "")):
        with pytest.raises(Consumed):
            only(Notice(Kind.CALL, "site", machine=machine, name=name))
    with pytest.raises(Consumed):
        only(Notice(Kind.SEND, "site", machine="authority", name="update_lease"))


def test_messages_that_a_task_sends_are_its_work(sim: Sim) -> None:
    step_ = step("crash", BROKER, point="crash:broker/ticketed#after-tell@alive", done=("tell",))
    replay = replayer(sim)
    replay._only(step_, Notice(Kind.SEND, "broker", machine="broker", name="update_ticket"))
    with pytest.raises(Consumed):
        replay._only(step_, Notice(Kind.SEND, "broker", machine="broker", name="ticket"))


def test_who_sends_before_its_commit_is_found(sim: Sim) -> None:
    """A message that was sent before its step is only lost."""
    old = packet(4, "update_ticket", TOLD, "broker", "service_manager")
    sim.network.in_transit += [packet(3, "ticket", TICKET), old]
    sim.network.sent += sim.network.in_transit
    replay = replayer(sim)
    replay.step(crash(BEFORE), 0)
    assert ("lose", 4) in sim.told
    sim.start("broker")
    deliver = sim.network.deliver

    def sends(given: Any, answered: bool) -> None:
        deliver(given, answered)
        sim.network.in_transit.append(packet(5, "update_ticket", TOLD, "broker", "service_manager"))

    sim.network.deliver = sends
    with pytest.raises(ReplayDiverged, match="broker has sent update_ticket before the commit that it follows from"):
        replay.step(crash(BEFORE), 0)


def test_who_dies_amid_its_recovery_is_started_with_the_points_work_alone(sim: Sim) -> None:
    replay = replayer(sim)
    sim.crash("broker")
    sim.told.clear()
    stillborn = step("stillborn", BROKER, point="crash:broker/ticketed#recovering-after-tell@alive", done=("tell",))
    replay.step(stillborn, 0)
    assert acts(sim) == [("start", "broker", 1), ("crash", "broker")]
    assert sim.subscribers == []
    sim.told.clear()
    replay.step(stillborn, 0, without_crash=True)
    assert acts(sim) == []


def test_a_crash_at_a_point_of_the_recovery_is_a_crash_and_one_amid_the_recovery(sim: Sim) -> None:
    replayer(sim).step(crash("crash:broker/ticketed#recovering-after-tell@alive", "", done=("tell",)), 0)
    assert acts(sim) == [("crash", "broker"), ("start", "broker", 1), ("crash", "broker")]


@pytest.mark.parametrize(
    ("point", "event", "taken"),
    [(BEFORE, "deliver ticket", False), (AFTER, "", False), (AFTER, "deliver ticket", True)],
)
def test_without_the_crash_the_step_is_taken_unless_it_was_not_committed(
    sim: Sim, point: str, event: str, taken: bool
) -> None:
    """The machines are not compared then: the model's are those of the crash."""
    sim.network.in_transit.append(packet(1, "ticket", TICKET))
    replayer(sim).step(crash(point, event, control=("x",) * 4), 0, without_crash=True)
    assert acts(sim) == ([("deliver", 1, True)] if taken else [])
