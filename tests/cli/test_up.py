"""`leasehold up`: the actors of any system as processes (the page of the guide runs it whole)."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from leasehold.checker.recovery.processes.chaos_run import _values
from leasehold.cli import up as module
from leasehold.cli.client import last_events
from leasehold.cli.explain import _present
from leasehold.cli.main import cli
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.identity import trust_file
from leasehold.impl.processes.fleet import FleetError, SystemFleet
from leasehold.impl.server.client import Client
from leasehold.impl.server.config import read_config
from leasehold.spec import load
from leasehold.spec.language import types as t
from tests.systems import TESTS, files_of, write

SYSTEMS = Path(__file__).parents[2] / "spec/systems"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["nothing_there"], "nothing_there"),
        (["two_phase_commit", "--set", "participants=0"], "participants"),
        (["two_phase_commit", "--tick", "0"], "--tick"),
    ],
)
def test_what_cannot_be_started_is_told(words: list[str], told: str) -> None:
    done = CliRunner().invoke(cli, ["up", *words])
    assert done.exit_code == 2
    assert told in done.output


def test_an_actor_may_play_several_roles(tmp_path: Path) -> None:
    players = {"coordinator": "all", "participant[0]": "all", "participant[1]": "other"}
    with SystemFleet("two_phase_commit", tmp_path, {"participants": 2}, 0.2, players=players) as fleet:
        assert fleet.about("all")["roles"] == ["coordinator", "participant"]  # type: ignore[index]
        fleet.client("all").post("begin", machine="coordinator", event="begin")
        states: list[str] = []
        for _ in range(100):
            found = [row for name in fleet.roles for row in fleet.client(name).get("leases")]
            for row in (r for r in found if r["state"] == "voting"):
                at = players[row["machine"]]
                fleet.client(at).post("leases", row["lease"], "tell", machine=row["machine"], event="able")
            if (states := [row["state"] for row in found]) == ["committed"] * 3:
                break
            fleet.kill("all")
            fleet.start("all")
            fleet.await_ready("all")
            time.sleep(0.1)
        assert states == ["committed"] * 3


def test_each_actor_gets_a_configuration(tmp_path: Path) -> None:
    fleet = SystemFleet("two_phase_commit", tmp_path, {"participants": 2}, 0.5)
    fleet.prepare()
    names = ["coordinator", "participant-0", "participant-1"]
    assert sorted(path.stem for path in tmp_path.glob("*.key")) == names
    for name in names:
        config = read_config(tmp_path / f"{name}.yaml")
        assert (config.name, config.system, config.settings) == (name, "two_phase_commit", {"participants": 2})
        assert config.peers == "peers.yaml"
    assert yaml.safe_load((tmp_path / "peers.yaml").read_text()) == {
        "coordinator": "coordinator",
        "participant[0]": "participant-0",
        "participant[1]": "participant-1",
    }
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    SystemFleet("two_phase_commit", tmp_path, {"participants": 2}, 0.5).prepare()
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_machine_joins_those_of_the_folder(tmp_path: Path) -> None:
    ring = str(Path(__file__).parents[2] / "examples/ring")
    SystemFleet(ring, tmp_path, {"nodes": 2}).prepare()
    SystemFleet(ring, tmp_path, {"nodes": 2}, join=["node[7]"]).prepare()
    assert read_config(tmp_path / "node-7.yaml").name == "node-7"
    members = {"node[0]": "node-0", "node[1]": "node-1", "node[7]": "node-7"}
    assert yaml.safe_load((tmp_path / "peers.yaml").read_text()) == members
    SystemFleet(ring, tmp_path, {"nodes": 2}, join=["node[8]"]).prepare()
    assert yaml.safe_load((tmp_path / "peers.yaml").read_text()) == {**members, "node[8]": "node-8"}
    assert "node-7" in trust_file.load(tmp_path / "trust.yaml").actors
    assert SystemFleet(ring, tmp_path, {"nodes": 2}).players["node[7]"] == "node-7"  # it is a member from now on


@pytest.mark.parametrize(
    ("system", "machine", "words"),
    [
        ("examples/ring", "node[1]", r"node\[1\] is there, played by node-1; choose another number"),
        ("examples/ring", "nod[7]", r"nod\[7\] cannot join ring; its dynamic roles: node"),
        ("examples/mutex", "client[7]", r"client\[7\] cannot join mutex; none of its roles is dynamic"),
    ],
)
def test_a_machine_that_cannot_join_is_refused_and_changes_nothing(
    tmp_path: Path, system: str, machine: str, words: str
) -> None:
    folder = str(Path(__file__).parents[2] / system)
    SystemFleet(folder, tmp_path).prepare()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(FleetError, match=words):
        SystemFleet(folder, tmp_path, join=[machine])
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_nobody_joins_a_folder_without_members(tmp_path: Path) -> None:
    with pytest.raises(FleetError, match=r"has no members that node.* could join; start them first"):
        SystemFleet(str(Path(__file__).parents[2] / "examples/ring"), tmp_path, join=["node[7]"])


def test_one_process_may_have_several_actors(tmp_path: Path) -> None:
    ring = str(Path(__file__).parents[2] / "tests/impl/actor/fixed_ring")
    fleet = SystemFleet(ring, tmp_path, {"nodes": 3}, 0.2)
    fleet.prepare()
    configs = [word for name in fleet.roles for word in ("--config", str(tmp_path / f"{name}.yaml"))]
    log = (tmp_path / "all.log").open("wb")
    with log, subprocess.Popen([sys.executable, "-m", "leasehold", "run", *configs], stderr=log) as process:
        fleet.processes = dict.fromkeys(fleet.roles, process)
        try:
            for name in fleet.roles:
                fleet.await_ready(name)
            fleet.client("node-1").post("leases", "ring:1", "tell", event="start")
            for _ in range(100):
                states = [fleet.client(name).get("leases")[0]["state"] for name in fleet.roles]
                if states == ["following", "following", "leading"]:
                    break
                time.sleep(0.05)
            assert states == ["following", "following", "leading"]
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0
        finally:
            process.kill()
    actors = [json.loads(line)["actor"] for line in (tmp_path / "all.log").read_text().splitlines()]
    assert set(fleet.roles) <= set(actors)  # each record says whose it is


def test_an_actor_of_several_that_cannot_start_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # which `run` does too
    fleet = SystemFleet(str(Path(__file__).parents[2] / "tests/impl/actor/fixed_ring"), tmp_path, {"nodes": 2})
    fleet.prepare()
    (tmp_path / "node-1.key").unlink()
    words = [word for name in fleet.roles for word in ("--config", str(tmp_path / f"{name}.yaml"))]
    done = CliRunner().invoke(cli, ["run", *words])
    assert done.exit_code == 2
    assert "node-1: key: " in done.output


def test_questions_with_one_answer_are_answered_and_others_are_asked(tmp_path: Path) -> None:
    fleet = SystemFleet("two_phase_commit", tmp_path / "a", {"participants": 1}, 0.2)
    assert fleet.only_answers(["participant"]) == []  # it may vote either way
    with fleet:
        run = fleet.client("coordinator").post("begin", machine="coordinator", event="begin")["lease"]
        for _ in range(100):
            if questions := fleet.questions():
                break
            time.sleep(0.05)
        (question,) = questions
        assert question[:3] == ("participant-0", run, "participant[0]")
        assert question[4:] == ("policy.vote", {"able": [], "unable": []})


def test_a_policy_gives_the_only_answer(tmp_path: Path) -> None:
    with SystemFleet(str(TESTS / "cli/systems/bell"), tmp_path / "running", tick_seconds=0.2) as fleet:
        fleet.client("bell").post("leases", "bell:1", "tell", event="press")
        for _ in range(100):
            if (state := fleet.client("bell").get("leases")[0]["state"]) == "ringing":
                break
            time.sleep(0.05)
        assert state == "ringing"
        assert fleet.questions() == []


class Presses(Client):
    """A client that presses the bell as soon as it has heard how it is."""

    def get(self, *place: str) -> Any:
        answer = super().get(*place)
        if place[-1] == "present":
            self.post("leases", "bell:1", "tell", event="press")
        return answer


@pytest.mark.parametrize("events", [True, False])
def test_a_system_of_ones_own_is_explained_where_its_actors_run(events: bool, tmp_path: Path) -> None:
    """Actors say the folder of the specification that they run; where they write no events, there is no story."""
    folder = write(tmp_path / "own", files_of("cli/systems/bell"))
    explain = ["explain", "bell:1", "--at", str(tmp_path / "running")]
    with SystemFleet(str(folder), tmp_path / "running", tick_seconds=0.2, more={"events": events}) as fleet:
        client = Presses(fleet.client("bell").path)
        _, present, read = _present(client, "bell:1", whole=True)
        later = last_events(client, whole=True)
        assert [event.position for event in later if event.position <= present["last"]] == [e.position for e in read]
        assert len(later) > len(read) or not events
        for _ in range(100):
            if fleet.client("bell").get("leases")[0]["state"] == "ringing":
                break
            time.sleep(0.05)
        said = CliRunner().invoke(cli, explain)
        assert said.exit_code == 0, said.output
        assert "bell:1 at bell (bell) is ringing, for " in said.output
        story = [line for line in said.output.splitlines() if "bell silent -> pressed: press, as a client said" in line]
        assert len(story) == events
        role = folder / "roles/bell.yaml"
        role.write_text(role.read_text().replace("it rings", "it rings already"))
        other = CliRunner().invoke(cli, explain)
        assert other.exit_code == 2
        assert "bell of bell is of another specification, " in other.output


def _chaos(system: Path | str, *words: str) -> tuple[int, str]:
    """The exit code and the output of `up --crash`."""
    command = [sys.executable, "-m", "leasehold", "up", str(system), "--crash", "--seconds", "5", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.stdout, done.stderr
    return done.returncode, done.stdout


@pytest.mark.long
def test_a_chaos_run_kills_each_actor_and_finds_nothing_wrong() -> None:
    code, out = _chaos("two_phase_commit", "--set", "participants=2", "--seed", "3", "--json")
    said = json.loads(out)
    assert (code, said["violations"], said["violated"], said["at_rest"]) == (0, [], [], True)
    assert set(said["crashes_of"]) == {"coordinator", "participant-0", "participant-1"}
    assert all(said["crashes_of"].values())
    assert said["runs"] > 3
    assert said["states"] > 10
    assert {"agreement", "decisions_stand"} < set(said["judged"])
    assert said["left_out"] == []
    assert {*said["seen"], *said["unseen"]} == {"all_may_commit", "all_may_abort"}
    assert said["amid_work"] > 0
    assert said["taken"] > 10


@pytest.fixture
def altered(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Two-phase commit with another transition of its coordinator."""
    system = tmp_path / "altered"
    shutil.copytree(SYSTEMS / "two_phase_commit", system)
    file = system / "roles/coordinator.yaml"
    was = "disagree: {to: aborting}"
    assert was in file.read_text()
    file.write_text(file.read_text().replace(was, request.param))
    (system / "expected.yaml").unlink()
    return system


