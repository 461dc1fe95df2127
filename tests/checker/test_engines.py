"""The packed explorer finds what the reference finds, in the same order: counts, cells, verdicts, paths, labels."""

from __future__ import annotations

import random
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasehold.checker.cases import CaseFinder
from leasehold.checker.crash import crash
from leasehold.checker.explore import Engine, EngineError, Exploration, Limits, explore, packed
from leasehold.checker.explore.packed import PackedSearch, arrays, kernel, library, search
from leasehold.checker.stabilise import convergence
from leasehold.faults import Budget, crash_points
from leasehold.faults.mutants import mutants
from leasehold.spec import System, load
from tests.checker.by_chance import by_chance, written
from tests.impl.compiler.busy import busy

TRUTH = Path(__file__).parents[1] / "truth"
SMALL = {"max_units": 1, "last_end": 2}
PACKED: tuple[Engine, ...] = ("packed", "arrays")
TINY = {"max_units": 1, "last_end": 1, "expiry": False}
FIGURES = (
    "complete", "why_incomplete", "distinct", "generated", "edges", "depth", "initial", "cut", "product_machines",
    "product_states", "taken", "vacuous", "properties",
)  # fmt: skip

pytestmark = pytest.mark.skipif(not shutil.which("cc"), reason="there is no C compiler here")


def assert_alike(
    system: System, budget: Budget | None = None, limits: Limits | None = None,
    engines: Sequence[Engine] = PACKED, **more: Any,
) -> None:  # fmt: skip
    """These engines find what the reference finds."""
    plain = explore(system, limits, budget=budget, engine="reference", **more)
    assert plain.engine == "reference"
    for engine in engines:
        found = explore(system, limits, budget=budget, engine=engine, **more)
        assert found.engine == engine
        assert_found_alike(plain, found)


def assert_found_alike(plain: Exploration, found: Exploration) -> None:
    for name in FIGURES:
        assert getattr(found, name) == getattr(plain, name), name
    assert list(found.cells) == list(plain.cells)
    assert list(found.cell_edges) == list(plain.cell_edges)
    mine, theirs = found.paths, plain.paths
    assert list(mine.states) == list(theirs.states)
    assert [mine.states[n] for n in range(0, found.distinct, 97)] == theirs.states[::97]
    for name in ("states", "depths", "lefts", "of"):
        assert list(getattr(mine.labels, name)) == list(getattr(theirs.labels, name)), name
    assert (found.graph is None) == (plain.graph is None)
    if plain.graph is not None:
        for name in ("sources", "targets", "first"):
            assert getattr(found.graph, name).tolist() == getattr(plain.graph, name).tolist(), name
        assert _rows(found) == _rows(plain)


def _rows(found: Exploration) -> list[object]:
    """What each edge is, whatever its numbers are."""
    names = [*found.graph.names, None]
    kinds = [(names[row.group], row[1:5], row.point >= 0) for row in found.graph.kinds]
    return [kinds[n] for n in found.graph.rows]


@pytest.mark.parametrize(("name", "settings"), [
    ("lease", SMALL), ("contention", {"last_end": 1}), ("two_phase_commit", {}),
    ("two_phase_commit", {"participants": 4}), ("three_phase_commit", {}),
    ("three_phase_commit_termination", {"participants": 2}),
], ids=str)  # fmt: skip
def test_shipped_systems(name: str, settings: Mapping[str, Any]) -> None:
    assert_alike(load(name, settings))


@pytest.mark.parametrize("folder", sorted(p for p in TRUTH.iterdir() if p.is_dir()), ids=lambda p: p.name)
def test_systems_of_known_counts(folder: Path) -> None:
    assert_alike(load(folder))


