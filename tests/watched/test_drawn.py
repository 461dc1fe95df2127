"""What reads logs, on systems that nobody thought about.

The readings agree, logs are played again alike, what actors do conforms, is explained by what they have, and
counterexamples of the explorer are played by actors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from leasehold.checker.explain.explanation import Explainer
from leasehold.checker.explore import Limits, explore
from leasehold.checker.history.merge import capacities_of
from leasehold.checker.history.moments import Moments
from leasehold.checker.recovery.campaign import silent
from leasehold.checker.recovery.cases.counterexample import LOST_FOR_GOOD, CounterexampleRun, counterexample_of
from leasehold.checker.recovery.cases.log_case import LogPlayer, UnplayableLog, log_case
from leasehold.checker.recovery.cases.path_case import PathCase
from leasehold.checker.recovery.cases.played import (
    AGAIN,
    APART,
    AT_FIRST,
    DOWN,
    OF_NO_EVENT,
    ON_THEIR_WAY,
    UNBEGUN,
    PlayedCounterexample,
    play_counterexample,
)
from leasehold.checker.recovery.cases.replay import (
    AWAITS_ROOM,
    DRIVEN_AT_ONCE,
    IN_A_STORE,
    NEVER_SENT,
    NOT_THERE,
    OF_BEFORE,
    UNHEARD,
)
from leasehold.checker.recovery.properties import RunProperties
from leasehold.checker.verify.queries import WHAT_CAN
from leasehold.faults.model import Budget
from leasehold.impl.events.event import StepEvent
from tests.checker.conform.walks import Log, judged
from tests.checker.verify.databases import database
from tests.watched.drawn import Drawn, drawn, path_under
from tests.watched.readings import compared

# Seeds of systems; a part of them, and more where there is time for that.
SOME = pytest.mark.parametrize(
    "seeds",
    [
        range(1000, 1006),
        pytest.param(range(1006, 1036), marks=pytest.mark.long),
        pytest.param(range(1036, 1400), marks=pytest.mark.slow),
    ],
    ids=["some", "more", "many"],
)


@SOME
def test_the_readings_agree(seeds: range) -> None:
    verdicts = 0
    for one in drawn(seeds):
        with database("sqlite", one.system, one.cuts.layout) as db:
            found = compared(one.cuts, [(one.log(n), n == 2) for n in range(3)], {"sqlite": db})
        assert not found.differ, f"seed {one.seed}: {found.differ[:3]}"
        verdicts += found.verdicts.total()
    assert verdicts > 100 * len(seeds)


# Where a stretch cannot begin: a message is on its way that no state says any more; machines are made by no event.
NOT_PLAYED = ("was on its way where this begins, and a later message too", "has records that no event has led to")


def play(one: Drawn, log: Log, *stretch: object) -> None:
    with silent():
        played = LogPlayer(one.system, log_case(one.system, "drawn", {}, log, *stretch)).play()
    assert not played.differs, f"seed {one.seed}: at {played.at}: {played.why or played.difference}"
    assert played.same == played.steps


def stretch(one: Drawn, log: Log, chance: Random) -> tuple[object, object]:
    """Two moments of a log, the earlier one first."""
    moments = Moments(log, capacities_of(one.system))
    actor = max(log, key=lambda name: len(log[name]))
    begin, end = sorted(chance.sample(range(2, len(log[actor])), 2))
    return moments.of_event(actor, begin), moments.of_event(actor, end)


@SOME
def test_logs_and_stretches_of_them_are_played_again_alike(seeds: range) -> None:
    begun = 0
    for one in drawn(seeds):
        for number in range(2):
            log, chance = one.log(number), Random(one.seed)
            play(one, log)
            if max(map(len, log.values())) > 4:
                try:
                    play(one, log, *stretch(one, log, chance))
                except UnplayableLog as error:
                    assert any(words in str(error) for words in NOT_PLAYED)  # noqa: PT017
                else:
                    begun += 1
    assert begun > len(seeds) / 4


@SOME
def test_what_actors_do_conforms(seeds: range) -> None:
    events = 0
    for one in drawn(seeds):
        for number in range(2):
            found, judged_logs = judged(one.known, one.log(number))
            assert not found, f"seed {one.seed}, walk {number}: {found[0]}"
            events += sum(log.events for log in judged_logs)
    assert events > 10 * len(seeds)


@SOME
def test_a_run_is_explained_by_the_records_of_its_machines(seeds: range) -> None:
    compared = 0
    for one in drawn(seeds):
        explainer, chance, log = Explainer(one.system), Random(one.seed), one.log(0)
        steps = [(actor, e) for actor, events in log.items() for e in events if isinstance(e, StepEvent)]
        moments = Moments(log, capacities_of(one.system))
        for actor, event in chance.sample(steps, min(len(steps), 5)):
            cut = moments.of_event(actor, event.position)
            run = event.step.serves or event.step.lease
            found = explainer.explain(log, run, f"{actor}:{event.position}")
            last = {
                e.step.machine: e.step.record.state
                for events in moments.before(cut).values()
                for e in events
                if isinstance(e, StepEvent) and e.step.lease == run
            }
            said = {machine["machine"]: machine.get("state") for machine in found.machines}
            assert {name: said.get(name) for name in last} == last, f"seed {one.seed}, {actor}:{event.position}"
            compared += len(last)
    assert compared > 3 * len(seeds)


# Why a counterexample of the model is played by no actor, or why no event shows what it breaks.
UNPLAYED = (
    AT_FIRST,
    NOT_THERE,
    UNHEARD,
    DRIVEN_AT_ONCE,
    IN_A_STORE,
    NEVER_SENT,
    OF_BEFORE,
    AWAITS_ROOM,
    LOST_FOR_GOOD,
)
NOT_TOLD = (OF_NO_EVENT, DOWN, ON_THEIR_WAY, APART, UNBEGUN, AGAIN, WHAT_CAN)
STATES = 6000  # of an exploration
FEW_STATES = 2500  # of one with faults, of which there are many
KINDS = ("always", "step", "leads_to", "always_eventually", "eventually_always", "always_possible")


def counterexamples(one: Drawn, budget: Budget | None, states: int) -> Iterator[PlayedCounterexample]:
    """Yields what a run breaks in the model, played; with faults, what it breaks by these alone."""
    bare = explore(one.system, Limits(states=states)) if budget is not None and budget != ONE_CRASH else None
    broken = {p.name for p in bare.properties if p.verdict == "violated"} if bare is not None else ()
    for found in explore(one.system, Limits(states=states), budget=budget).properties:
        if found.verdict == "violated" and found.path is not None and found.kind in KINDS and found.name not in broken:
            with silent():
                yield play_counterexample(one.system, PathCase.of(one.system, found.name, found.path, budget))


def told(one: Drawn, budget: Budget | None, states: int) -> Counter[str]:
    """Returns what becomes of counterexamples: each is reproduced and reported, or there is one of the reasons."""
    count: Counter[str] = Counter()
    for played in counterexamples(one, budget, states):
        where = f"seed {one.seed}, {budget}, {played.name}"
        if played.unplayed:
            assert any(words in played.unplayed for words in UNPLAYED), f"{where}: {played.unplayed}"
            count["unplayed"] += 1
            continue
        assert played.reproduced, f"{where}: {played.findings}"
        if played.name not in played.reported:
            assert played.not_asked in NOT_TOLD, f"{where}: {played.not_asked or 'verify does not report it'}"
        count["reported" if played.name in played.reported else "not told"] += 1
    return count


ONE_CRASH = Budget(crash=1)
KINDS_OF_FAULTS = ("lose", "duplicate", "reorder", "partition", "power_cut", "halt")
FAULTS = [ONE_CRASH, *(Budget(**{fault: 1, **more}) for fault in KINDS_OF_FAULTS for more in ({}, {"crash": 1}))]


@SOME
@pytest.mark.parametrize(
    "budget", [None, pytest.param(ONE_CRASH, marks=pytest.mark.long)], ids=["no faults", "a crash"]
)
def test_counterexamples_are_played_and_reported_or_there_is_a_reason(seeds: range, budget: Budget | None) -> None:
    count: Counter[str] = Counter()
    for one in drawn(seeds):
        count += told(one, budget, STATES)
    assert count["reported"] > count.total() / 4, count


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(2050, 2060), marks=pytest.mark.long),
        pytest.param(range(2060, 2400), marks=pytest.mark.slow),
    ],
    ids=["more", "many"],
)
@pytest.mark.parametrize("fault", KINDS_OF_FAULTS)
def test_counterexamples_of_each_fault_are_played_or_there_is_a_reason(fault: str, seeds: range) -> None:
    count: Counter[str] = Counter()
    for one in drawn(seeds):
        for budget in (Budget(**{fault: 1}), Budget(**{fault: 1, "crash": 1})):
            count += told(one, budget, FEW_STATES)
    # Of few systems the share is one of chance: what they claim changes with what can be drawn.
    assert count["reported"] + count["not told"] > (count["unplayed"] if len(seeds) > 100 else 0), count


@pytest.mark.parametrize(
    "seeds",
    [
        range(3000, 3002),
        pytest.param(range(3002, 3042), marks=pytest.mark.long),
        pytest.param(range(3042, 3148), marks=pytest.mark.slow),
    ],
    ids=["some", "more", "many"],
)
def test_actors_follow_any_path_of_the_model_under_faults_or_there_is_a_reason(seeds: range) -> None:
    count: Counter[str] = Counter()
    for one in drawn(seeds):
        for budget in FAULTS:
            properties, chance = RunProperties(one.system, budget), Random(f"{one.seed} {budget}")
            if (path := path_under(one, properties, chance, 12)) is None:
                continue
            with silent():
                follows = PathCase.of(one.system, "c0", path, budget).follow(properties)
                script = counterexample_of(follows, "c0", budget, endless=False)
                run = CounterexampleRun(one.known.program, properties, script)
                run.replayer.excuses = True
                try:
                    outcome = run.run()
                finally:
                    run.close()
            where = f"seed {one.seed}, {budget}"
            if outcome.skipped:
                assert any(words in outcome.skipped for words in UNPLAYED), f"{where}: {outcome.skipped}"
            else:
                assert not outcome.findings, f"{where}: {outcome.findings}"
            count["skipped" if outcome.skipped else "followed"] += 1
    assert count["followed"] > count["skipped"], count
