"""Effects of crashes on a system: cases, crash points, paths, the weakest faults (paper, section 5.1)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.crash import analysis
from leasehold.checker.crash.analysis import CrashReport, crash, deepen, follow
from leasehold.checker.crash.cases import ANY, AT_ONCE, NO_RETURN, NOT_ASKED, Case, WorstCase, or_worse
from leasehold.checker.crash.unmet import Unmet, differences, explanations, unmet
from leasehold.checker.explore import Exploration, Limits, explore
from leasehold.checker.explore.expectations import Explanation
from leasehold.checker.explore.result import AT_VIOLATION, Step
from leasehold.faults.model import Budget, crash_points
from leasehold.faults.model.budget import deepening
from leasehold.spec import SHIPPED, System
from tests.systems import files_of, load, write

DOCS = Path(__file__).resolve().parents[3] / "docs"

CONVERSATION = files_of("checker/systems/conversation") | files_of("checker/crash/systems/counted")


@pytest.fixture
def conversation(tmp_path: Path) -> Path:
    """One asks, the other tells, over mailboxes; `count` counts how often it was asked."""
    return write(tmp_path, CONVERSATION)


def bare(names: object) -> set[str]:
    return {name.partition("@")[0] for name in names}  # type: ignore[attr-defined]


def crash_of(report: CrashReport, case: Case) -> int | None:
    """The index of the crash of a case on its path; None where the actor is down already and crashes again."""
    steps = report.path(case).steps
    found = [i for i, step in enumerate(steps) if (step.kind, step.event) == ("crash", case[1])]
    return found[-1] if found else None


# Cases


def test_every_crash_of_a_conversation(conversation: Path) -> None:
    """One point cannot be met: where no transition leads, no message can be left unacknowledged."""
    report = crash(load(conversation), Budget(crash=1))
    assert report.holds
    assert report.complete
    assert report.modes == (ANY,)
    assert (report.faulty.distinct, len(report.cases), len(report.tried), len(report.points)) == (22, 20, 14, 15)
    assert {p.name for p in report.points} - report.tried == {"crash:asker/idle#before-acknowledge"}
    after = report.convergence
    assert after is not None
    assert (after.legal_states, after.recovery_states, after.worst_steps, after.worst_exchanges) == (4, 18, 5, 4)
    assert {cell.control: (cell.legal, len(cell.points), cell.worst) for cell in report.cells} == {
        ("idle", "idle"): (True, 4, WorstCase(0, 0)),
        ("asking", "idle"): (True, 5, WorstCase(3, 3)),
        ("asking", "telling"): (True, 6, WorstCase(3, 3)),
        ("done", "telling"): (True, 5, WorstCase(3, 3)),
    }


def test_a_crash_that_undoes_nothing_is_legal_at_once(conversation: Path) -> None:
    cases = crash(load(conversation), Budget(crash=1)).cases
    assert cases[("asking", "idle"), "crash:asker/asking#after-commit", ANY] == WorstCase(0, 0)
    assert cases[("asking", "idle"), "crash:asker/asking#before-commit", ANY] == WorstCase(3, 3)


def test_of_a_power_cut_the_name_says_that_all_stop(conversation: Path) -> None:
    report = crash(load(conversation), Budget(power_cut=1))
    names = {p.name for p in report.points}
    assert bare(report.tried) <= names
    assert "crash:teller/telling#after-commit@everything" in report.tried


def test_where_nobody_crashes_there_is_no_case(conversation: Path) -> None:
    report = crash(load(conversation), Budget(lose=1))
    assert report.holds
    assert (len(report.cases), len(report.tried)) == (0, 0)
    assert report.convergence is not None
    assert (report.convergence.recovery_states, report.convergence.worst_steps) == (3, 2)


@pytest.mark.parametrize(
    ("name", "settings", "budget"),
    [
        ("two_phase_commit", {"participants": 1}, "crash=2,duplicate=1,lose=1"),
        ("two_phase_commit", {"participants": 2}, "crash=1"),
        ("lease", {"expiry": False, "max_units": 1, "last_end": 1}, "crash=1"),
    ],
)
def test_every_point_that_is_explored_is_in_the_catalogue(name: str, settings: dict[str, int], budget: str) -> None:
    report = crash(load(name, settings), Budget.parse(budget))
    assert report.holds
    assert report.cases
    assert report.tried
    assert bare(report.tried) <= {p.name for p in report.points}
    assert {point for _, point, _ in report.cases} == report.tried
    assert {cell for cell, _, _ in report.cases} <= {cell.control for cell in report.cells}
    for cell in report.cells:
        mine = [case for case in report.cases if case[0] == cell.control]
        assert sum(cell.cases.values()) == len(mine)
        assert set(cell.points) == {point for _, point, _ in mine}


ENDS = [
    ("service_manager", "requested_end"),
    ("service_manager", "ticket_end"),
    ("service_manager", "lease_end"),
    ("broker", "requested_end"),
    ("broker", "term_end"),
    ("authority", "end"),
]


def test_the_lease_without_time() -> None:
    """Without time no term ends, so no restart finds it over."""
    report = crash(load("lease", {"expiry": False, "max_units": 1, "last_end": 2}), Budget(crash=1))
    assert report.holds
    assert (len(report.cases), len(report.tried), len(report.points)) == (644, 133, 251)
    assert {mode for _, _, mode in report.cases} == {"alive"}
    assert report.modes == ("alive", "over")
    assert len(report.cells) == 39
    assert all(cell.legal for cell in report.cells)


def test_an_actor_restarts_while_the_term_lasts_and_after_it() -> None:
    """Section 5.1, the two modes: each case of a lease whose term can end, and when its actor restarts."""
    report = crash(load("lease", {"max_units": 1, "last_end": 1}), Budget(crash=1))
    assert report.holds
    modes = {case[:2]: set() for case in report.cases}
    for cell, point, mode in report.cases:
        modes[cell, point].add(mode)
    both = [case for case, found in modes.items() if found == {"alive", "over"}]
    assert len(both) > 100
    cell, point = both[-1]
    for mode in ("alive", "over"):
        steps = report.path((cell, point, mode)).steps
        (restart,) = [step for step in steps if step.kind == "recover"]
        ends = [restart.state.data[f"{name}.{end}"] for name, end in ENDS]
        assert (restart.state.now >= max(map(int, ends))) == (mode == "over")


WORST = [
    WorstCase(0, 0),
    WorstCase(2, 5),
    WorstCase(4, 1),
    WorstCase(None, 3),
    WorstCase(3, None),
    WorstCase(None, None),
    NO_RETURN,
    NOT_ASKED,
]


@pytest.mark.parametrize("one", WORST)
def test_the_worse_of_two_is_so_in_each_respect(one: WorstCase) -> None:
    """A number that is not known stays so, what never returns stays so, and what was not asked is not known."""
    for other in WORST:
        found = or_worse(one, other)
        assert found == or_worse(other, one)
        if NOT_ASKED in (one, other):
            assert found == NOT_ASKED
        elif NO_RETURN in (one, other):
            assert found == NO_RETURN
        else:
            for name in ("steps", "exchanges"):
                both = getattr(one, name), getattr(other, name)
                assert getattr(found, name) == (None if None in both else max(both))
        assert found.size >= max(one.size, other.size) or NOT_ASKED in (one, other)
        for third in WORST:
            assert or_worse(found, third) == or_worse(one, or_worse(other, third))
    assert or_worse(one, AT_ONCE) == or_worse(one, one) == one
    assert AT_ONCE.size < WORST[1].size < WORST[2].size < WORST[5].size < NO_RETURN.size
    assert NOT_ASKED.size == 0


@pytest.mark.parametrize("budget", ["crash=1", "crash=2", "power_cut=1,duplicate=1"])
@pytest.mark.parametrize("product", ["[asker, teller]", "[asker]", "[teller]"])
def test_cases_are_those_of_all_crashes_one_by_one(budget: str, product: str, conversation: Path) -> None:
    """Crashes that are alike are joined: each case has the worst of its crashes, and a nearest of them."""
    (conversation / "system.yaml").write_text(f"{CONVERSATION['system.yaml']}product: {product}\n")
    report = crash(load(conversation), Budget.parse(budget))
    finder, depths = report.finder, report.faulty.paths.labels.state_depths().tolist()
    assert finder is not None
    worst: dict[Case, WorstCase] = {}
    depth: dict[Case, int] = {}
    for state, at, actor in finder.crashes(range(len(finder.stopped))):
        control = report.faulty.paths.snapshot(report.faulty.paths.states[state]).control
        cell = tuple(control[name] for name in report.faulty.product_machines)
        for point in finder.names(state, at, actor):
            for mode, its in finder.worst_in(state, actor).items():
                case = cell, point, mode
                worst[case] = or_worse(worst.get(case, its), its)
                depth[case] = min(depth.get(case, depths[state]), depths[state])
    assert worst == report.cases
    nearest = finder.nearest()
    assert {case: depths[state] for case, (state, _, _) in nearest.items()} == depth
    for (cell, point, mode), (state, at, actor) in nearest.items():
        assert point in finder.names(state, at, actor)
        assert mode in finder.worst_in(state, actor)
        control = report.faulty.paths.snapshot(report.faulty.paths.states[state]).control
        assert tuple(control[name] for name in report.faulty.product_machines) == cell


@pytest.mark.parametrize("budget", ["crash=1", "crash=2", "power_cut=1,duplicate=1"])
def test_a_crash_stands_for_the_points_with_its_effect_and_for_no_other(budget: str, conversation: Path) -> None:
    """One between transitions is one before the next commit of any machine of the actor."""
    system = load(conversation)
    report = crash(system, Budget.parse(budget))
    finder, points = report.finder, crash_points(system)
    assert finder is not None
    met: set[str] = set()
    for state, at, actor in finder.crashes(range(len(finder.stopped))):
        control = report.faulty.paths.snapshot(report.faulty.paths.states[state]).control
        at_rest = {f"crash:{role}/{control[role]}#before-commit" for role, _ in actor.machines}
        names = finder.names(state, at, actor)
        if at is None:
            assert names
            assert all("#recovering" in name for name in names)
            continue
        effect, mark, group = finder.points[at][0].partition("@")
        effects = {effect} | (at_rest if effect.endswith("#before-commit") else set())
        assert set(names) == {f"{p.name}{mark}{group}" for p in points if effects & {*p.effects}}
        assert len(set(names)) == len(names)
        met.add(effect.partition("#")[2])
    assert met >= {"before-commit", "before-acknowledge"}


def test_what_follows_from_a_report(conversation: Path) -> None:
    """It holds and is decided only if every part of it does, and is."""
    report = crash(load(conversation), Budget(crash=1))
    assert (report.complete, report.holds, report.open, report.broken, report.traitor) == (True, True, False, (), None)
    legal, faulty, after = report.legal, report.faulty, report.convergence
    assert after is not None

    def violated(found: Exploration, *names: str) -> Exploration:
        changed = [replace(p, verdict="violated") if p.name in names else p for p in found.properties]
        return replace(found, properties=tuple(changed))

    for name in ("ends", "asked_once"):
        wrong = replace(report, faulty=violated(faulty, name))
        assert (wrong.broken, wrong.holds) == ((name,), False)
        anyhow = replace(wrong, legal=violated(legal, name))
        assert (anyhow.broken, anyhow.holds) == ((), True)
    assert replace(report, legal=violated(legal, "ends")).holds
    for part in ({"legal": replace(legal, complete=False)}, {"faulty": replace(faulty, complete=False)}):
        cut = replace(report, **part)
        assert (cut.complete, cut.open, cut.unmet, cut.holds) == (False, True, None, True)
    for converges, holds, open_ in ((True, True, False), (False, False, False), (None, True, True)):
        asked = replace(report, convergence=replace(after, converges=converges))
        assert (asked.holds, asked.open) == (holds, open_)
    unasked = replace(report, convergence=None)
    assert (unasked.holds, unasked.open) == (True, False)
    names = [p.name for p in report.points]
    for budget, met in ((Budget(crash=1), names), (Budget(power_cut=1), names), (Budget(lose=1), [])):
        assert replace(report, budget=budget, tried=frozenset()).unmet == tuple(met)
    assert replace(report, tried=frozenset(names[1:])).unmet == (names[0],)
    assert replace(report, tried=frozenset(f"{name}@everything" for name in names)).unmet == ()


def test_an_explanation_is_used_or_out_of_date() -> None:
    """A point without a reason is a difference; so is a pattern that explains nothing, unless it is not needed here."""
    found = [Unmet("a", "why", "a*"), Unmet("b", "it is seen"), Unmet("c", "")]
    known = [Explanation("a*", "why"), Explanation("x", "why")]
    assert [(d.what, d.explain_under) for d in differences(found, known)] == [("c", "unmet"), ("x", "")]
    assert list(differences(found[:2], known[:1])) == []


# Every point


@pytest.fixture(scope="module")
def lease() -> CrashReport:
    """Returns what `leasehold check lease` crashes."""
    return crash(load("lease", load("lease").faults.settings), Budget(crash=1))


BEFORE_A_CALL_AND_AFTER = {
    "service_manager/joining": "schedule_join",
    "authority/priming": "place",
    "authority/modifying": "place_extension",
}


def test_a_crash_in_recovery_after_a_call_is_the_one_before_it(lease: CrashReport) -> None:
    """A call that was begun is not in the model, so these points are met wherever `#recovering` is, and alike."""
    for place, call in BEFORE_A_CALL_AND_AFTER.items():
        before, after = f"crash:{place}#recovering", f"crash:{place}#recovering-after-{call}"
        worst = {(cell, mode): w for (cell, point, mode), w in lease.cases.items() if point == before}
        assert worst
        assert {(cell, mode): w for (cell, point, mode), w in lease.cases.items() if point == after} == worst
    point = "crash:authority/priming#recovering-after-place"
    path = lease.path((("redeeming", "ticketed", "priming"), point, "alive"))
    assert [step.kind for step in path.steps].count("crash") == 1


def test_every_point_of_the_lease_is_met_or_explained(lease: CrashReport) -> None:
    missed = unmet(lease, explanations("lease", lease.system))
    assert len(lease.points) - len(missed) == 141
    assert [one.name for one in missed if not one.reason] == []
    assert {one.reason for one in missed if not one.pattern} == {
        "it takes a second crash, during recovery",
        "its machine never comes to this state",
    }
    assert {one.name.partition("#")[0] for one in missed if one.reason.startswith("its machine")} == {"crash:unit/kept"}
    assert list(differences(missed, explanations("lease", lease.system))) == []


@pytest.mark.parametrize("name", [name for name in SHIPPED if name != "lease" and load(name).faults.check])
def test_every_point_of_the_others_is_met_or_explained(name: str) -> None:
    system = load(name, load(name).faults.settings)
    report, known = crash(system, Budget.parse(system.faults.check)), explanations(name, system)
    assert report.holds
    assert list(differences(unmet(report, known), known)) == []


@pytest.mark.parametrize(
    ("settings", "because", "explained"),
    [
        ({"close_early": False}, "one unit", 11),
        pytest.param({"max_units": 1, "losses": True}, "no unit is lost", 8, marks=pytest.mark.long),
    ],
)
def test_what_another_setting_is_said_to_meet_is_met_there(
    settings: dict[str, int], because: str, explained: int
) -> None:
    """crash.yaml says of some points that a site of one unit, or one that loses none, does not come there."""
    system = load("lease", {"expiry": False, "last_end": 2, **settings})
    report = crash(system, Budget(crash=1))
    known = [e for e in explanations("lease", system) if because in e.reason]
    assert len(known) == explained
    for explanation in known:
        fitting = [p.name for p in report.points if explanation.fits(p.name) and "#recovering" not in p.name]
        assert fitting
        assert set(fitting) <= report.tried


def test_what_keeps_a_state_after_some_tasks_keeps_its_recovery_too() -> None:
    """A reason for `#after-TASKS` is one for `#recovering-after-TASKS`, unless the former is met."""
    system = load("lease", {"expiry": False, "max_units": 1, "last_end": 2})
    report = crash(system, Budget(crash=2))
    reason = "of two tasks only one has work"
    first, again = (f"crash:service_manager/closing#{when}leave_all" for when in ("after-", "recovering-after-"))
    other = "crash:service_manager/closing#recovering-after-close_lease"
    assert {first, again, other} <= set(report.unmet)
    missed = {one.name: one for one in unmet(report, [Explanation(first, reason)])}
    assert missed[again] == Unmet(again, reason, first)
    assert missed[other].reason == ""
    met = replace(report, tried=report.tried | {first})
    assert {one.name: one.reason for one in unmet(met, [Explanation(first, reason)])}[again] == ""


def test_a_point_that_is_not_met_and_not_explained_is_a_difference(conversation: Path) -> None:
    report = crash(load(conversation), Budget(crash=1))
    assert unmet(report) == (Unmet("crash:asker/idle#before-acknowledge", ""),)
    (found,) = differences(unmet(report), ())
    assert (found.what, found.found) == ("crash:asker/idle#before-acknowledge", "never met")


def test_points_that_are_not_met_are_seen_to_be_out_of_reach(conversation: Path) -> None:
    role = conversation / "roles/asker.yaml"
    words = (
        "idle: {initial: true, on: {begin: {to: asking}, told: {to: never}}}\n  never: {ignore: {begin: no, told: no}}"
    )
    role.write_text(re.sub("idle: .*", words, role.read_text()))
    missed = unmet(crash(load(conversation), Budget(crash=1)))
    assert {one.name.partition("#")[0] for one in missed} == {"crash:asker/never"}
    assert {one.reason for one in missed} == {"its machine never comes to this state"}
    assert list(differences(missed, ())) == []


def test_points_for_which_no_crash_is_left_are_seen() -> None:
    """Only the crash of the coordinator makes participants lead, and with one crash in the run none of them crashes."""
    report = crash(load("three_phase_commit_termination", {"participants": 2}), Budget(crash=1))
    reasons = {one.name: one.reason for one in unmet(report)}
    assert reasons["crash:participant/retreating#after-commit"] == (
        "no crash is left when its machine comes to this state"
    )
    assert reasons["crash:participant/committed#recovering-after-tell"] == "it takes a second crash, during recovery"


def test_the_examples_of_the_reference_are_met(lease: CrashReport) -> None:
    """docs/reference/faults.md shows a point of each kind."""
    examples = re.findall(r"\| `(crash:\S+)` \|$", (DOCS / "reference/faults.md").read_text(), re.MULTILINE)
    commit = crash(load("two_phase_commit", {"participants": 2}), Budget(crash=1))
    assert len(examples) == 7
    assert set(examples) <= lease.tried | commit.tried


def rows_of_the_lease() -> dict[tuple[str, str], list[str]]:
    """The numbers of docs/lease.md, by settings and faults."""
    text = (DOCS / "lease.md").read_text().split("| `--set` | faults |")[1]
    cells = [[c.strip(" `") for c in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]
    return {(row[0], row[1]): row[2:] for row in cells}


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("settings", "faults"),
    [
        ("", "crash=1"),
        ("expiry=false", "crash=1,partition=1"),
        ("expiry=false", "crash=1,power_cut=1,reorder=1"),
        pytest.param("expiry=false", "crash=2,duplicate=1,lose=1", marks=SLOW),
        pytest.param("", "crash=2,lose=1", marks=SLOW),
        pytest.param("", "crash=2,duplicate=1,lose=1", marks=SLOW),
    ],
)
def test_the_numbers_of_the_lease(settings: str, faults: str, request: pytest.FixtureRequest) -> None:
    """docs/lease.md has a row for each of these."""
    if (settings, faults) == ("", "crash=1"):
        report: CrashReport = request.getfixturevalue("lease")
    else:
        chosen = dict(word.split("=") for word in settings.split())
        report = crash(load("lease", {**load("lease").faults.settings, **chosen}), Budget.parse(faults))
    after = report.convergence
    assert report.holds
    assert after is not None
    numbers = [
        report.faulty.distinct,
        after.recovery_states,
        len(report.cases),
        after.worst_steps,
        after.worst_exchanges,
    ]
    assert rows_of_the_lease()[settings, faults] == [f"{n:,}" for n in numbers]


def test_all_rows_of_the_lease_are_tested() -> None:
    mark = next(m for m in test_the_numbers_of_the_lease.pytestmark if m.name == "parametrize")  # type: ignore[attr-defined]
    tested = {tuple(getattr(row, "values", row)) for row in mark.args[1]}
    assert tested == set(rows_of_the_lease())


@pytest.mark.slow
def test_a_provider_whose_broker_and_site_crash_together() -> None:
    """Several leases, a node of two actors: every lease keeps its units, and the system comes back (docs/lease.md)."""
    report = crash(load("contention", load("contention").faults.settings), Budget.parse("crash=1"))
    assert report.holds
    assert report.convergence is not None
    assert {point.partition("@")[2] for point in report.tried} == {"", "provider"}
    after = report.convergence
    numbers = f"{report.faulty.distinct:,} states", f"{after.worst_steps} steps and {after.worst_exchanges} messages"
    told = " ".join((DOCS / "lease.md").read_text().split())
    for words in numbers:
        assert words in told


def test_what_skewed_clocks_break() -> None:
    """docs/findings.md: twenty-three properties, and whether the system comes back is not asked."""
    report = crash(load("lease", load("lease").faults.settings), Budget(skew=1))
    assert report.convergence is None
    assert set(report.broken) == {
        "an_extension_may_be_short",
        "ticket_lasts_while_it_is_used",
        "extension_request_is_taken_up",
        "never_terminated_early",
        "valid_extension_is_accepted",
        "deadlines_are_the_limit",
        "the_ticket_is_given_back_last",
        "patient_to_the_end",
        "reclaimed_when_over",
        "handlers_have_their_time",
        "a_ticket_that_lasts_is_accepted",
        "a_ticket_is_kept_to_its_end",
        "a_lease_is_kept_to_its_end",
        "failed_means_broken_off",
        "policies_choose_the_properties",
        "a_unit_is_not_torn_down_under_a_guest",
        "guests_have_their_time",
        "a_broker_counts_what_the_site_holds",
        "policies_say_why",
        "handlers_are_waited_for_in_bounded_time",
        "a_longer_ticket_brings_a_lease_back",
        "a_holder_is_done_when_nothing_can_come",
        "a_ticket_that_lasts_is_not_given_up_without_a_reason",
    }
    assert "one tick ahead, twenty-three properties fail" in (DOCS / "findings.md").read_text()
    paths = {name: report.under_weakest[name].path for name in report.broken}
    lengths = {"never_terminated_early": 10, "ticket_lasts_while_it_is_used": 10, "handlers_have_their_time": 8}
    assert {name: len(path.steps) for name in lengths if (path := paths[name]) is not None} == lengths


# Paths


def test_the_path_of_a_case_crashes_there_restarts_and_comes_back(conversation: Path) -> None:
    """All cases: the path has the crash at its point, in its cell, then the restart, then as many steps as said."""
    report = crash(load(conversation), Budget(crash=2, duplicate=1))
    for case, worst in report.cases.items():
        steps = report.path(case).steps
        at = crash_of(report, case)
        if at is None:
            assert case[1].endswith("#recovering")
            at = max(i for i, step in enumerate(steps) if step.kind == "crash")
        back = next(i for i in range(at + 1, len(steps)) if steps[i].kind == "recover")
        down = [tuple(step.state.control.values()) for step in steps[at:back]]
        assert case[0] in (down if case[1].endswith("#recovering") else down[:1])
        assert len(steps) - back - 1 == worst.steps
        assert not any(step.kind in ("crash", "lose") for step in steps[back + 1 :])


def test_the_path_of_a_case_names_the_point_that_was_asked_for() -> None:
    """The model takes a point after a call for the one before it; the path still has the name of the case."""
    report = crash(load("lease", {"expiry": False, "max_units": 1, "last_end": 1}), Budget(crash=1))
    case = (("redeeming", "ticketed", "priming"), "crash:authority/priming#after-place", "alive")
    path = report.path(case)
    stop = path.steps[crash_of(report, case) or 0]
    assert stop.title.startswith("authority: crash:authority/priming#after-place, on ")
    first = path.initial.control
    assert (first["service_manager"], first["broker"], first["authority"]) == ("nascent",) * 3


def test_a_case_that_is_not_there(conversation: Path) -> None:
    report = crash(load(conversation), Budget(crash=1))
    with pytest.raises(LookupError, match="there is no such case"):
        report.path((("done", "idle"), "crash:asker/done#before-commit", ANY))


# What breaks


def plain_queues(folder: Path) -> None:
    """The same machines without sequence numbers: what comes again is taken for new."""
    system = folder / "system.yaml"
    system.write_text(system.read_text().replace("mailbox", "bag"))


def test_the_weakest_faults_that_break_a_property_are_found(conversation: Path) -> None:
    plain_queues(conversation)
    report = crash(load(conversation), Budget(crash=2, duplicate=1, lose=1))
    assert not report.holds
    assert set(report.broken) == {"ends", "asked_once"}
    assert report.weakest == {"asked_once": Budget(crash=1), "ends": Budget(lose=1)}
    assert kinds(report, "asked_once") == ["local", "crash", "recover", "deliver"]
    assert kinds(report, "ends") == ["local", "lose"]


@pytest.mark.parametrize(("most", "converges"), [(1, None), (3, False)])
def test_where_every_step_leaves_the_bounds_it_is_not_known_whether_it_returns(
    most: int, converges: bool | None, conversation: Path
) -> None:
    """A teller that is asked again counts to 2, and without faults none does; the search ends at the bounds."""
    plain_queues(conversation)
    system = conversation / "system.yaml"
    system.write_text(system.read_text() + f"constraint: teller.count <= {most}\n")
    report = crash(load(conversation), Budget(crash=1))
    assert report.complete
    assert report.convergence is not None
    assert (report.convergence.converges, report.open) == (converges, converges is None)


@pytest.mark.parametrize("cut", [Budget(lose=1), Budget(crash=1), Budget(crash=1, lose=1), Budget(crash=2)])
def test_no_budget_is_told_as_the_weakest_where_a_weaker_one_was_cut_short(
    cut: Budget, conversation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain_queues(conversation)
    whole = Budget(crash=2, lose=1)
    least = crash(load(conversation), whole).weakest

    def cut_short(*args: Any, budget: Budget | None = None, **named: Any) -> Exploration:
        found = explore(*args, budget=budget, **named)
        return replace(found, complete=found.complete and budget != cut)

    monkeypatch.setattr(analysis, "explore", cut_short)
    report = crash(load(conversation), whole)
    assert set(report.broken) == {"ends", "asked_once"}
    weaker = list(whole.weaker())
    assert report.weakest == {n: b for n, b in least.items() if b in weaker[: weaker.index(cut)]}


@pytest.mark.parametrize("level", [False, True])
def test_the_first_that_faults_break_ends_a_search_and_what_fails_anyhow_does_not(
    level: bool, conversation: Path
) -> None:
    plain_queues(conversation)
    claims = conversation / "invariants.yaml"
    claims.write_text(claims.read_text() + "  never_done: {always: asker.state != done}\n")
    whole = crash(load(conversation), Budget(crash=2, lose=1))
    limits = Limits(stop_at_violation=True, finish_level=level)
    stopped = crash(load(conversation), Budget(crash=2, lose=1), limits=limits)
    assert (stopped.legal.complete, stopped.faulty.why_incomplete) == (True, AT_VIOLATION)
    assert set() < set(stopped.broken) <= set(whole.broken) == {"ends", "asked_once"}
    assert stopped.weakest == {name: whole.weakest[name] for name in stopped.broken}
    assert (stopped.holds, stopped.open, stopped.unmet) == (False, True, None)


def kinds(report: CrashReport, name: str) -> list[str]:
    path = report.under_weakest[name].path
    assert path is not None
    steps: tuple[Step, ...] = path.steps
    return [step.kind for step in steps]


def test_a_property_that_fails_anyhow_is_not_broken_by_faults(conversation: Path) -> None:
    (conversation / "invariants.yaml").write_text("properties: {never_done: {always: asker.state != done}}\n")
    report = crash(load(conversation), Budget(crash=1))
    assert (report.broken, dict(report.weakest), report.holds) == ((), {}, True)


WALK = files_of("checker/crash/systems/walk")


def test_the_longest_way_through_states_that_repeat_ends_in_the_first_state_of_all(tmp_path: Path) -> None:
    """It falls as the other is down, and turns from side to side for as long as nobody heals it."""
    found = crash(load(write(tmp_path, WALK)), Budget(crash=1)).convergence
    assert found is not None
    assert found.path is not None
    way = ["fall", "turn", "recover:a", "turn", "heal"]
    assert (found.converges, found.worst_steps, found.worst_exchanges) == (True, len(way), 0)
    assert [step.event for step in found.path.steps][1:] == way


def test_who_may_never_come_back_is_not_asked_to(conversation: Path) -> None:
    report = crash(load(conversation), Budget(crash=1, halt=1))
    assert report.complete
    assert report.convergence is None
    assert report.weakest == {"ends": Budget(halt=1)}


@pytest.mark.parametrize("more", [{"halt": 1}, {"byzantine": "teller"}])
def test_crashes_are_cases_also_where_nobody_asks_whether_the_system_comes_back(
    more: dict[str, int | str], conversation: Path
) -> None:
    """An actor that halts or lies keeps the system from coming back, not the others from crashing."""
    plain = crash(load(conversation), Budget(crash=1))
    report = crash(load(conversation), Budget(crash=1, **more))  # type: ignore[arg-type]
    crashing = [a for a in ("asker", "teller") if a != more.get("byzantine")]
    for actor in crashing:
        mine = {p for p in plain.tried if p.startswith(f"crash:{actor}/")}
        assert mine
        # What a liar says is acknowledged in the same step, as it need not wait in a channel.
        assert {p for p in mine if "halt" in more or "#before-acknowledge" not in p} <= report.tried
    assert set(report.cases.values()) == {NOT_ASKED}
    assert {cell.worst for cell in report.cells if cell.points} == {NOT_ASKED}
    case = next(iter(report.cases))
    assert report.path(case).steps[-1].kind == "recover"


def test_of_each_case_it_is_known_whether_it_returns(conversation: Path) -> None:
    """Over plain queues a request that comes again is executed again, which is never undone; other cases come back."""
    plain_queues(conversation)
    report = crash(load(conversation), Budget(crash=1))
    assert report.convergence is not None
    assert not report.convergence.converges
    assert report.cases[("asking", "telling"), "crash:teller/telling#before-acknowledge", ANY] == NO_RETURN
    assert report.cases[("asking", "idle"), "crash:teller/idle#before-commit", ANY].returns is True
    assert report.cases[("idle", "idle"), "crash:asker/idle#before-commit", ANY] == WorstCase(0, 0)
    assert {cell.control: cell.worst.returns for cell in report.cells} == {
        ("idle", "idle"): True,
        ("asking", "idle"): False,
        ("asking", "telling"): False,
        ("done", "telling"): False,
    }
    for case, worst in report.cases.items():
        path = report.path(case)
        assert (path.loop is not None) == (worst == NO_RETURN)
        if worst == NO_RETURN:
            assert path.steps[-1].state.data["teller.count"] == "2"


# Ever more


def test_ever_larger_budgets(conversation: Path) -> None:
    reports = []
    for report in deepen(load(conversation), 60):
        reports.append(report)
        if len(reports) == 3:
            break
    assert [r.budget for r in reports] == [b for b, _ in zip(deepening(), range(3), strict=False)]
    assert all(r.complete and r.holds for r in reports)


@pytest.mark.parametrize(
    ("budget", "parts"),
    [
        ("crash=1", ["crash=1"]),
        ("none", ["none"]),
        ("skew=1", ["skew=1"]),
        (
            "crash=2,duplicate=1,lose=any",
            ["crash=1", "crash=1,duplicate=1", "crash=1,duplicate=1,lose=any", "crash=2,duplicate=1,lose=any"],
        ),
        ("halt=1,byzantine=broker", ["halt=1,byzantine=broker"]),
    ],
)
def test_the_parts_of_a_budget_end_with_the_whole(budget: str, parts: list[str]) -> None:
    assert [str(b) for b in Budget.parse(budget).parts()] == parts


def test_deepening_ends_where_something_breaks(conversation: Path) -> None:
    plain_queues(conversation)
    assert [r.holds for r in deepen(load(conversation), 60)] == [False]


def in_turn(system: System, budget: str, seconds: float | None = None) -> list[str]:
    """The budgets that are explored on the way to one, in their turn; `!`: something breaks under it."""
    budgets = list(Budget.parse(budget).parts())
    return [f"{r.budget}{'' if r.holds else '!'}" for r in deepen(system, seconds, budgets=budgets)]


@pytest.mark.parametrize(
    ("most", "found"),
    [
        (4, ["crash=1", "crash=3"]),
        (3, ["crash=1", "crash=3!", "crash=2"]),
        (2, ["crash=1", "crash=3!", "crash=2!"]),
        (1, ["crash=1!", "crash=2!", "crash=3!"]),
    ],
)
def test_what_follows_from_the_largest_budget_is_left_out(conversation: Path, most: int, found: list[str]) -> None:
    """Over a plain queue each crash may let the teller be asked once more."""
    plain_queues(conversation)
    teller, invariants = conversation / "roles" / "teller.yaml", conversation / "invariants.yaml"
    teller.write_text(teller.read_text().replace("max: 3", "max: 9").replace("count + 1, 3", "count + 1, 9"))
    words = f"properties: {{asked: {{always: teller.count <= {most}}}}}\nends: {{done: asker.state == done}}\n"
    invariants.write_text(words)
    assert in_turn(load(conversation), "crash=3") == found


def test_retries_that_come_with_a_fault_may_be_what_brings_a_system_back(conversation: Path) -> None:
    """Only budgets with them follow from one with them."""
    system, budgets = load(conversation), list(Budget.parse("crash=2,duplicate=1,lose=1").parts())
    assert [str(b) for b in follow(system, budgets)] == ["crash=1,duplicate=1,lose=1"]
    assert in_turn(system, "crash=2,duplicate=1,lose=1") == [
        "crash=1",
        "crash=1,duplicate=1",
        "crash=2,duplicate=1,lose=1",
    ]
    assert [follow(system, budgets[:n]) for n in range(3)] == [[]] * 3
    assert [str(b) for b in follow(system, budgets[:3])] == []
    assert [str(b) for b in follow(system, list(Budget.parse("crash=2,duplicate=2").parts()))] == [
        "crash=1,duplicate=1",
        "crash=2,duplicate=1",
    ]


@pytest.mark.parametrize("name", ["two_phase_commit", "three_phase_commit"])
def test_what_is_left_out_holds(name: str) -> None:
    system = load(name, {"participants": 1})
    budgets = list(Budget.parse("crash=2,duplicate=1,reorder=1").parts())
    last = crash(system, budgets[-1])
    assert last.holds
    for budget in follow(system, budgets):
        report = crash(system, budget, legal=last.legal)
        assert report.holds
        assert not report.open
        assert report.faulty.distinct <= last.faulty.distinct


def test_the_largest_budget_is_tried_with_a_part_of_the_time(
    conversation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Budgets between come where that was not enough, and then the largest again, with all that is left."""
    given: list[tuple[str, float]] = []

    def slow(system: System, budget: Budget, *arguments: Any, **more: Any) -> CrashReport:
        report = crash(system, budget, *arguments, **more)
        assert arguments[1].seconds is not None
        given.append((str(budget), arguments[1].seconds))
        if str(budget) == "crash=3" and len(given) < 4:
            cut = replace(report.faulty, complete=False, why_incomplete="stopped after 15 s")
            return replace(report, faulty=cut)
        return report

    monkeypatch.setattr(analysis, "crash", slow)
    assert in_turn(load(conversation), "crash=3", 1000) == ["crash=1", "crash=2", "crash=3"]
    assert [budget for budget, _ in given] == ["crash=1", "crash=3", "crash=2", "crash=3"]
    assert [round(seconds / 100) for _, seconds in given] == [10, 2, 10, 10]


@pytest.mark.parametrize("seconds", [float("nan"), float("inf")])
def test_a_time_that_does_not_end_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        next(deepen(load("two_phase_commit"), seconds))


def test_deepening_says_what_was_cut_off() -> None:
    *_, last = deepen(load("lease"), 0.01)
    assert not last.complete
    assert last.convergence is None


@pytest.mark.slow
def test_the_lease_under_all_its_faults(capsys: pytest.CaptureFixture[str]) -> None:
    """Section 5.1: with the system's own budget and settings everything holds, and every run comes back."""
    command = [sys.executable, "-m", "leasehold", "crash", "lease", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    with capsys.disabled():
        print(f"\ncrash lease: {found['seconds']:.0f} s, {found['distinct']:,} states, {found['scenarios']:,} cases")
    assert (done.returncode, found["complete"], found["converges"]) == (0, True, True)
    assert [p["name"] for p in found["properties"] if p["weakest"] is not None] == []
    assert found["holds"] is True
