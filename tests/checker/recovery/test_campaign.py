"""Real actors play the cases of the explored graph: some of them here, all of them in the slow test and the report."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.crash.analysis import crash
from leasehold.checker.crash.cases import Case
from leasehold.checker.recovery.campaign import (
    MOST_FINDINGS,
    Campaign,
    CaseOutcome,
    Finding,
    UnknownCase,
    completed,
    in_processes,
    silent,
)
from leasehold.checker.recovery.cases.campaign import LOST, CaseCampaign, RecoveryCase, _work, campaign
from leasehold.checker.recovery.cases.steps import Script
from leasehold.checker.recovery.lease.case import BYSTANDER, LEASE, NEXT, LeaseCaseRun
from leasehold.checker.recovery.lease.random_runs.campaign import RandomCampaign
from leasehold.checker.recovery.lease.runner import LeaseCaseRunner
from leasehold.faults.model import Budget, crash_points
from leasehold.impl.lease.calendar import Holding
from leasehold.spec.language.lower import ModelActor
from tests.planted.table import named
from tests.systems import lease_cases, load

SYSTEM = load("lease", {"max_units": 1, "last_end": 2})


@pytest.fixture(scope="module")
def scripts() -> list[Script]:
    return lease_cases(max_units=1, last_end=2)


@pytest.fixture(scope="module")
def stage() -> LeaseCaseRunner:
    return LeaseCaseRunner(SYSTEM)


def _words(outcome: CaseOutcome) -> str:
    return f"{outcome.name}: " + "; ".join(f"{f.check}: {f.words}" for f in outcome.findings)


def outcomes() -> list[CaseOutcome]:
    failed = [CaseOutcome(name, [Finding("invariants", "no")], "same", asked=1, crashes=1) for name in ("z", "y")]
    passed = [CaseOutcome("a", end="same", asked=5, crashes=1), CaseOutcome("b", end="ended", crashes=2)]
    return [*passed, CaseOutcome("d", skipped="no room"), failed[0], CaseOutcome("c", skipped="no time"), failed[1]]


def test_each_case_counts_once_as_what_it_is() -> None:
    found, seen = Campaign(), []
    with found.timed():
        found.collect([[(None, o) for o in outcomes()]], lambda n, of, bad: seen.append((n, of, len(bad))), total=6)
    assert (found.played, found.passed, found.asked, found.crashes) == (6, 2, 7, 5)
    assert found.ends == {"same": 1, "ended": 1}
    assert [o.name for o in (*found.failures, *found.skipped)] == ["y", "z", "c", "d"]
    assert not found.holds
    assert seen == [(1, 6, 0), (2, 6, 0), (3, 6, 0), (4, 6, 1), (5, 6, 1), (6, 6, 2)]


def test_what_was_found_in_a_case_counts_also_where_its_rest_could_not_be_played() -> None:
    found = Campaign()
    found.add(None, CaseOutcome("a", [Finding("record", "it is gone")], skipped="its second crash did not occur"))
    assert ([o.name for o in found.failures], found.skipped, found.holds) == (["a"], [], False)


@pytest.mark.parametrize(("stop_at", "played"), [(1, 4), (2, 6), (None, 6)])
def test_a_campaign_stops_at_so_many_failures(stop_at: int | None, played: int) -> None:
    found = Campaign()
    found.collect(([(None, o)] for o in outcomes()), stop_at=stop_at)
    assert found.played == played


def test_a_campaign_that_was_interrupted_does_not_hold() -> None:
    def played() -> Iterator[list[tuple[None, CaseOutcome]]]:
        yield [(None, CaseOutcome("a", end="same"))]
        raise KeyboardInterrupt

    found = Campaign()
    with found.timed():
        found.collect(played())
    assert (found.played, found.passed, found.interrupted, found.holds) == (1, 1, True, False)


def test_findings_of_a_case_are_few_and_differ() -> None:
    outcome = CaseOutcome("a")
    for n in (*range(20), 0):
        outcome.say("invariants", f"{n // 2}")
    assert [f.words for f in outcome.findings] == [str(n) for n in range(MOST_FINDINGS)]
    assert not outcome.passed


@pytest.mark.parametrize("jobs", [0, 1])  # in this process, and in another
def test_work_is_done_wherever(jobs: int) -> None:
    assert sorted(in_processes(abs, [-1, 2, -3], jobs)) == [1, 2, 3]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_amid_a_case_in_this_process_ends_the_campaign_and_no_actor(number: signal.Signals) -> None:
    """An actor takes an interrupt within one of its turns for an error, so nothing but the case would end."""
    found, swallowed = Campaign(), []

    def case(n: int) -> list[tuple[int, CaseOutcome]]:
        try:
            signal.raise_signal(number)
        except BaseException as error:
            swallowed.append(error)
        return [(n, CaseOutcome(str(n)))]

    with found.timed():
        found.collect(in_processes(case, range(3), 0))
    assert (found.interrupted, found.played, swallowed) == (True, 0, [])


def test_work_that_nobody_waits_for_is_stopped() -> None:
    stopped: list[int] = []
    results: Any = completed(ThreadPoolExecutor(1), abs, iter([-1, -2, -3]), 1, lambda: stopped.append(1))
    assert next(results) == 1
    results.close()
    assert stopped == [1]


def test_work_that_was_not_begun_is_dropped_where_nobody_waits_for_it() -> None:
    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            ends.append((wait, cancel_futures))
            super().shutdown(wait, cancel_futures=cancel_futures)

    ends: list[tuple[bool, bool]] = []
    assert sorted(completed(Pool(1), abs, [-1, -2], 2)) == [1, 2]
    assert ends == [(True, True)]


def test_a_campaign_that_has_not_begun_has_nothing() -> None:
    for found in (Campaign(), CaseCampaign(system=SYSTEM), RandomCampaign()):
        assert (found.played, found.passed, found.asked, found.crashes, found.seconds) == (0, 0, 0, 0, 0.0)
        assert (found.ends, found.failures, found.skipped, found.interrupted) == ({}, [], [], False)
        assert found.holds
    cases, runs = CaseCampaign(system=SYSTEM), RandomCampaign()
    assert (cases.explored, cases.scripts, cases.exploring, cases.cases, cases.drawn) == (0, 0, 0.0, {}, {})
    assert (cases.by_cell, cases.by_point) == ({}, {})
    assert (runs.first, runs.acts, runs.lost) == (0, {}, 0)
    outcome = CaseOutcome("a")
    assert (outcome.findings, outcome.end, outcome.skipped, outcome.path) == ([], "", "", None)
    assert (outcome.asked, outcome.crashes, outcome.passed) == (0, 0, True)


def test_nothing_is_logged_by_actors_that_meet_faults(caplog: pytest.LogCaptureFixture) -> None:
    """In this process: what was logged before is logged again afterwards."""
    log = logging.getLogger("leasehold.test")

    def warn(n: int) -> int:
        log.critical("it fails")
        return n

    assert [*in_processes(warn, [1, 2], 0)] == [1, 2]
    assert caplog.records == []
    with pytest.raises(ZeroDivisionError), silent():
        raise ZeroDivisionError
    log.critical("now")
    assert [record.message for record in caplog.records] == ["now"]


def test_no_more_work_is_taken_than_the_pool_has_room_for() -> None:
    """A campaign's cases are made one by one, as all of them at once would fill the memory."""
    taken: list[int] = []

    def work() -> Iterator[int]:
        for n in range(10):
            taken.append(n)
            yield n

    results = completed(ThreadPoolExecutor(1), abs, work(), 3)
    assert next(results) == 0
    assert len(taken) == 3
    assert sorted(results) == [*range(1, 10)]


