"""What an observer of a fleet takes for a violation, and what it cannot know."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from leasehold.checker.recovery.lease.processes.oracle import Oracle
from leasehold.impl.lease.fleet import BROKER, SITE, TENANT
from leasehold.impl.server.client import ClientError

A, B = "tenant:1", "tenant:2"


class Told:
    """A fleet whose actors and units are as the test says.

    Attributes:
        rows: the leases of each actor; None: it does not answer.
        alive: the first process of each unit that runs: its number, start and lease.
    """

    units = 2
    folder = Path("/nowhere")
    guest_places: Any = list

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]] | None] = {TENANT: [], BROKER: [], SITE: []}
        self.alive: dict[str, tuple[int, int, str]] = {}

    def client(self, name: str) -> Any:
        def get(place: str) -> Any:
            if self.rows[name] is None:
                raise ClientError("nobody answers")
            return {"now": 5} if place == "about" else self.rows[name]

        return SimpleNamespace(get=get)

    def unit_places(self) -> list[Any]:
        def place(name: str, pid: int, start: int, lease: str) -> Any:
            birth = {"pid": pid, "start": start, "lease": lease}
            return SimpleNamespace(folder=Path(name), birth=lambda: birth, alive=lambda: True)

        return [place(name, *unit) for name, unit in self.alive.items()]

    def site(self, lease: str, *assigned: int, over: bool = False) -> dict[str, Any]:
        return {"lease": lease, "state": "active", "data": {"assigned": list(assigned)}, "over": over}


@pytest.fixture
def fleet() -> Told:
    return Told()


def test_a_unit_serves_one_lease(fleet: Told) -> None:
    oracle = Oracle(fleet)  # type: ignore[arg-type]
    fleet.rows[SITE] = [fleet.site(A, 0), fleet.site(B, 1)]
    oracle.observe()
    assert oracle.violations == []
    fleet.rows[SITE] = [fleet.site(A, 0), fleet.site(B, 0)]
    oracle.observe()
    oracle.observe()
    assert oracle.violations == [f"unit-0 is assigned to {A} and {B} at once"]


@pytest.mark.parametrize("state", ["ticketed", "extending", "ticketing"])
def test_promises_of_every_lease_that_is_not_over_count(fleet: Told, state: str) -> None:
    oracle = Oracle(fleet)  # type: ignore[arg-type]
    rows = [{"lease": lease, "state": state, "data": {"units": 1}, "over": False} for lease in (A, B)]
    fleet.rows[BROKER] = [*rows, {"lease": "tenant:3", "state": "closed", "data": {"units": 9}, "over": True}]
    oracle.observe()
    assert oracle.violations == []
    rows[0]["data"] = {"units": 2}
    oracle.observe()
    assert oracle.violations == ["3 units are promised, and there are 2"]


@pytest.mark.parametrize("away", [(), (SITE,), (TENANT, BROKER)])
@pytest.mark.parametrize("unseen", [0, 1, 3])
def test_the_process_of_a_unit_lives_on_as_long_as_its_lease_has_it(
    fleet: Told, away: tuple[str, ...], unseen: int
) -> None:
    """Also where it is not seen for a while, and another has taken its place meanwhile."""
    oracle = Oracle(fleet)  # type: ignore[arg-type]
    fleet.rows[SITE] = has = [fleet.site(A, 0)]
    fleet.alive = {"unit-0": (100, 7, A)}
    oracle.observe()
    fleet.alive = {}
    for name in away:
        fleet.rows[name] = None
    for _ in range(unseen):
        oracle.observe()
    assert oracle.violations == []
    fleet.rows = {TENANT: [], BROKER: [], SITE: has}
    fleet.alive = {"unit-0": (101, 9, A)}
    oracle.observe()
    assert oracle.violations == [f"unit-0 of {A} was process 100, and is now 101"]


@pytest.mark.parametrize("rows", [[], [{"assigned": []}], [{"assigned": [0], "over": True}]])
def test_a_unit_that_was_given_back_may_begin_anew(fleet: Told, rows: list[dict[str, Any]]) -> None:
    oracle = Oracle(fleet)  # type: ignore[arg-type]
    fleet.rows[SITE] = [fleet.site(A, 0)]
    fleet.alive = {"unit-0": (100, 7, A)}
    oracle.observe()
    fleet.rows[SITE] = [fleet.site(A, *row["assigned"], over=row.get("over", False)) for row in rows]
    fleet.alive = {}
    oracle.observe()
    fleet.rows[SITE] = [fleet.site(A, 0)]
    fleet.alive = {"unit-0": (101, 9, A)}
    oracle.observe()
    assert oracle.violations == []


@pytest.mark.parametrize(("end", "running", "found"), [(9, 1, True), (9, 2, False), (5, 1, False)])
def test_while_a_lease_is_active_and_its_term_lasts_its_units_run(
    fleet: Told, end: int, running: int, found: bool
) -> None:
    """What was asked for one after the other is of several moments: only what is seen twice counts."""
    oracle = Oracle(fleet)  # type: ignore[arg-type]
    row: dict[str, Any] = {"lease": A, "state": "active", "since": 3, "over": False}
    row["data"] = {"lease_end": end, "lease_units": [0, 1], "lease_lost": []}
    fleet.rows[TENANT] = [row]
    fleet.alive = {f"unit-{n}": (100 + n, 7, A) for n in range(running)}
    oracle.observe()
    assert oracle.violations == []
    fleet.rows[TENANT] = [{**row, "since": 4}]
    oracle.observe()
    assert oracle.violations == [], "the record is another one"
    oracle.observe()
    assert oracle.violations == ([f"{A} is active with 2 units, and 1 run"] if found else [])


def test_a_unit_that_its_holder_knows_to_be_lost_need_not_run(fleet: Told) -> None:
    oracle = Oracle(fleet)  # type: ignore[arg-type]
    data = {"lease_end": 9, "lease_units": [0, 1], "lease_lost": [1]}
    fleet.rows[TENANT] = [{"lease": A, "state": "active", "since": 3, "data": data, "over": False}]
    fleet.alive = {"unit-0": (100, 7, A)}
    for _ in range(3):
        oracle.observe()
    assert oracle.violations == []
    fleet.alive = {"unit-1": (101, 8, A)}  # as many run, and not the right one
    for _ in range(3):
        oracle.observe()
    assert oracle.violations == [f"{A} is active with 1 unit, and 0 run"]


def test_the_process_of_a_unit_that_was_killed_may_be_another(fleet: Told) -> None:
    oracle = Oracle(fleet)  # type: ignore[arg-type]
    data = {"lease_end": 9, "lease_units": [0], "lease_lost": []}
    fleet.rows[TENANT] = [{"lease": A, "state": "active", "since": 3, "data": data, "over": False}]
    fleet.rows[SITE] = [fleet.site(A, 0)]
    fleet.alive = {"unit-0": (100, 7, A)}
    oracle.observe()
    oracle.killed.add((100, 7))
    fleet.alive = {}
    for _ in range(3):
        oracle.observe()
    fleet.alive = {"unit-0": (101, 9, A)}
    oracle.observe()
    assert oracle.violations == []
    fleet.alive = {"unit-0": (102, 11, A)}
    oracle.observe()
    assert oracle.violations == [f"unit-0 of {A} was process 101, and is now 102"]


def test_a_holder_that_was_away_may_know_a_unit_that_was_killed_and_let_go(fleet: Told) -> None:
    """Until it has heard; of a unit that nobody has killed it must not."""
    oracle = Oracle(fleet)  # type: ignore[arg-type]
    data = {"lease_end": 9, "lease_units": [0, 1], "lease_lost": []}
    known = [{"lease": A, "state": "active", "since": 3, "data": data, "over": False}]
    fleet.rows[TENANT], fleet.rows[SITE] = known, [fleet.site(A, 0, 1)]
    fleet.alive = {"unit-0": (100, 7, A), "unit-1": (101, 7, A)}
    oracle.observe()
    oracle.killed.add((101, 7))
    fleet.alive = {"unit-0": (100, 7, A)}
    fleet.rows = {TENANT: None, BROKER: [], SITE: [fleet.site(A, 0)]}
    oracle.observe()
    fleet.rows[TENANT] = known
    for _ in range(3):
        oracle.observe()
    assert oracle.violations == []
    fleet.alive = {}
    for _ in range(3):
        oracle.observe()
    assert oracle.violations == [f"{A} is active with 1 unit, and 0 run"]


def over(lease: str, over: bool, end: int = 9) -> dict[str, Any]:
    data = {"assigned": [], "end": end, "lease_end": end, "units": 0, "lease_units": [], "lease_lost": []}
    return {"lease": lease, "state": "some", "data": data, "over": over, "times": ["end"], "since": 0}


@pytest.mark.parametrize("actor", [TENANT, BROKER, SITE])
def test_a_lease_is_over_once_all_actors_that_have_it_say_so(fleet: Told, actor: str) -> None:
    """Who does not answer may have it; a lease that was over stays so, though nobody knows of it any more."""
    oracle = Oracle(fleet)  # type: ignore[arg-type]
    for rows, known in (
        ([], False),
        ([over(A, False)], False),
        (None, False),
        ([over(A, True)], True),
        ([], True),
        (None, True),
    ):
        fleet.rows = {name: [over(A, True)] for name in (TENANT, BROKER, SITE) if rows is None or rows}
        fleet.rows = {TENANT: [], BROKER: [], SITE: []} | fleet.rows | {actor: rows}
        oracle.observe()
        assert (oracle.over(A), oracle.over(B)) == (known, False)


@pytest.mark.parametrize(("actor", "left"), [(SITE, []), (TENANT, [f"{A} is left at {TENANT}, some"])])
def test_at_the_end_no_lease_goes_on_but_an_expired_one_at_its_site(fleet: Told, actor: str, left: list[str]) -> None:
    oracle = Oracle(fleet)  # type: ignore[arg-type]
    fleet.rows[actor] = [over(A, False, end=5)]
    fleet.rows[SITE] = fleet.rows[SITE] or [over(B, True)]
    fleet.alive = {"unit-0": (100, 7, A)}
    oracle.at_the_end()
    assert oracle.violations == [*left, *(["the process of unit-0 is left"] if actor == TENANT else [])]


def test_how_often_the_end_of_a_lease_moved(fleet: Told) -> None:
    oracle = Oracle(fleet)  # type: ignore[arg-type]
    for end in (0, 9, 9, 12, 15):
        fleet.rows[TENANT] = [over(A, False, end)]
        oracle.observe()
    assert oracle.extensions == 2