@pytest.mark.long
@pytest.mark.parametrize("altered", ["disagree: {to: committing}"], indirect=True)
def test_a_chaos_run_tells_the_path_to_a_step_that_is_wrong(altered: Path) -> None:
    """Only its step shows it: a decision that nobody has agreed to."""
    code, out = _chaos(altered, "--seed", "3")
    assert code == 1
    told = out[out.index("\na_decision_has_a_reason is violated in coordinator:") :]
    assert "coordinator: begin  [idle -> asking]" in told
    assert re.search(r"coordinator: disagree from participant\[\d]  \[asking -> committing]", told)


@pytest.mark.long
@pytest.mark.parametrize("altered", ["disagree: {stay: true}"], indirect=True)
def test_a_chaos_run_finds_what_waits_for_ever(altered: Path) -> None:
    """It has to come to rest for that: what a run leads to is known when nothing moves any more."""
    code, out = _chaos(altered, "--seed", "3", "--json")
    said = json.loads(out)
    assert (code, said["at_rest"]) == (1, True)
    assert {"a_transaction_ends", "deadlock_free"} <= {one["property"] for one in said["violated"]}
    assert len(said["violations"]) == len(said["violated"])


def test_a_chaos_run_needs_crash() -> None:
    done = CliRunner().invoke(cli, ["up", "two_phase_commit", "--seed", "1"])
    assert done.exit_code == 2
    assert "--seconds and --seed go with --crash" in done.output