# A small system, of which every point is passed in a second or two: two ticks of time are one state.

SMALL = {"max_units": 1, "last_end": 1, "expiry": False}


@pytest.fixture(scope="module")
def few() -> list[Script]:
    return lease_cases(**SMALL)


@pytest.fixture(scope="module")
def small() -> Iterator[LeaseCaseRunner]:
    made = LeaseCaseRunner(load("lease", SMALL))
    yield made
    made.close()


def points_of(few: list[Script]) -> list[Script]:
    return list({script.point: script for script in few}.values())


@pytest.mark.long
def test_scripts_are_of_all_cases_of_the_exploration(few: list[Script]) -> None:
    """Each case once: cells, points and modes are those that `crash explore` has."""
    report = crash(load("lease", SMALL), Budget(crash=1))
    finder = report.finder
    assert finder is not None
    cases: dict[Case, tuple[int, int | None, ModelActor]] = {}
    depths = finder.paths.labels.state_depths()
    for crash_ in finder.crashes(range(len(finder._example))):  # the shortest, one crash after the other
        state, _, actor = crash_
        for case in product([finder._cell(state)], finder.names(*crash_), finder.worst_in(state, actor)):
            if case not in cases or depths[state] < depths[cases[case][0]]:
                cases[case] = crash_
    assert finder.nearest() == cases
    assert [(s.cell, s.point, s.mode) for s in few] == sorted(cases)
    assert {s.point.partition("@")[0] for s in few} <= {point.name for point in crash_points(load("lease", SMALL))}


