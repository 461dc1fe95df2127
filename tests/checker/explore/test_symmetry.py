"""Symmetry finds what all states show: verdicts, shortest paths, and as many states as the orbits have."""

from __future__ import annotations

import random
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise, permutations
from math import factorial
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.explore import EngineError, Exploration, Limits, explore, reduction
from leasehold.checker.explore.breadth_first import ReferenceSearch
from leasehold.checker.explore.canonical import Canonical
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.packed import library
from leasehold.checker.explore.properties import only_these
from leasehold.checker.explore.symmetry import Group, symmetry_of
from leasehold.faults.model import Budget
from leasehold.spec import System
from tests.checker.explore.by_chance import by_chance
from tests.systems import TRUTH, edited, files_of, load, written

SPEC = Path(__file__).parents[3] / "spec/systems"
FIGURES = (
    "complete",
    "distinct",
    "generated",
    "edges",
    "depth",
    "initial",
    "cut",
    "taken",
    "vacuous",
    "properties",
    "orbits",
)

compiled = pytest.mark.skipif(not library.FILE.exists(), reason="the C engine was not built")


def without_leads_to(system: System) -> System:
    kept = {name: p for name, p in system.properties.items() if p.kind != "leads_to"}
    return replace(system, properties=kept)


def held_against_all_states(system: System, limits: Limits | None = None) -> Exploration:
    """The reference under symmetry, after it was compared with the reference without, and with the packed engine."""
    full = explore(system, limits)
    found = explore(system, limits, engine="reference", symmetry=True)
    if found.orbits is None:
        assert found.why_asymmetric
        return found
    if full.complete and found.complete:
        assert found.orbits.states == full.distinct
        assert found.depth == full.depth
        assert set(found.vacuous) == set(full.vacuous)
        assert found.unvisited_transitions == full.unvisited_transitions
        assert [(p.name, p.verdict, p.path and len(p.path)) for p in found.properties] == [
            (p.name, p.verdict, p.path and len(p.path)) for p in full.properties
        ]
    for p in found.properties:
        assert_runs(system, p.path)
    if not library.FILE.exists():
        return found
    packed = explore(system, limits, engine="packed", symmetry=True)
    for name in FIGURES:
        assert getattr(packed, name) == getattr(found, name), name
    assert list(packed.paths.states) == list(found.paths.states)
    assert list(packed.cells) == list(found.cells)
    assert list(packed.cell_edges) == list(found.cell_edges)
    return found


def assert_runs(system: System, path: Any) -> None:
    """Every step of a path is one of the system's, from a first state on."""
    if path is None:
        return
    world = reference_of(system)
    paths = explore(system, Limits(states=1), engine="reference").paths
    now = [s for s in world.initial_states() if paths.snapshot(s) == path.initial]
    for step in path.steps:
        now = [after for s in now for action, after in world.successors(s) if paths.describe(s, action, after) == step]
        assert now, step.title


@pytest.mark.parametrize(("number", "orbits"), [(3, 80), (4, 166), (5, 314), (6, 553)])
def test_orbits_of_two_phase_are_those_that_all_states_show(number: int, orbits: int) -> None:
    system = load(TRUTH / "two_phase", {"resource_managers": number})
    found = held_against_all_states(system)
    assert found.distinct == orbits
    full = explore(system, engine="auto")
    canonical = Canonical(reference_of(system).layout, symmetry_of(system).groups)
    assert {canonical.form(s) for s in full.paths.states} == set(found.paths.states)


@compiled
@pytest.mark.parametrize(("number", "orbits", "states"), [(7, 920, 296_448), (10, 3_300, 61_515_776)])
def test_orbits_of_larger_ones_stand_for_all_states(number: int, orbits: int, states: int) -> None:
    system = load(TRUTH / "two_phase", {"resource_managers": number})
    found = explore(system, engine="packed", symmetry=True)
    assert found.orbits is not None
    assert (found.distinct, found.orbits.states) == (orbits, states)
    assert found.seconds < 5


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("two_phase_commit", {"participants": 2}),
        ("three_phase_commit", {"participants": 2}),
        (SPEC / "starter", {}),
        ("examples/waiting_list", {}),
    ],
    ids=str,
)
def test_shipped_systems(name: str, settings: Mapping[str, Any]) -> None:
    assert held_against_all_states(without_leads_to(load(name, settings))).orbits is not None


