"""The table of machines: which leases are forgotten (compared with a plain set), and which timers are due."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.impl.actor.chronicle import RowCodec
from leasehold.impl.actor.messages import EnvelopeCodec
from leasehold.impl.actor.pruned import Pruned, origin_of
from leasehold.impl.actor.table import BELOW, MEMBERSHIP, MachineInstance, MachinesOfActor, MachineTable
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.codec import RecordError
from leasehold.impl.core.stepping import with_cell
from leasehold.impl.store.store import RecordKey
from leasehold.spec import load as load_folder
from tests.impl.actor.alone import program_of
from tests.impl.actor.test_timers import LAMPLIGHTER
from tests.systems import load

LEASE = compile_system(load("lease", {"max_units": 3}))
SITE = frozenset({"authority", "unit"})


def test_who_plays_a_neighbour_is_known_for_each_channel_to_it() -> None:
    """The run's membership is told to one that has said nothing yet, over whichever channel it would have done so."""
    program = compile_system(load("tests/constructs/channels"))
    server = program.roles["server"]
    instance = MachineTable(program, frozenset({"server"})).new(RecordKey("client-0:1", "server"), server, 0)
    names = program.lanes(server, 0)
    at = names.index("client[1] over urgent")
    instance.learn(at, "anna")
    assert {name: who for name, who in zip(names, instance.peers, strict=True) if who} == {
        f"client[1] over {channel}": "anna" for channel in ("requests", "urgent", "answers")
    }
    instance.metadata[MEMBERSHIP] = "members"
    answers = [names.index(f"client[{n}] over answers") for n in range(2)]
    assert [EnvelopeCodec._membership(instance, at) for at in answers] == ["members", "members"]
    heard = with_cell(instance.record[server.received_at], at, 1)
    instance.record = with_cell(instance.record, server.received_at, heard)
    assert [EnvelopeCodec._membership(instance, at) for at in answers] == ["members", None]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 30))))
def test_it_knows_exactly_what_was_forgotten(leases: list[tuple[str, int]]) -> None:
    pruned, plain = Pruned(), set()
    for origin, number in leases:
        assert pruned.add(f"{origin}:{number}") == origin
        plain.add((origin, number))
        again = Pruned()
        for name in "ab":
            again.read(name, pruned.write(name))
        for found in (pruned, again):
            assert {(o, n) for o in "ab" for n in range(1, 32) if f"{o}:{n}" in found} == plain
    apart = sum(1 for origin, number in plain if (origin, number - 1) not in plain)
    assert len(pruned) == apart


@pytest.mark.parametrize("name", ["", "a", "a:", ":1", "a:0", "a:01", "a:-1", "a b:1", "a:1:2", "a:" + "9" * 19])
def test_a_name_that_is_none_is_never_forgotten(name: str) -> None:
    assert origin_of(name) is None
    assert name not in Pruned()
    with pytest.raises(ValueError, match="ORIGIN:NUMBER"):
        Pruned().add(name)


def _waking(wake: int) -> tuple[MachineTable, MachineInstance]:
    """A table with one machine, whose record is its state and the time at which its timer is due."""
    program: Any = SimpleNamespace(roles={})
    core: Any = SimpleNamespace(wake=lambda record: record[1])
    table, instance = (
        MachineTable(program, frozenset()),
        MachineInstance(RecordKey("tenant:1", "lease"), core, ("used", wake), []),
    )
    table.instances[instance.key] = instance
    table.wake_later(instance)
    return table, instance


def test_timers_that_are_due_follow_each_other_at_once() -> None:
    table, _ = _waking(5)
    assert list(table.due(4)) == []
    states = []
    for due in table.due(7):
        states.append(due.state)
        due.record = ("closing", 6) if due.state == "used" else ("closed", None)
        table.wake_later(due)
    assert states == ["used", "closing"]
    assert list(table.due(9)) == []


@pytest.mark.parametrize("back", [("used", 5), ("used", 6)])
def test_a_timer_that_stays_due_is_looked_at_once_a_tick(back: tuple[str, int]) -> None:
    table, _ = _waking(5)
    for now in (7, 8):
        seen = []
        for due in table.due(now):
            seen.append(due.state)
            due.record = ("closing", 5) if due.state == "used" else back
            table.wake_later(due)
        assert seen == ["used", "closing"], "or time would never pass"
        assert list(table.due(now)) == []
        assert len(table._wakes) == 1


