"""Real actors play the cases of the explored graph: some of them here, all of them in the slow test and the report."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.recovery.campaign import (
    MOST_FINDINGS,
    Campaign,
    CaseOutcome,
    Finding,
    UnknownCase,
    completed,
    spread,
)
from leasehold.checker.recovery.cases.campaign import LOST, campaign
from leasehold.checker.recovery.cases.runner import CaseRunner
from leasehold.checker.recovery.cases.script import Script
from tests.systems import lease_cases, load

SYSTEM = load("lease", {"max_units": 1, "last_end": 2})


@pytest.fixture(scope="module")
def scripts() -> list[Script]:
    return lease_cases(max_units=1, last_end=2)


@pytest.fixture(scope="module")
def stage() -> CaseRunner:
    return CaseRunner(SYSTEM)


def _words(outcome: CaseOutcome) -> str:
    return f"{outcome.name}: " + "; ".join(f"{f.check}: {f.words}" for f in outcome.findings)


def outcomes() -> list[CaseOutcome]:
    failed = [CaseOutcome(name, [Finding("invariants", "no")], "same", asked=1, crashes=1) for name in ("z", "y")]
    passed = [CaseOutcome("a", end="same", asked=5, crashes=1), CaseOutcome("b", end="ended", crashes=2)]
    return [*passed, CaseOutcome("d", skipped="no room"), failed[0], CaseOutcome("c", skipped="no time"), failed[1]]


def test_each_case_counts_once_as_what_it_is() -> None:
    found, seen = Campaign(), []
    with found.timed():
        found.collect([[(None, o) for o in outcomes()]], lambda *counts: seen.append(counts), total=6)
    assert (found.played, found.passed, found.asked, found.crashes) == (6, 2, 7, 5)
    assert found.ends == {"same": 1, "ended": 1}
    assert [o.name for o in (*found.failures, *found.skipped)] == ["y", "z", "c", "d"]
    assert not found.holds
    assert seen == [(1, 6, 0), (2, 6, 0), (3, 6, 0), (4, 6, 1), (5, 6, 1), (6, 6, 2)]


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
    assert sorted(spread(abs, [-1, 2, -3], jobs)) == [1, 2, 3]


def test_work_that_nobody_waits_for_is_stopped() -> None:
    stopped: list[int] = []
    results: Any = completed(ThreadPoolExecutor(1), abs, iter([-1, -2, -3]), 1, lambda: stopped.append(1))
    assert next(results) == 1
    results.close()
    assert stopped == [1]


@pytest.mark.long
def test_a_script_for_each_case(scripts: list[Script]) -> None:
    """As many as the exploration has cases, each with its crash, and with a restart at its end."""
    assert len(scripts) == len({script.name for script in scripts}) > 2_000
    assert len({script.cell for script in scripts}) == 90
    for script in scripts:
        assert script.steps[-1].kind == "recover"
        assert script.steps[script.at].kind in ("crash", "stillborn")
        assert script.steps[script.at].point == script.point


@pytest.mark.slow
def test_each_cell_and_each_point_once(scripts: list[Script], stage: CaseRunner) -> None:
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
def test_an_actor_stops_twice(scripts: list[Script], stage: CaseRunner) -> None:
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
from leasehold.checker.recovery.cases.case import CaseRun
from leasehold.checker.recovery.cases.runner import CaseRunner
from leasehold.spec import load
stage = CaseRunner(load("lease", {"max_units": 1, "last_end": 2}))
with open(sys.argv[1], "rb") as file:
    scripts = pickle.load(file)
for script in scripts:
    played, told = CaseRun(stage.program, stage.properties, script), hashlib.sha256()
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
            [sys.executable, "-c", RUN, str(some)], env={"PYTHONHASHSEED": seed, "PATH": ""}, capture_output=True,
            text=True, check=True, timeout=120,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert runs[0] == runs[1]
    assert runs[0].count("\n") >= 7


@pytest.mark.slow
def test_every_case(tmp_path: Path) -> None:
    """The campaign of the committed report, by its command."""
    command = [sys.executable, "-m", "leasehold", "crash", "lease", "--real", "--pairs", "--json"]
    done = subprocess.run([*command, "--out", str(tmp_path)], capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["failed"] == 0
    assert found["single"] == 2 * found["scripts"]
    assert found["pairs"] > 10 * found["scripts"]
    committed = Path(__file__).parents[3] / "reports" / "recovery.html"
    assert (tmp_path / "recovery.html").read_text() == committed.read_text()
