"""Forms of states that name machines: as many as there are orbits, the same in both engines, however one searches."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations, product
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.explore import Checkpointing, Exploration, Limits, canonical, explore
from leasehold.checker.explore.breadth_first import ReferenceSearch
from leasehold.checker.explore.canonical import Apart, Canonical, apart
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.packed import PackedSearch, library
from leasehold.checker.explore.packed import alike as packed_alike
from leasehold.checker.explore.symmetry import Permutation, symmetry_of
from leasehold.spec import System
from leasehold.spec.language import types as t
from tests.checker.explore.naming import naming
from tests.checker.explore.test_symmetry import FIGURES, compiled, held_against_all_states, wide, without_leads_to
from tests.planted.edit import ROOT, edited
from tests.planted.table import mistakes
from tests.systems import TRUTH, load, written

SPEC = Path(__file__).parents[3] / "spec/systems"
NAMING: dict[str, tuple[Path, Mapping[str, Any]]] = {  # systems whose machines name one another, by a name for a test
    "lock_server": (TRUTH / "lock_server", {"clients": 4}),
    "maekawa": (TRUTH / "maekawa", {"processes": 2, "voters": 3}),
    "cache_directory": (TRUTH / "cache_directory", {}),
    "acp_nb_wrong": (TRUTH / "acp_nb_wrong", {"participants": 2}),
    "server_allocator": (TRUTH / "server_allocator", {"clients": 3, "resources": 2}),
    "simple_allocator": (TRUTH / "simple_allocator", {}),
    "waiting_list": (Path("examples/waiting_list"), {}),
    "starter": (SPEC / "starter", {"clients": 3}),
    "pointing": (Path(__file__).parent / "systems/pointing", {"persons": 5}),
}


def named(name: str) -> System:
    folder, settings = NAMING[name]
    return without_leads_to(load(folder, settings))


def canonical_of(system: System) -> Canonical:
    symmetry = symmetry_of(system)
    return Canonical(reference_of(system).layout, symmetry.groups, symmetry.products)


def every_permutation(of: Canonical) -> Iterator[Permutation]:
    for orders in product(*[permutations(range(group.count)) for group in of.groups]):
        yield of.permutation(orders)


def assert_orbits_are_those_of_all_states(system: System, found: Exploration, every: Exploration) -> None:
    """All states are grouped by trying every permutation on them: each group has one form, and no more are found."""
    of = canonical_of(system)
    left, forms = set(every.paths.states), set(found.paths.states)
    moves = list(every_permutation(of))
    while left:
        state = next(iter(left))
        orbit = {of.moved(state, p) for p in moves}
        assert orbit <= left, "an orbit has states that are not reachable"
        assert len(orbit & forms) == 1
        assert of.size(state) == len(orbit)
        left -= orbit
        forms -= orbit
    assert not forms


@pytest.mark.parametrize("name", NAMING)
def test_systems_that_name_machines(name: str) -> None:
    system = named(name)
    found, every = held_against_all_states(system), explore(system)
    assert found.orbits is not None
    assert canonical_of(system).others
    assert_orbits_are_those_of_all_states(system, found, every)


@pytest.mark.parametrize("seed", range(40))
def test_systems_that_name_machines_by_chance(seed: int, tmp_path: Path) -> None:
    system = naming(tmp_path, random.Random(seed))
    assert system is not None
    found, every = held_against_all_states(system, Limits(states=300)), explore(system, Limits(states=1_500))
    assert found.orbits is not None
    if every.complete and found.complete:
        assert_orbits_are_those_of_all_states(system, found, every)


def test_instances_of_leases_that_compete_change_places_with_their_guests() -> None:
    """A guest's number is a pair of others: of its lease and of its unit."""
    system = without_leads_to(load("contention", {"last_end": 1}))
    symmetry = symmetry_of(system)
    assert [group.roles for group in symmetry.groups] == [("service_manager", "broker", "authority")]
    assert [(p.role, p.high, p.low, p.of_low) for p in symmetry.products] == [("guest", "service_manager", "unit", 1)]
    of, every = canonical_of(system), explore(system)
    rng = random.Random(3)
    for state in rng.sample(list(every.paths.states), 60):
        orbit = {of.moved(state, p) for p in every_permutation(of)}
        assert {of.form(s) for s in orbit} <= orbit
        assert len({of.form(s) for s in orbit}) == 1
        assert of.size(state) == len(orbit)