def lease_of_equal_units(folder: Path, **settings: int) -> System:
    """The lease without what tells units apart: the reason of the first that failed, and claims about one of them."""
    shutil.copytree(SPEC / "lease", folder / "lease")
    authority = folder / "lease/roles/authority.yaml"
    text, changes = re.subn(r"(?m)^  why_failed\(s\): .*$", "  why_failed(s): nothing", authority.read_text())
    assert changes == 1
    authority.write_text(text)
    system = without_leads_to(load(folder / "lease", settings))
    alike = {n: p for n, p in system.properties.items() if symmetry_of(replace(system, properties={n: p})).groups}
    return replace(system, properties=alike)


@pytest.mark.long
def test_a_lease_of_equal_units(tmp_path: Path) -> None:
    system = lease_of_equal_units(tmp_path, max_units=2, last_end=1, expiry=False)
    assert held_against_all_states(system).orbits is not None


def test_the_reason_of_the_first_unit_that_failed_tells_units_apart() -> None:
    found = symmetry_of(without_leads_to(load("lease", {"max_units": 2, "expiry": False})))
    assert found.groups == ()
    assert any("takes the number of: `index(u)`" in words for words in found.why_not)


@pytest.mark.long
def test_roles_that_are_taken_by_number_change_places_with_those_whose_number_it_is(tmp_path: Path) -> None:
    """`guest[index(u)]` is the guest of the unit `u`, whoever they change places with."""
    system = lease_of_equal_units(tmp_path, max_units=3, expiry=False)
    assert [group.roles for group in symmetry_of(system).groups] == [("unit", "guest")]


@pytest.mark.long
def test_a_role_that_is_taken_by_the_number_of_another_of_which_there_are_not_as_many_is_told_apart(
    tmp_path: Path,
) -> None:
    system = lease_of_equal_units(tmp_path, max_units=2, expiry=False)
    guest = system.roles["guest"]
    roles = {**system.roles, "guest": replace(guest, instance=replace(guest.instance, count=3))}
    found = symmetry_of(replace(system, roles=roles))
    assert found.groups == ()
    assert any("matches by number with others: `unit[index(g)]`" in words for words in found.why_not)


def leases_of_one_unit(folder: Path) -> System:
    """Leases that compete for one unit, with one guest each; those of several tell their guests apart by arithmetic."""
    shutil.copytree(SPEC, folder / "systems")
    contention = folder / "systems/contention"
    for path in (contention / "system.yaml", contention / "roles/service_manager.yaml"):
        text = path.read_text()
        for old, new in (
            ("(g) // max_units", "(g)"),
            ("[index(g) % max_units]", "[0]"),
            ("leases * max_units", "leases"),
        ):
            text = text.replace(old, new)
        path.write_text(text)
    return without_leads_to(load(contention, {"last_end": 1}))


@compiled
def test_roles_whose_numbers_are_paired_change_places_together(tmp_path: Path) -> None:
    system = leases_of_one_unit(tmp_path)
    found, full = explore(system, engine="packed", symmetry=True), explore(system)
    assert found.orbits is not None
    assert found.orbits.groups == (("service_manager", "broker", "authority", "guest"),)
    assert (found.orbits.states, found.depth) == (full.distinct, full.depth)
    assert [(p.name, p.verdict) for p in found.properties] == [(p.name, p.verdict) for p in full.properties]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("acp_sb", {"participants": 2}),
        ("acp_nb_wrong", {"participants": 2}),
        ("simple_allocator", {}),
        ("tcommit", {}),
    ],
    ids=str,
)
def test_systems_of_known_counts(name: str, settings: Mapping[str, Any]) -> None:
    assert held_against_all_states(load(TRUTH / name, settings)).orbits is not None


# What is told apart, and how that is said