def test_a_chaos_run_takes_no_machines_that_have_joined(tmp_path: Path) -> None:
    ring = str(Path(__file__).parents[2] / "examples/ring")
    SystemFleet(ring, tmp_path, {"nodes": 2}).prepare()
    words = ["up", ring, "--set", "nodes=2", "--dir", str(tmp_path), "--crash"]
    first = CliRunner().invoke(cli, [*words, "--join", "node[7]"])
    SystemFleet(ring, tmp_path, {"nodes": 2}, join=["node[7]"]).prepare()
    for done in (first, CliRunner().invoke(cli, words)):
        assert done.exit_code == 2
        assert "node[7] has joined them" in done.output


ONE_STATE = files_of("cli/systems/one_state")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return write(tmp_path / "shop", ONE_STATE)


def test_a_machine_of_one_state_is_asked_told_and_explained(shop: Path, tmp_path: Path) -> None:
    def said(verb: str, *words: str) -> str:
        return CliRunner().invoke(cli, [verb, *words, "--at", str(tmp_path / "run")]).output

    with SystemFleet(str(shop), tmp_path / "run") as fleet:
        assert fleet.questions() == []  # nobody waits, so the policy is not asked
        assert said("tell", "shop:1", "arrive") == "shop:1: till took it (till/open#arrive)\n"
        [first] = fleet.questions()
        assert (first.target, first.answers) == ("policy.choose", {"serve": ["how_many"]})
        assert said("tell", "shop:1", "serve", "how_many=2") == "shop:1: till ignored it: not so many wait\n"
        said("tell", "shop:1", "arrive")
        [second] = fleet.questions()
        assert second != first  # the state was entered anew, so it is another question
        assert said("tell", "shop:1", "arrive") == (
            "leasehold: till of shop:1 does not take arrive in open: the shop is full\n"
        )
        explained = said("explain", "shop:1")
        assert "It stays in this state, and takes:\n    arrive -> open, as a client or its policy says\n" in explained
        assert "is over" not in explained
        assert "there is no run shop:2 here: shop stands, and its run is shop:1" in said("tell", "shop:2", "arrive")
        wrong = said("tell", "shop:1", "arrive", "--machine", "tll")
        assert "shop:1 has no machine 'tll' here; did you mean till? (there are: till)" in wrong
        assert "takes 'arive'; did you mean arrive? (till: arrive, serve)" in said("tell", "shop:1", "arive")


