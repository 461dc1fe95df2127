"""The packed explorer finds what the reference finds, in the same order: counts, cells, verdicts, paths, labels."""

from __future__ import annotations

import os
import random
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasehold.checker.crash.analysis import crash
from leasehold.checker.crash.cases import CaseFinder
from leasehold.checker.crash.convergence import convergence
from leasehold.checker.explore import ENGINES, Engine, EngineError, Exploration, Limits, Progress, explore, packed
from leasehold.checker.explore.breadth_first import SEARCHING
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.packed import PackedSearch, kernel, library, search
from leasehold.checker.explore.result import AT_VIOLATION
from leasehold.faults.model import Budget, crash_points
from leasehold.faults.model.catalogue import budgeted
from leasehold.reports.json_report import convergence_json
from leasehold.spec import System
from tests.checker.explore.by_chance import by_chance
from tests.checker.explore.every_kind import of_every_kind
from tests.impl.compiler.busy import busy
from tests.mutants.deviations import deviating
from tests.mutants.mutant import mutants
from tests.systems import TESTS, TRUTH, files_of, load, written

SMALL = {"max_units": 1, "last_end": 2}
TINY = {"max_units": 1, "last_end": 1, "expiry": False}
FIGURES = (
    "complete",
    "why_incomplete",
    "distinct",
    "generated",
    "edges",
    "depth",
    "initial",
    "cut",
    "product_machines",
    "product_states",
    "taken",
    "vacuous",
    "properties",
)

# Where CI=true the engine must be there: the package is installed without it where it cannot be compiled.
pytestmark = pytest.mark.skipif(
    not library.FILE.exists() and os.environ.get("CI") != "true", reason="the C engine was not built"
)


def assert_alike(system: System, budget: Budget | None = None, limits: Limits | None = None, **more: Any) -> None:
    """The packed engine finds what the reference finds."""
    plain = explore(system, limits, budget=budget, engine="reference", **more)
    assert plain.engine == "reference"
    found = explore(system, limits, budget=budget, engine="packed", **more)
    assert found.engine == "packed"
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
    assert [mine.labels.depths[first] for first, *_ in mine.labels.of] == mine.labels.state_depths().tolist()
    assert mine.labels.state_depths().tolist() == theirs.labels.state_depths().tolist()
    assert (found.graph is None) == (plain.graph is None)
    if plain.graph is not None:
        for name in ("sources", "targets", "first"):
            assert getattr(found.graph, name).tolist() == getattr(plain.graph, name).tolist(), name
        assert _rows(found) == _rows(plain)


def _rows(found: Exploration) -> list[object]:
    """Returns what each edge is, whatever its numbers are."""
    names = [*found.graph.names, None]
    kinds = [(names[row.group], row[1:5], row.point >= 0) for row in found.graph.kinds]
    return [kinds[n] for n in found.graph.rows]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("lease", SMALL),
        ("contention", {"last_end": 1}),
        ("two_phase_commit", {}),
        pytest.param("two_phase_commit", {"participants": 4}, marks=pytest.mark.long),
        ("three_phase_commit", {}),
        ("three_phase_commit_termination", {"participants": 2}),
    ],
    ids=str,
)
def test_shipped_systems(name: str, settings: Mapping[str, Any]) -> None:
    assert_alike(load(name, settings))


@pytest.mark.parametrize("folder", sorted(p for p in TRUTH.iterdir() if p.is_dir()), ids=lambda p: p.name)
def test_systems_of_known_counts(folder: Path) -> None:
    """With the settings of the first run that `expected.yaml` does not call slow."""
    runs = yaml.safe_load((folder / "expected.yaml").read_text())["runs"].values()
    assert_alike(load(folder, next(run.get("set", {}) for run in runs if not run.get("slow"))))


@pytest.mark.parametrize(
    ("name", "settings", "budget"),
    [
        ("lease", TINY, "crash=1,duplicate=1"),
        ("lease", TINY, "lose=any"),
        ("lease", TINY, "halt=1,reorder=1"),
        pytest.param("lease", TINY, "partition=1,skew=1", marks=pytest.mark.long),
        ("lease", TINY, "power_cut=1,byzantine=service_manager"),
        ("two_phase_commit", {"participants": 1}, "crash=1,halt=1,power_cut=1,lose=1"),
        ("three_phase_commit_termination", {"participants": 2}, "halt=1"),
    ],
    ids=str,
)
def test_faults(name: str, settings: Mapping[str, Any], budget: str) -> None:
    assert_alike(load(name, settings), Budget.parse(budget))


