"""`leasehold verify`: events of actors from files, on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from html import escape
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click import Command
from click.testing import CliRunner, Result

from leasehold.checker.recovery.lease.random_runs.run import RandomRun
from leasehold.checker.verify.blame import Blame
from leasehold.checker.verify.follow import SourceVerification
from leasehold.checker.verify.queries import claim_text
from leasehold.cli.conform import conform
from leasehold.cli.events import events
from leasehold.cli.explain import explain
from leasehold.cli.replay import replay
from leasehold.cli.verify import verify
from leasehold.cli.verify_files import ViolationFiles
from leasehold.impl.events.lines import write_lines
from leasehold.spec import load
from tests.checker.verify.histories import known, verified
from tests.checker.verify.test_histories import plan_in_two_settings
from tests.checker.verify.test_resumed import a_history
from tests.planted.table import named

SETTINGS = ("max_units=2", "lazy_close=true", "handler_limit=4", "guest_limit=4")


def _files(folder: Path, seed: int = 8, bug: str = "") -> list[Path]:
    """The events of a run's actors as files; nobody has signed their end."""
    run = RandomRun(plan_in_two_settings(seed))
    if bug:
        with named(bug).planted():
            run.play()
    else:
        run.play()
    for name, disk in run.disks.items():
        (folder / f"{name}.jsonl").write_bytes(b"\n".join(write_lines(name, disk.chain(), 0.0)))
    return sorted(folder.glob("*.jsonl"))


def _verify(files: list[Path], *words: str) -> Result:
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    return CliRunner().invoke(verify, [*map(str, files), *settings, *words])


def test_a_history_that_holds(tmp_path: Path) -> None:
    result = _verify(_files(tmp_path), "--json")
    found = json.loads(result.output)
    assert result.exit_code == 0
    assert found["holds"] is True
    assert found["events"] > 20
    assert found["violations"] == found["faults"] == []
    assert found["signatures"] is False


def test_a_violation_is_told_and_drawn(tmp_path: Path) -> None:
    result = _verify(
        _files(tmp_path, 7, "assigned_units_not_saved"),
        "--property",
        "units_come_free",
        "--draw",
        str(tmp_path / "drawn"),
    )
    assert result.exit_code == 1
    assert "units_come_free is violated in service_manager:1, cut " in result.output
    assert "led to by" in result.output
    claim = claim_text(load("lease").properties["units_come_free"])
    assert all(f"    {line}\n" in result.output for line in claim.splitlines())
    assert f"<pre>{escape(claim)}</pre>" in (tmp_path / "drawn" / "index.html").read_text()
    picture = tmp_path / "drawn" / "1-units_come_free.svg"
    assert picture.read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("line", "words"),
    [(3, "event 3 of broker: it is missing: event 4 comes in its place"), (-1, "the last line is missing")],
)
def test_a_line_that_is_missing_is_found(line: int, words: str, tmp_path: Path) -> None:
    files = _files(tmp_path)
    lines = files[0].read_bytes().split(b"\n")
    del lines[line]
    files[0].write_bytes(b"\n".join(lines))
    result = _verify(files)
    assert result.exit_code == 1
    assert words in result.output


def test_a_property_that_does_not_exist_has_a_near_one(tmp_path: Path) -> None:
    result = _verify([tmp_path / "site.jsonl"], "--property", "units_come_fre")
    assert result.exit_code == 2
    assert "did you mean `units_come_free`?" in " ".join(result.output.split())


# Seeded bugs


def test_a_seeded_bug_is_reported_with_the_right_invariant_and_without_it_nothing_is() -> None:
    result = CliRunner().invoke(verify, ["--seeded", "assigned_units_not_saved", "--json"])
    found = json.loads(result.output)
    assert result.exit_code == 0
    figures = {name: found[name] for name in ("bugs", "shown_by_events", "reported", "right_invariant", "false_alarms")}
    assert figures == {"bugs": 1, "shown_by_events": 1, "reported": 1, "right_invariant": 1, "false_alarms": 0}
    (one,) = found["seeded"]
    assert "a_lease_that_is_active_is_whole" in one["right"]
    assert "site" in one["actors"]


def test_a_seeded_bug_that_is_none_has_a_near_one() -> None:
    result = CliRunner().invoke(verify, ["--seeded", "assigned_unit_not_saved"])
    assert result.exit_code == 2
    assert "did you mean `assigned_units_not_saved`?" in result.output
    result = CliRunner().invoke(verify, ["--seeded", "all", "events.jsonl"])
    assert result.exit_code == 2
    assert "it takes no SOURCES" in result.output


def test_seeded_bugs_need_a_checkout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("leasehold.__file__", str(tmp_path / "site-packages/leasehold/__init__.py"))
    result = CliRunner().invoke(verify, ["--seeded", "all"])
    assert result.exit_code == 2
    assert "needs a checkout of the repository" in result.output
    assert "clone it" in result.output