def test_a_script_goes_from_the_first_state_over_its_crash_to_the_restart(few: list[Script]) -> None:
    system = load("lease", SMALL)
    first = tuple(state.name for role in system.roles.values() for state in role.states.values() if state.initial)
    for script in few:
        *before, stop = script.steps[: script.at + 1]
        after = script.steps[script.at + 1 :]
        assert script.machines == tuple((role, 0) for role in system.roles)
        crashes = ["crash"] if stop.kind == "stillborn" else []  # it restarts, and does not get far
        assert [step.kind for step in before if step.kind in ("crash", "stillborn", "recover")] == crashes
        assert (stop.kind in ("crash", "stillborn"), stop.point) == (True, script.point)
        assert [step.kind for step in after].count("recover") == 1
        assert after[-1].kind == "recover"
        assert all(len(step.control) == len(script.machines) for step in script.steps)
        assert script.cell == stop.control[:3]
        control = first
        for step in script.steps:  # a step without its machine moves nothing
            moved = [m for m, was, now in zip(script.machines, control, step.control, strict=True) if was != now]
            assert len(moved) <= 2
            control = step.control
        down = stop.machine
        assert down is not None
        assert after[-1].machine is not None
        player = {"service_manager": 0, "guest": 0, "broker": 1, "authority": 2, "unit": 2}
        assert player[after[-1].machine[0]] == player[down[0]], "who stopped restarts"
        assert not any(s.machine is not None and player[s.machine[0]] == player[down[0]] for s in after[:-1])


def test_scripts_are_as_short_as_they_can_be(few: list[Script]) -> None:
    """One to a cell that is nearer is no longer."""
    at: dict[tuple[str, ...], set[int]] = {}
    for script in few:
        at.setdefault(script.cell, set()).add(script.at)
    assert at["nascent", "nascent", "nascent"] == {0}
    assert min(at["ticketing", "nascent", "nascent"]) == 0, "it stops within the step"
    assert min(at["ticketing", "ticketing", "nascent"]) == 1
    assert min(at["ticketing", "ticketed", "nascent"]) == 2
    assert max(script.at for script in few) == 14


def test_a_stop_has_what_was_done_and_what_is_under_way(few: list[Script]) -> None:
    """Who told a peer and stops then has a message under way; who stops before its commit has sent nothing of it."""
    for script in few:
        step = script.steps[script.at]
        role, _, where = script.point.partition("@")[0].removeprefix("crash:").partition("/")
        assert step.machine is not None
        places = [role for role, _ in script.machines]
        assert step.control[places.index(role)] == where.partition("#")[0], "the state in the record is the point's"
        within = "#after-" in where or where.endswith("#before-acknowledge")
        assert bool(step.event) == within or where.endswith("#before-commit"), "it stops amid a step, or at rest"
        if where.endswith("#before-commit") and step.event:
            assert step.event.partition(" ")[0] in ("deliver", "local", "tick")
            assert step.machine[0] == role
        if where.endswith("#before-acknowledge") and step.kind == "crash" and step.event:
            assert step.event.startswith("deliver ")
            assert step.sender is not None
        if "#after-commit" in where:
            assert step.done == ()
        elif "#after-" in where:
            assert "+".join(step.done) == where.partition("#after-")[2]