MISTAKEN = [m for m in mutants() if m.deviation is not None]


@pytest.mark.parametrize(
    "mutant",
    [
        pytest.param(
            mutant, id=mutant.name, marks=() if at % 9 == 0 else pytest.mark.slow if at % 3 else pytest.mark.long
        )
        for at, mutant in enumerate(MISTAKEN)
    ],
)
def test_machines_that_make_a_mistake(mutant: Any) -> None:
    system = load("lease", TINY)
    assert_alike(system, Budget(crash=1, duplicate=1), reference=deviating(mutant.deviation))


@pytest.mark.parametrize(
    "limits",
    [
        Limits(states=1),
        Limits(states=1000),
        Limits(depth=0),
        Limits(depth=9),
        Limits(stop_at_violation=True),
    ],
    ids=str,
)
@pytest.mark.parametrize("budget", [None, pytest.param(Budget(crash=1), marks=pytest.mark.long)], ids=str)
def test_limits(limits: Limits, budget: Budget | None) -> None:
    for system in (
        load("lease", SMALL if budget is None else TINY),
        load("three_phase_commit_termination", {"participants": 2}),
    ):
        assert_alike(system, budget, limits)


@pytest.mark.parametrize("level", [False, True], ids=["at once", "with its level"])
@pytest.mark.parametrize("budget", [None, Budget(crash=1)], ids=str)
def test_a_violation_ends_a_search_unless_it_is_expected(budget: Budget | None, level: bool, tmp_path: Path) -> None:
    """At once, or with its level: then all that are violated at the least depth are told, and nothing deeper."""
    ended = 0
    for seed in range(12):
        if (system := of_every_kind(tmp_path / str(seed), seed)) is None:
            continue
        whole = explore(system, budget=budget)
        kinds = ("always", "step", "deadlock")
        wrong = {p.name: p.path for p in whole.properties if p.verdict == "violated" and p.kind in kinds}
        first = min((len(path) for path in wrong.values() if path is not None), default=None)
        limits = Limits(stop_at_violation=True, finish_level=level)
        assert_alike(system, budget, limits)
        stopped = explore(system, limits, budget=budget)
        assert (stopped.why_incomplete == AT_VIOLATION) or stopped.complete
        assert stopped.complete or wrong
        told = {p.name: p.path for p in stopped.properties if p.verdict == "violated"}
        assert told == {name: wrong[name] for name in told} or not wrong
        assert first is None or first in [len(path) for path in told.values() if path is not None]
        ended += not stopped.complete
        deepest = max((len(path) for path in told.values() if path is not None), default=0)
        assert stopped.complete or not level or deepest <= (first or 0) + 1
        none = explore(system, replace(limits, expected=frozenset(wrong)), budget=budget)
        assert (none.complete, none.properties) == (True, whole.properties)
        if len(wrong) > 1:
            others = frozenset(name for name in wrong if name not in told)
            assert explore(system, replace(limits, expected=others), budget=budget).why_incomplete == AT_VIOLATION
    assert ended > 3


@pytest.mark.parametrize("engine", ENGINES)
def test_a_violation_is_told_while_the_search_goes_on(engine: Engine, tmp_path: Path) -> None:
    """The report at the end of the search has each, and the phases that follow."""
    told: list[Progress] = []
    system = next(s for n in range(12) if (s := of_every_kind(tmp_path / str(n), n)) and _wrong(s))
    found = explore(system, progress=told.append, engine=engine)
    searching = [p for p in told if p.phase == SEARCHING]
    assert (searching[-1].distinct, searching[-1].waiting) == (found.distinct, 0)
    assert set(searching[-1].violated) == _wrong(system)
    phases = [p.phase for p in told if p.phase != SEARCHING]
    assert phases[0] == "building the graph"
    decided = [p for p in found.properties if p.kind in ("leads_to", "always_eventually", "eventually_always")]
    assert any(phase.startswith("deciding properties of runs, 1 of ") for phase in phases)
    broken = {p.name for p in decided if p.verdict == "violated"}
    assert {phase.rpartition(" ")[2] for phase in phases if phase.startswith("shortening")} == broken
    assert broken
    assert set(told[-1].violated) == _wrong(system) | broken


