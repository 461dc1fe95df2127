"""The tables of runs: the same however often they are written, and whatever of them was not in memory meanwhile."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from leasehold.checker.explore import channels
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.reference import Reference
from leasehold.checker.verify.schema import FOREVER, encoded
from leasehold.faults.model import Budget
from tests.checker.verify.databases import Database, database
from tests.checker.verify.twin import Run, disturbed, walks
from tests.systems import load

SYSTEMS = {"contention": "crash=1", "three_phase_commit": "crash=1,partition=1", "two_phase_commit": "crash=1,halt=1"}


def some_runs(name: str, seed: int) -> tuple[Reference, list[Run]]:
    world, rng = reference_of(load(name), Budget.parse(SYSTEMS[name])), Random(f"{name} {seed}")
    right = walks(world, rng, 12)[:2]
    return world, [*right, *(disturbed(world, rng, run, 0.3) for run in right)]


def rows(db: Database) -> dict[str, list[Any]]:
    return {table.name: sorted(db.ask(f"SELECT * FROM {table.name}"), key=repr) for table in db.tables.tables()}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", SYSTEMS)
def test_tables_do_not_depend_on_when_they_are_written(name: str, seed: int) -> None:
    """Runs go on side by side, are written and forgotten at any time, are had again, end, go on, and are replaced."""
    world, runs = some_runs(name, seed)
    found = []
    for often in (0.0, 0.5):
        chance, when = Random(seed), Random(seed + 1)
        with database("sqlite", world.system, world.layout) as db:
            recorder = db.recorder
            at = {recorder.begin(f"r{n}", run[0][0], "a", n): 1 for n, run in enumerate(runs)}
            seen: dict[int, list[tuple[Any, bool]]] = {number: [(runs[number - 1][0][0], False)] for number in at}
            left, asleep = set(at), set[int]()
            while left:
                number = chance.choice(sorted(left))
                act = chance.random()
                if number in asleep:  # others may have rows by now that are not written
                    asleep.discard(number)
                    recorder.recall(number, seen[number])
                if at[number] == len(runs[number - 1]):
                    entry = recorder.entry
                    recorder.end(number)
                    assert recorder.entry == entry + 1  # as what is new is asked for by entry
                    left.discard(number)
                elif act < 0.15:
                    recorder.replace(number, runs[number - 1][at[number]][0])
                    (state, action), at[number] = runs[number - 1][at[number]], at[number] + 1
                    recorder.step(number, state, action, "b", at[number])
                    seen[number].append((state, True))
                else:
                    (state, action), at[number] = runs[number - 1][at[number]], at[number] + 1
                    assert recorder.step(number, state, action, "c", at[number]) == sum(
                        1 + replaced for _, replaced in seen[number]
                    )
                    seen[number].append((state, False))
                if chance.random() < 0.05:
                    recorder.end(number)
                    db.write() if often else None
                    recorder.go_on(number)
                if when.random() < often:
                    db.write()
                    for gone in sorted(left - asleep):
                        if when.random() < 0.4:
                            recorder.forget(gone)
                            asleep.add(gone)
            db.write()
            found.append((rows(db), recorder.entry, recorder.begun))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", SYSTEMS)
def test_the_rows_at_each_cut_are_its_state(name: str) -> None:
    """Machines, messages, the newest of each mailbox, and who is apart: read back from the tables."""
    world, runs = some_runs(name, 0)
    layout, system = world.layout, world.system
    with database("sqlite", system, layout) as db:
        for n, run in enumerate(runs):
            number = db.recorder.begin(f"r{n}", run[0][0])
            for state, action in run[1:]:
                db.recorder.step(number, state, action)
                db.write() if n % 2 else None
        db.write()
        for number, run in enumerate(runs, 1):
            for cut, (state, _) in enumerate(run):
                lasts = f"run = {number} AND {cut} BETWEEN since AND until"
                for role, i, _ in layout.machines():
                    table = db.tables.machine_tables[role.name]
                    ((*_, actor, running, control), *more) = (
                        row[:7] for row in db.ask(f"SELECT * FROM {table.name} WHERE {lasts} AND instance = {i}")
                    )
                    assert not more
                    of = layout.of[role.name, i]
                    stopped = any(state[at] in variable.stops for at, variable in layout.stopping(of))
                    assert (actor, bool(running), control) == (
                        of.name,
                        not stopped,
                        state[layout.at(role.name, i, None)],
                    )
                    ((*data,),) = (
                        row[7:] for row in db.ask(f"SELECT * FROM {table.name} WHERE {lasts} AND instance = {i}")
                    )
                    assert data == [encoded(d.type, state[layout.at(role.name, i, d.name)]) for d in role.data.values()]
                for lane in layout.lanes:
                    table = db.tables.channel_tables[lane.channel.name]
                    ends = f"{lasts} AND sender = {lane.sender} AND receiver = {lane.receiver}"
                    entries = channels.entries(lane.channel.kind, state[lane.cell])
                    assert sorted(db.ask(f"SELECT number, kind FROM {table.name} WHERE {ends}")) == sorted(
                        (rank if lane.channel.kind != "fifo" else place, kind)
                        for place, (rank, kind, _) in enumerate(entries, 1)
                    )
                    if lane.channel.kind == "mailbox":
                        newest = db.ask(f"SELECT newest FROM lane WHERE {ends} AND channel = '{lane.channel.name}'")
                        assert newest == [(state[lane.cell][0],)]
                        latest = db.ask(f"SELECT number FROM {table.name} WHERE {ends} AND latest")
                        assert all(one == (state[lane.cell][0],) for one in latest)
                apart = {
                    (a.name, b.name)
                    for a in layout.actors
                    for b in layout.actors
                    if a is not b and any(state[at] in values for at, values in layout.separating(a, b))
                }
                assert {*db.ask(f"SELECT actor, other FROM separated WHERE {lasts}")} == apart
        ((open_,),) = db.ask(f"SELECT COUNT(*) FROM lane WHERE until = {FOREVER}")
        assert open_ == len(runs) * sum(lane.channel.kind == "mailbox" for lane in layout.lanes)
