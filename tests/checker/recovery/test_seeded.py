"""Seeded bugs in the running system: the recovery checker catches every one, and nothing where there is none."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain, islice

import pytest

from leasehold.checker.recovery.cases.steps import Script
from leasehold.checker.recovery.lease.run import CHECKS
from leasehold.checker.recovery.lease.runner import LeaseCaseRunner
from leasehold.spec import System
from tests.campaigns.seeded import SYSTEMS, Caught, catch, elsewhere, in_order, seeded, tried
from tests.planted.table import Mistake, UnknownMistake, bugs, named
from tests.systems import lease_cases, load

CLASSES = (  # as in section 5.1 of the paper; then the order of recovery itself, and what other systems have
    "serialization",
    "checkpointing",
    "communication",
    "idempotency",
    "resource handlers",
    "policies",
    "recovery",
    "sessions",
    "standing systems",
    "memberships",
    "contracts",
)


@pytest.fixture(scope="module")
def system() -> System:
    return load("lease", {"max_units": 1, "last_end": 2})


@pytest.fixture(scope="module")
def scripts(system: System) -> list[Script]:
    return lease_cases(max_units=1, last_end=2)


@pytest.mark.parametrize("bug", bugs(), ids=lambda bug: bug.name)
def test_says_what_it_is(bug: Mistake) -> None:
    assert bug.class_ in CLASSES
    assert bug.doc.endswith(".")
    assert bug.source
    assert named(bug.name) is bug


def test_every_class_has_some() -> None:
    assert list(dict.fromkeys(bug.class_ for bug in bugs())) == list(CLASSES)


def test_an_unknown_name() -> None:
    with pytest.raises(UnknownMistake, match="wish_los_'; did you mean wish_lost"):
        named("wish_los_")


@pytest.mark.long
def test_cases_come_in_one_order_and_points_early(scripts: list[Script]) -> None:
    order = list(in_order(scripts))
    assert order == list(in_order(scripts))
    assert {case.name for case in order} == {f"{s.name}{end}" for s in scripts for end in ("", "!lost")}
    points = {script.point for script in scripts}
    assert {case.script.point for case in order[: 2 * len(points)]} == points


UNENFORCED = "crash:authority/closed#after-commit@alive@failed/closed/closed"


@pytest.mark.long
def test_nothing_is_caught_where_nothing_is_wrong(system: System, scripts: list[Script]) -> None:
    """Nor where an event comes that the environment's contract leaves free: a bystander that a closed site serves."""
    stage = LeaseCaseRunner(system)
    free = (case for case in in_order(scripts) if case.name.startswith(UNENFORCED))
    for case in chain(islice(in_order(scripts), 100), islice(free, 2)):
        assert stage.play(case.script, case.lost).findings == [], case.name
    stage.close()


LEASE = [bug for bug in bugs() if "lease" in bug.systems]
FEW = [bug for bug in LEASE if bug.point]  # cases catch them


def check(found: list[Caught]) -> None:
    assert [caught.bug for caught in found if caught.survived] == []
    for caught in found:
        assert set(caught.checks) <= set(CHECKS)
        assert caught.words
        bug = named(caught.bug)
        # The first case is another one where only some are played.
        assert bug.point or set(bug.found_by["lease"]) <= set(caught.checks), caught


def test_each_check_must_find_some() -> None:
    required = {check for bug in LEASE for check in bug.found_by["lease"]}
    assert required == CHECKS.keys() - {"step", "use", "invariant"}  # they have tests of their own
    assert all(bug.found_by["lease"] for bug in LEASE)


def test_each_bug_is_tried_in_some_system_or_has_a_test_that_fails() -> None:
    assert set(SYSTEMS) >= {system for bug in bugs() for system in bug.systems}
    assert [bug.name for bug in bugs() if bool(bug.systems) == bool(bug.tests)] == []
    assert [bug.name for bug in bugs() if not any(bug.found_by.values())] == []
    assert len(bugs()) >= 105


