"""Campaigns on real actors in words: what was played, what failed, and with which code the command ends."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import click
import pytest
from rich.console import Console

from leasehold.checker.recovery.campaign import Campaign, CaseOutcome, Finding, UnknownCase, Watch
from leasehold.checker.recovery.cases.campaign import CaseCampaign
from leasehold.checker.recovery.cases.walk import AS_IN_THE_MODEL
from leasehold.checker.recovery.lease.processes.campaign import NO_TIME, ProcessCampaign
from leasehold.checker.recovery.plugins import plugin_of
from leasehold.cli import campaigns
from leasehold.cli.campaigns import MOST
from leasehold.cli.common import Exit
from leasehold.reports.commands import rerun
from tests.systems import load

COMMIT = load("two_phase_commit", {"participants": 2})
FAILED = CaseOutcome("crash:a", [Finding("lease", "it is [lost]"), Finding("units", "two are up")])


def lines(print_: Callable[..., object], *given: Any) -> list[str]:
    out = StringIO()
    print_(*given[:-1], Console(file=out, width=160, force_terminal=False), given[-1])
    return [" ".join(line.split()) for line in out.getvalue().splitlines()]


def of_cases(**fields: Any) -> CaseCampaign:
    found = CaseCampaign(system=COMMIT, scripts=1_200, exploring=1_001.26, seconds=2_003.04)
    for name, value in {"played": 1_300, "asked": 4_000, **fields}.items():
        setattr(found, name, value)
    return found


HEAD = f"two_phase_commit participants=2 spec {COMMIT.digest[:12]}"
TIME = "2,003.0 s, 1,001.3 s of them to find the cases"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {},
            [
                "1,300 cases, from 1,200 (cell, crash point, mode), played by real actors: 1,300 passed, 0 failed",
                "ends: none; invariants asked at 4,000 states",
                TIME,
            ],
        ),
        (
            {"played": 1, "interrupted": True, "ends": Counter({"same": 1_100, "ended": 2})},
            [
                "1 case, from 1,200 (cell, crash point, mode), played by real actors: 1 passed, 0 failed (interrupted)",
                "ends: 2 ended, 1,100 same; invariants asked at 4,000 states",
                TIME,
            ],
        ),
        (
            {
                "ends": Counter({"same": 1, AS_IN_THE_MODEL: 3}),
                "failures": [FAILED],
                "skipped": [CaseOutcome("x", skipped=why) for why in ("later [b]", "early", "later [b]")],
            },
            [
                "1,300 cases, from 1,200 (cell, crash point, mode), played by real actors: 1,296 passed, 1 failed",
                "ends: 1 same; invariants asked at 4,000 states",
                "3 cases under other faults or a crash: properties broken exactly as in the model",
                "1 not played: early",
                "2 not played: later [b]",
                TIME,
                "case check what is wrong",
                "crash:a lease it is [lost]",
                "units two are up",
                "to see one again: leasehold crash real two_phase_commit --only crash:a",
            ],
        ),
    ],
    ids=["all", "interrupted", "failed"],
)
def test_cases_are_told_with_their_ends(fields: dict[str, Any], told: list[str]) -> None:
    assert lines(campaigns._print_cases, of_cases(**fields)) == [HEAD, *told]


def test_cases_of_the_lease_are_told_with_its_own_ends() -> None:
    lease = load("lease")
    found = CaseCampaign(system=lease, ends=Counter({"same": 7}))
    ends = plugin_of(lease).runner.ends
    assert len(ends) > 1
    words = ", ".join(f"{found.ends[end]:,} {words}" for end, (_, words) in ends.items())
    assert campaigns._ends(found) == words
    assert words.startswith("7 ") or ", 7 " in words


@pytest.mark.parametrize("failures", [0, 1, MOST, MOST + 1, MOST + 1_500])
def test_so_many_failures_are_printed_and_the_rest_is_counted(failures: int) -> None:
    found = Campaign(failures=[CaseOutcome(f"crash:{n}", [Finding("c", "w")]) for n in range(failures)])
    told = lines(lambda screen, of: campaigns._failures(screen, of, partial(rerun, "real", "lease")), found)
    shown = [f"crash:{n} c w" for n in range(min(failures, MOST))]
    more = [f"and {failures - MOST:,} more; --json has all"] if failures > MOST else []
    again = "to see one again: leasehold crash real lease --only crash:0"
    assert told == (["case check what is wrong", *shown, *more, again] if failures else [])


def test_cases_with_processes_are_told_with_those_that_had_no_time() -> None:
    skipped = [CaseOutcome("a", skipped="no such [call]"), *(CaseOutcome(n, skipped=NO_TIME) for n in "bc")]
    found = ProcessCampaign(
        played=1_004, seconds=9.94, ends=Counter({"same": 1_000, "ended": 1}), skipped=skipped, interrupted=True
    )
    lease = load("lease")
    head = [
        f"lease spec {lease.digest[:12]}, with real processes",
        "1,004 cases: 1,001 passed, 0 failed, 3 skipped (interrupted)",
        "in 1,000 the lease came through, in 1 it ended and its units served the next request",
        "9.9 s",
        "skipped a: no such [call]",
    ]
    late = ["for 2 cases no time was left; --json names them, --hours gives more"]
    assert lines(campaigns._print_processes, lease, found) == [*head, *late]
    found.skipped, found.played, found.interrupted = skipped[:1], 1_002, False
    head[1] = "1,002 cases: 1,001 passed, 0 failed, 1 skipped"
    assert lines(campaigns._print_processes, lease, found) == head


@pytest.mark.parametrize("failed", [False, True])
@pytest.mark.parametrize("interrupted", [False, True])
@pytest.mark.parametrize("as_json", [False, True])
def test_a_campaign_ends_with_its_worst_and_writes_its_files(
    failed: bool, interrupted: bool, as_json: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Campaign(failures=[FAILED] * failed, interrupted=interrupted)
    code = Exit.VIOLATED if failed else Exit.INTERRUPTED if interrupted else Exit.HOLDS

    def show(screen: Console, of: Campaign) -> None:
        assert of is found
        screen.print("shown")

    for out, files, words in (
        (None, None, []),
        (tmp_path, {"a.txt": "b"}, ["wrote ", "a.txt"]),
        (tmp_path, {}, ["wrote nothing, as nothing failed"]),
    ):
        assert campaigns._finish(found, {"v": 1}, show, as_json, out, files) is code
        told = capsys.readouterr().out
        assert json.loads(told) == {"v": 1} if as_json else told.startswith("shown\n")
        assert as_json or ("wrote" in told) == bool(words)
        assert as_json or all(word in told for word in words)
    assert (tmp_path / "a.txt").read_text() == "b"


def test_a_campaign_that_no_plug_in_brings_is_refused_by_its_option() -> None:
    with pytest.raises(click.UsageError, match=r"random runs need policies, .* for two_phase_commit; take"):
        campaigns._brought(COMMIT, plugin_of(COMMIT).random_runs, "random runs")
    given = plugin_of(load("lease")).processes
    assert given is not None
    assert campaigns._brought(load("lease"), given, "processes") is given


@pytest.mark.parametrize(("unit", "before"), [("cases", "exploring"), ("runs", "")])
def test_a_case_that_fails_is_told_at_once_and_once(unit: str, before: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = Campaign()

    def start(watch: Watch) -> Campaign:
        watch(0, 0, [])
        assert " fails: " not in capsys.readouterr().err
        for played, total in ((7, 0), (7, 9)):
            watch(played, total, [FAILED])
        return found

    assert campaigns._watched(before, unit, start) is found
    assert capsys.readouterr().err.count(f"leasehold: {FAILED.name} fails: {FAILED.findings[0].words}\n") == 1


def test_a_case_that_is_unknown_is_a_usage_error() -> None:

    def unknown(watch: object) -> Campaign:
        raise UnknownCase("there is no case 'x'")

    with pytest.raises(click.UsageError, match="there is no case 'x'"):
        campaigns._watched("", "cases", unknown)