def test_a_chain_that_was_tampered_with_is_a_fault_in_json_and_junit(tmp_path: Path) -> None:
    files = _files(tmp_path)
    lines = files[0].read_bytes().split(b"\n")
    del lines[3]
    files[0].write_bytes(b"\n".join(lines))
    result = _verify(files, "--json", "--junit", str(tmp_path / "found.xml"))
    assert result.exit_code == 1
    found = json.loads(result.output)
    assert found["verdict"] == "violated"
    assert [(f["actor"], f["position"], f["kind"]) for f in found["faults"]] == [("broker", 3, "gap")]
    suite = ElementTree.parse(tmp_path / "found.xml").getroot()[0]
    cases = {case.get("name"): case for case in suite.iter("testcase")}
    assert cases["events"].find("failure") is not None
    assert cases["units_come_free"].find("failure") is None


def test_events_that_are_missing_are_not_decided(tmp_path: Path) -> None:
    files = [file for file in _files(tmp_path) if file.stem != "broker"]
    result = _verify(files, "--json")
    found = json.loads(result.output)
    assert found["violations"] == []
    assert {fault["kind"] for fault in found["faults"]} == {"undecided"}
    assert (result.exit_code, found["verdict"]) == (3, "undecided")


def test_properties_of_ones_own(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text("properties: {nobody_asks: {doc: Mine., always: service_manager.state != ticketing}}")
    query = tmp_path / "nothing_happens.sql"
    query.write_text("SELECT cut.run, cut.number AS cut FROM cut WHERE cut.entry > :checked AND cut.number = 1")
    files = _files(tmp_path)
    result = _verify(files, "--more", str(own), "--query", str(query), "--json", "--draw", str(tmp_path / "drawn"))
    found = json.loads(result.output)
    assert result.exit_code == 1
    assert {v["property"] for v in found["violations"]} == {"nobody_asks", "nothing_happens"}
    assert "nobody_asks" in (tmp_path / "drawn" / "index.html").read_text()
    query.write_text("SELECT nothing FROM cut WHERE cut.entry > :checked")
    result = _verify(files, "--query", str(query))
    assert result.exit_code == 2
    assert "nothing_happens.sql: the database does not take it" in result.output


@pytest.mark.parametrize("verb", [verify, conform, events, explain, replay])
def test_a_source_that_is_a_broken_configuration_is_an_error_of_its_own(verb: Command, tmp_path: Path) -> None:
    broken = tmp_path / "site.yaml"
    broken.write_text("actor: [")
    result = CliRunner().invoke(verb, [*(["tenant:1"] if verb is explain else []), str(broken)])
    assert result.exit_code == 2
    assert "is no YAML" in " ".join(result.output.split())


@pytest.mark.parametrize(("seed", "actor"), [(15, "site"), (14, "broker")])
def test_events_that_are_missing_at_the_beginning_raise_no_alarm(tmp_path: Path, seed: int, actor: str) -> None:
    """What comes after them is not judged, and no time passes where others wait for what is missing."""
    files = _files(tmp_path, seed)
    (cut,) = (file for file in files if file.name == f"{actor}.jsonl")
    header, *lines = cut.read_text().splitlines(keepends=True)
    cut.write_text("".join([header, *lines[(len(lines) - 1) // 2 :]]))
    plan = plan_in_two_settings(seed)
    settings = (f"lazy_close={str(plan.lazy).lower()}",)
    words = [word for setting in (*SETTINGS[:1], *settings, *SETTINGS[2:]) for word in ("--set", setting)]
    found = json.loads(CliRunner().invoke(verify, [*map(str, files), *words, "--json"]).stdout)
    assert "rootless" in {fault["kind"] for fault in found["faults"]}
    assert not any("other constants" in fault["reason"] for fault in found["faults"])
    assert found["violations"] == []


@pytest.mark.parametrize("verb", [verify, conform, events, explain, replay])
@pytest.mark.parametrize("kind", ["missing", "loop", "folder"])
def test_a_file_that_cannot_be_read_is_an_error_of_its_own(verb: Command, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "site.jsonl"
    if kind == "loop":
        path.symlink_to(path)
    elif kind == "folder":
        path.mkdir()
    words = ["tenant:1", str(path)] if verb is explain else [str(path)]
    result = CliRunner().invoke(verb, words)
    assert result.exit_code == 2, result.output
    assert "site.jsonl" in result.output


# Files that are written while actors are followed


def _followed(files: list[Path], folder: Path, *words: str) -> subprocess.Popen[str]:
    settings = [word for setting in SETTINGS for word in ("--set", setting)]
    drawn = ["--draw", str(folder / "drawn"), "--junit", str(folder / "found.xml")]
    command = [sys.executable, "-m", "leasehold", "verify", *map(str, files), *settings, "--follow", *drawn, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def _failed(junit: Path) -> set[str]:
    """The test cases that have failed."""
    cases = ElementTree.parse(junit).iter("testcase")
    return {case.attrib["name"] for case in cases if case.find("failure") is not None}


def _pictures(folder: Path) -> dict[str, str]:
    return {picture.name: picture.read_text() for picture in (folder / "drawn").glob("*.svg")}


def test_a_follower_that_is_killed_has_drawn_what_it_told(tmp_path: Path) -> None:
    files = _files(tmp_path, 13, "assigned_units_not_saved")
    database = ("--db", f"sqlite:{tmp_path / 'kept.db'}")
    with _followed(files, tmp_path, *database) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if " is violated in " in line)
        process.kill()
    told = line.partition(" is violated")[0].partition(" ")[0]
    found = _pictures(tmp_path)
    page = (tmp_path / "drawn" / "index.html").read_text()
    assert any(name.endswith(f"-{told}.svg") for name in found)
    assert all(picture.rstrip().endswith("</svg>") and picture in page for picture in found.values())
    assert told in _failed(tmp_path / "found.xml")
    assert not [path for path in (tmp_path / "drawn").iterdir() if path.name.startswith(".")]
    # The next one draws what was found and not drawn, before it has found anything itself.
    for path in (tmp_path / "drawn").iterdir():
        path.unlink()
    (tmp_path / "found.xml").unlink()
    with _followed(files, tmp_path, *database, "--for", "0"):
        pass
    again = _pictures(tmp_path)
    assert found.items() <= again.items()
    failed = _failed(tmp_path / "found.xml") - {"events"}
    assert told in failed == {name.removesuffix(".svg").partition("-")[2] for name in again}
    assert (tmp_path / "drawn" / "index.html").read_text().count("<section ") == len(again)


@pytest.mark.parametrize("kept", [False, True], ids=["in memory", "in a database"])
def test_only_who_does_not_go_on_later_follows_no_more(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Actors may drop what a follower that has left has not read; one with a database reads on when it is back."""
    left: list[str] = []
    monkeypatch.setattr(SourceVerification, "leave", lambda following: left.append(following.name))
    database = ("--db", f"sqlite:{tmp_path / 'kept.db'}") if kept else ()
    files = _files(tmp_path)
    for _ in range(2):
        done = _verify(files, "--follow", "--for", "0", "--name", "ours", *database)
        assert done.exit_code == 0, done.output
    assert left == ([] if kept else ["ours", "ours"])


def test_a_place_that_cannot_be_written_to_shows_as_following_begins(tmp_path: Path) -> None:
    files = _files(tmp_path)
    (tmp_path / "file").touch()
    result = _verify(files, "--follow", "--draw", str(tmp_path / "file" / "drawn"))
    assert result.exit_code == 2
    assert "cannot write to" in result.output


def test_a_property_of_each_value_fails_in_junit_and_its_picture_has_its_name(tmp_path: Path) -> None:
    own = tmp_path / "own.yaml"
    own.write_text("properties: {grow: {for: {n: [1, 2]}, when: broker.units > 0, leads_to: broker.units > n}}\n")
    found = ("--draw", str(tmp_path / "drawn"), "--junit", str(tmp_path / "found.xml"))
    result = _verify(_files(tmp_path), "--complete", "--more", str(own), "--property", "grow", *found)
    assert "grow n=2 is violated in " in result.output
    assert _failed(tmp_path / "found.xml") == {"grow"}
    assert {picture.partition("-")[2] for picture in _pictures(tmp_path)} == {"grow.svg"}


def test_files_say_whose_fault_a_violation_is_by_all_that_is_known(tmp_path: Path) -> None:
    """With --follow more may be known of a violation when a later one is found; each file is made anew then."""
    plan = plan_in_two_settings(7)
    result = verified(plan, a_history(7, "assigned_units_not_saved"))
    assert result.violations
    system, asked = known(plan.units, plan.lazy).system, sorted({one.of for one in result.violations})
    found = ViolationFiles(system, asked, tmp_path / "drawn", tmp_path / "found.xml")
    for words in ("nobody knows", "it is the site", "it is the broker"):
        blame = Blame("unknown", words)
        found.write(replace(result, violations=[replace(one, blame=blame) for one in result.violations]))
        for file in (tmp_path / "drawn" / "index.html", tmp_path / "found.xml"):
            text = file.read_text()
            told = {one: text.count(one) for one in ("nobody knows", "it is the site", "it is the broker")}
            assert [one for one, times in told.items() if times] == [words]
            assert told[words] >= len(result.violations)