@pytest.mark.parametrize(
    "system",
    [
        "pipe",
        "ring",
        *(pytest.param(s, marks=pytest.mark.slow) for s in ("register", "three_phase_commit_termination")),
    ],
)
def test_what_is_caught_in_other_systems(system: str) -> None:
    wanted = {bug.name: set(checks) for bug in bugs() if (checks := bug.found_by.get(system))}
    found = {caught.bug: caught for caught in tried(system, list(wanted))}
    assert [name for name, checks in wanted.items() if not checks <= set(found[name].checks)] == []


@pytest.mark.slow
def test_a_test_fails_where_no_campaign_has_the_like() -> None:
    found = elsewhere([bug.name for bug in bugs() if bug.tests], 1)
    assert [caught.bug for caught in found if caught.survived or not caught.words] == []


# A bug or two for each check, which the first cases of a small system catch: what each check is there for.
AT_ONCE = (
    "assigned_units_not_saved",
    "granted_units_not_saved",
    "ticket_end_not_saved",
    "promised_units_not_saved",
    "sent_numbers_not_saved",
    "neighbours_not_saved",
    "commit_not_durable",
    "updates_without_numbers",
    "wish_lost",
)


@pytest.fixture(scope="module")
def small() -> tuple[LeaseCaseRunner, list[Script]]:
    settings = {"max_units": 1, "last_end": 1, "expiry": False}
    return LeaseCaseRunner(load("lease", settings)), lease_cases(**settings)


@pytest.mark.parametrize("name", AT_ONCE)
def test_a_bug_that_the_first_cases_catch(small: tuple[LeaseCaseRunner, list[Script]], name: str) -> None:
    runner, scripts = small
    check([catch(named(name), scripts, runner, 16)])


def test_nothing_is_caught_where_nothing_is_wrong_in_the_small(small: tuple[LeaseCaseRunner, list[Script]]) -> None:
    runner, scripts = small
    for case in islice(in_order(scripts), 16):
        assert runner.play(case.script, case.lost).findings == [], case.name
    runner.close()


@pytest.mark.long
def test_every_bug_is_caught(system: System, scripts: list[Script]) -> None:
    often = [bug.name for bug in LEASE if not bug.point]
    check(seeded(system, often, 2, most=200, scripts=scripts))


@pytest.mark.long
@pytest.mark.parametrize("bug", FEW, ids=lambda bug: bug.name)
def test_a_bug_that_few_cases_catch(system: System, scripts: list[Script], bug: Mistake) -> None:
    some = [script for script in scripts if script.point.startswith(bug.point)]
    check([catch(bug, some, LeaseCaseRunner(system), 300)])


@pytest.mark.slow
def test_every_bug_is_caught_in_the_campaign(system: System, scripts: list[Script]) -> None:
    found = seeded(system, jobs=2, scripts=scripts)
    check(found)
    assert [caught.bug for caught in found] == [bug.name for bug in LEASE]


@pytest.mark.long
def test_a_bug_in_this_process(system: System, scripts: list[Script]) -> None:
    stage = LeaseCaseRunner(system)
    heard: list[tuple[int, int, str]] = []
    caught = catch(named("sent_numbers_not_saved"), scripts, stage)
    assert not caught.survived
    assert "record" in caught.checks
    again = seeded(
        system, ["sent_numbers_not_saved"], 1, lambda n, of, c: heard.append((n, of, c.bug)), scripts=scripts
    )
    assert [(c.case, c.checks, c.cases) for c in again] == [(caught.case, caught.checks, caught.cases)]
    assert heard == [(1, 1, "sent_numbers_not_saved")]
    assert catch(Mistake(name="none", edits=()), scripts, stage, 20).survived


HALVES = [
    replace(named(name), name=f"half of {name}", edits=named(name).edits[1:])
    for name in ("acknowledged_before_the_commit", "lost_answer_not_made_good")
]


@pytest.mark.slow
@pytest.mark.parametrize("half", HALVES, ids=["requests asked once", "answers said once"])
def test_what_does_no_harm_alone(system: System, scripts: list[Script], half: Mistake) -> None:
    """Half of a bug: what it needs to do harm is not what is caught."""
    caught = catch(half, scripts, LeaseCaseRunner(system), 600)
    assert caught.survived, caught
