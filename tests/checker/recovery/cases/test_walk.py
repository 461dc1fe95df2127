"""Real actors play the cases of any system; each check finds a bug that is seeded for it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leasehold.checker.recovery.campaign import CaseOutcome
from leasehold.checker.recovery.cases.campaign import Explored, RecoveryCase, _work, runner_of, scripts_of
from leasehold.checker.recovery.cases.counterexample import Counterexample
from leasehold.checker.recovery.cases.runner import CaseRunner
from leasehold.checker.recovery.cases.steps import Script
from leasehold.checker.recovery.cases.walk import AS_IN_THE_MODEL, CHECKS, WalkRun
from leasehold.impl.actor.outbox import Outbox
from leasehold.impl.actor.table import MachineTable
from leasehold.impl.core.core import Core
from leasehold.impl.core.work import Outcome
from leasehold.impl.store.memory import MemoryStore
from leasehold.impl.store.store import Batch
from tests.systems import files_of, load

TIMED = files_of("checker/recovery/cases/systems/asking")


@pytest.fixture(scope="module")
def explored() -> Explored:
    return scripts_of(load("two_phase_commit", {"participants": 2}))


@pytest.fixture
def runner(explored: Explored) -> CaseRunner:
    """A runner of its own, as a test may spoil its program."""
    made = runner_of(load("two_phase_commit", {"participants": 2}), *explored.known)
    assert isinstance(made, CaseRunner)
    return made


def words(outcome: CaseOutcome) -> str:
    return f"{outcome.name}: " + "; ".join(f"{f.check}: {f.words}" for f in outcome.findings)


def finding(runner: CaseRunner, explored: Explored, check: str, step: int = 7) -> str:
    """Returns what a check says in the first case in which it finds anything; empty: it finds nothing."""
    for script in explored.scripts[::step]:
        for found in runner.play(script).findings:
            assert found.check in CHECKS
            if found.check == check:
                return found.words
    return ""


def test_cases_pass_where_nothing_is_wrong(explored: Explored, runner: CaseRunner) -> None:
    ends = set()
    for n, script in enumerate(explored.scripts[3::23]):
        outcome = runner.play(script, lost=bool(n % 2))
        assert outcome.passed, words(outcome)
        assert outcome.asked > 3
        ends.add(outcome.end)
    assert ends >= {"committed", "aborted"}


def test_a_case_is_one_run(explored: Explored, runner: CaseRunner) -> None:
    """Its name is the seed of what is left to chance."""
    script = explored.scripts[40]
    one, other = (runner.play(script, traced=True) for _ in range(2))
    assert one.path == other.path
    assert one.path is not None
    kinds = [step.kind for step in one.path.steps]
    assert kinds.count("crash") == kinds.count("recover") == 1


def test_an_actor_stops_twice(explored: Explored, runner: CaseRunner) -> None:
    script = next(s for s in explored.scripts if s.point == "crash:coordinator/asking#after-commit")
    points = runner.second_points(script)
    assert {p.partition("#")[2].partition("(")[0] for p in points} >= {"before-commit", "after-commit", "before-send"}
    for point in points[::4]:
        outcome = runner.play(script, second=point)
        assert outcome.passed, words(outcome)
    missed = runner.play(script, second="crash:coordinator@nowhere#before-commit")
    assert [f.check for f in missed.findings] == ["drive"]


def broken(explored: Explored) -> list[Counterexample]:
    return [script for script in explored.scripts if isinstance(script, Counterexample)]


def test_senders_are_given_ever_more_time_until_something_comes_of_it() -> None:
    """A request that was taken is said again ever more rarely."""
    waited: list[float] = []
    run = WalkRun.__new__(WalkRun)
    parts = {
        "sim": SimpleNamespace(loop=SimpleNamespace(advance=waited.append)),
        "monitor": SimpleNamespace(properties=SimpleNamespace(projection=lambda state: state), state=0),
        "choices": SimpleNamespace(packets=lambda: ()),
        "second": SimpleNamespace(stopped=""),
    }
    for name, part in parts.items():
        setattr(run, name, part)
    assert not run._retransmitted()
    assert waited == [3.0, 6.0, 12.0, 24.0, 48.0]
    run.second.stopped = "b"
    assert run._retransmitted()
    assert len(waited) == 6
    run.second.stopped = ""
    run.sim.loop.advance = lambda seconds: setattr(run.monitor, "state", waited.append(seconds) or 1)
    assert run._retransmitted()
    assert waited[6:] == [3.0]


def test_what_the_model_breaks_is_broken(explored: Explored, runner: CaseRunner) -> None:
    names = {script.point: script for script in broken(explored)}
    assert {*names} == {"broken:a_transaction_ends", "broken:prepared_ends", "broken:deadlock_free"}
    assert {script.mode for script in names.values()} == {"halt=1"}
    for script in names.values():
        outcome = runner.play(script)
        assert (outcome.end, outcome.findings) == (AS_IN_THE_MODEL, [])
        ((only, cases, pairs),) = _work(explored.scripts, True, script.name)
        assert (only, cases, pairs) == (script, (RecoveryCase(script),), False)


@pytest.mark.parametrize("expected", [frozenset(), frozenset({"agreement"})])
def test_another_property_than_the_models_is_found(
    explored: Explored, runner: CaseRunner, expected: frozenset[str]
) -> None:
    script = replace(broken(explored)[0], expected=expected)
    (found,) = runner.play(script).findings
    assert found.check == "counterexample"
    assert found.words.startswith(f"the model breaks {', '.join(expected) or 'nothing'}, the run ")


def test_a_run_that_goes_on_where_the_model_is_stuck_is_found(explored: Explored, runner: CaseRunner) -> None:
    script = broken(explored)[0]
    before = next(n for n, step in enumerate(script.steps) if step.kind == "halt")
    found = runner.play(replace(script, steps=script.steps[:before], at=before - 1)).findings
    assert any("nothing has to happen any more, and here" in f.words for f in found)


def test_an_answer_that_the_model_loses_for_good_is_not_played() -> None:
    """Actors send an answer until it is received, so the run goes on where the model is stuck."""
    ring = load(Path(__file__).parents[3] / "impl/actor/fixed_ring")
    explored = scripts_of(ring)
    outcomes = [runner_of(ring, *explored.known).play(script) for script in broken(explored)]
    assert {(o.name.partition("@")[2].partition("@")[0], o.skipped) for o in outcomes if o.skipped} == {
        ("lose=1", f"{message} is lost for good in the model, and actors send it until it is received")
        for message in ("elect", "elected")
    }
    assert [words(o) for o in outcomes if o.findings] == []
    assert any(o.end == AS_IN_THE_MODEL for o in outcomes)


# Seeded bugs


def test_a_store_that_loses_a_commit_is_found(
    explored: Explored, runner: CaseRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, count = MemoryStore._commit, [0]

    async def sometimes(self: MemoryStore, batch: Batch) -> None:
        count[0] += 1
        await commit(self, Batch({}, (), batch.metadata, batch.events) if count[0] % 3 == 0 else batch)

    monkeypatch.setattr(MemoryStore, "_commit", sometimes)
    words = finding(runner, explored, "record")
    assert "has another " in words or "which it had committed" in words


def test_an_outbox_that_drops_is_found(explored: Explored, runner: CaseRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages that are lost with their sender are said again by nobody."""
    monkeypatch.setattr(Outbox, "_later", lambda self, pending, pause: self.drop(pending.key, pending.neighbour))
    checks = {f.check for script in explored.scripts[::21] for f in runner.play(script, lost=True).findings}
    assert {"progress", "end"} <= checks