@pytest.mark.long
@pytest.mark.parametrize("half", [0, 1])
def test_each_point_once(few: list[Script], small: LeaseCaseRunner, half: int) -> None:
    """Real actors stop at it and come back, their messages lost or not."""
    ends = set()
    for n, script in enumerate(points_of(few)[half::4]):
        outcome = small.play(script, lost=bool(n % 2))
        assert outcome.passed, _words(outcome)
        moves = sum(a.control != b.control for a, b in pairwise(script.steps[: script.at]))
        assert outcome.asked >= 3 + moves, "there is a first state, and an actor stops and comes back"
        assert outcome.name == script.name
        ends.add(outcome.end)
    assert "same" in ends


def test_a_case_is_traced_from_its_first_step_to_its_end(few: list[Script], small: LeaseCaseRunner) -> None:
    script = next(s for s in few if s.point == "crash:authority/active#after-commit")
    path = small.play(script, traced=True).path
    assert path is not None
    kinds = [step.kind for step in path.steps]
    assert kinds.count("crash") == kinds.count("recover") == 1
    assert kinds.index("crash") < kinds.index("recover")
    crashed = path.steps[kinds.index("crash")]
    assert (crashed.machine, crashed.event) == ("authority", "crash:site")
    assert path.steps[0].event == "demand"
    said = [message.message for step in path.steps for message in step.sent]
    assert {"ticket", "update_ticket", "redeem", "update_lease"} <= {*said}
    last = path.steps[-1].state
    assert (last.control["service_manager"], last.control["broker"]) == ("closed", "closed")
    assert small.play(script).path is None


def test_a_second_point_is_met_or_said_not_to_be(few: list[Script], small: LeaseCaseRunner) -> None:
    script = next(s for s in few if s.point == "crash:broker/ticketed#after-commit")
    points = small.second_points(script)
    assert len(points) == len({*points}) > 3
    assert {point.partition("#")[2].partition("(")[0] for point in points} >= {
        "before-commit",
        "after-commit",
        "before-send",
    }
    for second in points[::3]:
        outcome = small.play(script, second=second)
        assert outcome.passed, f"{second}: {_words(outcome)}"
    missed = small.play(script, second="crash:broker@nowhere#before-commit")
    assert [(f.check, f.words) for f in missed.findings] == [
        ("drive", "no actor came to the second point crash:broker@nowhere#before-commit")
    ]


def test_who_does_not_follow_the_script_is_found(few: list[Script], small: LeaseCaseRunner) -> None:
    """A step of which the actors do something else, or nothing."""
    script = next(s for s in few if s.point == "crash:authority/active#after-commit")
    for n in range(1, script.at):
        without = replace(script, steps=(*script.steps[:n], *script.steps[n + 1 :]), at=script.at - 1)
        assert "drive" in {f.check for f in small.play(without).findings}, script.steps[n]
    moved = replace(script.steps[1], control=("failed", *script.steps[1].control[1:]))
    outcome = small.play(replace(script, steps=(script.steps[0], moved, *script.steps[2:])))
    assert [f.check for f in outcome.findings][:1] == ["drive"]
    assert "service_manager is" in outcome.findings[0].words


# What the checks see, when something is wrong


@pytest.fixture
def restarted(few: list[Script], small: LeaseCaseRunner) -> Iterator[LeaseCaseRun]:
    """A lease that runs, beside the bystander's, after a restart of the site."""
    script = next(
        s for s in few if s.cell == ("active", "ticketed", "active") and s.point.startswith("crash:authority")
    )
    run = LeaseCaseRun(small.program, small.properties, script)
    run.to_the_restart()
    run.at_once()
    assert (run.state(LEASE), run.outcome.findings) == ("active", [])
    yield run
    run.close()


def found_by(run: LeaseCaseRun) -> list[tuple[str, str]]:
    return [(finding.check, finding.words) for finding in run.outcome.findings]


def test_at_rest_nothing_is_found_where_nothing_is_wrong(restarted: LeaseCaseRun) -> None:
    restarted.rest("now")
    assert found_by(restarted) == []
    assert restarted.where(LEASE) == "active/ticketed/active"
    assert not restarted.over(LEASE)
    assert restarted.over("service_manager:99"), "there never was one"