HUB = """role: hub
data:
{data}
events: {{go: It goes on.}}
states:
  off:
    initial: true
    on:
      go: {{to: on, when: "{guard}", set: {{{set}}}}}
      hello: {{to: off, set: {{seen: "seen | {{msg.sender}}"{heard}}}}}
    ignore: {{go: not yet}}
  on:
    tasks: [tell]
    on:
      hello: {{to: off, set: {{"tally[msg.sender]": "1 - tally[msg.sender]"}}}}
    ignore: {{go: it is on}}
tasks:
  tell: {{send: word, to: worker, only: "{only}"{said}}}
"""
WORKER = """role: worker
data: {bit: bool}
events: {work: It does something.}
states:
  idle:
    initial: true
    on: {work: {to: busy, set: {bit: not bit}}, word: {to: idle, set: {bit: "@told"}}}
  busy:
    tasks: [greet]
    on: {word: {to: idle}}
    ignore: {work: it does}
tasks:
  greet: {send: hello, to: hub}
"""
DATA = {"seen": '"set[worker]"', "last": '"option[worker]"', "tally": '"map[worker, int]"'}


def small(folder: Path, instances: int = 3, sliced: bool = False, up: str = "mailbox", **parts: str) -> System:
    """A hub and its workers, with other parts where given: `guard`, `set`, `only`, `claim`, `system`, `ends`, and data.

    If it is not sliced, the hub remembers a worker, and tells all which.
    """
    data = {**DATA, **{name: parts[name] for name in parts if name == "who"}}
    if sliced:
        del data["last"]
    hub = HUB.format(
        data="\n".join(f"  {name}: {kind}" for name, kind in data.items()),
        guard=parts.get("guard", "seen != {}"),
        set=parts.get("set", '"seen": "{}"'),
        only=parts.get("only", "it not in seen"),
        heard="" if sliced else ", last: msg.sender",
        said="" if sliced else ", with: {who: last}",
    )
    fields = "" if sliced else ', fields: {who: "option[worker]"}'
    return written(
        folder,
        {
            "system.yaml": "system: small\nroles: {hub: {}, worker: {instances: " + str(instances) + "}}\nchannels:\n"
            "  up: {from: worker, to: hub, kind: " + up + "}\n  down: {from: hub, to: worker, kind: fifo(1)}\n"
            "environment: {go: {to: hub}, work: {to: worker}}\n" + parts.get("system", ""),
            "messages.yaml": "messages:\n  hello: {from: worker, to: hub}\n  word: {from: hub, to: worker"
            + fields
            + "}\n",
            "roles/hub.yaml": hub,
            "roles/worker.yaml": WORKER.replace("@told", "true" if sliced else "msg.who == self"),
            "invariants.yaml": "properties:\n  claimed: {"
            + parts.get("claim", 'always: "hub.seen <= worker"')
            + "}\n"
            + parts.get("ends", ""),
        },
    )


def test_the_small_system_is_symmetric(tmp_path: Path) -> None:
    found = held_against_all_states(small(tmp_path, 2))
    assert found.orbits is not None
    assert found.orbits.groups == (("worker",),)


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"guard": "worker[0] in seen"}, "hub/off#go names `worker[0]`"),
        ({"guard": "any(index(w) == 1 for w in seen)"}, "hub/off#go takes the number of: `index(w)`"),
        ({"guard": "all(index(v) < index(w) for v in seen for w in worker)"}, "takes the number of: `index(v)`"),
        ({"guard": "sum(index(w) for w in seen) > 1"}, "takes the number of: `index(w)`"),
        ({"set": '"last": "get(last, worker[1])"'}, "hub/off#go names `worker[1]`"),
        ({"set": '"seen": "{worker[0], worker[1]}"'}, "names `worker[0]`"),
        ({"only": "it == worker[2]"}, "task hub.tell names `worker[2]`"),
        ({"only": "index(it) > 0"}, "task hub.tell takes the number of: `index(it)`"),
        ({"who": "worker"}, "hub.who is at first `worker[0]`"),
        ({"claim": 'always: "worker[0].state == idle"'}, "property claimed is not symmetric in worker: it names"),
        ({"claim": 'step: "took(worker[1]) or true"'}, "property claimed is not symmetric in worker: it names"),
        ({"claim": 'sometimes: "all(index(w) == 0 for w in hub.seen)"'}, "property claimed is not symmetric in worker"),
        (
            {"ends": "ends: {all: 'worker[0].state == busy'}\n"},
            "end all is not symmetric in worker: it names `worker[0]`",
        ),
        ({"system": "constraint: worker[0].bit\n"}, "constraint names `worker[0]`"),
        ({"system": "initially: not worker[0].bit\n"}, "initially names `worker[0]`"),
        ({"claim": "when: hub.state == on, leads_to: hub.state == off"}, "claimed ({place}) is a leads_to"),
    ],
    ids=str,
)
def test_what_tells_instances_apart_is_said(parts: dict[str, str], words: str, tmp_path: Path) -> None:
    system = small(tmp_path, **parts)
    found = symmetry_of(system)
    assert not found.groups
    place = f"{tmp_path / 'invariants.yaml'}:2:3"
    assert words.replace("{place}", place) in found.why_not[0].replace(str(system.properties["claimed"].place), place)
    assert ".yaml:" in found.why_not[0]


