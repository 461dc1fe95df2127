"""What `auto` takes for every shipped and truth system and some that are drawn, in CPU time, against the reference."""

from __future__ import annotations

import random
import resource
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from leasehold.checker.explore import Engine, Exploration, Limits, explore
from leasehold.checker.explore.packed import library
from leasehold.spec import SHIPPED, System, load, shipped_folder
from tests.benchmarks.measure import Missing, Row, Section, Table, Target, median, rounds
from tests.checker.explore.by_chance import by_chance
from tests.impl.compiler.busy import busy
from tests.systems import TRUTH

MOST_STATES = 20_000  # of each system: the reference takes a second for so many
DRAWN = 40  # of each kind
WORST = 40  # rows that are printed
HOW = f"""
The CPU time of `explore` with `--engine auto` and with `--engine reference`, in turns within one process: every shipped
system and every one of tests/truth, in each setting of its expected.yaml, and {DRAWN} systems of each of two kinds that
the tests draw by chance. At most {MOST_STATES:,} states are visited of each. The {WORST} systems of which `auto` saves
least come first; a ratio below 1 means that `auto` is faster.
"""


def benchmark(quick: bool) -> Section:
    if not library.FILE.exists():
        raise Missing("the C engine was not built")
    explore(load("two_phase_commit"))  # what is imported for the first one is not measured
    limits = Limits(states=500 if quick else MOST_STATES)
    rows = []
    for name, system in _systems(2 if quick else DRAWN):
        runs = {engine: partial(_seconds, system, limits, engine) for engine in ("reference", "auto")}
        figures = rounds(runs, 1 if quick else 3)
        rows.append(Row(name, figures["auto"], figures["reference"], (Target(1.0, least=False),)))
    rows.sort(key=lambda row: -median(row.ratios))
    slower = [row.what for row in rows if median(row.ratios) > 1]
    notes = [f"{len(rows)} systems; `auto` is slower than the reference for {', '.join(slower) or 'none'}."]
    return Section(
        "engines",
        "Engines: `auto` against the reference",
        HOW,
        [Table("CPU time of a search", "s", rows[:WORST], "the reference")],
        notes=notes,
    )


def _systems(drawn: int) -> Iterator[tuple[str, System]]:
    folders = [*sorted(p for p in TRUTH.iterdir() if p.is_dir()), *(shipped_folder(n) for n in (*SHIPPED, "starter"))]
    for folder in folders:
        for expected in load(folder).expectations:
            yield f"{folder.name} {expected.name}", load(folder, {n: _text(v) for n, v in expected.settings.items()})
    for seed in range(drawn):
        for draw in (by_chance, busy):
            with tempfile.TemporaryDirectory() as place:
                drawn_system = draw(Path(place), random.Random(seed))
            if isinstance(drawn_system, System):
                yield f"{draw.__name__} {seed}", drawn_system


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _seconds(system: System, limits: Limits, engine: Engine) -> float:
    """The CPU seconds of a search."""
    begun = _cpu()
    exploration: Exploration = explore(system, limits, engine=engine)
    if not exploration.distinct:
        raise RuntimeError(f"{system.name} has no states")
    return _cpu() - begun


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