@compiled
@pytest.mark.long
@pytest.mark.parametrize(
    ("settings", "states"), [({"last_end": 1}, 21_964), ({"last_end": 1, "leases": 3}, 515_016)], ids=str
)
def test_orbits_of_leases_that_compete_are_all_states(settings: Mapping[str, Any], states: int) -> None:
    system = without_leads_to(load("contention", settings))
    found, every = (explore(system, engine="packed", symmetry=symmetry) for symmetry in (True, False))
    assert found.orbits is not None
    assert (found.orbits.states, every.distinct, found.depth) == (states, states, every.depth)
    verdicts = [[(p.name, p.verdict, p.path and len(p.path)) for p in e.properties] for e in (found, every)]
    assert verdicts[0] == verdicts[1]


@compiled
@pytest.mark.parametrize(
    ("name", "settings", "orbits", "states"),
    [
        ("lock_server", {"clients": 12}, 481, 11_160_261),
        ("maekawa", {"processes": 4, "voters": 5}, 1_199, 713_936),
    ],
    ids=str,
)
def test_orbits_of_larger_ones_stand_for_all_states(
    name: str, settings: Mapping[str, Any], orbits: int, states: int
) -> None:
    found = explore(without_leads_to(load(TRUTH / name, settings)), engine="packed", symmetry=True)
    assert found.orbits is not None
    assert (found.distinct, found.orbits.states) == (orbits, states)


# What values say

PERSON, ROOM = t.Instance("person", 4), t.Instance("room", 3)
VALUES = (
    (PERSON, 2),
    (t.Option(PERSON), None),
    (t.Option(PERSON), 3),
    (t.Set(PERSON), frozenset({0, 3})),
    (t.Seq(PERSON, 3), (2, 0, 2)),
    (t.Map(PERSON, t.Bool()), (True, False, True, True)),
    (t.Map(PERSON, t.Option(PERSON)), (1, None, 2, 2)),
    (t.Map(t.Enum("side", ("left", "right")), PERSON), (3, 1)),
    (t.Option(t.Set(PERSON)), frozenset({1, 2})),
    (t.Map(ROOM, t.Set(PERSON)), (frozenset(), frozenset({2}), frozenset({0, 1}))),
)


@pytest.mark.parametrize(("kind", "value"), VALUES, ids=str)
def test_a_value_taken_apart_is_moved_by_moving_its_names(kind: t.Type, value: Any) -> None:
    groups = {"person": lambda n, place: Apart((), (canonical.Named(0, n, place),))}
    mover = canonical.mover_of(kind, frozenset(groups))
    assert mover is not None
    met: dict[Any, Any] = {}
    for order in permutations(range(4)):
        moved = mover(value, {"person": order})
        before, after = apart(kind, value, groups), apart(kind, moved, groups)
        assert before.skeleton == after.skeleton
        assert before.kinds == after.kinds
        assert before.digest == after.digest
        names = [sorted((order[n.number], k) for n, k in zip(before.names, before.kinds, strict=True))]
        assert names == [sorted((n.number, k) for n, k in zip(after.names, after.kinds, strict=True))]
        assert met.setdefault(moved, after.names) == after.names
    assert len({tuple(n.number for n in names) for names in met.values()}) == len(met)


# Hashes


