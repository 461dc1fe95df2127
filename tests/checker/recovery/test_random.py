"""Random runs: none fails; one seed is one run; a plan that fails is made smaller."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from leasehold.checker.recovery.random_runs.campaign import failed, play, random_campaign
from leasehold.checker.recovery.random_runs.plan import FAULTS, PlannedEvent, RunPlan, plan_of, shrunk
from leasehold.faults.simulation.disk import FailingStore
from leasehold.impl.actor.stepper import Stepper
from leasehold.impl.store.memory import MemoryStore
from leasehold.reports.lifelines import path_svg

RUNS = int(os.environ.get("LEASEHOLD_RANDOM_RUNS", "100000"))


@pytest.mark.long
def test_random_runs_hold() -> None:
    found = random_campaign(150, seed=0, jobs=1)
    assert not found.failures, found.failures
    assert found.played == 150
    assert set(found.acts) >= {*FAULTS, "demand", "flex", "prolong", "stop"}
    assert found.crashes > 100
    assert found.lost > 10
    assert found.asked > 1_000


@pytest.mark.slow
def test_many_random_runs_hold() -> None:
    """100,000, or as many as LEASEHOLD_RANDOM_RUNS says."""
    found = random_campaign(RUNS, seed=1_000_000)
    assert found.played == RUNS
    assert not found.failures, found.failures


RUN = """
import hashlib, logging
logging.disable(logging.CRITICAL)
from leasehold.checker.recovery.random_runs.plan import plan_of
from leasehold.checker.recovery.random_runs.run import RandomRun
for seed in range(0, 60, 5):
    run, told = RandomRun(plan_of(seed)), hashlib.sha256()
    run.sim.subscribers.append(lambda notice: told.update(repr(notice).encode()))
    run.play()
    disks = sorted((n, sorted(disk.records.items()), sorted(disk.metadata.items())) for n, disk in run.disks.items())
    print(seed, told.hexdigest(), hashlib.sha256(repr(disks).encode()).hexdigest())
"""


@pytest.mark.long
def test_one_seed_is_one_run_to_the_byte() -> None:
    runs = [
        subprocess.run(
            [sys.executable, "-c", RUN], env={"PYTHONHASHSEED": seed, "PATH": ""}, capture_output=True, text=True,
            check=True, timeout=120,
        ).stdout
        for seed in ("1", "2")
    ]  # fmt: skip
    assert runs[0] == runs[1]
    assert runs[0].count("\n") == 12


def test_an_actor_that_hears_of_no_tick_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time does not wait for real actors; who has not left a state when its time is over is found."""
    monkeypatch.setattr(Stepper, "expire", lambda self, ready: None)
    findings = (finding for seed in range(5) for finding in play(plan_of(seed)).findings)
    assert any("_to_its_end does not hold" in finding.words and "after time" in finding.words for finding in findings)


@pytest.mark.long
def test_a_bug_is_found_and_its_plan_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that acknowledges what it has not written: found, and shrunk to what it takes."""

    async def forgets(self: FailingStore, batch: object) -> None:
        if self.disk.epoch > 1 and self.disk.chance.random() < 0.5:
            return
        await MemoryStore._commit(self, batch)  # type: ignore[arg-type]

    monkeypatch.setattr(FailingStore, "_commit", forgets)
    for seed in range(200):
        plan = plan_of(seed)
        outcome = play(plan)
        if outcome.findings:
            break
    found = failed(plan, outcome)
    small = found.plan
    assert len(small.acts) <= len(plan.acts)
    assert {f.check for f in play(small).findings} & {f.check for f in outcome.findings}
    assert found.path is not None
    assert len(found.path) > 3
    assert any(step.kind == "recover" for step in found.path.steps)
    assert "<svg" in path_svg(found.path, "a bug")
    assert any(act.kind in ("crash", "crash_within", "power", "disk") for act in small.acts), small


def test_shrinking_leaves_out_all_that_can_be_spared() -> None:
    acts = tuple(PlannedEvent(n, "crash", "broker", (n,)) for n in range(20))
    needed = {acts[3], acts[11]}
    tried = []

    def fails(plan: RunPlan) -> bool:
        tried.append(plan)
        return needed <= set(plan.acts)

    assert set(shrunk(RunPlan(0, 1, True, 20, acts), fails).acts) == needed
    assert len(tried) < 100


@pytest.mark.long
def test_the_command() -> None:
    command = [sys.executable, "-m", "leasehold", "crash", "lease", "--real"]
    done = subprocess.run(
        [*command, "--random", "20", "--seed", "5", "--json"], capture_output=True, text=True, timeout=120, check=False
    )
    found = json.loads(done.stdout)
    assert (done.returncode, found["runs"], found["first_seed"], found["failed"]) == (0, 20, 5, 0)
    done = subprocess.run([*command[:-1], "--random", "20"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "--real" in done.stderr
