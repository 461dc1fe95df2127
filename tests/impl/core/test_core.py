"""Compiled roles and systems as values: neighbours of any number, who plays what, and the words of an agreement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
import pytest

from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.codec import VERSION, Codec, RecordError
from leasehold.impl.core.core import Core, Field, MessageShape, Program
from leasehold.impl.core.stepping import Numbers, increment_sent, with_cell
from leasehold.impl.core.work import (
    ActorMachines,
    CallWork,
    Contract,
    Machines,
    Outcome,
    Pieces,
    Record,
    SendWork,
    local,
    sends_to,
)
from leasehold.spec.language import types as t
from tests.systems import load

DIGEST = "cd" * 32


def _core(
    role: str,
    *,
    count: int = 1,
    indexed: bool = False,
    neighbours: tuple[tuple[str, int], ...] = (),
    dynamic_neighbours: tuple[str, ...] = (),
    below: tuple[Core, ...] = (),
    subsidiary: bool = False,
    **more: Any,
) -> Core:
    return Core(
        role=role,
        indexed=indexed,
        states=("idle", "busy"),
        fields=(Field("n", t.Int(), 0),),
        events={},
        count=count,
        neighbours=neighbours,
        dynamic_neighbours=dynamic_neighbours,
        since={},
        below=below,
        subsidiary=subsidiary,
        **{"table": {}, "work": {}, "answers": {}, "wakes": {}, **more},
    )


UNIT = _core("unit", count=2, indexed=True, subsidiary=True)
KEY = _core("key", subsidiary=True)
HOST = _core("host", neighbours=(("desk", 0), ("guest", -1)), dynamic_neighbours=("guest", "van"), below=(UNIT, KEY))
DESK = _core("desk", count=3, indexed=True, neighbours=(("host", 0), ("desk", -1)), dynamic_neighbours=("van",))
GUEST = _core("guest", count=2, indexed=True, dynamic=True, neighbours=(("host", 0),))
VAN = _core("van", count=1, indexed=True, dynamic=True, neighbours=(("host", 0),))
ROLES = {core.role: core for core in (HOST, DESK, GUEST, VAN, UNIT, KEY)}


def _program(actors: Mapping[str, tuple[str, ...]] | None = None, **more: Any) -> Program:
    return Program("hotel", DIGEST, {"rooms": 2, "guests": 9}, {}, ROLES, actors or {}, **more)


PROGRAM = _program()


# Neighbours, of which there may be any number


@pytest.mark.parametrize("core", [HOST, DESK], ids=repr)
@pytest.mark.parametrize("own", [0, 1, 2])
def test_each_neighbour_has_one_position(core: Core, own: int) -> None:
    """A position names a machine, and that machine has this position; no two positions name the same one."""
    fixed, turn = len(core.neighbours), len(core.dynamic_neighbours)
    named = [core.neighbour(at) for at in range(fixed + 3 * turn)]
    assert named[:fixed] == list(core.neighbours)
    assert named[fixed:] == [(role, number) for number in range(3) for role in core.dynamic_neighbours]
    for at, (role, number) in enumerate(named):
        if number >= 0:
            assert core.position(role, number, own) == at
        else:
            assert core.position(role, own, own) == (at if role not in core.dynamic_neighbours else fixed + own * turn)


def test_a_machine_that_is_no_neighbour_has_no_position() -> None:
    for role, number in (("desk", 1), ("desk", -2), ("unit", 0), ("host", 0), ("", 0)):
        assert HOST.position(role, number, 0) is None
    assert [DESK.position("desk", number, 1) for number in (0, 1, 2)] == [None, 1, None]
    assert GUEST.position("van", 0, 0) is None


# One with keys for the desk of its own number, which may be called from all, and two channels to and from vans.
LODGER = _core(
    "lodger",
    count=3,
    indexed=True,
    neighbours=(("desk", -1), ("desk", 0), ("desk", 1), ("desk", 2), ("host", 0)),
    dynamic_neighbours=("van", "van"),
    channels=("keys", "calls", "calls", "calls", "", "there", "back"),
)


@pytest.mark.parametrize("own", [0, 1, 2])
def test_each_channel_of_a_neighbour_has_a_position_and_a_name(own: int) -> None:
    """No two positions have the same name; those of one machine are beside each other, whatever they are for."""
    program = Program("hotel", DIGEST, {}, {}, {**ROLES, "lodger": LODGER}, {})
    places = range(11)
    names = [program.lane(LODGER, own, at) for at in places]
    assert names == [
        f"desk[{own}] over keys",
        *(f"desk[{n}] over calls" for n in range(3)),
        "host",
        *(f"van[{n}] over {channel}" for n in range(3) for channel in ("there", "back")),
    ]
    assert program.lanes(LODGER, own) == names[:5]
    assert [program.lane_at(LODGER, own, name) for name in names] == [*places]
    machines = [program.neighbour(LODGER, own, at) for at in places]
    record = ("idle", own, 0, (), (), 0)
    for at in places:
        assert sorted(LODGER.beside(record, at)) == [other for other in places if machines[other] == machines[at]]
    other = (own + 1) % 3
    for name in (f"desk[{other}] over keys", "desk[0]", "host over keys", "van[0] over keys", "van[0]", "nobody", ""):
        assert program.lane_at(LODGER, own, name) is None


def test_numbers_of_neighbours_are_a_value_that_a_change_makes_anew() -> None:
    before = Numbers({3: 7})
    after, once = increment_sent(before, [3, 5, 5]), with_cell(before, 9, 4)
    assert (type(after), type(once)) == (Numbers, Numbers)
    assert (before, after, once) == ({3: 7}, {3: 8, 5: 2}, {3: 7, 9: 4})
    assert (before[4], len(before)) == (0, 1)
    assert with_cell(before, 3, 8) == {3: 8}
    assert HOST.first() == ("idle", 0, Numbers(), Numbers(), 0)
    assert [type(cell) for cell in HOST.first()[2:4]] == [Numbers, Numbers]
    assert GUEST.first(1) == ("idle", 1, 0, (0,), (0,), 0)


DESK_RECORD: Record = ("busy", 2, 5, Numbers({0: 3, 1: 4, 2: 5, 9: 6}), Numbers({1: 7, 3: 8}), 11)


def test_numbers_of_neighbours_are_written_by_name_and_read_by_position() -> None:
    """Their order differs between actors, so a position means nothing outside; -1 is the machine's own number."""
    codec = Codec(PROGRAM, DESK)
    body = codec.encode(DESK_RECORD)
    assert msgspec.msgpack.decode(body)[3] == [
        "busy",
        2,
        5,
        {"host": 3, "desk[2]": 4, "van[0]": 5, "van[7]": 6},
        {"desk[2]": 7, "van[1]": 8},
        11,
    ]
    found = codec.decode(body)
    assert found == DESK_RECORD
    assert [type(found[at]) for at in (3, 4)] == [Numbers, Numbers]
    for own in (0, 2):
        named = codec.by_name({1: "a", 0: "b", 4: "c"}, own)
        assert named == {"host": "b", f"desk[{own}]": "a", "van[2]": "c"}
        assert list(named) == ["host", f"desk[{own}]", "van[2]"]
        assert codec.by_position(named, own) == {0: "b", 1: "a", 4: "c"}
    assert Codec(PROGRAM, HOST).by_position({"guest[1]": 5, "desk[0]": 6}, 0) == {0: 6, 4: 5}
    assert codec.by_position([], 0) == codec.by_position(None, 0) == {}