@pytest.mark.parametrize("name", ["lock_server", "server_allocator", "waiting_list", "friends"])
def test_forms_do_not_depend_on_hashes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If all were equal, no cell would be split: more arrangements would be tried, and as many orbits found."""
    system = wide(tmp_path, 4) if name == "friends" else named(name)
    of = canonical_of(system)
    usual = ReferenceSearch(reference_of(system), Limits(states=400), None, of).run()
    monkeypatch.setattr(canonical, "hash_of", lambda kind, number: 0)
    equal = ReferenceSearch(reference_of(system), Limits(states=400), None, canonical_of(system)).run()
    figures = [name for name in FIGURES if name not in ("taken", "properties")]
    if usual.complete:
        assert [getattr(usual, name) for name in figures] == [getattr(equal, name) for name in figures]


def test_where_refinement_sees_no_difference_the_least_state_is_taken() -> None:
    """In a ring of three and one of two, everybody points at somebody and is pointed at."""
    system = named("pointing")
    of, layout = canonical_of(system), reference_of(system).layout
    state = list(reference_of(system).initial_states()[0])
    for i, friend in enumerate((1, 2, 0, 4, 3)):
        state[layout.at("person", i, "friend")] = friend
    s = tuple(state)
    facts, cells = of._facts(s), of._sliced(s)
    assert of._refined(cells, facts) == [[0] * 5]
    made = {of.moved(s, of.permutation(arrangement)) for arrangement, _ in of._arrangements(s, facts, cells)}
    assert len(made) > 1
    assert of.form(s) == min(made, key=of._comparable)
    assert of.size(s) == 20


def test_refinement_leaves_one_arrangement_where_instances_differ(tmp_path: Path) -> None:
    """Four persons in a row, each of whom knows the next, are all unlike."""
    system = wide(tmp_path, 4)
    of = canonical_of(system)
    layout = reference_of(system).layout
    (state,) = reference_of(system).initial_states()
    row = list(state)
    for i in range(3):
        row[layout.at("person", i, "friend")] = i + 1
    arrangements = list(of._arrangements(tuple(row), of._facts(tuple(row)), of._sliced(tuple(row))))
    assert len(arrangements) == 1
    assert of.size(tuple(row)) == 24


@compiled
def test_labels_of_values_are_spread_when_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """States are compared by them."""
    monkeypatch.setattr(packed_alike, "LABELS", 1 << 6)
    spread, spaces = packed_alike._Values._space, []
    monkeypatch.setattr(packed_alike._Values, "_space", lambda values: (spaces.append(values), spread(values)))
    system = without_leads_to(load("examples/waiting_list", {"clients": 4}))
    tight = explore(system, engine="packed", symmetry=True)
    monkeypatch.undo()
    assert spaces
    assert_alike(tight, explore(system, engine="packed", symmetry=True))


@compiled
def test_a_counted_type_that_no_state_names(tmp_path: Path) -> None:
    """Each orbit is one of states, however often its members change places."""
    files = {
        "system.yaml": "system: unnamed\nroles: {person: {instances: 2}}\ntypes: {token: {count: 3}}\n"
        "environment: {act: {to: person}}\n",
        "roles/person.yaml": "role: person\ndata: {bit: bool}\nevents: {act: {fields: {token: token}}}\n"
        "states: {here: {initial: true, on: {act: {to: here, set: {bit: not bit}}}}}\n",
        "invariants.yaml": "properties: {some: {sometimes: any(p.bit for p in person)}}\n",
    }
    found = held_against_all_states(written(tmp_path, files))
    assert found.orbits is not None
    assert (found.distinct, found.orbits.states) == (3, 4)


# However it is searched


@compiled
@pytest.mark.parametrize("name", ["maekawa", "acp_nb_wrong", "server_allocator"])
def test_helpers_change_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for helpers in (0, 3):
        monkeypatch.setattr(PackedSearch, "helpers", helpers)
        monkeypatch.setattr(PackedSearch, "least_level", 1)
        found.append(explore(named(name), engine="packed", symmetry=True))
    assert_alike(*found)


@compiled
@pytest.mark.parametrize("name", ["maekawa", "waiting_list", "server_allocator"])
def test_going_on_from_every_depth(name: str, tmp_path: Path) -> None:
    system, place = named(name), tmp_path / "left"
    whole = explore(system, engine="packed", symmetry=True)
    for depth in range(0, whole.depth, max(1, whole.depth // 5)):
        on = Limits(depth=depth, keeping=Checkpointing(place, resume=depth > 0))
        part = explore(system, on, engine="packed", symmetry=True)
        assert (part.complete, part.checkpoint) == (False, str(place))
    on = Limits(keeping=Checkpointing(place, resume=True))
    assert_alike(whole, explore(system, on, engine="packed", symmetry=True))


@compiled
def test_on_a_disk(tmp_path: Path) -> None:
    usual = explore(named("maekawa"), engine="packed", symmetry=True)
    assert_alike(usual, explore(named("maekawa"), Limits(disk=tmp_path), engine="packed", symmetry=True))


def assert_alike(one: Exploration, other: Exploration) -> None:
    assert [getattr(one, name) for name in FIGURES] == [getattr(other, name) for name in FIGURES]
    assert list(one.paths.states) == list(other.paths.states)
    assert list(one.cell_edges) == list(other.cell_edges)


# Mistakes in the C text

MISTAKES = mistakes("forms.yaml")
COMPARED = "from tests.checker.explore.test_canonical import compare_all; compare_all({file!r}, {folder!r})"


def compare_all(file: str, folder: str) -> None:
    """Holds an engine in another file against the reference and against all states."""
    library.FILE, library.SOURCE = Path(file), Path(folder) / "none"
    for name in ("lock_server", "maekawa", "waiting_list", "server_allocator", "pointing"):
        held_against_all_states(named(name))
    held_against_all_states(wide(Path(folder) / "wide", 4), Limits(states=2_000))
    for seed in range(24):
        system = naming(Path(folder) / str(seed), random.Random(seed))
        assert system is not None
        held_against_all_states(replace(system, name=f"naming{seed}"), Limits(states=300))


def compiled_into(folder: Path, texts: Mapping[str, str]) -> Path:
    """Returns the engine of other texts, for states of a few words, as this processor wants it."""
    source, variant = folder / "engine", library._loaded()[1]
    source.mkdir()
    for path in library.SOURCE.iterdir():
        if path.suffix in (".c", ".h"):
            text = texts.get(f"checker/explore/packed/engine/{path.name}", path.read_text(encoding="utf-8"))
            (source / path.name).write_text(text, encoding="utf-8")
    files: list[str] = [str(source / f"{name}.c") for name in ("platform", "graph", "ways")]
    for words in (1, 2, 3, 4, 6):
        lines = (f"#define W {words}", f"#define PEXT {int(variant != '')}", f"#define SUFFIX _{words}{variant}")
        (source / f"words_{words}.c").write_text("\n".join((*lines, '#include "engine.h"\n')))
        files.append(str(source / f"words_{words}.c"))
    library_file = folder / "_engine.so"
    options: Sequence[str] = ("-O1", "-w", "-std=gnu11", "-fPIC", "-shared", "-pthread", '-DENGINE_SOURCE="planted"')
    subprocess.run(["cc", *options, f"-I{source}", "-o", str(library_file), *files], check=True)
    return library_file


@compiled
@pytest.mark.slow
@pytest.mark.parametrize("name", ["nothing", *MISTAKES])
def test_mistakes_in_the_engine_are_found(name: str, tmp_path: Path) -> None:
    """Counts, states or sums differ, or the engine fails; and it does not without a mistake."""
    texts = edited(ROOT, MISTAKES[name].edits) if name in MISTAKES else {}
    (tmp_path / "systems").mkdir()
    words = COMPARED.format(file=str(compiled_into(tmp_path, texts)), folder=str(tmp_path / "systems"))
    try:
        done = subprocess.run([sys.executable, "-c", words], cwd=ROOT, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        assert name != "nothing"
        return
    assert (done.returncode != 0) == (name != "nothing"), done.stderr[-2_000:]
