"""Kept events: whoever opens the tables later finds what was written, whenever and in how many parts."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from leasehold.checker.history.fault import CutFault
from leasehold.checker.history.merge import CausalMerge
from leasehold.checker.verify.database import VerifyDatabase
from leasehold.checker.verify.incremental import CHUNK, known_of
from leasehold.checker.verify.kept import Follower, KeptEvents, run_of
from leasehold.checker.verify.schema import VIOLATION, WITNESS
from leasehold.impl.events.event import (
    ROOT,
    AnyEvent,
    ForgottenEvent,
    FoundEvent,
    MigratedEvent,
    PrunedEvent,
    RecoveredEvent,
    RefusedEvent,
    SealEvent,
    StepEvent,
    digest,
    write,
)
from tests.checker.conform.walks import known, walked


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ["examples/mutex", "lease"])
def test_what_was_kept_is_found_by_whoever_comes_later(name: str, seed: int) -> None:
    log, chance = walked(name, seed), Random(seed)
    merge = CausalMerge(log)
    for actor, events in log.items():
        merge.add(actor, events)
        merge.close(actor)
    order = [*merge.ready()]
    database = VerifyDatabase(known(name).system)
    database.begin()
    kept, cursor = KeptEvents(database.tables), database.cursor
    came, judged = dict.fromkeys(log, 0), 0
    faults: list[CutFault] = []
    machines: dict[tuple[str, str], tuple[str, str]] = {}
    while judged < len(order):
        actor = chance.choice(sorted(log))
        for event in log[actor][came[actor] : came[actor] + chance.randrange(6)]:
            kept.add(actor, event, write(event) if chance.random() < 0.5 else None)
            came[actor] = event.position
        ready: list[AnyEvent] = []
        while judged < len(order) and order[judged].position <= came[order[judged].actor] and chance.random() < 0.8:
            ready.append(order[judged])
            judged += 1
        kept.judge(ready)
        if chance.random() < 0.3:
            faults.append(CutFault(actor, came[actor], "r", f"fault {judged}", "undecided"))
        if chance.random() < 0.3:
            kept.follower(actor).source, kept.follower(actor).sealed = f"from {judged}", judged
            kept.moved(actor)
        changed = [(actor, f"unit[{n}]", f"s{judged}", "r") for n in range(chance.randrange(3))]
        machines |= {(who, machine): (state, serves) for who, machine, state, serves in changed}
        kept.write(cursor)
        kept.write_progress(cursor, faults, changed, {"judged": judged, "more": [actor]})
        if chance.random() < 0.2:  # another one goes on
            before, kept = kept, KeptEvents(database.tables)
            progress, *_ = kept.load(cursor)
            kept.judged = progress["judged"]
            assert kept.followers == before.followers
        if chance.random() < 0.5:
            check(database, log, order, came, judged, faults, machines)
    check(database, log, order, came, judged, faults, machines)
    database.close()


def check(
    database: VerifyDatabase,
    log: dict[str, list[AnyEvent]],
    order: list[AnyEvent],
    came: dict[str, int],
    judged: int,
    faults: list[CutFault],
    machines: dict[tuple[str, str], tuple[str, str]],
) -> None:
    """Asks somebody who has just come."""
    later, cursor = KeptEvents(database.tables), database.cursor
    progress, found, owned = later.load(cursor)
    assert (progress["judged"], found, owned) == (judged, faults, machines)
    assert later.followers.keys() <= log.keys()
    done = order[:judged]
    for actor, events in log.items():
        of, own = later.follower(actor), [event for event in done if event.actor == actor]
        there = events[: came[actor]]
        last = (there[-1].position, digest(write(there[-1])), there[-1].epoch) if there else (0, ROOT, 0)
        assert (of.position, of.digest, of.epoch) == last
        assert of.judged == len(own)
        assert later.waiting(cursor, actor) == there[len(own) :]
        assert later.last_judged(cursor, actor) == (own[-1] if own else None)
    assert later.chains(cursor) == {actor: events[: came[actor]] for actor, events in log.items()}
    for run in {run_of(event) for event in order} - {""}:
        of_run = [event for event in done if run_of(event) == run]
        assert [*later.steps(cursor, run)] == [event.step for event in of_run if isinstance(event, StepEvent)]
        told = [event for event in of_run if isinstance(event, FoundEvent | ForgottenEvent)]
        assert [*later.told(cursor, run)] == told


def test_a_follower_that_is_new_is_at_the_beginning() -> None:
    assert Follower("a").row() == ("a", "", 0, ROOT, 0, 0, 0)
    assert Follower("a", "b", 1, "c", 2, 3, 4).row() == ("a", "b", 1, "c", 2, 3, 4)


@pytest.mark.parametrize("count", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 3])
def test_what_was_found_is_known_of_each_run_that_is_asked_for(count: int) -> None:
    database = VerifyDatabase(known("lease").system)
    for table, share in ((VIOLATION, 2), (WITNESS, 3)):
        rows = [(n, n, f"p{n % share}", "name", 0) for n in range(2 * CHUNK + 9)]
        database.cursor.executemany(database.tables.inserts[table.name], rows)
    for table, share in ((VIOLATION, 2), (WITNESS, 3)):
        asked = [n for n in range(count) for _ in range(2)]
        assert known_of(database.cursor, table.name, asked) == {(n, f"p{n % share}") for n in range(count)}
    database.close()


def test_an_event_is_of_the_run_that_it_is_about() -> None:
    """A machine of the actor is of the run that it serves; an event of the actor itself is of none."""
    event = next(e for e in walked("lease", 0)["site"] if isinstance(e, StepEvent))
    base: dict[str, Any] = {
        n: getattr(event, n) for n in ("position", "before", "actor", "epoch", "spec", "now", "time", "commit")
    }
    step, record = event.step, event.step.record
    for lease, serves, run in (("l:1", "", "l:1"), ("-", "l:2", "l:2"), ("-", "", "")):
        of_step = type(step)(lease, "m", "e", record, "s", serves=serves)
        assert run_of(StepEvent(step=of_step, **base)) == run
        assert run_of(FoundEvent(lease=lease, machine="m", record=record, serves=serves, **base)) == run
        none = "" if lease == "-" else lease
        assert run_of(ForgottenEvent(lease=lease, machine="m", state="s", **base)) == none
        assert run_of(RefusedEvent(lease=lease, machine="m", event="e", cause="c", reason="r", **base)) == none
    for other in (
        RecoveredEvent(agreement="", machines=1, **base),
        SealEvent(why="many", key="", **base),
        PrunedEvent(until=1, root="", **base),
        MigratedEvent(source="", records=1, **base),
    ):
        assert run_of(other) == ""