@pytest.mark.parametrize(
    ("at", "value", "words"),
    [
        (3, {"host": 1, "desk[1]": 1}, r"desk has no neighbour 'desk\[1\]'"),
        (3, {"van[x]": 1}, r"desk has no neighbour 'van\[x\]'"),
        (4, {"guest[0]": 1}, r"desk has no neighbour 'guest\[0\]'"),
        (4, {7: 1}, "desk has no neighbour '7'"),
        (4, {"x" * 70: 1}, rf"desk has no neighbour '{'x' * 60}'$"),
        (3, {"host": -1}, "no number from 0 on"),
        (4, {"host": -1}, "no number from 0 on"),
        (3, {"van[1]": None}, "no number from 0 on"),
        (4, {"van[1]": True}, "no number from 0 on"),
        (5, -1, "no number from 0 on"),
        (5, None, "no number from 0 on"),
        (1, -1, r"no neighbour 'desk\[2\]'"),
    ],
)
def test_what_names_no_neighbour_or_no_number_is_refused(at: int, value: Any, words: str) -> None:
    plain = msgspec.msgpack.decode(Codec(PROGRAM, DESK).encode(DESK_RECORD))[3]
    plain[at] = value
    with pytest.raises(RecordError, match=words):
        Codec(PROGRAM, DESK).decode(msgspec.msgpack.encode([VERSION, bytes.fromhex(DIGEST), "desk", plain]))


