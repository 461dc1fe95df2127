"""Counterexamples of the explorer are played by real actors, and what they break is reported from their events."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml

from leasehold.checker.explore import Limits, explore
from leasehold.checker.explore.result import Path as Run
from leasehold.checker.explore.result import PropertyResult, Snapshot
from leasehold.checker.mutation.operators import mutations
from leasehold.checker.recovery.cases.log_case import LogPlayer, log_case
from leasehold.checker.recovery.cases.path_case import NoSuchStep, PathCase, reported_cases
from leasehold.checker.recovery.cases.played import UNPLAYED, PlayedCounterexample, play_counterexample
from leasehold.checker.recovery.cases.stored import plain_case, read_case
from leasehold.faults.model import Budget
from leasehold.impl.compiler.program import NotRunnable
from leasehold.impl.events.event import read
from leasehold.reports.json_report import property_json
from leasehold.spec import System
from tests.systems import load

NO_RUN = ("sometimes", "guards", "range")  # kinds whose violation no run shows
EXAMPLES = Path(__file__).parents[4] / "examples"


def counterexample(system: System, budget: Budget | None = None) -> PropertyResult | None:
    """The shortest counterexample to a property that a run breaks."""
    found = explore(system, Limits(states=100_000, stop_at_violation=True), budget=budget)
    broken = [p for p in found.properties if p.verdict == "violated" and p.path is not None and p.kind not in NO_RUN]
    return min(broken, key=lambda p: len(p.path or ()), default=None)


def replayed(system: System, played: PlayedCounterexample) -> bool:
    """Returns whether the actors' log, played again, is the same."""
    chains = {actor: [read(body) for body in bodies] for actor, bodies in played.events.items()}
    return not LogPlayer(system, log_case(system, system.name, {}, chains)).play().differs


def of_mutants(system: System, step: int, most: int, budget: Budget | None = None) -> Counter[str]:
    """Returns what becomes of the counterexamples of mutants: played and reported, or why not."""
    count: Counter[str] = Counter()
    for mutation in mutations(system)[::step]:
        mutant = mutation.applied(system)
        found = counterexample(mutant, budget)
        if found is None or found.path is None:
            continue
        try:
            played = play_counterexample(mutant, PathCase.of(mutant, found.name, found.path, budget))
        except NotRunnable:
            continue  # no actor could run what its mistake makes of it
        assert not played.findings, f"{mutation.name}: {found.name}: {played.findings}"
        if played.unplayed:
            count[played.unplayed] += 1
            continue
        assert played.reproduced, f"{mutation.name}: {found.name}"
        assert replayed(mutant, played), f"{mutation.name}: {found.name}"
        if found.name not in played.reported:
            assert played.not_asked, f"{mutation.name}: {found.name} is broken, and verify does not report it"
        count["reported" if found.name in played.reported else "not asked"] += 1
        if sum(count.values()) == most:
            break
    return count


def test_counterexamples_of_mutants_are_played_and_reported() -> None:
    system = load("two_phase_commit", {"participants": 2})
    assert of_mutants(system, 9, 3) == {"reported": 3}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "settings", "step", "faults"),
    [
        ("two_phase_commit", {"participants": 2}, 3, ""),
        ("two_phase_commit", {"participants": 2}, 5, "crash=1"),
        ("three_phase_commit", {"participants": 2}, 12, "crash=1"),
        (EXAMPLES / "ring", {}, 6, ""),
        (EXAMPLES / "mutex", {}, 2, ""),
    ],
)
def test_counterexamples_of_many_mutants(name: str | Path, settings: dict[str, int], step: int, faults: str) -> None:
    found = of_mutants(load(str(name), settings), step, 20, Budget.parse(faults) if faults else None)
    assert found["reported"] >= 5


def test_a_case_is_a_file_that_follows_the_same_path() -> None:
    system = load("two_phase_commit", {"participants": 2})
    mutant = next(m for m in mutations(system) if m.name == "swap_target participant/prepared#abort -> prepared")
    broken = mutant.applied(system)
    (found,) = [p for p in explore(broken).properties if p.name == "deadlock_free"]
    assert found.path is not None
    played = play_counterexample(broken, PathCase.of(broken, found.name, found.path, None))
    assert played.reproduced
    report = {"properties": [property_json(found)], "constants": {"participants": 2}, "system": system.name}
    (case,) = reported_cases(report, "explored.json")
    brief = read_case(yaml.safe_load(yaml.safe_dump(plain_case(case.brief(broken)))), "case.yaml")
    assert isinstance(brief, PathCase)
    assert brief.run(broken).path == case.run(broken).path == found.path
    assert all(step.keys() <= {"kind", "machine", "event", "sender", "state", "data"} for step in brief.steps)
    with pytest.raises(NoSuchStep) as raised:
        brief.run(system)
    assert raised.value.number > 1


@pytest.mark.parametrize("fault", UNPLAYED)
def test_what_no_actor_plays_is_said_with_the_reason(fault: str) -> None:
    system = load("two_phase_commit", {"participants": 2})
    nothing = Run(Snapshot({}, {}, {}), ())
    budget = Budget(**{fault: "participant" if fault == "byzantine" else 1})
    played = play_counterexample(system, PathCase.of(system, "agreement", nothing, budget))
    assert played.unplayed == UNPLAYED[fault]
    assert not played.reproduced
