"""Steps a second of the compiled core, against other ways to dispatch an event.

The core's step does more than the others': it compares sequence numbers and entries, evaluates guards, builds the next
record, and answers with the work that follows. A life ends with its machine; the next one begins with a first record.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from leasehold.spec import System, load
from tests.benchmarks.lives import Life, Lives, commit_lives, lease_lives
from tests.benchmarks.measure import Missing, Row, Section, Table, Target, rounds
from tests.benchmarks.rivals import LIBRARIES, Flat, bare, stepped

HOW = """
`Core.step` of the shipped `lease` (service manager, broker, authority, and a unit) and `two_phase_commit` (coordinator
and one of three participants), compiled. The events are those that real actors consumed in one whole life, from the
first event to the end, with their fields, numbers and entries; each is a transition. A lease of one unit is extended
twice; a transaction is agreed to by all. The same states, events and moves, without guards, numbers and records, went
into a bare dict (state and event -> a function that answers the next state), which is asked through a function
`step(state, event)`, and once more inline, without that call; and into three libraries. Each ran the same life over and
over; a step is one event. So the authority, which remembers what work follows from a choice of units, finds it again in
every lap; a step that meets a choice for the first time costs more.
"""
LEAST = 2_000_000
SHARE = 1 / 3


def core_rate(life: Life, laps: int) -> float:
    """Steps a second of a compiled role."""
    step, first = life.core.step, life.steps[0].before
    cycle = [(taken.event, taken.now) for taken in life.steps]
    begun = time.perf_counter()
    for _ in range(laps):
        record = first
        for event, now in cycle:
            record, outcome = step(record, event, now)
    seconds = time.perf_counter() - begun
    assert outcome.taken
    return laps * len(cycle) / seconds


def check(life: Life) -> None:
    """Asserts that a life can be lived again, all of it transitions."""
    record = life.steps[0].before
    for taken in life.steps:
        record, outcome = life.core.step(record, taken.event, taken.now)
        assert outcome.taken, f"{life.core.role}: {outcome}"
        assert record[0] == taken.after[0], f"{life.core.role} comes to {record[0]}, not to {taken.after[0]}"


def flattened(system: System, life: Life) -> Flat:
    """The same machine without guards: of two moves for one event the second has an event of its own."""
    role = system.roles[life.core.role]
    moves: dict[tuple[str, str], str] = {}
    cycle = []
    for taken in life.steps:
        source, event, target = taken.before[0], taken.event[0], taken.after[0]
        if moves.setdefault((source, event), target) != target:
            event = f"{event}_to_{target}"
            moves[source, event] = target
        cycle.append((event, taken.event[1]))
    for state in role.states.values():
        for event, transitions in state.on.items():
            moves.setdefault((state.name, event), transitions[0].target)
    return Flat(tuple(life.core.states), moves, tuple(cycle))


def lives() -> list[tuple[str, System, Life]]:
    """Returns what is measured: name, system, life."""
    system, _, leases = lease_lives()
    _, commits = commit_lives()
    two_phase = load("two_phase_commit", {"participants": 3})

    def named(of: Lives, where: System, *machines: str) -> list[tuple[str, System, Life]]:
        return [(f"{where.name}, {machine.partition('[')[0]}", where, of[machine]) for machine in machines]

    return [
        *named(leases, system, "service_manager", "broker", "authority", "unit[0]"),
        *named(commits, two_phase, "coordinator", "participant[0]"),
    ]


def benchmark(quick: bool) -> Section:
    times, laps = (2, 50) if quick else (7, 40_000)
    tables, skipped = [], []
    every: dict[str, list[list[float]]] = {}
    for name, system, life in lives():
        check(life)
        flat = flattened(system, life)
        runs: dict[str, Callable[[], float]] = {
            "compiled core": partial(core_rate, life, laps),
            "dict of functions": partial(stepped, flat, laps),
            "the same, inline": partial(bare, flat, laps),
        }
        # Slower ones take fewer laps, so that each takes about as long.
        for library, slower in zip(LIBRARIES, (2, 12, 120), strict=True):
            try:
                runs[library] = partial(LIBRARIES[library](flat), max(5, laps // slower))
            except Missing as missing:
                skipped.append(str(missing))
        figures_by_way = rounds(runs, times)
        for way, figures in figures_by_way.items():
            every.setdefault(way, []).append(figures)
        tables.append(_table(f"{name}: {len(flat.states)} states, {len(flat.cycle)} events", figures_by_way))
    # Over all lives a round's figure is that of a mix with as many steps of each: the harmonic mean.
    mixed = {way: [len(turn) / sum(1 / f for f in turn) for turn in zip(*of, strict=True)] for way, of in every.items()}
    tables.insert(0, _table("all six machines, as many steps of each", mixed))
    return Section("dispatch", "Dispatch: steps of the compiled core", HOW, tables, tuple(dict.fromkeys(skipped)))


def _table(title: str, figures_by_way: dict[str, list[float]]) -> Table:
    base = figures_by_way["dict of functions"]
    ours = (Target(SHARE), Target(LEAST, of_ratio=False))
    rows = [
        Row(way, figures, () if figures is base else base, ours if way == "compiled core" else ())
        for way, figures in figures_by_way.items()
    ]
    return Table(title, "steps/s", rows, "the dict")
