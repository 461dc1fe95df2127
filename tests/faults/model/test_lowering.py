"""Additions of each kind of fault to the lowered form of a system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.faults.model import Budget, BudgetError
from leasehold.faults.model.lowering import DOWN, EVERYTHING, GONE, KINDS, UP, cuts, lower_with_faults, without_effect
from leasehold.spec.language.lower import ClockBounds, FaultCell, Relation, Variable
from tests.systems import TESTS, TRUTH, edited, files_of, load, written

ACTORS = ("service_manager", "broker", "site")
ADDING = ("crash", "power_cut", "halt", "duplicate", "lose", "partition", "skew", "drift")


def lowered(budget: str | None, name: str = "contention", **settings: int) -> Relation:
    system = load(name, settings or {"leases": 2, "max_units": 1})
    return lower_with_faults(system, None if budget is None else Budget.parse(budget))


def variables(relation: Relation) -> Mapping[str, Variable]:
    return {variable.name: variable for variable in relation.variables}


def test_without_a_budget_actors_have_no_state_and_with_an_empty_one_they_have() -> None:
    bare, empty = lowered(None), lowered("none")
    assert (bare.variables, bare.crashes, bare.changes, bare.retries, bare.byzantine) == ((), (), (), False, None)
    (up,) = empty.variables
    assert (up.name, up.keys, up.initial, set(up.stops), up.shows) == ("up", ACTORS, UP, {DOWN, GONE}, True)
    assert (empty.crashes, empty.changes, empty.limits, empty.unlimited) == ((), (), {}, frozenset())


def test_only_who_is_up_is_so() -> None:
    assert UP
    assert not DOWN
    assert not GONE
    assert DOWN is not GONE


def test_limits_are_the_budgets() -> None:
    relation = lowered("crash=2,lose=any,skew=1")
    assert (relation.limits, relation.unlimited) == ({"crash": 2}, {"lose"})


def test_actors_crash_alone_and_with_their_node_and_a_power_cut_takes_all() -> None:
    """A node crashes while all of it is up; the power fails whoever is up."""
    relation = lowered("crash=1,power_cut=1")
    assert [(c.name, tuple(a.name for a in c.actors), c.budget, c.together) for c in relation.crashes] == [
        *((name, (name,), "crash", True) for name in ACTORS),
        ("provider", ("broker", "site"), "crash", True),
        (EVERYTHING, ACTORS, "power_cut", False),
    ]


def test_who_halts_is_gone() -> None:
    relation = lowered("halt=1")
    assert [(c.kind, c.name, c.needs, c.writes, c.actor, c.budget, c.recovers) for c in relation.changes] == [
        ("halt", f"halt:{n}", {FaultCell("up", n): (UP,)}, {FaultCell("up", n): GONE}, n, "halt", "") for n in ACTORS
    ]


@pytest.mark.parametrize(
    ("budget", "retries"), [("lose=1", True), ("lose=any", True), ("duplicate=1,reorder=any", False)]
)
def test_only_where_messages_are_lost_they_are_sent_again(budget: str, retries: bool) -> None:
    relation = lowered(budget)
    assert relation.retries == retries
    assert [v.name for v in relation.variables] == ["up"]
    assert (relation.crashes, relation.changes) == ((), ())


@pytest.mark.parametrize(
    ("names", "sides"),
    [
        ("a", []),
        ("ab", ["b"]),
        ("abc", ["a", "b", "c"]),
        ("abcd", ["a", "b", "c", "d", "bc", "bd", "cd"]),
    ],
)
def test_each_way_to_part_the_actors_is_there_once(names: str, sides: list[str]) -> None:
    found = list(cuts(list(names)))
    assert sorted("".join(sorted(side)) for side in found) == sorted(sides)
    ways = {frozenset({side, frozenset(names) - side}) for side in found}
    assert len(ways) == len(found) == 2 ** (len(names) - 1) - 1


def test_a_partition_separates_the_two_sides_until_it_heals() -> None:
    relation = lowered("partition=1")
    partition, cell = variables(relation)["partition"], FaultCell("partition")
    assert (partition.keys, partition.initial, partition.shows) == (("",), 0, True)
    heal, *parts = relation.changes
    assert (heal.needs, heal.writes, heal.budget, heal.recovers) == (
        {cell: (1, 2, 3)},
        {cell: 0},
        "",
        "the end of a partition",
    )
    assert [(c.name, c.needs, c.writes, c.budget, c.recovers) for c in parts] == [
        ("partition: service_manager | broker, site", {cell: (0,)}, {cell: 1}, "partition", ""),
        ("partition: broker | service_manager, site", {cell: (0,)}, {cell: 2}, "partition", ""),
        ("partition: site | service_manager, broker", {cell: (0,)}, {cell: 3}, "partition", ""),
    ]
    for n, alone in enumerate(ACTORS, 1):
        apart = {frozenset({alone, other}) for other in ACTORS if other != alone}
        assert partition.separates[n] == apart, "the others hear each other"


def test_one_actor_cannot_be_parted() -> None:
    alone = load("lease", {"max_units": 1})
    names = [a.name for a in lower_with_faults(alone, Budget()).actors]
    assert len(names) == 3
    assert list(cuts(names[:1])) == []


def test_where_there_is_nobody_to_part_a_partition_adds_nothing() -> None:
    relation = lowered("none")
    alone = replace(relation, actors=relation.actors[:1])
    assert KINDS["partition"](alone, 1) is alone


@pytest.mark.parametrize(
    ("first", "second"),
    [pair for pair in product(ADDING, repeat=2) if not {*pair} <= {"skew", "drift"}],  # an actor has one clock
)
def test_a_kind_adds_to_what_another_has_added(first: str, second: str) -> None:
    """The order in a catalogue does not matter."""
    bare = lowered("none")
    one, other = KINDS[first](bare, 1), KINDS[second](bare, 1)
    both = KINDS[second](one, 1)
    for parts in (lambda r: [c.name for c in r.crashes], lambda r: [(c.kind, c.name) for c in r.changes]):
        assert parts(both) == [*parts(one), *parts(other)]
    names = [[v.name for v in relation.variables] for relation in (bare, one, other, both)]
    assert names[3] == [*names[1], *names[2][len(names[0]) :]]
    assert both.retries == (one.retries or other.retries)


def test_each_clock_gains_ticks_within_bounds_that_the_relation_has() -> None:
    relation = lowered("skew=2")
    lead = variables(relation)["lead"]
    assert (lead.keys, lead.initial, lead.leads, lead.shows) == (ACTORS, 0, True, False)
    assert relation.clocks == ClockBounds(ahead=2)
    assert [(c.kind, c.name, c.needs, c.writes, c.gains, c.actor, c.budget) for c in relation.changes] == [
        ("skew", f"the clock of {name} gains a tick", {}, {}, name, "", "") for name in ACTORS
    ]


def test_a_clock_that_drifts_has_a_phase() -> None:
    relation = lowered("drift=20")
    phase = variables(relation)["phase"]
    assert (phase.keys, phase.initial, phase.leads, phase.shows) == (ACTORS, (0, 5), False, False)
    assert relation.clocks == ClockBounds(percent=20)
    assert [(c.kind, c.gains) for c in relation.changes] == [("drift", name) for name in ACTORS]


def test_a_clock_may_drift_and_be_ahead() -> None:
    """In either order, each actor has one clock."""
    bare = lowered("none")
    one, other = KINDS["drift"](KINDS["skew"](bare, 2), 20), KINDS["skew"](KINDS["drift"](bare, 20), 2)
    assert one.clocks == other.clocks == ClockBounds(ahead=2, percent=20)
    assert [v.name for v in one.variables] == [v.name for v in other.variables] == ["up", "lead", "phase"]
    for relation in (one, other):
        assert [(c.kind, c.gains) for c in relation.changes] == [("drift", name) for name in ACTORS]


@pytest.mark.parametrize("budget", ["skew=2", "drift=20", "skew=2,drift=20"])
def test_without_a_clock_none_is_ahead(budget: str) -> None:
    relation = lowered(budget, "two_phase_commit", participants=2)
    assert relation.passage is None
    assert [v.name for v in relation.variables] == ["up"]
    assert (relation.changes, relation.clocks) == ((), ClockBounds())


@pytest.mark.parametrize("budget", ["skew=1", "drift=20"])
def test_nobody_reads_the_clock_of_who_lies(budget: str) -> None:
    assert [c.gains for c in lowered(f"{budget},byzantine=broker").changes] == ["service_manager", "site"]


def test_faults_do_not_take_each_others_place() -> None:
    relation = lowered("crash=1,power_cut=1,halt=1,partition=1,skew=1,drift=5,byzantine=broker")
    assert [v.name for v in relation.variables] == ["up", "partition", "lead", "phase", "known"]
    assert {c.kind for c in relation.changes} == {"halt", "heal", "partition", "drift"}
    assert {c.budget for c in relation.crashes} == {"crash", "power_cut"}


def test_who_lies_neither_crashes_nor_halts_and_knows_what_it_carries() -> None:
    relation = lowered("crash=1,power_cut=1,halt=1,byzantine=service_manager")
    assert relation.byzantine is not None
    assert relation.byzantine.name == "service_manager"
    known = variables(relation)["known"]
    assert (known.keys, known.initial) == (("update_ticket",), frozenset())
    assert [(c.name, [a.name for a in c.actors]) for c in relation.crashes] == [
        ("broker", ["broker"]),
        ("site", ["site"]),
        ("provider", ["broker", "site"]),
        (EVERYTHING, ["broker", "site"]),
    ]
    assert [c.actor for c in relation.changes] == ["broker", "site"]


def test_who_lies_is_the_first_that_plays_the_role() -> None:
    relation = lowered("byzantine=participant", "two_phase_commit", participants=2)
    assert relation.byzantine is not None
    assert relation.byzantine.name == "participant[0]"
    assert variables(relation)["known"].keys == ()
    nobody = lowered("byzantine=nobody")
    assert nobody.byzantine is None
    assert [v.name for v in nobody.variables] == ["up"]


@pytest.mark.parametrize(("field", "ends"), [("{type: int, min: 1, max: 3}", True), ("bool", True), ("int", False)])
def test_a_field_without_an_end_of_values_cannot_be_lied_about(tmp_path: Path, field: str, ends: bool) -> None:
    """Its actor sends any value that it can sign."""
    said = "true" if field == "bool" else "2"
    edits = (("FIELD", field), ("{v: 2}", f"{{v: {said}}}"), ("data: {x: int}", f"data: {{x: {field}}}"))
    system = written(tmp_path, edited(files_of("checker/explore/systems/values_to_try"), *edits))
    assert lower_with_faults(system, Budget(byzantine="other")).byzantine is not None, "it says nothing"
    if ends:
        assert lower_with_faults(system, Budget(byzantine="one")).byzantine is not None
    else:
        with pytest.raises(BudgetError, match=r"word of a Byzantine one has any `v`, and of type int there is no end"):
            lower_with_faults(system, Budget(byzantine="one"))


def test_a_byzantine_role_does_not_write_shared_variables() -> None:
    """Its writes are not explored."""
    with pytest.raises(BudgetError, match=r"could write anything to `shared.free`"):
        lower_with_faults(load(TRUTH / "lock"), Budget(byzantine="process"))


def test_who_forgets_is_down_and_as_at_first(tmp_path: Path) -> None:
    """An actor is emptied up or down; messages of its peers are sent again, as if they were lost."""
    relation = lowered("amnesia=2")
    assert (relation.retries, relation.crashes, relation.limits) == (True, (), {"amnesia": 2})
    assert [
        (c.kind, c.name, c.needs, c.writes, c.actor, c.budget, c.recovers, c.resets, c.on_channels, c.gains)
        for c in relation.changes
    ] == [
        (
            "amnesia",
            f"amnesia:{n}",
            {FaultCell("up", n): (UP, DOWN)},
            {FaultCell("up", n): DOWN},
            n,
            "amnesia",
            "",
            True,
            "forget",
            "",
        )
        for n in ACTORS
    ]
    for change in lowered("halt=1,partition=1,skew=1").changes:
        assert (change.resets, change.on_channels) == (False, "")
    files = files_of("faults/systems/amnesia")
    ways = {
        "": ("", ""),
        "begins with any value": ("x: bool", "x: {type: bool, initial: any}"),
        "the first states have `initially`": ("one}}\n", "one}}\ninitially: not one.x\n"),
    }
    for words, (old, new) in ways.items():
        folder = tmp_path / (words[:4] or "plain")
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text.replace(old, new) if old else text)
        system = load(folder)
        assert lower_with_faults(system, Budget(crash=1)).crashes
        if not words:
            assert len(lower_with_faults(system, Budget(amnesia=1)).changes) == 1
            continue
        with pytest.raises(BudgetError, match=words):
            lower_with_faults(system, Budget(amnesia=1))


def test_a_node_crashes_with_those_of_its_actors_that_there_are() -> None:
    """Actors come in the order in which the node names them; one that plays no role here is left out."""
    bare = lowered("none")
    system = replace(
        bare.system, faults=replace(bare.system.faults, nodes={"n": ("site", "nobody", "broker"), "m": ()})
    )
    relation = KINDS["crash"](replace(bare, system=system), 1)
    assert [(c.name, [a.name for a in c.actors]) for c in relation.crashes] == [
        *((name, [name]) for name in ACTORS),
        ("n", ["site", "broker"]),
        ("m", []),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_fault_adds_something_or_is_a_matter_of_channels(kind: str) -> None:
    """Channels say what messages suffer; each other kind has variables, crashes or changes of its own."""
    bare = lowered("none")
    made = KINDS[kind](bare, "broker" if kind == "byzantine" else 1)
    parts = {
        name
        for name in ("variables", "crashes", "changes", "retries", "byzantine", "clocks", "limits", "unlimited")
        if getattr(made, name) != getattr(bare, name)
    }
    assert (
        parts
        == {
            "crash": {"crashes"},
            "power_cut": {"crashes"},
            "halt": {"changes"},
            "amnesia": {"changes", "retries"},
            "duplicate": set(),
            "reorder": set(),
            "lose": {"retries"},
            "partition": {"variables", "changes"},
            "skew": {"variables", "changes", "clocks"},
            "drift": {"variables", "changes", "clocks"},
            "byzantine": {"variables", "byzantine"},
        }[kind]
    )


@pytest.mark.parametrize(
    ("kinds", "reasons"),
    [
        (("fifo", "queue"), {"duplicate": "asks is a fifo, answers is a queue", "lose": "...", "reorder": "..."}),
        (("fifo", "mailbox"), {}),
        (("fifo", "bag"), {"reorder": "asks is a fifo, answers is a bag"}),
        (("set", "set"), {"duplicate": "asks is a set, answers is a set", "lose": "...", "reorder": "..."}),
    ],
)
def test_a_fault_that_strikes_nothing_adds_no_state(kinds: tuple[str, str], reasons: dict[str, str]) -> None:
    """A fault that is said to strike nothing adds no state and takes none away, and every other one adds some."""
    there, back = kinds
    system = load(TESTS / "faults/systems/asked_and_answered", {"there": there, "back": back})
    found = without_effect(system, Budget.parse("crash=1,duplicate=1,lose=1,reorder=1,skew=1,drift=10"))
    same = found.get("duplicate", "")
    expected = {kind: reason.replace("...", same) for kind, reason in reasons.items()}
    assert found == {**expected, "skew": "there is no clock", "drift": "there is no clock"}
    plain = explore(system, budget=Budget())
    for kind in ("duplicate", "lose", "reorder", "skew", "drift"):
        struck = explore(system, budget=Budget(**{kind: 1}))
        assert ((struck.distinct, struck.generated) == (plain.distinct, plain.generated)) == (kind in found), kind


def test_clocks_that_nobody_reads_do_not_differ() -> None:
    system = load("two_phase_commit")
    assert without_effect(system, Budget(drift=1)) == {"drift": "there is no clock"}
    assert without_effect(replace(system, clock=load("lease").clock), Budget(skew=1)) == {
        "skew": "no actor reads the clock"
    }
    assert without_effect(load("lease"), Budget(skew=1, drift=1, partition=1)) == {}