def spoilt(core: Core, kinds: set[str], becomes: Callable[[Any, Any], Any]) -> None:
    """A core that takes what it should not."""
    step = core.step

    def takes(record: Any, event: Any, now: int) -> Any:
        after, outcome = step(record, event, now)
        return (after, outcome) if outcome.kind not in kinds else becomes(after, outcome)

    object.__setattr__(core, "step", takes)


def test_a_core_that_takes_an_ignored_event_is_found(explored: Explored, runner: CaseRunner) -> None:
    """It goes to where its specification has nothing to go to."""
    core = runner.program.roles["coordinator"]
    spoilt(core, {"ignored"}, lambda r, o: (("committing", *r[1:]), Outcome("taken", o.event, "coordinator/x#agree")))
    assert "no run of the model has these records after coordinator agree" in finding(runner, explored, "model")


def test_an_invariant_that_is_broken_is_found(explored: Explored, runner: CaseRunner) -> None:
    core = runner.program.roles["participant"]
    step = core.step

    def contrary(record: Any, event: Any, now: int) -> Any:
        after, outcome = step(record, event, now)
        other = record[1] == 1 and outcome.taken and after[0] == "committed"
        return (("aborted", *after[1:]), outcome) if other else (after, outcome)

    object.__setattr__(core, "step", contrary)
    some = [script for script in explored.scripts if script.cell == ("committing", "prepared", "prepared")]
    assert "does not hold at tick 0" in finding(runner, explored._replace(scripts=some), "invariant")


