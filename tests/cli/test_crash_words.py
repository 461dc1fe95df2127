"""The report of a crash in words: a real one, and each way in which another may differ from it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from io import StringIO
from typing import Any

import click
import pytest
from rich.console import Console

from leasehold.checker.crash.analysis import CrashReport, crash
from leasehold.checker.crash.cases import WorstCase
from leasehold.checker.crash.unmet import Unmet
from leasehold.cli.crash_case import Wanted, wanted_case
from leasehold.faults.model import Budget
from leasehold.reports import crash_terminal
from leasehold.reports.crash_terminal import FOLLOWS, UNDECIDED, Completed, left_out, verdict
from leasehold.reports.terminal import FEW
from tests.systems import load

CASE = (("asking", "voting"), "crash:participant/voting#after-commit")


@cache
def found() -> CrashReport:
    return crash(load("two_phase_commit", {"participants": 1}), Budget(crash=1))


def otherwise(converges: bool | None = True, broken: bool = False, complete: bool = True) -> CrashReport:
    """The report as it would be where something else was found."""
    of = found()
    assert of.convergence is not None
    properties = list(of.faulty.properties)
    if broken:
        properties[0] = replace(properties[0], verdict="violated")
    faulty = replace(of.faulty, properties=tuple(properties), complete=complete)
    return replace(of, faulty=faulty, convergence=replace(of.convergence, converges=converges))


def lines(print_: Callable[..., object], *given: Any, **how: Any) -> list[str]:
    out = StringIO()
    print_(Console(file=out, width=120, soft_wrap=True, force_terminal=False), *given, **how)
    return out.getvalue().splitlines()


@pytest.mark.parametrize(
    ("how", "differ", "words", "style", "short"),
    [
        (
            {},
            0,
            "two_phase_commit survives crash=1: {hold} properties hold, and every fair run returns to a legal state.",
            "green",
            "holds",
        ),
        ({}, 1, "two_phase_commit survives crash=1, but not as crash.yaml says: 1 difference.", "red", "holds"),
        (
            {"converges": None},
            0,
            "two_phase_commit survives crash=1: {hold} properties hold; whether it stabilises is not decided.",
            "yellow",
            UNDECIDED,
        ),
        ({"converges": False}, 2, "two_phase_commit does not stabilise after crash=1.", "red", "does not stabilise"),
        ({"broken": True}, 2, "two_phase_commit does not survive crash=1: it breaks {first}.", "red", "breaks {first}"),
        (
            {"broken": True, "converges": False},
            0,
            "two_phase_commit does not survive crash=1: it breaks {first}.",
            "red",
            "breaks {first}",
        ),
        (
            {"converges": False, "complete": False},
            0,
            "two_phase_commit does not stabilise after crash=1.",
            "red",
            "cut off: ",
        ),
        ({"complete": False}, 2, "two_phase_commit is not decided under crash=1: ", "yellow", "cut off: "),
        (
            {"complete": False, "broken": True},
            0,
            "two_phase_commit does not survive crash=1: it breaks {first}.",
            "red",
            "cut off: ",
        ),
    ],
)
def test_the_verdict_is_that_of_the_worst(how: dict[str, Any], differ: int, words: str, style: str, short: str) -> None:
    """Broken, not stabilising, not decided, another than crash.yaml says, and holding, in this order."""
    of = otherwise(**how)
    names = {"first": of.faulty.properties[0].name, "hold": len(of.faulty.properties)}
    said, colour = verdict(of, differ)
    assert colour == style
    assert said.startswith(words.format(**names)) if words.endswith(" ") else said == words.format(**names)
    done = Completed.of(of)
    wanted = short.format(**names)
    assert done.verdict.startswith(wanted) if wanted.endswith(" ") else done.verdict == wanted
    assert (done.faults, done.states, done.seconds, done.complete) == (
        "crash=1",
        of.faulty.distinct,
        of.seconds,
        how.get("complete", True),
    )


def test_budgets_between_are_left_out_where_the_last_one_holds() -> None:
    of = replace(found(), budget=Budget(crash=3))
    budgets = [Budget(crash=1), Budget(crash=2), Budget(crash=3)]
    tried = [Completed("crash=1", 1, 1.0, "holds", True)]
    assert left_out(of, tried, budgets) == [Completed("crash=2", None, 0.0, FOLLOWS, True)]
    assert left_out(of, [*tried, Completed("crash=2", 1, 1.0, "holds", True)], budgets) == []
    for other in ({"converges": False}, {"converges": None}, {"broken": True}, {"complete": False}):
        assert left_out(replace(otherwise(**other), budget=Budget(crash=3)), tried, budgets) == [], other
    assert left_out(replace(of, budget=Budget(crash=2)), tried, budgets) == []
    said = lines(crash_terminal.largest, of, [*tried, Completed("crash=2", 1, 1.0, "cut off", False)], budgets)
    assert said == ["not decided: crash=2; crash=3 (--time gives more time)", "", "under crash=3:"]
    whole = [Completed(str(budget), 1, 1.0, "holds", True) for budget in budgets]
    assert lines(crash_terminal.largest, of, whole, budgets) == ["", "under crash=3:"]


def test_points_that_are_not_met_are_counted_by_why() -> None:
    told = [Unmet("a", "why", "a*"), Unmet("b", "why", "b*")]
    seen = [Unmet("c", "the budget")]
    fresh = [Unmet(f"p{at}", "") for at in range(FEW + 1)]
    assert lines(crash_terminal.not_met, None) == ["not known which crash points are not met"]
    assert lines(crash_terminal.not_met, []) == []
    both = ["2 crash points not met, as crash.yaml explains", "1 crash point not met, because of the budget of faults"]
    assert lines(crash_terminal.not_met, [*told, *seen]) == both
    assert lines(crash_terminal.not_met, [*fresh[:1], *seen]) == [
        both[1],
        "1 crash point not met, and not explained: p0",
    ]
    assert lines(crash_terminal.not_met, fresh[:1], named=False) == ["1 crash point not met, and not explained"]
    (some,) = lines(crash_terminal.not_met, fresh[:FEW])
    assert some == f"{FEW} crash points not met, and not explained: p0, p1, p2, p3, p4, p5"
    (more,) = lines(crash_terminal.not_met, fresh)
    assert more == f"{FEW + 1} crash points not met, and not explained: p0, p1, p2, p3, p4, p5, and more"


@pytest.mark.parametrize(
    ("worst", "said", "cell"),
    [
        (WorstCase(7, 3), "legal again at most 7 steps and 3 messages later", ["7", "3"]),
        (WorstCase(1, 0), "legal again at most 1 step and 0 messages later", ["1", "0"]),
        (WorstCase(0, 0), "legal again with the restart", ["0", "0"]),
        (
            WorstCase(None, None),
            "legal again later; the longest way was not found, as there are too many to try",
            ["not measured", "not measured"],
        ),
        (WorstCase(None, None, False), "once faults stop, a run never returns to a legal state", ["no return", ""]),
        (WorstCase(None, None, None), "whether it returns was not checked", ["not checked", ""]),
    ],
)
def test_a_case_is_told_by_how_it_returns(worst: WorstCase, said: str, cell: list[str]) -> None:
    of = found()
    case = Wanted(*CASE, None).of(of)
    other = replace(of, cases={**of.cases, case: worst})
    assert lines(crash_terminal.case, other, case)[0].endswith(f": {said}")
    row = replace(of.cells[0], worst=worst, points=("a", "b"), legal=False)
    modes = {mode: at for at, mode in enumerate(of.modes, 3)}
    row = replace(row, cases=modes)
    assert crash_terminal._row(row, of.modes) == [*row.control, "recovery", "2", *map(str, modes.values()), *cell]
    bare = replace(row, points=(), legal=True)
    assert crash_terminal._row(bare, of.modes) == [*row.control, "legal", "0", *map(str, modes.values()), "", ""]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            ("asking", CASE[1], None),
            "a cell of two_phase_commit has 2 states (coordinator, participant[0]), such as idle/",
        ),
        (("asking/voting/voting", CASE[1], None), "has 3"),
        (("asking/votin", CASE[1], None), "did you mean `voting`?"),
        (("voting/voting", CASE[1], None), "coordinator has no state 'voting'"),
        (("asking/voting", "crash:participant/voting#after-comit", None), "there is no crash point"),
        (("asking/voting", CASE[1], "often"), "--mode: two_phase_commit has no mode 'often'"),
        (("asking/voting", f"{CASE[1]}@group", None), ""),
        (("asking/voting", CASE[1], "any"), ""),
    ],
)
def test_a_case_is_asked_for_by_names_that_there_are(given: tuple[str, str, str | None], words: str) -> None:
    if not words:
        assert wanted_case(found().system, *given) == Wanted(tuple(given[0].split("/")), given[1], given[2])
        return
    with pytest.raises(click.UsageError) as raised:
        wanted_case(found().system, *given)
    assert words in raised.value.message


def test_a_case_that_was_not_explored_is_no_case() -> None:
    of, cell = found(), CASE[0]
    assert Wanted(*CASE, None).of(of) == (*CASE, of.modes[0]) == Wanted(*CASE, of.modes[0]).of(of)
    one = WorstCase(1, 1)
    both = replace(of, cases={(*CASE, "any"): one, (*CASE, "many"): one}, modes=("many", "any"))
    assert [Wanted(*CASE, mode).of(both)[2] for mode in (None, "any", "many")] == ["many", "any", "many"]
    otherwise_: list[tuple[dict[Any, WorstCase], bool, str]] = [
        ({}, True, "no case was tried: nobody crashes under crash=1"),
        ({}, False, "no case was tried: "),
        ({(("x",), CASE[1], "any"): one}, True, "no case has the cell asking/voting"),
        (
            {(cell, "other", "any"): one, (("x",), CASE[1], "any"): one},
            True,
            f"nothing stops at {CASE[1]} in asking/voting",
        ),
        ({(*CASE, "many"): one}, True, "--mode: no restart of this case is any; it has many"),
    ]
    for cases, complete, words in otherwise_:
        other = replace(of, cases=cases, modes=("many", "any"), faulty=replace(of.faulty, complete=complete))
        with pytest.raises(click.UsageError) as raised:
            Wanted(*CASE, "any").of(other)
        assert raised.value.message.startswith(words)
        assert ("nobody crashes" in raised.value.message) is (complete and not cases)
