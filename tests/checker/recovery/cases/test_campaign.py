"""The exhaustive campaign without actors: which cases are played, how they are spread, and which are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from leasehold.checker.explore import Path
from leasehold.checker.explore.result import Snapshot
from leasehold.checker.recovery.campaign import CaseOutcome, Finding, UnknownCase
from leasehold.checker.recovery.cases import campaign as module
from leasehold.checker.recovery.cases.campaign import CHUNK, TRACED, Explored, RecoveryCase, campaign
from leasehold.checker.recovery.cases.steps import Script
from leasehold.checker.recovery.plugins import RecoveryPlugin
from tests.systems import load

SYSTEM = load("lease", {"max_units": 1, "last_end": 1, "expiry": False})
PATH = Path(Snapshot({}, {}, {}, 0), ())


def script(n: int, cell: str = "c") -> Script:
    return Script((cell, "d"), f"crash:broker/s{n}#after-commit", "alive", (), 0, ())


SCRIPTS = [script(n) for n in range(30)]


class Runner:
    """Plays cases at once.

    Attributes:
        played: in order; the bool: traced.
        failing: the names of cases that fail.
        closed: how often a runner was closed.
    """

    played: ClassVar[list[tuple[str, bool]]] = []
    failing: ClassVar[set[str]] = set()
    closed: ClassVar[list[str]] = []

    def __init__(self, system: Any) -> None:
        assert system is SYSTEM

    def play(self, script: Script, lost: bool, second: str | None, *, traced: bool = False) -> CaseOutcome:
        case = RecoveryCase(script, lost, second)
        self.played.append((case.name, traced))
        findings = [Finding("lease", "no")] if case.name in self.failing else []
        return CaseOutcome(script.name, findings, "same", asked=2, crashes=1, path=PATH if traced else None)

    def second_points(self, script: Script) -> list[str]:
        return ["crash:a#x", "crash:b#y"]

    def close(self) -> None:
        self.closed.append("closed")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The exploration is known, runners play at once, and work is done here; returns how it was spread."""
    spread: list[Any] = []

    def here(do: Any, work: Sequence[Any], jobs: int | None, begin: Any, arguments: tuple[Any, ...]) -> Any:
        spread.append((jobs, [[one.point for one, _, _ in chunk] for chunk in work]))
        begin(*arguments)
        return map(do, work)

    monkeypatch.setattr(module, "plugin_of", lambda system: RecoveryPlugin(bool, Runner))  # type: ignore[arg-type]
    monkeypatch.setattr(module, "in_processes", here)
    monkeypatch.setattr(module, "scripts_of", lambda system, progress, pairs: Explored(77, SCRIPTS))
    monkeypatch.setattr(Runner, "played", [])
    monkeypatch.setattr(Runner, "failing", set())
    monkeypatch.setattr(Runner, "closed", [])
    return spread


def names(scripts: Sequence[Script]) -> list[str]:
    return [f"{s.name}{end}" for s in scripts for end in ("", "!lost")]


def test_each_script_is_played_with_its_messages_and_without(bare: list[Any]) -> None:
    heard: list[tuple[int, int, int]] = []
    found = campaign(SYSTEM, jobs=3, watch=lambda n, of, failed: heard.append((n, of, len(failed))))
    assert [name for name, _ in Runner.played] == names(SCRIPTS)
    assert bare == [(3, [[s.point for s in SCRIPTS[:CHUNK]], [s.point for s in SCRIPTS[CHUNK:]]])]
    assert len(Runner.closed) == 2, "after each piece of work"
    assert (found.played, found.passed, found.asked, found.crashes) == (60, 60, 120, 60)
    assert (found.explored, found.scripts, found.cases, found.ends) == (77, 30, {"single": 60}, {"same": 60})
    assert heard == [(n, 60, 0) for n in range(1, 61)]
    assert (found.drawn, found.system) == ({}, SYSTEM)
    assert found.by_cell == {("c", "d"): [60, 0]}
    assert found.by_point == {s.point: [2, 0] for s in SCRIPTS}