def test_a_timer_that_is_not_taken_is_looked_at_again() -> None:
    table, instance = _waking(5)
    for now in (5, 6, 7):
        assert list(table.due(now)) == [instance]
        assert list(table.due(now)) == []


def test_a_wake_that_is_set_for_later_waits_for_its_time() -> None:
    table, instance = _waking(5)
    for due in table.due(5):
        due.record = ("used", 8)
        table.wake_later(due)
    assert list(table.due(7)) == []
    assert list(table.due(8)) == [instance]


@pytest.mark.parametrize(("work", "wake", "rests"), [((), None, True), (("piece",), None, False), ((), 9, False)])
def test_a_machine_rests_that_asks_for_no_work_and_has_no_timer(
    work: tuple[str, ...], wake: int | None, rests: bool
) -> None:
    core: Any = SimpleNamespace(work={"used": lambda record: work}, wake=lambda record: wake)
    assert MachineInstance(RecordKey("tenant:1", "lease"), core, ("used",), []).rests is rests


def test_the_timer_of_a_machine_that_is_gone_is_none() -> None:
    table, instance = _waking(5)
    del table.instances[instance.key]
    assert list(table.due(9)) == []
    assert not table._wakes


# The machines of a site


def site(metadata: dict[str, bytes] | None = None) -> MachineTable:
    table = MachineTable(LEASE, SITE)
    table.clear(metadata or {})
    return table


def held(table: MachineTable, lease: str, state: str = "active") -> MachineInstance:
    """A lease's machine in a state, in the table."""
    made = table.new(RecordKey(lease, "authority"), LEASE.roles["authority"], 0)
    made.record = (state, *made.record[1:])
    table.instances[made.key] = made
    return made


def unit(table: MachineTable, number: int, lease: str, state: str = "active") -> MachineInstance:
    """A unit that a lease was the last to drive."""
    core = LEASE.roles["unit"]
    made = MachineInstance(RecordKey(BELOW, core.machine(number)), core, (state, *core.first(number)[1:]), [])
    table.instances[made.key] = made
    table.see(made, made.record)
    table.drive(made, RecordKey(lease, "authority"))
    return made


def test_a_machine_is_read_as_it_was_written() -> None:
    rows, table = RowCodec(LEASE), site()
    authority, room = held(table, "tenant:1"), unit(table, 2, "tenant:1")
    authority.peers[:] = ["tenant"]
    authority.metadata.update({"since": 3, "ticket": "words", "facts": {"pid": 7}})
    for instance in (authority, room):
        again = rows.read(instance.key, rows.write(instance), table.below)
        for name in ("key", "core", "record", "peers", "metadata", "number", "state", "state_epoch"):
            assert getattr(again, name) == getattr(instance, name)
        assert again.attempts == (0, 0)
    assert (room.number, authority.number) == (2, 0)
    again = rows.read(authority.key, rows.write(authority), table.below)
    assert again.record[-1] is table.below["unit"]  # all leases see the same units


def test_a_row_that_is_no_machine_s_is_refused_with_its_name() -> None:
    rows, table = RowCodec(LEASE), site()
    row = rows.write(held(table, "tenant:1"))
    other = rows.write(unit(table, 1, "tenant:1"))
    for key, wrong, words in (
        (RecordKey("tenant:1", "authority[0]"), row, r"tenant:1 authority\[0\]: lease has no such machine"),
        (RecordKey("tenant:1", "authority"), row[:-3], "tenant:1 authority: the row is not whole"),
        (RecordKey("tenant:1", "authority"), b"\x92\x01\x90", "tenant:1 authority: the row is not whole"),
        (RecordKey("tenant:1", "authority"), b"\xc0", "tenant:1 authority: the row is not whole"),
        (RecordKey("tenant:1", "authority"), b"\x93\xc4\x00\x07\x80", "tenant:1 authority: "),
        (RecordKey("tenant:1", "authority"), other, "tenant:1 authority: it is a record of `unit`"),
        (RecordKey("-", "unit[3]"), other, r"- unit\[3\]: lease has no such machine"),
    ):
        with pytest.raises(RecordError, match=words) as refused:
            rows.read(key, wrong, table.below)
        assert refused.value.digest == (LEASE.digest if wrong is other and key.machine == "authority" else "")