# By what is written in other places of the small system: the file, the text, and the text in its place.
ELSEWHERE = {
    "a guard": (
        "roles/worker.yaml",
        "on: {word: {to: idle}}\n    ignore: {",
        'on: {word: {to: idle, when: "bit and (W)"}}\n    ignore: {word: no, ',
    ),
    "a value": ("roles/worker.yaml", "set: {bit: not bit}", 'set: {bit: "W"}'),
    "the place of a cell": ("roles/hub.yaml", 'tally[msg.sender]":', 'tally[worker[0] if W else msg.sender]":'),
    "a value of a cell": ("roles/hub.yaml", '"1 - tally[msg.sender]"', '"1 if W else 0"'),
    "what a message says": ("roles/hub.yaml", "with: {who: last}", 'with: {who: "last if W else none"}'),
    "when a message is sent": ("roles/hub.yaml", "to: worker, only", 'to: worker, when: "W", only'),
    "when a worker greets": ("roles/worker.yaml", "to: hub}", 'to: hub, when: "W"}'),
    "a contract": ("system.yaml", "work: {to: worker}", 'work: {to: worker, when: "it.state == idle and W"}'),
    "an antecedent": ("invariants.yaml", "{always", '{when: "W", always'),
    "a second property": ("invariants.yaml", "properties:\n", 'properties:\n  other: {sometimes: "W"}\n'),
    "a second end": ("invariants.yaml", "properties:\n", 'ends: {one: hub.state == on, two: "W"}\nproperties:\n'),
    "an order": (
        "roles/hub.yaml",
        "seen != {}",
        "seen != {} and max((index(w) for w in seen), default=0) > 0",
    ),
}
ONE = {"roles/worker.yaml": "self == worker[0]", "system.yaml": "it == worker[0]"}  # of machines that have themselves


@pytest.mark.parametrize("place", ELSEWHERE)
def test_instances_are_told_apart_wherever_one_is_named(place: str, tmp_path: Path) -> None:
    """And only for what is written there: the same place with something harmless leaves them alike."""
    file, old, new = ELSEWHERE[place]
    small(tmp_path)
    text = (tmp_path / file).read_text()
    assert old in text
    named = ONE.get(file, "worker[0].bit" if file == "invariants.yaml" else "worker[0] in seen")
    for words, alike in ((named, False), ("true", True)):
        if alike and place in ("the place of a cell", "an order"):
            continue  # which name one in any event
        (tmp_path / file).write_text(text.replace(old, new.replace("W", words), 1))
        found = symmetry_of(load(tmp_path))
        assert bool(found.groups) == alike, found.why_not
        assert alike or "worker" in found.why_not[0]


def test_a_search_that_was_to_use_it_says_so_and_visits_all(tmp_path: Path) -> None:
    system = small(tmp_path, 2, claim="when: hub.state == on, leads_to: hub.state == off")
    found = explore(system, symmetry=True)
    assert found.orbits is None
    assert "is a leads_to" in found.why_asymmetric[0]
    assert found.distinct == explore(system).distinct
    assert explore(only_these(system, []), engine="reference", symmetry=True).orbits is not None


def test_not_under_faults(tmp_path: Path) -> None:
    found = explore(small(tmp_path, 2), Limits(states=10), budget=Budget(crash=1), symmetry=True)
    assert (found.orbits, found.why_asymmetric) == (
        None,
        ("under faults, actors have numbers in crash points and partitions",),
    )


def test_one_instance_is_not_told_apart() -> None:
    found = explore(load(TRUTH / "two_phase", {"resource_managers": 1}), symmetry=True)
    assert (found.orbits, found.why_asymmetric) == (None, ("no role has several instances",))


def test_whose_number_is_equal_may_be_asked(tmp_path: Path) -> None:
    system = small(tmp_path, 2, guard="any(index(v) != index(w) for v in seen for w in worker)")
    assert held_against_all_states(system).orbits is not None