def _off(run: LeaseCaseRun) -> None:
    run.sim.units.units["unit-1"].on = False


def _on(run: LeaseCaseRun) -> None:
    run.tell("service_manager", LEASE, "close")
    run.sim.loop.advance(2.0)
    run.sim.units.units["unit-1"].on = True


def _calendar(run: LeaseCaseRun) -> None:
    run.sim.policy("broker").calendar._holdings.clear()


def _promise(run: LeaseCaseRun) -> None:
    next(iter(run.sim.policy("broker").pools)).booked.put("nobody", Holding(1, 99))


def _taken_for_free(run: LeaseCaseRun) -> None:
    run.sim.policy("authority")._free["unit"].add(1)


def _not_free(run: LeaseCaseRun) -> None:
    run.tell("service_manager", LEASE, "close")
    run.sim.loop.advance(2.0)
    run.sim.policy("authority")._free["unit"].clear()


def _overlap(run: LeaseCaseRun) -> None:
    run.sim.units.overlaps.append("setup and teardown of unit-1")


def _bystander(run: LeaseCaseRun) -> None:
    run.sim.hold()
    run.sim.network.cut |= {("memory:service_manager", "memory:site")}
    held = run.sim.held(BYSTANDER, "service_manager")
    assert held is not None
    run.tell("service_manager", BYSTANDER, "close")


@pytest.mark.parametrize(
    ("spoil", "check", "words"),
    [
        (_off, "world", "now unit-1 is down, and its machine is active"),
        (_on, "world", "now unit-1 is up, and its machine is closed"),
        (_calendar, "policy", "now the calendar is Calendar"),
        (_promise, "policy", "now the broker keeps a promise that nobody holds"),
        (_taken_for_free, "policy", "now the site takes unit 1 for free, whose machine is active"),
        (_not_free, "policy", "now the site takes [] for free, the records say [1]"),
        (_overlap, "world", "two actions on one unit at once: setup and teardown of unit-1"),
        (_bystander, "world", "now unit-0 is up for a lease that is over"),
    ],
)
def test_what_is_wrong_at_rest_is_found(
    restarted: LeaseCaseRun, spoil: Callable[[LeaseCaseRun], None], check: str, words: str
) -> None:
    spoil(restarted)
    restarted.rest("now")
    assert any(found == check and said.startswith(words) for found, said in found_by(restarted)), found_by(restarted)


def test_a_lease_that_is_extended_ends_later(restarted: LeaseCaseRun) -> None:
    before = restarted.data(LEASE)["lease_end"]
    restarted._extend()
    assert found_by(restarted) == []
    assert restarted.data(LEASE)["lease_end"] == before + 2
    restarted.sim.crash("broker")
    restarted._extend()
    assert [check for check, _ in found_by(restarted)] == ["lease"]
    assert "it cannot be extended: extending_ticket/" in found_by(restarted)[0][1]


def test_a_lease_that_does_not_end_is_found(restarted: LeaseCaseRun) -> None:
    site = ("memory:service_manager", "memory:site")
    restarted.sim.network.cut |= {site, site[::-1]}
    restarted.sim.time.held = True  # and nobody hears of the end of its term
    restarted._end()
    assert any(check == "lease" and words.startswith("it does not end: ") for check, words in found_by(restarted))


def test_the_next_request_has_the_units_of_the_one_before(restarted: LeaseCaseRun) -> None:
    restarted._end()
    restarted._next_request()
    assert found_by(restarted) == []
    assert restarted.sim.up() == {"unit-0", "unit-1", f"{BYSTANDER}/guest[0]", f"{NEXT}/guest[1]"}
    assert restarted.sim.serves("unit-1", NEXT)
    restarted._close_all()
    assert found_by(restarted) == []
    assert restarted.sim.up() == set()


def test_a_request_that_is_not_served_or_cannot_be_said_is_found(restarted: LeaseCaseRun) -> None:
    restarted.sim.crash("broker")
    restarted._next_request()
    assert any(w.startswith("the next request is not served: ticketing/") for _, w in found_by(restarted))
    restarted.outcome.findings.clear()
    restarted._demand(NEXT, 9, 6)
    assert [check for check, _ in found_by(restarted)] == ["lease"]
    assert found_by(restarted)[0][1].startswith(f"{NEXT} cannot be asked for: ")