def test_a_state_in_which_the_record_still_changes_is_no_end(shop: Path) -> None:
    program = compile_system(load(shop))
    assert program.roles["till"].ends == frozenset()
    assert compile_system(load("two_phase_commit")).roles["participant"].ends == {"committed", "aborted"}


def test_who_ends_before_it_serves_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had served once: its store is gone, and none can be made."""
    monkeypatch.setattr(module, "RESTART_SECONDS", 0.0)
    with SystemFleet("two_phase_commit", tmp_path / "run", {"participants": 2}) as fleet:
        store = tmp_path / "run/participant-1.db"
        fleet.kill("participant-1")
        for file in store.parent.glob("participant-1.db*"):
            file.unlink()
        store.mkdir()
        with pytest.raises(FleetError, match=r"participant-1 was started 5 times, and has ended \(2\) each time"):
            module._watch(fleet)


def test_the_folder_of_a_run_is_a_source_whether_its_actors_run_or_not(tmp_path: Path) -> None:
    with SystemFleet("two_phase_commit", tmp_path / "run", {"participants": 2}) as fleet:
        fleet.client("coordinator").post("begin", machine="coordinator", event="begin")
        deadline = time.monotonic() + 60
        while not all(fleet.client(name).get("leases") for name in fleet.roles):  # all have heard of it
            assert time.monotonic() < deadline
            time.sleep(0.02)
        fleet.kill("participant-1")

        def judged() -> None:
            for verb, words in (("verify", ["1 run,"]), ("conform", fleet.roles)):
                done = CliRunner().invoke(cli, [verb, str(fleet.folder)])
                assert done.exit_code == 0, done.output
                assert all(word in done.stdout for word in words), done.stdout

        judged()
        fleet.stop()
        judged()


@pytest.mark.long
def test_a_chaos_run_in_which_nothing_happens_fails(tmp_path: Path) -> None:
    states = "{dark: {initial: true, on: {go: {to: lit}}}, lit: {ignore: {go: it is lit}}}"
    role = f"role: lamp\nevents: {{go: It is lit.}}\nstates: {states}\n"
    system = "system: quiet\nroles: {lamp: {}}\nclock: {horizon: 9}\nenvironment: {go: {to: lamp, when: now < 1}}\n"
    claims = "properties: {never_lit: {always: lamp.state == dark, doc: It is dark.}}\n"
    write(tmp_path / "quiet", {"system.yaml": system, "roles/lamp.yaml": role, "invariants.yaml": claims})
    done = CliRunner().invoke(cli, ["up", str(tmp_path / "quiet"), "--crash", "--seconds", "1"])
    assert done.exit_code == 1
    assert "violated: no machine took a step: the environment offers no event that comes in a run" in done.output


COUNTER = {
    "system.yaml": """system: counter