SHARED = files_of("checker/explore/systems/shared_cells")


def test_sets_in_maps_of_instances_are_parts_of_slices(tmp_path: Path) -> None:
    files = {**SHARED, "invariants.yaml": SHARED["invariants.yaml"].replace("has[", "hub.has[")}
    found = held_against_all_states(written(tmp_path, files))
    assert found.orbits is not None


@compiled
def test_more_instances_than_the_engine_has_room_for(tmp_path: Path) -> None:
    """Then the reference alone visits orbits."""
    system = wide(tmp_path, 21)
    with pytest.raises(EngineError, match="it takes up to 20 instances that are alike"):
        explore(system, Limits(states=1), engine="packed", symmetry=True)
    assert Canonical(reference_of(system).layout, symmetry_of(system).groups).permutations == factorial(21)


# Whether it pays

PAXOS = TRUTH / "paxos_commit"


@compiled
def test_where_orbits_cost_more_than_they_save_all_states_are_visited() -> None:
    """Instances name others, so that a step takes longer; an orbit has at most four states."""
    system = load(PAXOS, {"acceptors": 2})
    said: list[str] = []
    found = explore(system, symmetry=True, say=said.append)
    assert (found.distinct, found.orbits) == (10_821, None)
    (why,) = found.why_asymmetric
    assert said == [f"without symmetry: {why}"]
    assert why == (
        "a step takes about 4 times as long, and an orbit has at most 4 states; "
        "an engine that is named visits orbits all the same"
    )


@compiled
def test_where_orbits_save_more_than_they_cost_they_are_visited() -> None:
    said: list[str] = []
    found = explore(load(PAXOS), Limits(states=400), symmetry=True, say=said.append)
    assert found.orbits is not None
    assert re.fullmatch(
        "symmetry of resource_manager, and acceptor: one state is visited for each orbit, of about [0-9]+ states "
        r"\(by a sample\); a step takes about 4 times as long",
        said[0],
    )


def test_orbits_are_visited_by_an_engine_that_is_named() -> None:
    found = held_against_all_states(load(PAXOS, {"resource_managers": 1}))
    assert found.orbits is not None
    said: list[str] = []
    explore(load(PAXOS, {"acceptors": 2}), Limits(states=1), engine="reference", symmetry=True, say=said.append)
    words = "symmetry of resource_manager, and acceptor: one state is visited for each orbit, of up to 4 states"
    assert said == [words]


def test_slices_are_always_put_in_order() -> None:
    said: list[str] = []
    found = explore(load(TRUTH / "two_phase"), symmetry=True, say=said.append)
    assert found.orbits is not None
    assert said == ["symmetry of resource_manager: one state is visited for each orbit, of up to 6 states"]


def test_the_mean_of_orbits_decides_where_they_may_be_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = wide(tmp_path, 4)
    world = reference_of(system)
    canonical = Canonical(world.layout, symmetry_of(system).groups)
    mean = reduction.mean_orbit(world, canonical)
    assert mean == reduction.mean_orbit(world, canonical)
    assert mean is not None
    assert 2 < mean < 23
    for cost, pays in ((2, True), (23, False), (24, False)):
        monkeypatch.setattr(reduction, "COST_IN_C", cost)
        monkeypatch.setattr(reduction, "COST_IN_REFERENCE", cost)
        found = explore(system, Limits(states=100), symmetry=True)
        assert (found.orbits is not None) == pays, (cost, mean)
        assert pays or ("(by a sample)" in found.why_asymmetric[0]) == (cost < 24)
    monkeypatch.setattr(reduction, "SAMPLE_SECONDS", 0.0)
    monkeypatch.setattr(reduction, "COST_IN_C", 2)
    visits = explore(system, Limits(states=9), symmetry=True).orbits is not None
    assert visits == library.FILE.exists(), "a sample that takes too long is one of many instances"


# Forms

FRIENDS = files_of("checker/explore/systems/friends")["roles/person.yaml"]


def wide(folder: Path, instances: int) -> System:
    """Persons that know one another: nothing of it lies in slices."""
    return written(
        folder,
        {
            "system.yaml": "system: friends\nroles: {person: {instances: " + str(instances) + "}}\n"
            "environment: {meet: {to: person}, forget: {to: person}}\n",
            "roles/person.yaml": FRIENDS,
            "invariants.yaml": 'properties:\n  alone: {always: "any(p.friend == none for p in person)"}\n'
            '  lost: {always_possible: "all(p.friend == none for p in person)"}\n'
            '  mutual: {sometimes: "any(p.friend == q and q.friend == p for p in person for q in person)"}\n',
        },
    )