def test_what_is_left_in_the_end_is_found(restarted: LeaseCaseRun) -> None:
    restarted._end()
    restarted._next_request()
    restarted.sim.units.units["unit-1"].lease = "somebody"
    turned = restarted.sim.up
    restarted.sim.up = lambda: turned() | {"unit-1"}  # type: ignore[method-assign]
    restarted._close_all()
    assert ("world", "in the end, when no lease runs, what is up is ['unit-1']") in found_by(restarted)


def test_a_lease_that_is_elsewhere_than_without_the_crash_is_found(
    restarted: LeaseCaseRun, few: list[Script], small: LeaseCaseRunner
) -> None:
    reference = small.reference(restarted.script)
    restarted._compare(reference)
    assert (restarted.outcome.end, found_by(restarted)) == ("same", [])
    restarted.tell("service_manager", LEASE, "close")
    restarted.sim.loop.advance(2.0)
    restarted._compare(reference)
    assert restarted.outcome.end == "ended"
    assert [check for check, _ in found_by(restarted)] == ["lease"]
    assert "service_manager: ('closed', " in found_by(restarted)[0][1]


def test_what_an_actor_has_lost_or_changed_is_found(restarted: LeaseCaseRun) -> None:
    """At its restart, by what it had told that it has committed."""
    sim = restarted.sim
    for change, words in ((None, f"site has no authority of {LEASE} any more, which it had committed"), (b"", "")):
        sim.tick(1.0)
        restarted._extend()
        rows = sim.disks["site"].records
        key = next(key for key in rows if (key.lease, key.machine) == (LEASE, "authority"))
        kept = rows.pop(key)
        if change is not None:
            rows[key] = kept
        sim.crash("site")
        sim.start("site")
        lost, restarted.committed.lost = restarted.committed.lost, []
        assert lost == ([words] if words else [])
        rows[key] = kept


@pytest.mark.parametrize(
    ("only", "chosen"),
    [
        (None, lambda s: 2),
        ("POINT@MODE@CELL", lambda s: 1),
        ("POINT@MODE@CELL!lost", lambda s: 1),
        ("POINT@MODE", lambda s: 2),
        ("POINT", lambda s: 2),
        ("POINT!lost", lambda s: 1),
        ("POINT@MODE@CELL+crash:broker@a/b/c#before-commit", lambda s: 1),
    ],
)
def test_which_cases_a_name_stands_for(few: list[Script], only: str | None, chosen: Any) -> None:
    script = next(s for s in few if s.point == "crash:broker/ticketed#after-commit")
    given = only and only.replace("POINT", script.point).replace("MODE", script.mode).replace(
        "CELL", "/".join(script.cell)
    )
    found = list(_work(few, False, given))
    for one, cases, pairs in found:
        assert not pairs
        assert len(cases) == chosen(one)
        assert all(case.script is one for case in cases)
        assert all(case.lost for case in cases) or not (given or "").endswith(LOST)
        if given is not None:
            assert all(case.name.startswith(given.removesuffix(LOST)[:30]) for case in cases)
    if given is None:
        assert [one for one, _, _ in found] == few
    elif given.startswith(script.name):
        assert [one for one, _, _ in found] == [script]
        (case,) = found[0][1]
        assert case.name == given
        assert case.second == ("crash:broker@a/b/c#before-commit" if "+" in given else None)
    else:
        head = given.removesuffix(LOST)
        assert [one for one, _, _ in found] == [s for s in few if s.name.startswith(f"{head}@")]
    assert all(pairs for _, _, pairs in _work(few, True, given))


@pytest.mark.parametrize(
    ("only", "near"),
    [
        ("crash:broker/ticketd#after-commit", "crash:broker/ticketed#after-commit?"),
        ("crash:broker/ticketed#after-commit@alve", "crash:broker/ticketed#after-commit@alive?"),
        ("crash:broker/ticketed#after-comm", "crash:broker/ticketed#after-commit?"),
    ],
)
def test_a_name_of_no_case(few: list[Script], only: str, near: str) -> None:
    with pytest.raises(UnknownCase) as unknown:
        list(_work(few, False, only))
    assert f"no case is named '{only}'" in str(unknown.value)
    assert near in str(unknown.value)
    with pytest.raises(UnknownCase, match=r"no case is named 'zzz' .names are"):
        list(_work(few, False, "zzz"))