# Machines by name, and the actors that play them


def test_machines_of_a_dynamic_role_have_names_without_end() -> None:
    """Machines of the beginning are listed; the largest number is that of the language, and a name has one spelling."""
    names = PROGRAM.machines
    assert list(names) == [
        "host",
        "desk[0]",
        "desk[1]",
        "desk[2]",
        "guest[0]",
        "guest[1]",
        "van[0]",
        "unit[0]",
        "unit[1]",
        "key",
    ]
    for number in (0, 1, 2, 10, t.LARGEST_NUMBER):
        assert names[f"guest[{number}]"] == names.get(f"guest[{number}]") == (GUEST, number)
    for name in (
        "guest",
        "guest[]",
        "guest[02]",
        "guest[-1]",
        "guest[2]x",
        "xguest[2]",
        f"guest[{t.LARGEST_NUMBER + 1}]",
        "guest[12345678901]",
        "desk[3]",
        "unit[2]",
        "host[0]",
        "Guest[1]",
        "nobody[1]",
    ):
        assert names.get(name) is None
        assert names.get(name, 7) == 7
        with pytest.raises(KeyError):
            names[name]
    assert len(names) == 10, "asking for a machine does not make it one of the beginning"


def test_neighbours_by_name() -> None:
    assert PROGRAM.neighbours(DESK, 2) == ["host", "desk[2]"]
    assert [PROGRAM.neighbour(DESK, 2, at) for at in range(4)] == ["host", "desk[2]", "van[0]", "van[1]"]
    assert PROGRAM.talking == ("host", "desk[0]", "desk[1]", "desk[2]", "guest[0]", "guest[1]", "van[0]")


def test_each_machine_is_played_by_the_declared_actor_or_by_one_of_its_own() -> None:
    own = {name: name.replace("[", "-").removesuffix("]") for name in PROGRAM.machines}
    below = {"unit[0]": "host", "unit[1]": "host", "key": "host"}
    assert PROGRAM.hosts == own | below
    assert PROGRAM.players == {name: actor for name, actor in own.items() if name not in below}
    declared = _program({"hall": ("desk", "guest"), "inn": ("host",), "shed": ("key",), "none": ()})
    assert declared.hosts == {
        "host": "inn",
        "desk[0]": "hall",
        "desk[1]": "hall",
        "desk[2]": "hall",
        "guest[0]": "hall",
        "guest[1]": "hall",
        "van[0]": "van-0",
        "unit[0]": "inn",
        "unit[1]": "inn",
        "key": "shed",
    }
    assert declared.roles_of(declared.players) == {"hall": ("desk", "guest"), "inn": ("host",), "van-0": ("van",)}
    assert list(declared.roles_of(declared.players)) == ["hall", "inn", "van-0"]
    assert PROGRAM.roles_of({"guest[1]": "b", "host": "a", "unit[0]": "a", "guest[0]": "b", "van[0]": "b"}) == {
        "b": ("guest", "van"),
        "a": ("host",),
    }