def _wrong(system: System) -> set[str]:
    kinds = ("always", "step", "deadlock")
    return {p.name for p in explore(system).properties if p.verdict == "violated" and p.kind in kinds}


@pytest.mark.parametrize(
    ("draw", "count"),
    [
        pytest.param(by_chance, 10, id="few messages"),
        pytest.param(busy, 5, id="few types"),
        pytest.param(partial(by_chance, share=True), 5, id="few shared variables"),
        pytest.param(by_chance, 30, id="messages", marks=pytest.mark.long),
        pytest.param(partial(by_chance, share=True), 30, id="shared variables", marks=pytest.mark.long),
        pytest.param(busy, 20, id="types", marks=pytest.mark.long),
    ],
)
def test_systems_by_chance(draw: Callable[[Path, random.Random], System | str | None], count: int) -> None:
    """Systems of messages and faults, and of all types and operators; a failure is shrunk to few choices."""
    loaded = 0

    @settings(max_examples=count, suppress_health_check=list(HealthCheck))
    @given(rng=st.randoms(use_true_random=False), faulty=st.booleans())
    def agree(rng: random.Random, faulty: bool) -> None:
        nonlocal loaded
        with tempfile.TemporaryDirectory() as folder:
            system = draw(Path(folder), rng)
        if not isinstance(system, System):
            return
        loaded += 1
        assert_alike(system, limits=Limits(states=2_000))
        if faulty and draw is not busy:
            assert_alike(system, Budget(crash=1, lose=1, duplicate=1), Limits(states=2_000))

    agree()
    assert loaded > count / 4


def test_of_fields_with_many_values_each_is_asked_about_by_itself() -> None:
    """768 combinations of the fields of each event, and the reference is asked for what few of their bits see."""
    system = load(TRUTH / "server_allocator", {"resources": 8, "most": 2})
    one = PackedSearch(reference_of(system), Limits(states=100_000), None)
    assert one.run().distinct >= 100_000
    assert len(one.model.leaves) < 25_000


WRONG_LATER = TESTS / "checker/explore/systems/wrong_later"


MANY = files_of("checker/explore/systems/many_events")


@pytest.mark.parametrize(("count", "engine"), [(70, "packed"), (4_500, "reference")])
def test_sets_of_many_members(count: int, engine: str, tmp_path: Path) -> None:
    """Maps that do not go into one number, and maps that do not go into the words that a tree can ask for."""
    changed = {"COUNT": str(count), "LAST": str(count - 1)}
    files = {name: re.sub("|".join(changed), lambda m: changed[m[0]], text) for name, text in MANY.items()}
    system = written(tmp_path, files)
    found, plain = (crash(system, Budget(crash=1), engine=asked) for asked in (engine, "reference"))
    assert found.faulty.engine == engine
    assert (found.legal.distinct, [p.verdict for p in found.legal.properties]) == (3, ["violated"])
    assert found.convergence is not None
    assert plain.convergence is not None
    assert convergence_json(found.convergence) == convergence_json(plain.convergence)
    if engine == "reference":
        with pytest.raises(EngineError, match="a state takes 71 words"):
            explore(system, engine="packed")


FAR = files_of("checker/explore/systems/far_things")
DIGITS = (16, 72, 217, 170, 211, 52, 104, 84)  # of 2 ** 64


def test_maps_of_many_values(tmp_path: Path) -> None:
    changed = {
        "ALL": ", ".join(f'"held[thing[{n}]]": (at + 1) % 300' for n in range(8)),
        "FAR": ", ".join(f'"held[thing[{n}]]": {digit}' for n, digit in enumerate(DIGITS)),
    }
    files = {name: re.sub("ALL|FAR", lambda m: changed[m[0]], text) for name, text in FAR.items()}
    system, budget = written(tmp_path, files), Budget(duplicate=1)
    found = [
        convergence(explore(system, engine=engine), explore(system, budget=budget, engine=engine)) for engine in ENGINES
    ]
    assert [after.converges for after in found] == [False] * 3
    assert {after.legal_states for after in found} == {1_800}