def test_a_campaign_counts_its_cases_by_kind_cell_and_point(few: list[Script]) -> None:
    found, (one, other) = CaseCampaign(system=load("lease", SMALL)), few[:2]
    found.add(RecoveryCase(one), CaseOutcome("a", end="same"))
    found.add(RecoveryCase(one, lost=True), CaseOutcome("b", [Finding("lease", "no")]))
    found.add(RecoveryCase(other, second="x"), CaseOutcome("c", end="ended"))
    assert found.cases == {"single": 2, "pairs": 1}
    cells = Counter(script.cell for script in (one, one, other))
    assert {cell: total for cell, (total, _) in found.by_cell.items()} == cells
    assert sum(failures for _, failures in found.by_cell.values()) == 1
    assert found.by_point[one.point][1] == 1
    assert sum(total for total, _ in found.by_point.values()) == 3


@pytest.fixture
def explored(few: list[Script], monkeypatch: pytest.MonkeyPatch) -> None:
    """The exploration is not made again."""
    monkeypatch.setattr(
        "leasehold.checker.recovery.cases.campaign.scripts_of", lambda system, progress, pairs: (1123, few, ())
    )


def test_a_small_campaign(explored: None, few: list[Script]) -> None:
    heard: list[tuple[int, int, int]] = []
    head = "crash:broker/ticketed#after-commit@alive"
    found = campaign(
        load("lease", SMALL), jobs=1, only=head, watch=lambda n, of, failed: heard.append((n, of, len(failed)))
    )
    count = 2 * sum(s.name.startswith(f"{head}@") for s in few)
    assert (found.holds, found.played, found.cases) == (True, count, {"single": count})
    assert heard == [(n, count, 0) for n in range(1, count + 1)]
    assert found.by_point.keys() == {head.partition("@")[0]}
    assert (found.scripts, found.explored, found.drawn) == (len(few), 1123, {})
    assert found.seconds >= found.exploring >= 0


@pytest.mark.long
def test_a_case_that_is_asked_for_alone_is_drawn(explored: None, few: list[Script]) -> None:
    alone = campaign(load("lease", SMALL), jobs=1, only=few[0].name)
    assert (alone.played, alone.holds, [*alone.drawn]) == (1, True, [few[0].name])
    assert "crash" in {step.kind for step in alone.drawn[few[0].name].steps}


@pytest.mark.long
def test_with_pairs_each_second_point_is_a_case(explored: None, few: list[Script], small: LeaseCaseRunner) -> None:
    script = next(s for s in few if s.point == "crash:broker/ticketed#after-commit")
    found = campaign(load("lease", SMALL), jobs=1, only=script.name, pairs=True)
    points = small.second_points(script)
    assert found.cases == {"single": 1, "pairs": len(points)}
    assert {p.rpartition("#")[2] for p in points} >= {"before-commit", "after-commit", "before-send(update_ticket)"}
    assert found.holds


@pytest.mark.long
def test_the_first_failures_are_drawn(explored: None, few: list[Script]) -> None:
    """A campaign that finds a bug stops at so many failures, and draws the first three."""
    point = next(s.point for s in few if s.point == "crash:service_manager/ticketed#recovering")
    with named("commit_not_durable").planted():
        found = campaign(load("lease", SMALL), jobs=1, only=point)
    assert not found.holds
    assert len(found.failures) >= 1
    assert [*found.drawn] == [outcome.name for outcome in found.failures[:3]]
    assert found.by_point[point][1] == len(found.failures)


@pytest.mark.long
def test_a_script_for_each_case(scripts: list[Script]) -> None:
    """As many as the exploration has cases, each with its crash, and with a restart at its end."""
    assert len(scripts) == len({script.name for script in scripts}) > 2_000
    assert len({script.cell for script in scripts}) == 92
    for script in scripts:
        assert script.steps[-1].kind == "recover"
        assert script.steps[script.at].kind in ("crash", "stillborn")
        assert script.steps[script.at].point == script.point