def test_a_machine_that_the_actor_does_not_play_is_not_admitted() -> None:
    table = MachineTable(LEASE, frozenset({"broker"}))
    made = held(site(), "tenant:1")
    with pytest.raises(RecordError, match="tenant:1 authority: this actor does not play authority"):
        table.admit(made, 0)
    assert not table.instances


def test_what_was_read_is_in_every_index() -> None:
    """Timers, ends, the units that all leases see, and whose units they are."""
    table, before = site(), site()
    room, over = unit(before, 1, "tenant:2", "priming"), held(before, "tenant:1", "closed")
    room.record = with_cell(room.record, room.core.names.index("deadline"), 4)
    over.metadata["over"] = 7
    for instance in (room, over):
        table.admit(instance, 20)
    assert table.instances == {room.key: room, over.key: over}
    assert table.below["unit"][1] == room.record
    assert table.driven == {"tenant:2": {room.key}}
    assert list(table.due(3)) == []
    assert list(table.due(4)) == [room]
    assert list(table.ended(6)) == []
    assert list(table.ended(7)) == [over]
    assert list(table.ended(7)) == []
    table.clear({})
    assert (table.instances, table.below["unit"], table.driven, list(table.due(9)), list(table.ended(9))) == (
        {},
        {},
        {},
        [],
        [],
    )


def test_a_unit_belongs_to_the_lease_that_drove_it_last() -> None:
    table = site()
    first, second, room = held(table, "tenant:1"), held(table, "tenant:2"), unit(table, 2, "tenant:1")
    assert [set(table.view(lease, "authority").units) for lease in ("tenant:1", "tenant:2")] == [{("unit", 2)}, set()]
    other = unit(table, 0, "tenant:2", "closed")
    assert table.drive(room, second.key)
    assert table.driven == {"tenant:2": {room.key, other.key}}
    units = table.view("tenant:2", "authority").units
    assert list(units) == [("unit", 0), ("unit", 2)]
    assert units["unit", 0] == {"state": "closed", **LEASE.roles["unit"].view(LEASE.roles["unit"].first(0))}
    assert room.metadata["lease"] == "tenant:2"
    assert not table.drive(room, second.key)
    assert len(table.driven["tenant:2"]) == 2
    assert list(table.orphans()) == []
    for instance in (second, first):
        table.forget(instance)
    assert list(table.orphans()) == [("tenant:2", "authority")]
    seen = table.view("tenant:2", "authority")
    assert (seen.state, list(seen.units)) == ("closed", [("unit", 0), ("unit", 2)])
    assert seen.data == LEASE.roles["authority"].view(LEASE.roles["authority"].first())
    table.add_undriven(room)
    table.add_undriven(other)
    assert list(table.orphans()) == [("", "authority")]  # they are nobody's
    assert list(table.view("", "authority").units) == [("unit", 0), ("unit", 2)]


def test_a_machine_waits_for_a_unit_that_it_drove_while_its_state_asks_for_it() -> None:
    table = site()
    waits, leaves, gone = (held(table, f"tenant:{n}", "priming") for n in (1, 2, 3))
    room = unit(table, 1, "tenant:1")
    for machine in (gone, leaves, waits):
        table.drive(room, machine.key)
    assert {machine.key for machine in table.waiting_for(room.key)} == {waits.key, leaves.key, gone.key}
    leaves.record = ("closed", *leaves.record[1:])
    del table.instances[gone.key]
    assert list(table.waiting_for(room.key)) == [waits]
    assert table.drivers[room.key] == [waits.key]  # the others are not asked again
    assert list(table.waiting_for(RecordKey(BELOW, "unit[0]"))) == []


@pytest.mark.parametrize("several", [False, True])
def test_who_waits_for_a_unit_is_known_after_a_restart(several: bool) -> None:
    table, rows, after = site(), RowCodec(LEASE), site()
    first, second = (held(table, f"tenant:{n}", "priming") for n in (1, 2))
    room = unit(table, 1, "tenant:2")
    if several:
        assert table.drive(room, first.key)
    assert ("drivers" in room.metadata) == several  # the lease that it serves says it else
    for made in (first, second, room):
        after.admit(rows.read(made.key, rows.write(made), after.below_of(made.key.lease)), 0)
    waiting = [machine.key for machine in after.waiting_for(room.key)]
    assert waiting == [machine.key for machine in table.waiting_for(room.key)] == [second.key, first.key][: 1 + several]