@pytest.mark.parametrize(("name", "settings", "budget"), [
    ("lease", TINY, "crash=1,duplicate=1"),
    ("lease", TINY, "lose=any"),
    ("lease", TINY, "halt=1,reorder=1"),
    ("lease", TINY, "partition=1,skew=1"),
    ("lease", TINY, "power_cut=1,byzantine=service_manager"),
    ("two_phase_commit", {"participants": 1}, "crash=1,halt=1,power_cut=1,lose=1"),
    ("three_phase_commit_termination", {"participants": 2}, "halt=1"),
], ids=str)  # fmt: skip
def test_faults(name: str, settings: Mapping[str, Any], budget: str) -> None:
    assert_alike(load(name, settings), Budget.parse(budget))


MISTAKEN = [m for m in mutants() if m.deviation is not None]


@pytest.mark.parametrize("mutant", [
    pytest.param(mutant, id=mutant.name, marks=() if number % 3 == 0 else pytest.mark.slow)
    for number, mutant in enumerate(MISTAKEN)
])  # fmt: skip
def test_machines_that_make_a_mistake(mutant: Any) -> None:
    system = load("lease", TINY)
    engines = PACKED if mutant in MISTAKEN[::6] else PACKED[:1]  # in NumPy small searches take long
    assert_alike(system, Budget(crash=1, duplicate=1), engines=engines, deviation=mutant.deviation)


