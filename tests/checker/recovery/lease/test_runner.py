"""The runner of the lease's cases: one reference for all cases of a script, an outcome whatever happens to a case."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from leasehold.checker.recovery.campaign import CaseOutcome
from leasehold.checker.recovery.lease import runner as module
from leasehold.checker.recovery.lease.runner import LeaseCaseRunner
from leasehold.checker.recovery.lease.simulation import LeaseSimulation
from tests.systems import load

SYSTEM = load("lease", {"max_units": 1, "last_end": 1, "expiry": False})


class Run:
    """A run of a case that does nothing.

    Attributes:
        made: all runs, in order.
        fails: the stage that raises an error, by `reference` or `case`.
    """

    made: ClassVar[list[Run]] = []
    fails: ClassVar[set[tuple[str, str]]] = set()
    met: ClassVar[bool] = True

    def __init__(self, program: Any, properties: Any, script: Any, **options: Any) -> None:
        self.kind = "reference" if options.get("reference") else "case"
        self.script, self.options, self.told = script, options, list[Any]()
        self.outcome = CaseOutcome("case")
        self.monitor = SimpleNamespace(path=lambda: f"path, closed: {'close' in self.told}")
        self.second = SimpleNamespace(met=self.met, seen={"crash:a": None, "crash:b": None})
        self._stage("made")
        Run.made.append(self)

    def _stage(self, name: str) -> None:
        if (self.kind, name) in self.fails:
            raise ZeroDivisionError(name)

    def until_recovered(self) -> None:
        self.told.append("until_recovered")
        self._stage("until_recovered")

    def compare_with(self, reference: Run) -> None:
        self.told.append(reference)

    def run(self) -> None:
        self.told.append("run")
        self._stage("run")

    def say(self, check: str, reason: str) -> None:
        self.outcome.say(check, reason)

    def close(self) -> None:
        self.told.append("close")


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> LeaseCaseRunner:
    monkeypatch.setattr(module, "LeaseCaseRun", Run)
    monkeypatch.setattr(Run, "made", [])
    monkeypatch.setattr(Run, "fails", set())
    monkeypatch.setattr(Run, "met", True)
    return LeaseCaseRunner(SYSTEM)


ONE: Any = SimpleNamespace(name="one")
OTHER: Any = SimpleNamespace(name="other")


def found(outcome: CaseOutcome) -> list[tuple[str, str]]:
    return [(finding.check, finding.words) for finding in outcome.findings]


def test_there_is_a_unit_more_for_the_bystander(runner: LeaseCaseRunner) -> None:
    assert (runner.system.values()["max_units"], SYSTEM.values()["max_units"]) == (2, 1)
    assert runner.system.values()["expiry"] is False
    assert runner.program.constants["max_units"] == 2
    assert runner.properties.system is runner.system


def test_all_cases_of_a_script_are_compared_with_one_reference(runner: LeaseCaseRunner) -> None:
    """It goes up to the comparison, and ends when another script's is needed."""
    assert [runner.play(ONE, lost).name for lost in (False, True)] == ["case", "case"]
    runner.play(OTHER, second="crash:a")
    first, *cases, second, last = Run.made
    assert [(run.kind, run.script) for run in Run.made] == [
        ("reference", ONE),
        ("case", ONE),
        ("case", ONE),
        ("reference", OTHER),
        ("case", OTHER),
    ]
    assert first.told == ["until_recovered", "close"]
    assert [run.told for run in cases] == [[first, "run", "close"]] * 2
    assert (second.told, last.told) == (["until_recovered"], [second, "run", "close"])
    assert [(run.options["lost"], run.options["second"]) for run in (*cases, last)] == [
        (False, None),
        (True, None),
        (False, "crash:a"),
    ]
    runner.close()
    runner.close()
    assert second.told[-1:] == ["close"]
    assert second.told.count("close") == 1


def test_a_path_is_of_the_run_before_its_actors_are_ended(runner: LeaseCaseRunner) -> None:
    assert runner.play(ONE, traced=True).path == "path, closed: False"  # type: ignore[comparison-overlap]
    assert runner.play(ONE).path is None


def test_a_simulation_may_be_of_another_kind_for_one_case_or_for_all(runner: LeaseCaseRunner) -> None:
    runner.play(ONE)
    runner.play(ONE, simulate=SimpleNamespace)  # type: ignore[arg-type]
    assert [run.options["simulate"] for run in Run.made] == [LeaseSimulation, LeaseSimulation, SimpleNamespace]
    other = LeaseCaseRunner(SYSTEM, simulate=dict)  # type: ignore[arg-type]
    other.play(ONE)
    assert [run.options["simulate"] for run in Run.made[-2:]] == [dict, dict]


@pytest.mark.parametrize(
    ("kind", "stage", "check"),
    [
        ("reference", "made", "drive"),
        ("case", "made", "drive"),
        ("reference", "until_recovered", "drive"),
        ("case", "run", "error"),
    ],
)
def test_an_error_is_a_finding_and_leaves_nothing_open(
    runner: LeaseCaseRunner, kind: str, stage: str, check: str
) -> None:
    Run.fails.add((kind, stage))
    outcome = runner.play(ONE)
    assert found(outcome) == [(check, f"ZeroDivisionError: {stage}")]
    assert not outcome.passed
    runner.close()
    assert all(run.told[-1] == "close" for run in Run.made)
    Run.fails.clear()
    assert runner.play(ONE).passed


def test_a_second_point_that_nobody_came_to_is_found(runner: LeaseCaseRunner) -> None:
    assert found(runner.play(ONE, second="crash:a")) == []
    Run.met = False
    assert found(runner.play(ONE)) == []
    assert found(runner.play(ONE, second="crash:a")) == [("drive", "no actor came to the second point crash:a")]


def test_second_points_are_those_of_a_run_up_to_the_comparison(runner: LeaseCaseRunner) -> None:
    assert runner.second_points(ONE) == ["crash:a", "crash:b"]
    reference, run = Run.made
    assert (reference.kind, run.kind, run.told) == ("reference", "case", [reference, "until_recovered", "close"])
    Run.fails.add(("case", "until_recovered"))
    assert runner.second_points(ONE) == []
    assert Run.made[-1].told[-1] == "close"
