"""States of processes are judged where all actors had them at one moment; errors that actors count are violations."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from leasehold.checker.recovery.cases.properties import RunProperties
from leasehold.checker.recovery.fleet.snapshot import Snapshots
from leasehold.checker.recovery.fleet.storm import Storm
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.server.client import ClientError
from tests.systems import load

MODEL = load("two_phase_commit", {"participants": 2})
PROGRAM = compile_system(MODEL)
RUN = "coordinator:1"


class Told:
    """A fleet whose actors say what the test gives.

    Attributes:
        abouts: what each says of itself; None: it does not answer.
        rows: the records of each.
        asked: is called whenever an actor is asked for its records.
    """

    def __init__(self) -> None:
        self.model, self.program, self.players = MODEL, PROGRAM, dict(PROGRAM.players)
        self.roles = PROGRAM.roles_of(self.players)
        self.abouts: dict[str, Any] = {
            name: {"running": True, "epoch": 1, "now": 7, "counts": {"commits": 3}} for name in self.roles
        }
        machines = {machine: PROGRAM.machines[machine] for machine in self.players}
        self.rows = {
            player: [{"lease": RUN, "machine": machine, "state": core.first_state(n), "data": {}}]
            for machine, player in self.players.items()
            for core, n in (machines[machine],)
        }
        self.asked: Callable[[str], object] = lambda name: None

    def about(self, name: str) -> Any:
        return self.abouts[name]

    def only_answers(self, roles: Any) -> list[str]:
        return []

    def client(self, name: str) -> Any:
        def get(place: str) -> Any:
            self.asked(name)
            if self.abouts[name] is None:
                raise ClientError("nobody answers")
            return self.rows[name]

        return SimpleNamespace(get=get)


def looked(fleet: Told) -> bool:
    return Snapshots(fleet, RunProperties(MODEL)).look()  # type: ignore[arg-type]


def test_where_nothing_moves_the_records_are_of_one_moment() -> None:
    assert looked(Told())


@pytest.mark.parametrize("moves", ["a commit", "a restart", "an end", "a stop", "the clock"])
def test_records_that_may_be_of_two_moments_are_no_state(moves: str) -> None:
    """An actor moves after it was asked for its records, while others are still asked for theirs."""
    fleet = Told()
    first, *_, last = fleet.roles

    def asked(name: str) -> None:
        about = fleet.abouts[first]
        if name != last or about is None:
            return
        match moves:
            case "a commit":
                about["counts"]["commits"] += 1
            case "a restart":
                about["epoch"] += 1
            case "an end":
                fleet.abouts[first] = None
            case "a stop":
                about["running"] = False
            case _:
                about["now"] += 1

    fleet.asked = asked
    assert looked(fleet) == (moves == "the clock" and MODEL.clock is None)


@pytest.mark.parametrize("about", [None, {"running": False, "epoch": 1, "now": 7, "counts": {}}])
def test_without_an_actor_there_is_no_state(about: Any) -> None:
    fleet = Told()
    fleet.abouts[next(iter(fleet.roles))] = about
    assert not looked(fleet)


def test_errors_of_actors_are_violations_also_of_those_that_have_died_since() -> None:
    fleet = Told()
    first, second, *_ = fleet.roles
    storm = Storm(fleet, 1, 0.0)  # type: ignore[arg-type]
    storm._kills = []
    fleet.abouts[first]["counts"]["errors"] = 2
    storm.seen.look()
    fleet.abouts[first]["counts"]["errors"] = 0
    fleet.abouts[second] = None
    storm._peace = storm.seen.look  # type: ignore[method-assign, assignment]
    assert storm.play().violations == [f"{first} has met 2 errors, which its log has"]