def test_values_that_hold_instances(tmp_path: Path) -> None:
    found = held_against_all_states(wide(tmp_path, 3))
    assert found.orbits is not None
    assert {p.name: p.verdict for p in found.properties} == {
        "alone": "violated",
        "lost": "exhausted",
        "mutual": "witnessed",
    }


@pytest.mark.parametrize("kind", ["sliced", "wide", "messages"])
def test_forms_are_exact(kind: str, tmp_path: Path) -> None:
    """All permutations of a state have one form, which is one of them; and they are as many as is said."""
    system = {
        "sliced": lambda: load(TRUTH / "two_phase", {"resource_managers": 4}),
        "wide": lambda: wide(tmp_path, 4),
        "messages": lambda: load(TRUTH / "acp_nb_wrong", {"participants": 3}),
    }[kind]()
    found = explore(system, Limits(states=3_000))
    groups = symmetry_of(system).groups
    canonical = Canonical(reference_of(system).layout, groups)
    (group,) = groups
    rng = random.Random(7)
    for s in rng.sample(list(found.paths.states), 40):
        orbit = {canonical.moved(s, dict.fromkeys(group.roles, order)) for order in permutations(range(group.count))}
        (form,) = {canonical.form(t) for t in orbit}
        assert form in orbit
        assert canonical.size(s) == len(orbit)
        assert factorial(group.count) % len(orbit) == 0
        assert canonical.moved(s, canonical.onto(s)) == form


def test_a_wrong_analysis_would_be_seen(tmp_path: Path) -> None:
    """Orbits are none where instances are told apart, and the sums are not those of all states."""
    system = small(tmp_path, 2, guard="worker[0] in seen and worker[1] not in seen")
    world = reference_of(system)
    wrong = Canonical(world.layout, [Group(("worker",), 2)])
    found = ReferenceSearch(world, Limits(), None, wrong).run()
    assert found.orbits is not None
    states, every = found.orbits.states, explore(system).distinct
    assert states != every


# By chance

GUARDS = (
    "seen != {}",
    "len(seen) > 1",
    "all(tally[w] == 0 for w in worker)",
    "seen == worker",
    "len(seen) == 1",
    "any(w in seen and tally[w] > 0 for w in worker)",
    "count(tally[w] > 0 for w in worker) == 1",
    "any(index(v) != index(w) for v in seen for w in seen)",
    "worker[1] in seen",
    "any(index(w) > 0 for w in seen)",
)
SETS = (
    '"seen": "{}"',
    '"seen": "worker - seen"',
    '"seen": "{w for w in worker if tally[w] == 0}"',
    '"seen": "union({w} for w in worker if w not in seen)"',
    '"seen": "seen - {worker[0]}"',
)
ONLY = ("it not in seen", "it in seen or tally[it] == 1", "tally[it] == 0", "len(seen - {it}) == 1", "index(it) == 0")
CLAIMS = (
    'always: "len(hub.seen) < 2"',
    'step: "old(hub.seen) <= hub.seen"',
    'always_possible: "hub.seen == {}"',
    'step: "hub.seen == old(hub.seen) or took(hub.hello) or took(hub.go)"',
    'sometimes: "hub.seen == worker and all(w.bit for w in worker)"',
    'always: "all(hub.tally[w] == 0 or w.bit for w in worker)"',
    'always: "count(m.number > 0 for m in pending(hello)) < 2"',
    'when: "took(hub.hello)", step: "any(w.state == busy and old(w.bit) == w.bit for w in worker)"',
    'step: "all(not took(w.work) or w.bit for w in worker)"',
    'always: "worker[0].bit or not worker[1].bit"',
    'always_possible: "all(w.state == busy for w in worker) and heard(up)"',
)


