"""Seeded bugs in the running system: the recovery checker catches every one, and nothing where there is none."""

from __future__ import annotations

from itertools import chain, islice
from pathlib import Path

import pytest
import yaml

from leasehold.checker.recovery.cases.steps import Script
from leasehold.checker.recovery.lease.run import CHECKS
from leasehold.checker.recovery.lease.runner import LeaseCaseRunner
from leasehold.impl.actor import deciding, outside, session
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.calls import HandlerCalls
from leasehold.impl.actor.kept_values import ValueSender
from leasehold.impl.actor.messages import MessageHandler
from leasehold.impl.actor.outbox import Outbox
from leasehold.impl.actor.policy_desk import PolicyDesk
from leasehold.impl.actor.ready import Ready
from leasehold.impl.actor.recovery import Recovery
from leasehold.impl.actor.requests import Requests
from leasehold.impl.actor.standing import StandingMachines
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.actor.table import MachineTable, RowCodec
from leasehold.impl.actor.upcalls import Upcalls
from leasehold.impl.core.codec import Codec
from leasehold.impl.core.core import Core, Program
from leasehold.impl.handlers import handler
from leasehold.impl.handlers.simulated import SimulatedUnits
from leasehold.impl.lease import authority, broker, credentials
from leasehold.impl.lease.authority import FirstFit
from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.lease.credentials import TicketCredentials
from leasehold.impl.lease.service_manager import FixedDemand
from leasehold.impl.store.memory import MemoryStore
from leasehold.impl.store.owned import OwnedStore
from leasehold.spec import System
from tests.campaigns.seeded import SYSTEMS, Caught, catch, elsewhere, in_order, seeded, tried
from tests.seeded_bugs import CLASSES, Bug, UnknownBug, bugs, named
from tests.seeded_bugs.messages import giving_up, is_answer
from tests.seeded_bugs.records import flaky_disk
from tests.systems import lease_cases, load

CHANGED = (
    Actor, Codec, Core, FirstComeFirstServed, FirstFit, FixedDemand, HandlerCalls, MemoryStore, MessageHandler,
    Outbox, OwnedStore, PolicyDesk, Program, Ready, Recovery, Requests, RowCodec, StandingMachines, Stepper, Upcalls,
    SimulatedUnits, session, MachineTable, TicketCredentials, ValueSender, authority, broker, credentials, deciding,
    handler, outside,
)  # fmt: skip


@pytest.fixture(scope="module")
def system() -> System:
    return load("lease", {"max_units": 1, "last_end": 2})


@pytest.fixture(scope="module")
def scripts(system: System) -> list[Script]:
    return lease_cases(max_units=1, last_end=2)


def implementation() -> list[dict[str, object]]:
    return [dict(vars(one)) for one in CHANGED]


@pytest.mark.parametrize("bug", bugs(), ids=lambda bug: bug.name)
def test_is_planted_and_taken_out_again(bug: Bug) -> None:
    before = implementation()
    with bug.plant():
        assert implementation() != before
    assert implementation() == before


@pytest.mark.parametrize("bug", bugs(), ids=lambda bug: bug.name)
def test_says_what_it_is(bug: Bug) -> None:
    assert bug.class_ in CLASSES
    assert bug.doc.endswith(".")
    assert bug.source
    assert named(bug.name) is bug


def test_every_class_has_some() -> None:
    assert {bug.class_ for bug in bugs()} == set(CLASSES)


def test_an_unknown_name() -> None:
    with pytest.raises(UnknownBug, match="wish_los_'; did you mean wish_lost"):
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


BUGS = Path(__file__).parents[2] / "seeded_bugs"
REQUIRED: dict[str, list[str]] = yaml.safe_load((BUGS / "checks.yaml").read_text())


def check(found: list[Caught]) -> None:
    assert [caught.bug for caught in found if caught.survived] == []
    for caught in found:
        assert set(caught.checks) <= set(CHECKS)
        assert caught.words
        required = set(REQUIRED[caught.bug])
        # The first case is another one where only some are played.
        assert caught.bug in RARE or required <= set(caught.checks), caught


def test_each_bug_has_checks_that_must_find_it_and_each_check_bugs() -> None:
    assert REQUIRED.keys() == {bug.name for bug in bugs() if "lease" in bug.systems}
    required = {check for checks in REQUIRED.values() for check in checks}
    assert required == CHECKS.keys() - {"step", "events", "use"}  # they have tests of their own


ELSEWHERE: dict[str, dict[str, list[str]]] = yaml.safe_load((BUGS / "checks_elsewhere.yaml").read_text())