@pytest.mark.parametrize(
    ("jobs", "count", "here"), [(1, 30, True), (2, 30, False), (None, 30, False), (None, 24, True)]
)
def test_little_work_and_one_job_need_no_other_process(
    bare: list[Any], jobs: int | None, count: int, here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "scripts_of", lambda system, progress, pairs: Explored(77, SCRIPTS[:count]))
    assert campaign(SYSTEM, jobs=jobs).played == 2 * count
    assert bare[0][0] == (0 if here else jobs)


def test_with_pairs_each_second_point_is_a_case_of_its_own(bare: list[Any]) -> None:
    """In small pieces, as a script has many; how many there are is not known before."""
    totals: set[int] = set()
    found = campaign(SYSTEM, jobs=2, pairs=True, watch=lambda played, total, failed: totals.add(total))
    assert found.cases == {"single": 60, "pairs": 60}
    assert [name for name, _ in Runner.played[:4]] == [
        *names(SCRIPTS[:1]),
        f"{SCRIPTS[0].name}+crash:a#x",
        f"{SCRIPTS[0].name}+crash:b#y",
    ]
    assert {len(chunk) for chunk in bare[0][1]} == {2}
    assert totals == {0}


def test_the_first_failures_are_played_once_more_and_drawn(bare: list[Any]) -> None:
    Runner.failing |= {f"{s.name}!lost" for s in SCRIPTS[:5]}
    found = campaign(SYSTEM, jobs=2)
    failed = sorted(Runner.failing)
    assert [outcome.name for outcome in found.failures] == failed
    assert not found.holds
    assert found.drawn == dict.fromkeys(failed[:TRACED], PATH)
    assert [name for name, traced in Runner.played if traced] == failed[:TRACED]
    assert len(Runner.closed) == 3, "that of the drawing as well"
    assert found.by_point[SCRIPTS[0].point] == [2, 1]


def test_a_campaign_with_enough_failures_stops_after_its_piece_of_work(bare: list[Any]) -> None:
    Runner.failing |= {SCRIPTS[0].name, SCRIPTS[29].name}
    assert campaign(SYSTEM, jobs=2, stop_at=1).played == 2 * CHUNK


def test_a_case_that_is_asked_for_alone_is_drawn_also_where_it_passes(bare: list[Any]) -> None:
    found = campaign(SYSTEM, only=f"{SCRIPTS[3].name}!lost")
    assert Runner.played == [(f"{SCRIPTS[3].name}!lost", False), (f"{SCRIPTS[3].name}!lost", True)]
    assert (found.drawn, found.played) == ({f"{SCRIPTS[3].name}!lost": PATH}, 1)
    second = campaign(SYSTEM, only=f"{SCRIPTS[3].name}+crash:a#x")
    assert [*second.drawn] == [f"{SCRIPTS[3].name}+crash:a#x"]
    assert second.cases == {"pairs": 1}


def test_what_was_not_traced_is_not_drawn(bare: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    play = Runner.play
    monkeypatch.setattr(Runner, "play", lambda self, s, lost, second, traced=False: play(self, s, lost, second))
    assert campaign(SYSTEM, only=SCRIPTS[3].name).drawn == {}


def test_a_name_of_no_case_is_said_before_anything_is_played(bare: list[Any]) -> None:
    with pytest.raises(UnknownCase, match=r"no case is named 'crash:broker/s99#after-commit'; did you mean crash:br"):
        campaign(SYSTEM, only="crash:broker/s99#after-commit")
    assert (bare, Runner.played) == ([], [])


def test_the_exploration_counts_to_the_time_of_a_campaign(bare: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]

    def explores(system: Any, progress: Any, pairs: bool) -> Explored:
        clock[0] += 7.0
        return Explored(77, SCRIPTS[:1])

    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    monkeypatch.setattr(module, "scripts_of", explores)
    found = campaign(SYSTEM)
    assert (found.exploring, found.seconds) == (7.0, 7.0)