@pytest.mark.parametrize("limits", [Limits(), Limits(stop_at_violation=True)], ids=["all", "first"])
def test_a_specification_at_fault_under_faults(limits: Limits) -> None:
    """A value leaves its range after some steps: while crashes may come, and after them."""
    system = load(WRONG_LATER)
    assert_alike(system, Budget(crash=1), limits)
    found = explore(system, limits, budget=Budget(crash=1))
    assert "types_hold" in [p.name for p in found.properties if p.verdict == "violated"]


@pytest.mark.parametrize(
    ("system", "settings", "budget"),
    [
        (TRUTH / "two_phase", {"resource_managers": 6}, None),
        ("two_phase_commit", {"participants": 4}, None),
        ("lease", TINY, Budget(crash=1)),
        (TRUTH / "two_phase", {"resource_managers": 4}, Budget(crash=1)),
    ],
    ids=str,
)
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


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the system does not list the threads of a process")
def test_helpers_are_there_while_a_search_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing but the time that it takes would show if they were not."""

    def most(helpers: int) -> int:
        seen, done = [0], threading.Event()

        def watch() -> None:
            while not done.wait(0.0005):
                seen.append(len(os.listdir("/proc/self/task")))

        monkeypatch.setattr(PackedSearch, "helpers", helpers)
        monkeypatch.setattr(PackedSearch, "least_level", 1)
        watching = threading.Thread(target=watch)
        watching.start()
        explore(load(TRUTH / "two_phase", {"resource_managers": 8}), engine="packed")
        done.set()
        watching.join()
        return max(seen)

    assert most(5) == most(0) + 5


@pytest.mark.long
def test_the_graph_of_a_search_that_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops in the midst of a state's steps: those that were taken by then are that state's."""
    system, midst = load("lease", TINY), []

    @contextmanager
    def when_told() -> Iterator[Callable[[], bool]]:
        yield lambda: len(running.probes.fired) >= wanted

    class Search(PackedSearch):
        def __init__(self, *args: Any, **more: Any) -> None:
            nonlocal running
            super().__init__(*args, **more)
            running = self

    running: Any = None
    wanted = 0
    monkeypatch.setattr(search, "interrupts", when_told)
    monkeypatch.setattr(packed, "PackedSearch", Search)
    for number in range(2, 40):
        wanted = number
        found = explore(system, budget=Budget(crash=1, duplicate=1), engine="packed")
        assert found.why_incomplete == "interrupted"
        world, states = found.paths.world, found.paths.states
        began = found.graph.sources.tolist()
        for source, target in zip(began, found.graph.targets.tolist(), strict=True):
            assert states[target] in [after for _, after in world.successors(states[source])]
        searched = running.kernel.figure(kernel.SEARCHED)
        midst.append(searched in [label for n in began for label in found.paths.labels.of[n]])
    assert midst.count(True) >= 2


def test_the_cases_of_crashes() -> None:
    system = load("lease", TINY)
    reports = [crash(system, Budget(crash=1), engine=engine) for engine in ("reference", "packed")]  # type: ignore[arg-type]
    plain, found = reports
    assert dict(found.cases) == dict(plain.cases)
    assert found.convergence is not None
    assert plain.convergence is not None
    assert convergence_json(found.convergence) == convergence_json(plain.convergence)
    assert found.convergence.path == plain.convergence.path
    finders = [CaseFinder(r.faulty, r.convergence.ways, crash_points(system)) for r in reports if r.convergence]
    for case in sorted(found.cases)[::60]:
        assert finders[0].path(case) == finders[1].path(case)


@pytest.mark.parametrize("engine", ["packed", pytest.param("reference", marks=pytest.mark.long)])
def test_a_search_stops_at_its_limit_of_memory(engine: Any) -> None:
    found = explore(load("lease", {"max_units": 4}), Limits(memory=1_000_000), engine=engine)
    assert (found.complete, found.why_incomplete) == (False, "stopped at its limit of 1 MB of memory")
    assert found.graph is None  # to make it would take more
    assert {p.verdict for p in found.properties} <= {"bounded", "witnessed"}