@pytest.mark.slow
def test_each_cell_and_each_point_once(scripts: list[Script], stage: LeaseCaseRunner) -> None:
    """A case of each cell, and one of each crash point in each mode."""
    chosen = {script.name: script for script in {s.cell: s for s in scripts}.values()}
    chosen |= {script.name: script for script in {(s.point, s.mode): s for s in scripts}.values()}
    assert len(chosen) > 200
    asked = 0
    for n, script in enumerate(chosen.values()):
        outcome = stage.play(script, lost=bool(n % 2))
        assert outcome.passed, _words(outcome)
        asked += outcome.asked
    assert asked > 10 * len(chosen)
    stage.close()


@pytest.mark.long
def test_an_actor_stops_twice(scripts: list[Script], stage: LeaseCaseRunner) -> None:
    """At every point that is passed after the restart of a case, in some cells."""
    struck = set()
    for script in scripts[100::800]:
        points = stage.second_points(script)
        assert points
        for second in points:
            outcome = stage.play(script, second=second)
            assert outcome.passed, f"{second}: {_words(outcome)}"
            struck.add(second.partition("@")[0] + second.partition("#")[2].partition("(")[0])
    assert len(struck) > 5, struck
    stage.close()


@pytest.mark.long
def test_names_of_cases() -> None:
    found = campaign(SYSTEM, jobs=1, only="crash:authority/priming#after-setup@over")
    assert found.holds
    assert found.played == found.cases["single"] >= 2
    name = "crash:authority/priming#after-setup@over@redeeming/ticketed/priming"
    assert campaign(SYSTEM, jobs=1, only=name + LOST).played == 1
    with pytest.raises(UnknownCase, match="did you mean crash:authority/priming#after-setup"):
        campaign(SYSTEM, jobs=1, only="crash:authority/primin#after-setup")


RUN = """
import hashlib, logging, pickle, sys
logging.disable(logging.CRITICAL)
from leasehold.checker.recovery.lease.case import LeaseCaseRun
from leasehold.checker.recovery.lease.case import BYSTANDER, LEASE, NEXT, LeaseCaseRun
from leasehold.checker.recovery.lease.runner import LeaseCaseRunner
from leasehold.spec import load
stage = LeaseCaseRunner(load("lease", {"max_units": 1, "last_end": 2}))
with open(sys.argv[1], "rb") as file:
    scripts = pickle.load(file)
for script in scripts:
    played, told = LeaseCaseRun(stage.program, stage.properties, script), hashlib.sha256()
    for actor in played.sim.actors.values():
        actor.notices.subscribe(lambda notice: told.update(repr(notice).encode()))
    played.sim.subscribers.append(lambda notice: told.update(repr(notice).encode()))
    played.run()
    disks = sorted((name, sorted(disk.records.items()), sorted(disk.metadata.items()))
                   for name, disk in played.sim.disks.items())
    print(script.name, told.hexdigest(), hashlib.sha256(repr(disks).encode()).hexdigest())
    played.close()
"""


@pytest.mark.long
def test_one_case_is_one_run_to_the_byte(scripts: list[Script], tmp_path: Path) -> None:
    """All that actors tell, and all that is on their disks, is the same in two processes that hash differently."""
    import pickle

    some = tmp_path / "scripts"
    some.write_bytes(pickle.dumps(scripts[50::300]))
    runs = [
        subprocess.run(
            [sys.executable, "-c", RUN, str(some)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1]
    assert runs[0].count("\n") >= 7


@pytest.mark.slow
def test_every_case(tmp_path: Path) -> None:
    """The campaign of the committed report, by its command."""
    command = [sys.executable, "-m", "leasehold", "crash", "real", "lease", "--pairs", "--json"]
    done = subprocess.run([*command, "--out", str(tmp_path)], capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["failed"] == 0
    assert found["single"] == 2 * found["scripts"]
    assert found["pairs"] > 10 * found["scripts"]
    committed = Path(__file__).parents[3] / "reports" / "recovery.html"
    assert (tmp_path / "recovery.html").read_text() == committed.read_text()