def test_each_bug_is_tried_in_some_system_or_has_a_test_that_fails() -> None:
    assert set(SYSTEMS) >= {system for bug in bugs() for system in bug.systems}
    assert [bug.name for bug in bugs() if bool(bug.systems) == bool(bug.tests)] == []
    for system, trials in ELSEWHERE.items():
        assert list(trials) == [bug.name for bug in bugs() if system in bug.systems]
    caught = {bug for trials in ELSEWHERE.values() for bug, checks in trials.items() if checks}
    assert [b.name for b in bugs() if b.systems and "lease" not in b.systems and b.name not in caught] == []


@pytest.mark.parametrize(
    "system",
    [
        "pipe",
        "ring",
        *(pytest.param(s, marks=pytest.mark.slow) for s in ("register", "three_phase_commit_termination")),
    ],
)
def test_what_is_caught_in_other_systems(system: str) -> None:
    wanted = {bug: set(checks) for bug, checks in ELSEWHERE[system].items() if checks}
    found = {caught.bug: caught for caught in tried(system, list(wanted))}
    assert [name for name, checks in wanted.items() if not checks <= set(found[name].checks)] == []


@pytest.mark.slow
def test_a_test_fails_where_no_campaign_has_the_like() -> None:
    found = elsewhere([bug.name for bug in bugs() if bug.tests], 1)
    assert [caught.bug for caught in found if caught.survived or not caught.words] == []


# A bug or two for each check, which the first cases of a small system catch: what each check is there for.
AT_ONCE = (
    "assigned_units_not_saved", "granted_units_not_saved", "ticket_end_not_saved", "promised_units_not_saved",
    "sent_numbers_not_saved", "neighbours_not_saved", "commit_not_durable", "updates_without_numbers", "wish_lost",
)  # fmt: skip


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


# Bugs that few cases catch, and where these stop an actor.
RARE = {
    "calendar_not_rebuilt": "crash:broker/ticketed#",
    "recovery_leaves_modifying": "crash:authority/modifying#",
    "acknowledged_before_the_commit": "crash:authority/active#",
    "broker_forgets_requests": "crash:broker/ticketing#",
    "double_allocation": "crash:unit/failed#",
    "failed_teardown_to_the_pool": "crash:unit/failed#",
    "join_twice_fails": "crash:guest/joining#",
    "lost_answer_not_made_good": "crash:service_manager/ticketing#",
    "quarantine_not_rebuilt": "crash:unit/failed#",
    "sent_once": "crash:authority/active#",
    "site_forgets_requests": "crash:authority/priming#",
    "silence_ends_the_lease": "crash:service_manager/joining#",
    "setup_twice_fails": "crash:unit/priming#",
    "setup_twice_makes_two": "crash:unit/priming#",
    "units_before_the_commit": "crash:authority/priming#before-commit",
    "unreachable_ends_the_lease": "crash:authority/active#",
    "unreachable_is_given_up": "crash:authority/active#",
}


@pytest.mark.long
def test_every_bug_is_caught(system: System, scripts: list[Script]) -> None:
    often = [bug.name for bug in bugs() if "lease" in bug.systems and bug.name not in RARE]
    check(seeded(system, often, 2, most=200, scripts=scripts))


@pytest.mark.long
@pytest.mark.parametrize(("name", "point"), RARE.items())
def test_a_bug_that_few_cases_catch(system: System, scripts: list[Script], name: str, point: str) -> None:
    some = [script for script in scripts if script.point.startswith(point)]
    check([catch(named(name), some, LeaseCaseRunner(system), 300)])


@pytest.mark.slow
def test_every_bug_is_caught_in_the_campaign(system: System, scripts: list[Script]) -> None:
    found = seeded(system, jobs=2, scripts=scripts)
    check(found)
    assert [caught.bug for caught in found] == [bug.name for bug in bugs() if "lease" in bug.systems]


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
    assert catch(Bug("none", "recovery", "Nothing is wrong.", "", lambda: flaky_disk()), scripts, stage, 20).survived


@pytest.mark.slow
@pytest.mark.parametrize(
    "alone",
    [
        flaky_disk,
        lambda: giving_up(lambda outbox, parcel: parcel.tries == 0),
        lambda: giving_up(is_answer),
    ],
    ids=["a disk that fails at times", "requests asked once", "answers said once"],
)
def test_what_does_no_harm_alone(system: System, scripts: list[Script], alone: object) -> None:
    """Half of a bug: what it needs to do harm is not what is caught."""
    half = Bug("half", "recovery", "Half of a bug.", "", alone)  # type: ignore[arg-type]
    caught = catch(half, scripts, LeaseCaseRunner(system), 600)
    assert caught.survived, caught