def test_a_subsidiary_machine_is_played_along_with_what_drives_it() -> None:
    players = {"guest[0]": "b", "host": "a", "desk[0]": "c"}
    assert {name: PROGRAM.player_of(name, players) for name in ("host", "guest[0]", "unit[1]", "key")} == {
        "host": "a",
        "guest[0]": "b",
        "unit[1]": "a",
        "key": "a",
    }
    with pytest.raises(LookupError, match=r"hotel has no machine 'hots'; did you mean host\?"):
        PROGRAM.player_of("hots", players)
    with pytest.raises(LookupError, match=rf"hotel has no machine '{'x' * 60}'"):
        PROGRAM.player_of("x" * 70, players)


# Systems


def test_facts_of_a_system_are_those_of_its_parts() -> None:
    introduced = _core("porter", introduced=True)
    assert not PROGRAM.has_membership
    for standing in (False, True):
        with_porter = Program("hotel", DIGEST, {}, {}, {**ROLES, "porter": introduced}, {}, standing=standing)
        assert with_porter.has_membership is not standing
    shapes = {"go": MessageShape("host", "desk"), "say": MessageShape("desk", "host", capacity=1)}
    assert not PROGRAM.bounded
    assert [Program("hotel", DIGEST, {}, {"m": shape}, ROLES, {}).bounded for shape in shapes.values()] == [False, True]
    assert Program("hotel", DIGEST, {}, shapes, ROLES, {}).bounded
    assert PROGRAM.only_run == "hotel:1"


def test_own_constants_are_no_part_of_an_agreement() -> None:
    free = _program(own_constants=frozenset({"guests"}))
    assert (PROGRAM.shared_constants, free.shared_constants) == ({"rooms": 2, "guests": 9}, {"rooms": 2})
    other = Program("hotel", DIGEST, {"guests": 3, "rooms": 2}, {}, ROLES, {}, own_constants=frozenset({"guests"}))
    assert free.agreement == other.agreement != PROGRAM.agreement
    assert Program("hotel", DIGEST, {"guests": 9, "rooms": 2}, {}, ROLES, {}).agreement == PROGRAM.agreement
    digest, _, constants = PROGRAM.agreement.partition(".")
    assert (digest, len(constants)) == (DIGEST, 16)


def test_an_agreement_may_end_with_a_tick_and_is_the_same_in_all_else() -> None:
    word = PROGRAM.agreement
    for good in (word, f"{word}.0.5"):
        assert PROGRAM.agrees(good)
    for bad in (word[:-1], f"{word}0", f"x{word}", "", ".", DIGEST, f"{DIGEST}.", f"0.5.{word}"):
        assert not PROGRAM.agrees(bad)


# First records


def test_machines_begin_as_their_number_says_and_later_ones_as_the_last() -> None:
    core = Core(
        role="it",
        indexed=True,
        states=("idle", "busy", "over"),
        events={},
        count=3,
        neighbours=(("it", -1),),
        fields=(Field("n", t.Int(), 7, (1, 2)), Field("m", t.Int(), 9)),
        since={"save": ("saved",)},
        below=(UNIT,),
        subsidiary=False,
        table={},
        work={},
        answers={},
        wakes={},
        begin=("busy", "over"),
    )
    units = Machines(UNIT.first)
    assert [core.first(n, (units,)) for n in range(4)] == [
        ("busy", 0, 1, 9, (0,), (0,), 0, 0, units),
        ("over", 1, 2, 9, (0,), (0,), 0, 0, units),
        ("over", 2, 2, 9, (0,), (0,), 0, 0, units),
        ("over", 3, 2, 9, (0,), (0,), 0, 0, units),
    ]
    assert [core.first_state(n) for n in range(4)] == ["busy", "over", "over", "over"]
    assert (HOST.first_state(5), core.first(), GUEST.first()) == ("idle", core.first(0), GUEST.first(0))
    assert (core.below_at, core.names[core.below_at]) == (8, "unit machines")
    assert [machines[1] for machines in HOST.unseen] == [UNIT.first(1), KEY.first(1)]
    assert (UNIT.of_actor, HOST.of_actor) == (True, False)
    assert not _core("unit", subsidiary=True, of_run=True).of_actor