def test_of_several_machines_of_one_run_the_last_driver_is_kept(tmp_path: Path) -> None:
    """Its lease alone does not say which one it was."""
    system = LAMPLIGHTER["system.yaml"].replace("keeper: {}", "keeper: {instances: 2}")
    program = program_of(tmp_path, LAMPLIGHTER | {"system.yaml": system})
    table, after = (MachineTable(program, frozenset({"keeper", "lamp"})) for _ in range(2))
    rows = RowCodec(program)
    core, key = program.roles["lamp"], RecordKey(BELOW, "lamp[0]")
    lamp = table.instances[key] = MachineInstance(key, core, core.first(0), [])
    keepers = [RecordKey("own:1", f"keeper[{n}]") for n in (0, 1)]
    for driver in keepers:
        keeper = table.new(driver, program.roles["keeper"], keepers.index(driver))
        table.instances[driver] = after.instances[driver] = keeper
    for driver, drivers in ((0, [0]), (1, [0, 1]), (0, [1, 0])):
        assert table.drive(lamp, keepers[driver])  # also of the same lease another one: that is to be committed
        assert not table.drive(lamp, keepers[driver])
        after.admit(rows.read(key, rows.write(lamp), {}), 0)
        assert table.drivers[key] == after.drivers[key] == [keepers[n] for n in drivers]


def test_names_that_are_given_out() -> None:
    """Each once: whatever was begun, forgotten, wanted, or given out before, here or before a restart; by origin."""
    pruned = Pruned()
    for number in (1, 2, 3, 4, 10**18 - 1):
        pruned.add(f"tenant:{number}")
    table = site({"pruned of tenant": pruned.write("tenant"), "pruned": b"nothing", "of tenant": b"nothing"})
    table.metadata["wish of tenant:6"] = b"somebody wants it"
    assert [table.new_name("tenant") for _ in range(2)] == ["tenant:5", "tenant:7"]
    held(table, "tenant:8")
    held(table, "other:2")
    assert [table.new_name("tenant") for _ in range(2)] == ["tenant:9", "tenant:10"]
    named = [table.new_name(origin) for origin in ("other", "other", "third", "third")]
    assert named == ["other:1", "other:3", "third:1", "third:2"]
    table.pruned.add("third:3")
    assert table.new_name("third") == "third:4"
    assert ("tenant:3" in table.pruned, "tenant:5" in table.pruned) == (True, False)


def test_what_is_forgotten_is_kept_in_the_metadata_of_its_origin() -> None:
    table = site()
    for lease in ("tenant:1", "other:1", "tenant:2"):
        changed = table.forget(held(table, lease))
        origin = lease.partition(":")[0]
        assert changed == {f"pruned of {origin}": table.pruned.write(origin)}
    assert set(table.metadata) == {"pruned of tenant", "pruned of other"}
    again = site(dict(table.metadata))
    assert all(lease in again.pruned for lease in ("tenant:1", "tenant:2", "other:1"))
    assert "other:2" not in again.pruned
    free = [again.pruned.free_from(*at) for at in (("tenant", 1), ("tenant", 2), ("tenant", 5), ("nobody", 1))]
    assert free == [3, 3, 5, 1]


ALL = frozenset(LEASE.roles)
TALKING = ("authority", "broker", "service_manager")


def put(table: MachineTable, lease: str, role: str, state: str) -> MachineInstance:
    """A machine of a lease in a state."""
    key = RecordKey(lease, role)
    made = table.instances.get(key) or table.new(key, LEASE.roles[role], 0)
    made.record = (state, *made.record[1:])
    table.instances[key] = made
    return made


def test_a_machine_is_over_since_it_came_to_its_end_last() -> None:
    """To stay there changes nothing; to leave it ends that; only of leases, as standing machines are never over."""
    table = site()
    lease = held(table, "tenant:1", "closed")
    for now, state, over in (
        (5, "closed", 5),
        (9, "closed", 5),
        (12, "active", None),
        (20, "closed", 20),
        (25, "closed", 20),
    ):
        lease.record = (state, *lease.record[1:])
        table.moved(lease, now)
        assert lease.metadata.get("over") == over
    assert list(table.ended(19)) == [], "its first end is none any more"
    assert list(table.ended(20)) == [lease]
    assert list(table.ended(20)) == []
    table.remember(lease, 30)
    assert list(table.ended(29)) == []
    assert list(table.ended(30)) == [lease]
    room = unit(table, 1, "tenant:1", "closed")
    table.moved(room, 7)
    assert "over" not in room.metadata
    table.program = replace(LEASE, standing=True)
    table.moved(held(table, "tenant:2", "closed"), 7)
    assert "over" not in table.instances[RecordKey("tenant:2", "authority")].metadata