@pytest.mark.parametrize("engine", ["packed", "reference"])
def test_a_graph_that_is_too_large_to_be_judged(engine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.checker.explore.resources.TO_DECIDE", 1 << 30)
    found = explore(load("lease", TINY), engine=engine)
    assert (found.complete, found.graph) == (False, None)
    assert "the search is done, but to decide what asks for the whole graph takes about" in found.why_incomplete
    assert explore(load(TRUTH / "two_phase"), engine=engine).complete  # nothing asks for its graph


@contextmanager
def library_loaded_anew() -> Iterator[None]:
    """The C part is looked for again, and again after."""
    library._loaded.cache_clear()
    library.library.cache_clear()
    try:
        yield
    finally:
        library._loaded.cache_clear()
        library.library.cache_clear()


ENGINE_TEXT = Path(__file__).parents[3] / "checker" / "explore" / "packed" / "engine"


def test_the_engine_is_that_of_its_text(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(library, "SOURCE", shutil.copytree(ENGINE_TEXT, tmp_path / "engine"))
    with library_loaded_anew():
        assert explore(load("two_phase_commit"), engine="packed").engine == "packed"


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        ("gone", "the C engine was not built"),
        ("noise", "the C engine cannot be loaded: "),
        ("old", "the C engine was built from another text than checker/explore/packed/engine has: build it again"),
    ],
)
def test_without_the_compiled_engine_the_reference_searches_and_says_so(
    damage: str, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    place = tmp_path / "engine"
    if damage == "noise":
        place.write_bytes(bytes(100))
    if damage == "old":
        changed = shutil.copytree(ENGINE_TEXT, place) / "search.h"
        changed.write_text(changed.read_text() + "\n/* Another text. */\n")
    monkeypatch.setattr(library, "SOURCE" if damage == "old" else "FILE", place)
    with library_loaded_anew():
        found = explore(load("two_phase_commit"))
        assert found.engine == "reference"
        assert found.engine_reason.startswith(why)
        with pytest.raises(EngineError, match=why):
            explore(load("two_phase_commit"), engine="packed")


@pytest.mark.parametrize("pext", [True, False])
@pytest.mark.parametrize("words", [1, 2, 3, 7, 33])
def test_the_engine_for_each_processor_and_number_of_words(
    words: int, pext: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """States that take one word are given more; functions for every processor find what those for this one find."""
    loaded, variant = library._loaded()
    if pext and not variant:
        pytest.skip("this processor has no such instructions")
    monkeypatch.setattr(library, "_loaded", lambda: (loaded, "_pext" if pext else ""))
    monkeypatch.setattr(kernel, "library", lambda least: library.library.__wrapped__(max(least, words)))
    assert kernel.Kernel(1).words == {7: 8, 33: 64}.get(words, words)
    assert_alike(load(TRUTH / "two_phase", {"resource_managers": 4}))
    assert_alike(load("two_phase_commit", {"participants": 1}), Budget(crash=1, lose=1))


def test_a_budget_of_as_many_kinds_as_fit() -> None:
    """All kinds of faults that are counted."""
    budget = Budget(**{name: 1 for name, fault in budgeted().items() if fault.counted})
    assert len(budget.limits) == search.MOST_KINDS == 8
    assert_alike(load("two_phase_commit", {"participants": 1}), budget)


def test_a_budget_that_does_not_fit_is_for_the_reference() -> None:
    system = load("two_phase_commit", {"participants": 1})
    found = explore(system, Limits(states=500), budget=Budget(crash=200))
    assert (found.engine, found.engine_reason) == (
        "reference",
        "it takes up to 8 kinds of faults, of each up to 127",
    )
    with pytest.raises(EngineError, match="it takes up to 8 kinds of faults"):
        explore(system, Limits(states=10), budget=Budget(crash=200), engine="packed")


TIMERS = files_of("checker/explore/systems/timers")


@pytest.mark.parametrize("roles", ["first: {}, second: {}", "second: {}, first: {}"])
def test_timers_that_show_that_the_specification_is_wrong(roles: str, tmp_path: Path) -> None:
    """The clock asks the timers one after the other; the fault shows unless an earlier one is due."""
    environment = "environment: {count: {to: first}, start: {to: second}}\n"
    text = f"system: timers\nroles: {{{roles}}}\nclock: {{horizon: 3}}\n{environment}"
    system = written(tmp_path, {**TIMERS, "system.yaml": text})
    assert_alike(system)
    assert [p.name for p in explore(system).properties if p.verdict == "violated"] == ["guards_disjoint"]