@pytest.mark.parametrize("limits", [
    Limits(states=1), Limits(states=1000), Limits(depth=0), Limits(depth=9), Limits(stop_at_violation=True),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("budget", [None, Budget(crash=1)], ids=str)
def test_limits(limits: Limits, budget: Budget | None) -> None:
    for system in (
        load("lease", SMALL if budget is None else TINY),
        load("three_phase_commit_termination", {"participants": 2}),
    ):
        assert_alike(system, budget, limits, PACKED if budget is None else PACKED[:1])


@pytest.mark.parametrize(("draw", "count"), [(by_chance, 30), (busy, 20)], ids=["messages", "types"])
def test_systems_by_chance(draw: Callable[[Path, random.Random], System | str | None], count: int) -> None:
    """Of two kinds: of messages and faults, and of all types and operators; a failure is shrunk to few choices."""
    loaded = 0

    @settings(max_examples=count, deadline=None, suppress_health_check=list(HealthCheck))
    @given(rng=st.randoms(use_true_random=False), both=st.booleans(), faulty=st.booleans())
    def agree(rng: random.Random, both: bool, faulty: bool) -> None:
        nonlocal loaded
        with tempfile.TemporaryDirectory() as folder:
            system = draw(Path(folder), rng)
        if not isinstance(system, System):
            return
        loaded += 1
        engines = PACKED if both else PACKED[:1]  # in NumPy small searches take long
        assert_alike(system, limits=Limits(states=2_000), engines=engines)
        if faulty and draw is by_chance:
            assert_alike(system, Budget(crash=1, lose=1, duplicate=1), Limits(states=2_000), engines)

    agree()
    assert loaded > count / 4


WRONG_LATER = {
    "system.yaml": "system: lamps\nroles: {lamp: {instances: 2}}\nenvironment: {press: {to: lamp}}\n",
    "roles/lamp.yaml": """
role: lamp
data: {pressed: {type: int, min: 0, max: 3}}
events: {press: Somebody presses the button.}
states:
  dark:
    initial: true
    on: {press: {to: bright, set: {pressed: pressed + 1}}}
  bright: {on: {press: {to: dark}}}
""",
}


MANY = {
    "system.yaml": "system: many\ntypes: {thing: {count: COUNT}}\nroles: {box: {}}\nenvironment: {put: {to: box}}\n",
    "roles/box.yaml": """
role: box
data: {held: "set[thing]"}
events: {put: Something is put in.}
states:
  open:
    initial: true
    on:
      put:
        - {to: open, when: "thing[LAST] not in held", set: {held: "held | {thing[LAST]}"}}
        - {to: open, when: "thing[LAST] in held", set: {held: "held | {thing[1]}"}}
""",
    "invariants.yaml": 'properties: {apart: {always: "thing[1] not in box.held"}}\n',
}


@pytest.mark.parametrize(("count", "engine"), [(70, "packed"), (4_500, "reference")])
def test_sets_of_many_members(count: int, engine: str, tmp_path: Path) -> None:
    """What does not go into one number, and what does not go into the words that a tree can ask for."""
    changed = {"COUNT": str(count), "LAST": str(count - 1)}
    files = {name: re.sub("|".join(changed), lambda m: changed[m[0]], text) for name, text in MANY.items()}
    system = written(tmp_path, files)
    found, plain = (crash(system, Budget(crash=1), engine=asked) for asked in ("auto", "reference"))
    assert found.faulty.engine == engine
    assert (found.legal.distinct, [p.verdict for p in found.legal.properties]) == (3, ["violated"])
    assert found.convergence is not None
    assert plain.convergence is not None
    assert found.convergence.as_json() == plain.convergence.as_json()
    if engine == "reference":
        assert found.faulty.engine_reason == "a state takes 71 words of 64 bits, and it takes up to 64"
        with pytest.raises(EngineError, match="a state takes 71 words"):
            explore(system, engine="arrays")


FAR = {  # maps whose numbers differ by 2 ** 64, if they are made of digits of base 300
    "system.yaml": """
system: far
types: {thing: {count: 8}}
roles: {box: {}, hand: {}}
channels: {line: {from: hand, to: box, kind: fifo(2)}}
environment: {count: {to: box}, begin: {to: hand}}
""",
    "messages.yaml": "messages: {poke: {from: hand, to: box}}\n",
    "roles/hand.yaml": """
role: hand
events: {begin: It begins.}
states:
  idle: {initial: true, on: {begin: {to: done}}}
  done: {tasks: [poke], ignore: {begin: once}}
tasks: {poke: {send: poke, to: box}}
""",
    "roles/box.yaml": """
role: box
data: {held: "map[thing, int]", at: {type: int, min: 0, max: 299}, round: bool, poked: bool}
events: {count: All count on.}
states:
  open:
    initial: true
    on:
      count: {to: open, set: {at: (at + 1) % 300, round: round or at == 299, ALL}}
      poke:
        - {to: open, when: not poked, set: {poked: true}}
        - {to: open, when: poked and round and at == 0, set: {FAR}}
        - {to: open, when: poked and not (round and at == 0)}
""",
}
DIGITS = (16, 72, 217, 170, 211, 52, 104, 84)  # of 2 ** 64


def test_maps_of_many_values(tmp_path: Path) -> None:
    changed = {
        "ALL": ", ".join(f'"held[thing[{n}]]": (at + 1) % 300' for n in range(8)),
        "FAR": ", ".join(f'"held[thing[{n}]]": {digit}' for n, digit in enumerate(DIGITS)),
    }
    files = {name: re.sub("ALL|FAR", lambda m: changed[m[0]], text) for name, text in FAR.items()}
    system, budget = written(tmp_path, files), Budget(duplicate=1)
    found = [
        convergence(explore(system, engine=engine), explore(system, budget=budget, engine=engine))
        for engine in (*PACKED, "reference")
    ]
    assert [after.converges for after in found] == [False] * 3
    assert {after.legal_states for after in found} == {1_800}


@pytest.mark.parametrize("limits", [Limits(), Limits(stop_at_violation=True)], ids=["all", "first"])
def test_a_specification_at_fault_under_faults(limits: Limits, tmp_path: Path) -> None:
    """A value leaves its range after some steps: while crashes may come, and after them."""
    system = written(tmp_path, WRONG_LATER)
    assert_alike(system, Budget(crash=1), limits)
    found = explore(system, limits, budget=Budget(crash=1))
    assert "types_hold" in [p.name for p in found.properties if p.verdict == "violated"]


@pytest.mark.parametrize("budget", [None, Budget(crash=1, lose=1)], ids=str)
@pytest.mark.parametrize("size", [3, 50])
def test_blocks_of_any_size(size: int, budget: Budget | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Levels of many blocks, and parts that are looked up together from the first state on."""
    monkeypatch.setattr(arrays, "BLOCK", size)
    monkeypatch.setattr(arrays, "SETTLED", -1)
    system = load("two_phase_commit", {"participants": 1 if budget else 2})
    for limits in (Limits(states=800), Limits(states=100), Limits(states=300, stop_at_violation=True)):
        assert_alike(system, budget, limits, ["arrays"])
    other = by_chance(tmp_path, random.Random(25))
    assert other is not None
    assert_alike(other, budget, Limits(states=200), ["arrays"])
    if budget is None:
        assert_alike(load(TRUTH / "two_phase", {"resource_managers": 3}), engines=["arrays"])


@pytest.mark.parametrize(("system", "settings", "budget"), [
    (TRUTH / "two_phase", {"resource_managers": 6}, None),
    ("two_phase_commit", {"participants": 4}, None),
    ("lease", TINY, Budget(crash=1)),
    (TRUTH / "two_phase", {"resource_managers": 4}, Budget(crash=1)),
], ids=str)  # fmt: skip
def test_helpers_change_nothing(
    system: str | Path, settings: Mapping[str, Any], budget: Budget | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for helpers in (0, 3):
        monkeypatch.setattr(PackedSearch, "helpers", helpers)
        monkeypatch.setattr(PackedSearch, "least_level", 1)
        found.append(explore(load(system, settings), budget=budget, engine="packed"))
    alone, helped = found
    assert_found_alike(alone, helped)
    if alone.graph is not None:
        assert helped.graph.rows.tolist() == alone.graph.rows.tolist()


def test_the_graph_of_a_search_that_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops in the midst of a state's steps: those that were taken by then are that state's."""
    system, began = load("lease", TINY), []

    @contextmanager
    def when_first_told() -> Iterator[Callable[[], bool]]:
        yield lambda: len(running.told) > 2

    class Search(PackedSearch):
        def __init__(self, *args: Any, **more: Any) -> None:
            nonlocal running
            super().__init__(*args, **more)
            running = self

    running: Any = None
    monkeypatch.setattr(search, "interrupts", when_first_told)
    monkeypatch.setattr(packed, "PackedSearch", Search)
    found = explore(system, budget=Budget(crash=1, duplicate=1), engine="packed")
    assert found.why_incomplete == "interrupted"
    world, states = found.paths.world, found.paths.states
    for source, target in zip(found.graph.sources.tolist(), found.graph.targets.tolist(), strict=True):
        began.append(source)
        assert states[target] in [after for _, after in world.successors(states[source])]
    assert running.kernel.figure(kernel.SEARCHED) in [label for n in began for label in found.paths.labels.of[n]]


def test_the_cases_of_crashes() -> None:
    system = load("lease", TINY)
    reports = [crash(system, Budget(crash=1), engine=engine) for engine in ("reference", "packed")]  # type: ignore[arg-type]
    plain, found = reports
    assert dict(found.cases) == dict(plain.cases)
    assert found.convergence is not None
    assert plain.convergence is not None
    assert found.convergence.as_json() == plain.convergence.as_json()
    assert found.convergence.path == plain.convergence.path
    finders = [CaseFinder(r.faulty, r.convergence.ways, crash_points(system)) for r in reports if r.convergence]
    for case in sorted(found.cases)[::60]:
        assert finders[0].path(case) == finders[1].path(case)


@pytest.mark.parametrize("engine", ["packed", "arrays", "reference"])
def test_a_search_stops_at_its_limit_of_memory(engine: Any) -> None:
    found = explore(load("lease", {"max_units": 4}), Limits(memory=1_000_000), engine=engine)
    assert (found.complete, found.why_incomplete) == (False, "stopped at its limit of 1 MB of memory")
    assert found.graph is None  # to make it would take more
    assert {p.verdict for p in found.properties} <= {"bounded", "witnessed"}


@pytest.mark.parametrize("engine", ["packed", "arrays", "reference"])
def test_a_graph_that_is_too_large_to_be_judged(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.checker.explore.memory.TO_DECIDE", 1 << 30)
    found = explore(load("lease", TINY), engine=engine)
    assert (found.complete, found.graph) == (False, None)
    assert "the search is done, but to decide what asks for the whole graph takes about" in found.why_incomplete
    assert explore(load(TRUTH / "two_phase"), engine=engine).complete  # nothing asks for its graph


@pytest.fixture
def compiled_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing was compiled before, nor is it known after."""
    monkeypatch.setenv("LEASEHOLD_CACHE", str(tmp_path / "cache"))
    library.library.cache_clear()
    yield
    library.library.cache_clear()


@pytest.mark.usefixtures("compiled_anew")
@pytest.mark.parametrize("compiler", ["no-such-compiler", "/nonexistent"])
def test_without_a_compiler_arrays_search_and_say_so(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", compiler)
    found = explore(load("two_phase_commit"))
    assert (found.engine, found.engine_reason) == ("arrays", f"CC names {compiler}, which is not there, so arrays")
    with pytest.raises(EngineError, match=f"CC names {compiler}, which is not there"):
        explore(load("two_phase_commit"), engine="packed")


@pytest.mark.usefixtures("compiled_anew")
def test_where_no_compiler_is_on_the_path_arrays_search(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = explore(load("two_phase_commit"))
    assert (found.engine, found.engine_reason) == ("arrays", "there is no C compiler here, so arrays")


@pytest.mark.usefixtures("compiled_anew")
def test_a_compiler_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrong = tmp_path / "cc"
    wrong.write_text("#!/bin/sh\necho no luck today >&2\nexit 1\n")
    wrong.chmod(0o755)
    monkeypatch.setenv("CC", str(wrong))
    assert explore(load("two_phase_commit")).engine_reason == f"{wrong} fails: no luck today, so arrays"


def test_where_nothing_can_be_kept_it_is_compiled_for_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEASEHOLD_CACHE", "/dev/null")
    library.library.cache_clear()
    assert explore(load("two_phase_commit")).engine == "packed"


@pytest.mark.usefixtures("compiled_anew")
def test_a_long_search_compiles_better_for_the_next(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(search, "LONG", 0.0)
    monkeypatch.setattr(search, "SLICE", 0.005)
    system = load(TRUTH / "two_phase", {"resource_managers": 5})
    first = explore(system, engine="packed")
    for thread in threading.enumerate():
        if thread.name == search.IMPROVING:
            thread.join()
    assert len(list((tmp_path / "cache" / "engine").iterdir())) == 2
    library.library.cache_clear()
    assert Path(library.library(1)._name) == library._build(1).place(library.THOROUGH)
    assert_found_alike(first, explore(system, engine="packed"))


@pytest.mark.usefixtures("compiled_anew")
def test_what_was_kept_and_is_damaged_is_compiled_anew(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LEASEHOLD_CACHE", str(tmp_path))
    (tmp_path / "engine").mkdir()
    explore(load("two_phase_commit"))
    (kept,) = (tmp_path / "engine").iterdir()
    whole = kept.read_bytes()
    kept.unlink()  # this process still has it
    kept.write_bytes(whole[:40])
    library.library.cache_clear()
    assert explore(load("two_phase_commit")).engine == "packed"
    assert kept.read_bytes()[:64] == whole[:64]
    assert len(kept.read_bytes()) == len(whole)


def test_a_budget_that_does_not_fit_is_for_the_reference() -> None:
    system = load("two_phase_commit", {"participants": 1})
    found = explore(system, Limits(states=10), budget=Budget(crash=200))
    assert (found.engine, found.engine_reason) == (
        "reference", "it takes up to 7 kinds of faults, of each up to 127",
    )  # fmt: skip
    with pytest.raises(EngineError, match="it takes up to 7 kinds of faults"):
        explore(system, Limits(states=10), budget=Budget(crash=200), engine="arrays")
