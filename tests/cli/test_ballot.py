"""Votes of members that join and leave while the others run, as processes that are killed (systems/ballot)."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from leasehold.checker.explore import explore
from leasehold.cli.main import cli
from leasehold.impl.compiler.program import source_of
from leasehold.impl.processes.fleet import SystemFleet
from leasehold.spec import load
from tests.systems import TESTS

LIMIT_SECONDS = 60
BALLOT = str(TESTS / "cli/systems/ballot")


class Ballot:
    """The processes of a ballot, and those that have joined it."""

    def __init__(self, *fleets: SystemFleet) -> None:
        self.fleets = {name: fleet for fleet in fleets for name in fleet.roles}

    def look(self, name: str) -> dict[str, Any]:
        [row] = self.fleets[name].client(name).get("leases")
        found: dict[str, Any] = row
        return found

    def tell(self, name: str, event: str, **fields: str) -> None:
        self.fleets[name].client(name).post("leases", "ballot:1", "tell", event=event, fields=fields)

    def wait(self, name: str, state: str) -> dict[str, Any]:
        return until(lambda: self.look(name), lambda seen: bool(seen["state"] == state))

    def restart(self, *names: str) -> None:
        for name in names:
            self.fleets[name].kill(name)
        for name in names:
            self.fleets[name].start(name)
        for name in names:
            self.fleets[name].await_ready(name)

    def vote(self, **answers: str) -> dict[str, Any]:
        for member, answer in answers.items():
            self.wait(member.replace("_", "-"), "choosing")
            self.tell(member.replace("_", "-"), "choose", answer=answer)
        return self.wait("chair", "idle")["data"]  # type: ignore[no-any-return]


def until(look: Callable[[], dict[str, Any]], holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    end = time.monotonic() + LIMIT_SECONDS
    while not holds(seen := look()):
        assert time.monotonic() < end, seen
        time.sleep(0.05)
    return seen


def test_the_claims_hold() -> None:
    found = explore(load(BALLOT))
    assert (found.complete, found.distinct, found.generated, found.depth) == (True, 21_946, 64_110, 41)
    assert found.holds


def test_nothing_that_runs_depends_on_how_many_there_are() -> None:
    """But what counts the machines of the beginning."""
    sources = {source_of(load(BALLOT, {"members": n})).replace(f"count={n}", "count=N") for n in (2, 5, 7)}
    texts = {re.sub(r"members=\d|'members': \d|MEMBERS: int = \d", "", text) for text in sources}
    assert len(texts) == 1


@pytest.mark.long
def test_members_join_vote_and_leave_while_others_run(tmp_path: Path) -> None:
    folder, run = BALLOT, tmp_path / "run"
    with SystemFleet(folder, run, {"members": 2}, 0.2) as fleet:
        ballot = Ballot(fleet)
        for name in ("member-0", "member-1"):
            ballot.tell(name, "enter")
            ballot.wait(name, "inside")
        ballot.tell("chair", "call")
        ballot.wait("member-0", "choosing")
        with SystemFleet(folder, run, {"members": 2}, 0.2, join=["member[7]"]) as joined:
            ballot = Ballot(fleet, joined)
            ballot.tell("member-7", "enter")  # while they vote without it
            ballot.wait("member-7", "inside")
            ballot.restart("chair")
            first = ballot.vote(member_0="aye", member_1="no")
            assert first["answers"] == {"member[0]": "aye", "member[1]": "no"}
            assert (first["turnout"], first["carried"]) == ({"member[0]": 1, "member[1]": 1}, False)
            ballot.tell("chair", "call")
            ballot.wait("member-7", "choosing")
            ballot.restart("member-7", "chair")
            second = ballot.vote(member_0="aye", member_1="no", member_7="aye")
            assert second["answers"] == {"member[0]": "aye", "member[1]": "no", "member[7]": "aye"}
            assert (second["counted"], second["carried"]) == (5, True)
            until(lambda: ballot.look("member-7"), lambda seen: bool(seen["data"]["last"] == second["answers"]))
            ballot.tell("member-7", "leave")
            assert ballot.wait("member-7", "outside")["data"]["last"] == {}
            left = ballot.look("chair")["data"]
            assert left["turnout"] == {"member[0]": 2, "member[1]": 2}
            assert "member[7]" not in left["answers"]
        ballot = Ballot(fleet)
        ballot.tell("chair", "call")
        assert ballot.vote(member_0="aye", member_1="aye")["carried"]
    stores = [f"sqlite:{path}" for path in sorted(run.glob("*.db"))]
    assert len(stores) == 4
    conformed = CliRunner().invoke(cli, ["conform", "--system", folder, "--json", *stores])
    assert conformed.exit_code == 0, conformed.output
    assert json.loads(conformed.output)["conforms"]
    verified = CliRunner().invoke(cli, ["verify", "--system", folder, "--set", "members=8", *stores])
    assert verified.exit_code == 0, verified.output
    assert "0 violations, 0 faults of the events" in verified.output