roles: {counter: {file: roles/counter.yaml}}
standing: true
constants: {most: {type: int, value: 1, running: any}}
environment:
  adds: {to: counter, event: add}
  asks: {to: counter, event: ask, when: event.floor == counter.number}
  leaves: {to: counter, event: leave, when: counter.number == -1}
""",
    "roles/counter.yaml": """role: counter
data: {number: {type: int, min: 0, explore: [0, most]}, asked: {type: int, min: 0, explore: [0, most]}}
events: {add: it counts, ask: {doc: somebody asks, fields: {floor: {type: int, explore: [0, most]}}}, leave: never}
states:
  on:
    initial: true
    on: {add: {stay: true, set: {number: number + 1}}, ask: {stay: true, set: {asked: event.floor}}, leave: {to: off}}
  off: {others: {ignore: it is off}}
""",
    "invariants.yaml": "properties: {no_more_than_there_is: {always: counter.asked <= counter.number}}",
}


@pytest.mark.long
def test_an_event_that_no_machine_was_told_is_named(tmp_path: Path) -> None:
    """Events that rest on it are not tried; numbers beyond the bounds of exploring are tried as fields."""
    write(tmp_path / "counter", COUNTER)
    words = ["up", str(tmp_path / "counter"), "--crash", "--seconds", "3", "--seed", "1", "--json"]
    done = CliRunner().invoke(cli, words)
    said = json.loads(done.stdout)
    assert said["violations"] == []
    assert said["untold"] == ["counter leave"]


@pytest.mark.long
def test_subsidiary_machines_have_units_and_are_told_events() -> None:
    """Those of the actor, and those of a run."""
    code, out = _chaos(TESTS / "impl/server/systems/inn", "--seed", "1", "--json")
    said = json.loads(out)
    assert (code, said["violations"], said["untold"], said["at_rest"]) == (0, [], [], True)


PAYS = """
from pathlib import Path
from leasehold.impl.policy.functions import task

@task
def pay(action):
    with Path(__file__).with_suffix(".paid").open("a") as paid:
        paid.write(action.task + "\\n")
"""


@pytest.mark.long
def test_a_handler_of_a_file_is_called(tmp_path: Path) -> None:
    (tmp_path / "pays.py").write_text(PAYS)
    outbox = Path(__file__).parents[2] / "examples/outbox"
    code, _ = _chaos(outbox, "--seed", "1", "--json", "--handler", str(tmp_path / "pays.py"))
    assert code == 0
    assert len(set((tmp_path / "pays.paid").read_text().splitlines())) == 2


def test_a_handler_of_no_file_is_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["up", "two_phase_commit", "--handler", str(tmp_path / "pays.py:pay")])
    assert done.exit_code == 2
    assert f"--handler: there is no file {tmp_path / 'pays.py'}" in done.output.replace("\n", " ")


@pytest.mark.long
def test_a_chaos_run_judges_subsidiary_machines(tmp_path: Path) -> None:
    """Events make one that belongs to a run break a property."""
    inn = files_of("impl/server/systems/inn")
    inn["invariants.yaml"] = "properties: {nobody_is_away: {always: all(g.state != away for g in guest)}}\n"
    write(tmp_path / "inn", inn)
    code, out = _chaos(tmp_path / "inn", "--seed", "1")
    assert code == 1
    assert re.search(r"nobody_is_away is violated", out)


def test_numbers_of_records_are_tried_as_fields() -> None:
    kinds = (SimpleNamespace(type=t.Int(0, None)), SimpleNamespace(type=t.BOOL))
    offer: Any = SimpleNamespace(offer=SimpleNamespace(fields=kinds), values=lambda s: iter([(0, True), (1, False)]))
    assert list(_values(offer, ("on", 7, 1, True, -3))) == [(0, True), (1, False), (7, True)]
    offer = SimpleNamespace(offer=SimpleNamespace(fields=()), values=lambda s: iter([()]))
    assert list(_values(offer, (7,))) == [()]
