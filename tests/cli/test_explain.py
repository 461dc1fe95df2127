"""`leasehold explain` from events, on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from leasehold.checker.recovery.lease.random_runs.plan import plan_of
from leasehold.checker.recovery.lease.random_runs.run import RandomRun
from leasehold.cli.explain import explain
from leasehold.impl.events.lines import write_lines
from tests.cli import reference
from tests.cli.test_verify import SETTINGS

LEASE = "service_manager:1"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("events")
    run = RandomRun(plan_of(7))  # of the settings below
    run.play()
    for name, disk in run.disks.items():
        (folder / f"{name}.jsonl").write_bytes(b"\n".join(write_lines(name, disk.chain(), 0.0)))
    return sorted(map(str, folder.glob("*.jsonl")))


def said(*words: str, settings: tuple[str, ...] = SETTINGS) -> Result:
    given = [word for setting in settings for word in ("--set", setting)]
    return CliRunner().invoke(explain, [*words, *given])


def test_a_lease_that_is_over_is_explained(files: list[str]) -> None:
    result = said(LEASE, *files)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0] == "What happened:"
    assert lines[1].endswith(
        "service_manager nascent -> ticketing: demand, as its policy decided {end: 4, start: 0, units: 1}; "
        "says ticket to broker"
    )
    assert any(line.startswith(f"{LEASE} at broker (broker) is closed, for ") for line in lines)
    assert lines[-1] == "No signature was checked; --trust names the keys."


def test_an_earlier_moment_depends_on_no_later_event(files: list[str], tmp_path: Path) -> None:
    early = json.loads(said(LEASE, *files, "--at", "broker:3", "--json").output)
    assert early.keys() == reference.EXPLAIN_KEYS.keys()
    (broker,) = (m for m in early["machines"] if m["actor"] == "broker")
    assert broker.keys() == {*reference.MACHINE_KEYS, *reference.SHOWN_KEYS, *reference.EXPLAINED_KEYS}
    assert {a["name"]: a["position"] for a in early["actors"]}["broker"] == 3
    last = [entry for entry in early["story"] if entry["actor"] == "broker"][-1]
    assert (last["position"], last["state"]) == (3, broker["state"])
    broker_file = next(Path(file) for file in files if "broker" in file)
    cut = tmp_path / "broker.jsonl"
    cut.write_bytes(b"\n".join(write_lines("broker", broker_file.read_bytes().splitlines()[1:4], 0.0)))
    others = [file for file in files if "broker" not in file]
    (again,) = (
        m
        for m in json.loads(said(LEASE, str(cut), *others, "--at", "broker:3", "--json").output)["machines"]
        if m["actor"] == "broker"
    )
    assert again == broker


def test_it_is_drawn(files: list[str], tmp_path: Path) -> None:
    assert said(LEASE, *files, "--draw", str(tmp_path / "a.svg")).exit_code == 0
    assert (tmp_path / "a.svg").read_text().startswith("<svg")


def test_what_is_missing_is_named(files: list[str]) -> None:
    alone = [file for file in files if "broker" not in file]
    notes = json.loads(said(LEASE, *alone, "--json").output)["notes"]
    assert "The events of broker are not here, so what it has done is not known." in notes


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["service_manger:1"], "no event tells of 'service_manger:1'; did you mean `service_manager:1`?"),
        (["xyz"], "no event tells of 'xyz'; they tell of service_manager:1, "),
        ([LEASE, "--at", "soon"], "'soon' is no moment; give a tick such as 120, a time such as 2031-01-31T12:00Z, or"),
        ([LEASE, "--at", "site:9999"], "site has no event 9999 here: it has events 1 to "),
        ([LEASE, "--at", "brokr:7"], "'brokr:7' is no moment; did you mean broker?; give a tick such as 120"),
        ([LEASE, "--at", "broker:1"], f"nothing is known of {LEASE} at broker:1: it begins later, with event "),
    ],
)
def test_what_is_not_known_is_2_and_says_why(files: list[str], words: list[str], reason: str) -> None:
    result = said(words[0], *files, *words[1:])
    assert result.exit_code == 2
    assert reason in result.output


def test_a_moment_behind_the_events_is_said_to_be_behind_them(files: list[str]) -> None:
    notes = json.loads(said(LEASE, *files, "--at", "100000", "--json").output)["notes"]
    assert any(note.startswith("The events end at tick ") for note in notes)


def test_another_system_than_that_of_the_events_is_2(files: list[str]) -> None:
    result = said(LEASE, *files, settings=("max_units=5",))
    assert result.exit_code == 2
    assert "has other constants than lease has here" in result.output
    other = CliRunner().invoke(explain, [LEASE, *files, "--system", "two_phase_commit"])
    assert other.exit_code == 2
    assert "is of another specification" in other.output


def test_options_about_whole_events_need_events() -> None:
    result = CliRunner().invoke(explain, [LEASE, "--draw", "lease.svg"])
    assert result.exit_code == 2
    assert "--draw is about whole events; name their SOURCES" in result.output


def test_a_configuration_says_the_system_and_its_constants(files: list[str], tmp_path: Path) -> None:
    settings = "\n".join(f"  {setting.replace('=', ': ')}" for setting in SETTINGS)
    (tmp_path / "site.yaml").write_text(
        "name: site\nstore: sqlite:site.db\nlisten: http://127.0.0.1:1\nkey: site.key\ntrust: trust.yaml\n"
        f"settings:\n{settings}\n"
    )
    result = CliRunner().invoke(explain, [LEASE, *files, "--system", str(tmp_path / "site.yaml")])
    assert result.exit_code == 0, result.output