def test_an_event_begins_a_machine_that_it_moves() -> None:
    def go(record: Record, fields: tuple[Any, ...], *rest: int) -> tuple[Record, Outcome]:
        return record, Outcome("taken" if record[1] == fields[0] else "ignored", "go")

    core = _core("it", indexed=True, count=2, below=(UNIT,), table={"idle": {"go": go}, "busy": {}})
    assert [core.begins_with(n, local("go", (1,)), 0) for n in (0, 1)] == [False, True]
    assert not core.begins_with(1, local("other"), 0)


# Contracts of the world outside


def test_an_event_from_outside_is_held_to_its_contract_where_it_moves_the_machine() -> None:
    """A contract sees the record before the step, the fields, the actor's machines and the clock; others see none."""
    seen: list[Any] = []
    machines = cast(ActorMachines, object())

    def holds(record: Record, fields: tuple[Any, ...], actor: ActorMachines, now: int) -> bool:
        seen.append((record, fields, actor, now))
        return bool(fields[0] > 0)

    def go(record: Record, fields: tuple[Any, ...], *rest: int) -> tuple[Record, Outcome]:
        return ("busy", fields[0], *record[2:]), Outcome("taken", "go", "it/idle#go")

    def hush(record: Record, *rest: Any) -> tuple[Record, Outcome]:
        return record, Outcome("ignored", "hush")

    contract = Contract(("they_go", "it_goes"), "It is more.", "event.n > 0", holds)
    core = _core(
        "it",
        table={"idle": {"go": go, "hush": hush, "free": go}, "busy": {}},
        subsidiary=True,
        contracts={"go": contract, "hush": contract},
    )
    first = core.first()
    assert core.step_outside(first, local("go", (3,)), 8, machines) == core.step(first, local("go", (3,)), 8)
    assert seen == [(first, (3,), machines, 8)]
    record, outcome = core.step_outside(first, local("go", (0,)), 8, machines)
    assert record is first
    words = "it breaks the contract `they_go` and `it_goes`: It is more. (event.n > 0)"
    assert outcome == Outcome("refused", "go", reason=words)
    assert str(contract._replace(names=("one",), doc="")) == "the contract `one`: (event.n > 0)"
    seen.clear()
    assert core.step_outside(first, local("hush", (0,)), 8, machines)[1].kind == "ignored"
    assert core.step_outside(first, local("free", (0,)), 8, machines)[1].taken
    assert seen == []


# Work


def test_receivers_of_work_are_those_that_it_sends_to() -> None:
    def nothing(record: Record) -> tuple[Any, ...]:
        return ()

    made: list[int] = []

    def make(it: int) -> SendWork:
        made.append(it)
        return SendWork("tell", "tell", it, nothing)

    pieces = Pieces(make)
    first = pieces[4]
    assert (pieces[4] is first, pieces[2].neighbour, made) == (True, 2, [4, 2])
    work: Sequence[Any] = (CallWork("call", "policy.call", ()), first, pieces[2], first)
    assert sends_to(work) == frozenset({4, 2})
    assert sends_to(()) == frozenset()


def test_a_compiled_system_knows_who_begins_its_runs() -> None:
    """The lease is begun by its holder, and a commit by its coordinator; both are no standing systems."""
    for name, by in (("lease", ("service_manager",)), ("two_phase_commit", ("coordinator",))):
        program = compile_system(load(name))
        assert (program.begun_by, program.standing) == (by, False)