@pytest.mark.parametrize("seed", range(5))
def test_a_lease_is_forgotten_when_all_its_machines_have_been_over_for_long_enough(seed: int) -> None:
    """The plain way: each machine with the time of its end, looked at in every round."""
    chance, table = Random(seed), MachineTable(LEASE, ALL)
    since: dict[tuple[str, str], int | None] = {}
    gone, seen = set[str](), 0
    for now in range(120):
        for _ in range(3):
            lease, role = f"tenant:{chance.randint(1, 25)}", chance.choice(TALKING)
            if lease in gone:
                continue
            state = chance.choice(["closed", "closed", "closed", LEASE.roles[role].states[0]])
            machine = put(table, lease, role, state)
            table.moved(machine, now)
            if state == "closed":
                since[lease, role] = now if (was := since.get((lease, role))) is None else was
            else:
                since[lease, role] = None
        before = now - 6
        old = {
            lease
            for lease in {of for of, _ in since}
            if all(at is not None and at <= before for (of, _), at in since.items() if of == lease)
        }
        ended = list(table.ended(before))
        assert sorted(one.key for one in ended) == sorted(pair for pair in since if pair[0] in old)
        for machine in ended:
            others = [role for of, role in since if of == machine.key.lease and role != machine.key.machine]
            changed = table.forget(machine)
            del since[machine.key.lease, machine.key.machine]
            assert bool(changed) == (not others), "the last one of a lease is written down"
            assert (machine.key.lease in table.pruned) == (not others)
            assert table.has(machine.key.lease) == bool(others)
            seen += 1
        gone |= old
        assert set(table.instances) == {RecordKey(*pair) for pair in since}
        assert all(table.metadata[name] == table.pruned.write("tenant") for name in table.metadata)
    assert seen > 30


def test_a_driver_that_is_over_or_gone_is_remembered_no_more() -> None:
    """The last to drive a unit is kept in any case, and kept by its lease alone where nobody else may wait."""
    table = site()
    over, gone, waits, last = (held(table, f"tenant:{n}", "priming") for n in (1, 2, 3, 4))
    room = unit(table, 1, "tenant:1")
    for machine in (gone, waits):
        table.drive(room, machine.key)
    assert table.drivers[room.key] == [over.key, gone.key, waits.key]
    over.record = ("closed", *over.record[1:])
    del table.instances[gone.key]
    assert table.drive(room, last.key)
    assert table.drivers[room.key] == [waits.key, last.key]
    assert room.metadata["drivers"] == [list(waits.key), list(last.key)]
    waits.record = ("closed", *waits.record[1:])
    assert table.drive(room, last.key)
    assert (table.drivers[room.key], "drivers" in room.metadata) == ([last.key], False)
    assert not table.drive(room, last.key)


# Subsidiary machines of a run

LODGE = compile_system(load_folder(Path(__file__).parent / "lodge", {"limit": 3}))


class Visit:
    """The machines of a visit: its host and visitor, its own guests, and the hall that all visits share."""

    def __init__(self, table: MachineTable, run: str, guests: int, host: str = "open") -> None:
        self.table, self.run = table, run
        self.visitor, self.host = self.put("visitor", "home"), self.put("host", host)
        self.guests = [self.below(RecordKey(run, f"guest[{n}]"), n) for n in range(guests)]
        self.hall = self.below(RecordKey(BELOW, "hall[0]" if "hall[0]" in LODGE.machines else "hall"), 0)

    def put(self, role: str, state: str) -> MachineInstance:
        made = self.table.new(RecordKey(self.run, role), LODGE.roles[role], 0)
        made.record = (state, *made.record[1:])
        self.table.instances[made.key] = made
        return made

    def below(self, key: RecordKey, number: int) -> MachineInstance:
        core = LODGE.machines[key.machine][0]
        made = self.table.instances.get(key) or MachineInstance(key, core, core.first(number), [])
        self.table.instances[key] = made
        self.table.drive(made, self.host.key)
        return made


