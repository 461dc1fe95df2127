"""`leasehold replay`: from the explorer to actors, to their log, and back; and logs that differ."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from leasehold.cli.explain import explain
from leasehold.cli.explore import explore
from leasehold.cli.replay import replay
from leasehold.spec.language.load import shipped_folder
from tests.systems import TESTS

pytest_plugins = ["pytester"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a system that violates its properties, and what the explorer says of it."""
    place = tmp_path_factory.mktemp("replay")
    system = place / "wrong"
    shutil.copytree(shipped_folder("two_phase_commit"), system)
    for name in ("expected.yaml", "crash.yaml", "lemmas.yaml", "mutation.yaml"):
        (system / name).unlink()
    role = system / "roles/participant.yaml"
    before, prepared, after = role.read_text().partition("  prepared:")
    role.write_text(before + prepared + after.replace("abort: {to: aborted}", "abort: {to: committed}", 1))
    report = CliRunner().invoke(explore, [str(system), "--set", "participants=2", "--json", "--keep-going"])
    (place / "explored.json").write_text(report.stdout)
    return place


def run(*words: str | Path) -> Result:
    return CliRunner().invoke(replay, [*map(str, words)])


def test_from_the_explorer_to_actors_to_their_log_and_back(folder: Path, tmp_path: Path) -> None:
    case, again, events = tmp_path / "bug.yaml", tmp_path / "again.yaml", tmp_path / "played"
    report, system = folder / "explored.json", ("--system", folder / "wrong")
    found = run(report, *system, "--property", "agreement", "--out", case, "--events", events)
    assert found.output == (
        "agreement: reproduced: the actors have taken 7 steps, with the records of the model\n"
        "  verify reports it from their events\n"
    )
    assert found.exit_code == 1
    assert run(case).output == found.output
    files = sorted(events.glob("*.jsonl"))
    log = run(*files, *system, "--set", "participants=2", "--out", again)
    assert (log.output, log.exit_code) == ("7 steps of the log, and the actors take each as it says\n", 0)
    assert run(again).output == log.output
    told = CliRunner().invoke(
        explain, ["coordinator:1", *map(str, files), "--system", str(folder / "wrong"), "--set", "participants=2"]
    )
    assert "participant[0] prepared -> committed: abort of coordinator" in told.output


def test_what_is_mended_is_shown_to_be_gone(folder: Path, tmp_path: Path) -> None:
    case, again, events = tmp_path / "bug.yaml", tmp_path / "again.yaml", tmp_path / "played"
    system = ("--system", folder / "wrong")
    run(folder / "explored.json", *system, "--property", "agreement", "--out", case, "--events", events)
    run(*events.glob("*.jsonl"), *system, "--set", "participants=2", "--out", again)
    mended = run(case, "--system", "two_phase_commit")
    assert mended.output == (
        "agreement: not reproduced\n  step 5: the system has no such step any more: participant[0] deliver abort\n"
    )
    assert mended.exit_code == 0
    differs = run(again, "--system", "two_phase_commit")
    assert differs.output == (
        "after 4 steps the actors differ from the log at participant-0:4, tick 0\n"
        "  to: the log has committed\n      the actors aborted\n"
    )
    assert differs.exit_code == 1


def test_every_counterexample_of_a_report(folder: Path) -> None:
    found = json.loads(run(folder / "explored.json", "--system", folder / "wrong", "--json").output)["cases"]
    names = {
        "a_client_is_told_what_is_so",
        "a_participant_ends_as_it_is_told",
        "a_refusal_is_heeded",
        "agreement",
        "commit_needs_all",
        "deadlock_free",
        "one_decision_is_told",
    }
    assert {one["property"]: one["reproduced"] for one in found} == dict.fromkeys(names, True)
    assert all(one["property"] in one["reported"] for one in found)


def test_a_case_in_a_test(folder: Path, tmp_path: Path, pytester: pytest.Pytester) -> None:
    again, events = tmp_path / "again.yaml", tmp_path / "played"
    system = ("--system", folder / "wrong")
    run(folder / "explored.json", *system, "--property", "agreement", "--events", events)
    run(*events.glob("*.jsonl"), *system, "--set", "participants=2", "--out", again)
    pytester.makepyfile(f"""
        def test_the_log_of_last_night(leasehold_replay):
            leasehold_replay({str(again)!r})

        def test_the_log_on_other_code(leasehold_replay):
            leasehold_replay({str(again)!r}, system="two_phase_commit")
    """)
    result = pytester.runpytest_subprocess("-q", "-p", "no:cacheprovider", "-n0")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*after 4 of 7 steps the actors differ from the log at participant-0:4*"])


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["explored.json", "--property", "agrement"], "has no counterexample to agrement; did you mean agreement?"),
        (["explored.json", "--from", "a:1"], "--from is about a log, and "),
        (["explored.json", "--out", "case.yaml"], "--out writes one case, and there are 7; name one with --property"),
        (["nothing.yaml"], "there is nothing at "),
        (["odd.yaml"], "`case` is 'odd'; it is log or counterexample"),
        (["stepless.yaml"], "step 2 has no `kind`"),
    ],
)
def test_what_cannot_be_played_is_2(folder: Path, words: list[str], reason: str) -> None:
    (folder / "odd.yaml").write_text("case: odd\n")
    (folder / "stepless.yaml").write_text(
        "{case: counterexample, system: two_phase_commit, property: agreement, steps: [{kind: local}, {event: x}]}\n"
    )
    extra = ["--system", folder / "wrong"] if words[0] == "explored.json" else []
    result = run(folder / words[0], *words[1:], *extra)
    assert result.exit_code == 2, result.output
    assert reason in result.output


def test_a_stretch_without_a_step_is_2(folder: Path, tmp_path: Path) -> None:
    run(folder / "explored.json", "--system", folder / "wrong", "--property", "agreement", "--events", tmp_path)
    words = (
        "--system",
        folder / "wrong",
        "--set",
        "participants=2",
        "--from",
        "coordinator:3",
        "--until",
        "coordinator:2",
    )
    result = run(*sorted(tmp_path.glob("*.jsonl")), *words)
    assert (result.exit_code, "between --from coordinator:3 --until coordinator:2" in result.output) == (2, True)


def test_a_counterexample_whose_time_runs_out_is_reproduced(tmp_path: Path) -> None:
    """Its machines may go on at its end: what has come too late has."""
    folder = TESTS / "cli/systems/kettle"
    explored = CliRunner().invoke(explore, [str(folder), "--json"])
    (tmp_path / "explored.json").write_text(explored.stdout)
    played = CliRunner().invoke(replay, [str(tmp_path / "explored.json"), "--system", str(folder)])
    assert played.exit_code == 1, played.output
    assert "it_cools: reproduced" in played.output
    assert "verify reports it from their events" in played.output