@pytest.mark.parametrize("seed", range(32))
def test_systems_by_chance(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    system = small(
        tmp_path,
        rng.choice((2, 2, 3)),
        rng.random() < 0.6,
        rng.choice(("mailbox", "bag(2)", "multiset(2)", "fifo(1)", "set")),
        guard=rng.choice(GUARDS),
        set=rng.choice(SETS),
        only=rng.choice(ONLY),
        claim=rng.choice(CLAIMS),
    )
    held_against_all_states(system, Limits(states=1_500))


def with_shared_variables(folder: Path) -> System:
    """The small system of a folder whose hub keeps nothing: all of its data are shared variables."""
    names, texts = re.compile(rf"(?<![.\w])({'|'.join(DATA)})\b"), {}
    for path in ("system.yaml", "roles/hub.yaml", "invariants.yaml"):
        texts[path] = (folder / path).read_text()
    data, _, rest = texts["roles/hub.yaml"].removeprefix("role: hub\ndata:\n").partition("events:")
    texts["roles/hub.yaml"] = "role: hub\nevents:" + names.sub(r"shared.\1", rest)
    texts["system.yaml"] += f"shared:\n{data}"
    texts["invariants.yaml"] = re.sub(r"\bhub\.(seen|tally|last)\b", r"shared.\1", texts["invariants.yaml"])
    return written(folder, texts)


@pytest.mark.parametrize("seed", range(12))
def test_systems_with_shared_variables_by_chance(seed: int, tmp_path: Path) -> None:
    """Their orbits are those of the same system whose hub has the variables in its record."""
    rng = random.Random(seed)
    own = small(
        tmp_path,
        2,
        rng.random() < 0.6,
        rng.choice(("mailbox", "bag(2)", "fifo(1)", "set")),
        guard=rng.choice(GUARDS),
        set=rng.choice(SETS),
        only=rng.choice(ONLY),
        claim=rng.choice(CLAIMS),
    )
    before = held_against_all_states(own, Limits(states=1_500))
    found = held_against_all_states(with_shared_variables(tmp_path), Limits(states=1_500))
    assert found.complete == before.complete
    if found.complete:
        assert (found.distinct, found.generated, found.orbits) == (before.distinct, before.generated, before.orbits)


def test_driven_machines_that_write_a_shared_variable_are_told_apart(tmp_path: Path) -> None:
    """The last one that is driven is the one that it names."""
    system = written(tmp_path, files_of("checker/explore/systems/hub"))
    assert any("drives part by number" in words for words in symmetry_of(system).why_not)


@pytest.mark.parametrize(("kind", "alike"), [("fifo", True), ("queue", False)])
def test_driven_machines_that_stand_in_one_line_are_told_apart(kind: str, alike: bool, tmp_path: Path) -> None:
    """They send in the step that drives them, one after the other by number."""
    hub = files_of("checker/explore/systems/hub")
    starts = ("to: up, set: {shared.last: self}", "to: up, also: tell")
    sends = ("  up: {ignore: {start: it is}}", "  up: {ignore: {start: it is}}\ntasks: {tell: {send: told, to: sink}}")
    roles = (
        "part: {instances: 2}}",
        f"part: {{instances: 2}}, sink: {{}}}}\nchannels: {{up: {{from: part, to: sink, kind: {kind}}}}}",
    )
    files = edited(hub, starts, sends, roles, ("shared: {last: 'option[part]'}\n", ""))
    files["messages.yaml"] = "messages: {told: {from: part, to: sink}}\n"
    files["invariants.yaml"] = "properties: {all_up: {sometimes: all(p.state == up for p in part)}}\n"
    files["roles/sink.yaml"] = "role: sink\nstates: {open: {initial: true, ignore: {told: it knows}}}\n"
    system = written(tmp_path, files)
    assert bool(symmetry_of(system).groups) == alike
    assert any("drives part by number" in words for words in symmetry_of(system).why_not) != alike


def test_systems_without_instances_by_chance(tmp_path: Path) -> None:
    drawn = (by_chance(tmp_path / str(seed), random.Random(seed)) for seed in range(20))
    system = next(system for system in drawn if system is not None)
    assert explore(without_leads_to(system), symmetry=True).why_asymmetric == ("no role has several instances",)


def test_paths_are_real_runs() -> None:
    found = explore(load(TRUTH / "two_phase"), symmetry=True)
    for p in found.properties:
        if p.path is not None:
            assert_runs(found.system, p.path)
            assert all(a.state != b.state for a, b in pairwise(p.path.steps))
    for cell in found.cells:
        assert_runs(found.system, found.path_to(cell))