def lodge() -> tuple[MachineTable, Visit, Visit]:
    table = MachineTable(LODGE, frozenset(LODGE.roles))
    return table, Visit(table, "home:1", 2), Visit(table, "home:2", 1)


def state(machine: MachineInstance, name: str) -> None:
    machine.record = (name, *machine.record[1:])


def test_the_machines_of_a_run_go_with_its_last_machine_and_those_of_the_actor_stay() -> None:
    table, one, other = lodge()
    everything = set(table.instances)
    assert table.below_run("home:1") == one.guests
    assert table.below_run("home:2") == other.guests
    assert [table.last_with(machine) for machine in (one.visitor, one.host)] == [[], []]
    assert table.forget(one.visitor) == {}
    assert set(table.instances) == everything - {one.visitor.key}
    assert table.last_with(one.host) == one.guests
    changed = table.forget(one.host)
    assert changed == {"pruned of home": table.pruned.write("home")}
    assert "home:1" in table.pruned
    assert set(table.instances) == everything - {one.visitor.key, one.host.key, *(g.key for g in one.guests)}
    assert table.driven == {"home:2": {other.guests[0].key, one.hall.key}}
    assert table.below_run("home:1") == []


def test_a_run_is_remembered_while_one_of_its_own_machines_has_something_to_do() -> None:
    """A guest that has work or a timer keeps it; the hall, which is no run's, keeps none."""
    table, one, other = lodge()
    for visit in (one, other):
        state(visit.host, "closed")
        for machine in (visit.host, visit.visitor):
            table.moved(machine, 5)
    state(one.guests[1], "tidying")
    state(one.hall, "lit")
    assert not one.guests[1].rests
    assert {machine.key.lease for machine in table.ended(9)} == {"home:2"}
    assert list(table.ended(9)) == []
    state(one.guests[1], "outside")
    assert sorted(machine.key for machine in table.ended(10)) == [one.host.key, one.visitor.key]


def test_who_waits_for_a_machine_of_a_run_or_of_the_actor_is_in_a_state_that_an_answer_leaves() -> None:
    table, one, other = lodge()
    for host, waits in (("opening", True), ("open", False), ("closing", True), ("closed", False), ("idle", False)):
        state(one.host, host)
        assert list(table.waiting_for(one.guests[0].key)) == ([one.host] if waits else [])
        assert list(table.waiting_for(other.guests[0].key)) == []
    state(one.host, "opening")
    state(other.host, "open")
    assert table.drivers[one.hall.key] == [one.host.key, other.host.key]
    assert list(table.waiting_for(one.hall.key)) == [one.host]
    assert table.drivers[one.hall.key] == [one.host.key, other.host.key], "the other one may wait later"


def test_a_run_sees_its_own_machines_as_they_are_or_as_they_begin() -> None:
    table, one, other = lodge()
    state(one.guests[0], "inside")
    seen, others = table.below_of("home:1"), table.below_of("home:2")
    assert seen["guest"][0] == one.guests[0].record
    assert others["guest"][0] == other.guests[0].record == LODGE.roles["guest"].first(0)
    assert others["guest"][1] == LODGE.roles["guest"].first(1)
    assert seen["hall"] is others["hall"] is table.below["hall"]
    units = table.view("home:1", "host").units
    assert list(units) == [("guest", 0), ("guest", 1)]
    assert list(table.view("home:2", "host").units) == [("hall", 0), ("guest", 0)], "the last one to drive the hall"
    assert units["guest", 0]["state"] == "inside"


def test_a_contract_sees_all_machines_of_a_role_and_those_of_its_run_that_have_not_begun() -> None:
    """A standing system has no others."""
    table, one, other = lodge()
    del table.instances[one.guests[1].key]
    first = LODGE.roles["guest"].first
    count = LODGE.roles["guest"].count
    seen = MachinesOfActor(table, one.host)
    guests = [one.guests[0].record, other.guests[0].record]
    assert seen["guest"] == [*guests, *(first(n) for n in range(1, count))]
    assert (seen.own, MachinesOfActor(table, other.host).own) == (0, 1)
    assert seen.of_run("visitor") == one.visitor.record
    del table.instances[one.visitor.key]
    assert MachinesOfActor(table, one.host).of_run("visitor") == LODGE.roles["visitor"].first()
    table.program = replace(LODGE, standing=True)
    assert MachinesOfActor(table, one.host)["guest"] == guests