def test_a_message_that_is_taken_twice_is_found(explored: Explored, runner: CaseRunner) -> None:
    """A duplicate changes a record when everything is over."""
    core = runner.program.roles["coordinator"]
    spoilt(core, {"stale", "duplicate"}, lambda r, o: (("idle", *r[1:]), Outcome("taken", o.event)))
    run = next(_at_its_end(explored, runner))
    run.lost = False  # so that what was delivered comes again
    run._repeat()
    assert [f.check for f in run.outcome.findings] == ["repeated"]
    run.close()


def _at_its_end(explored: Explored, runner: CaseRunner) -> Iterator[WalkRun]:
    for script in explored.scripts[10::17]:
        run = runner.made(script, True, None)
        run.until_recovered()
        if run.ended and len(run.sim.network.delivered) > 4:
            yield run
        run.close()


def test_an_end_that_is_none_is_found(explored: Explored, runner: CaseRunner) -> None:
    runner.properties.ends = {"never": lambda s, e, b: False}
    assert finding(runner, explored, "end").startswith("nothing is possible any more, and no end holds: ")
    runner.properties.excused = frozenset({"deadlock_free"})
    assert finding(runner, explored, "end", 60) == ""


def test_an_exception_is_found(explored: Explored, runner: CaseRunner) -> None:
    run = runner.made(explored.scripts[0], False, None)
    run.sim.loop.errors.append({"message": "it failed", "exception": ValueError("no")})
    assert [(f.check, f.words) for f in run.run().findings] == [("error", "it failed: ValueError('no')")]
    run.close()


def test_who_does_not_follow_the_script_is_found(explored: Explored, runner: CaseRunner) -> None:
    script = next(s for s in explored.scripts if s.point == "crash:coordinator/committing#after-commit")
    for n in range(1, script.at):
        without = replace(script, steps=(*script.steps[:n], *script.steps[n + 1 :]), at=script.at - 1)
        assert "drive" in {f.check for f in runner.play(without).findings}, script.steps[n]


@pytest.mark.parametrize("down", ["coordinator", "participant-0", "participant-1"])
def test_every_machine_that_runs_is_compared_whoever_is_down(explored: Explored, runner: CaseRunner, down: str) -> None:
    """A state that the model has in another way is told of each machine but those of the actor that is down."""
    actors = [runner.program.hosts[runner.program.roles[role].machine(n)] for role, n in explored.scripts[0].machines]
    script = next(s for s in explored.scripts if s.steps[-1].kind == "recover" and actors[_crashed(s)] == down)
    at = next(n for n, step in enumerate(script.steps) if step.kind == "crash")
    told = []
    for place in range(len(actors)):
        control = tuple("nowhere" if n == place else state for n, state in enumerate(script.steps[at].control))
        steps = (*script.steps[:at], replace(script.steps[at], control=control), *script.steps[at + 1 :])
        told.append("drive" in {f.check for f in runner.play(replace(script, steps=steps)).findings})
    assert told == [actor != down for actor in actors]


def _crashed(script: Script) -> int:
    """The position of a machine of the actor that crashes."""
    crash = next(step for step in script.steps if step.kind == "crash")
    assert crash.machine is not None
    return script.machines.index(crash.machine)


# Time


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Explored]:
    folder = tmp_path_factory.mktemp("asking")
    (folder / "roles").mkdir()
    for name, text in TIMED.items():
        (folder / name).write_text(text)
    return folder, scripts_of(load(folder))


def test_time_passes_and_handlers_end(timed: tuple[Path, Explored]) -> None:
    folder, explored = timed
    runner = runner_of(load(folder), *explored.known)
    for script in explored.scripts[::5]:
        outcome = runner.play(script)
        assert outcome.passed, words(outcome)


def test_a_timer_that_is_forgotten_is_found(timed: tuple[Path, Explored], monkeypatch: pytest.MonkeyPatch) -> None:
    folder, explored = timed
    monkeypatch.setattr(MachineTable, "due", lambda self, now: iter(()))
    runner = runner_of(load(folder), *explored.known)
    found = [f for script in explored.scripts[::3] for f in runner.play(script).findings]
    assert any(f.check == "progress" and "its timer has run out" in f.words for f in found)


# The command


@pytest.mark.long
def test_the_command_plays_other_systems(tmp_path: Path) -> None:
    only = "broken:prepared_ends@halt=1"
    command = ["crash", "real", "two_phase_commit", "--jobs", "1", "--only", only, "--json", "--out", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "leasehold", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["cases"], found["counterexamples"], found["ends"]) == (1, 1, {AS_IN_THE_MODEL: 1})
    page = (tmp_path / "recovery.html").read_text()
    assert all(check in page for check in CHECKS)
