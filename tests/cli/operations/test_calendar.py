"""The calendar of an inventory, from the specification and from what actors show."""

from typing import Any

import pytest

from leasehold.checker.explain.explained_machines import ExplainedMachines
from leasehold.cli.operations.calendar import ends_of, periods, unit_row, use_of
from leasehold.impl.compiler.program import compile_system
from tests.systems import load_for_run

USES = {
    "idle": "free",
    "closed": "free",
    "priming": "working",
    "modifying": "working",
    "closing": "working",
    "active": "used",
    "failed": "used",  # by the lease that has it; else it is held back
    "kept": "held",
}


@pytest.fixture(scope="module")
def lease() -> ExplainedMachines:
    system = load_for_run("lease", {"max_units": 2})
    return ExplainedMachines(system, compile_system(system))


def test_a_state_is_used_as_who_brings_its_events_says(lease: ExplainedMachines) -> None:
    assert {state: use_of(lease, "unit", state) for state in lease.system.roles["unit"].states} == USES


def unit(state: str, lease: str, *history: dict[str, Any], **data: Any) -> dict[str, Any]:
    row = {"unit": "node-1", "machine": "unit[0]", "state": state, "since": 50, "lease": lease}
    return {**row, "data": data, "history": [*history]}


def test_a_unit_that_no_lease_can_free_is_held_back(lease: ExplainedMachines) -> None:
    row = unit("failed", "tenant:1", quarantined=True, draining=False, repairs=1)
    held = unit_row(row, lease, {"tenant:1": 90}, ())
    assert (held["use"], held["until"], held["flags"]) == ("held", 0, ["quarantined"])
    lasting = unit_row(row, lease, {"tenant:1": 90}, {"tenant:1"})
    assert (lasting["use"], lasting["until"]) == ("used", 90)


def test_a_unit_was_used_while_its_steps_say_so(lease: ExplainedMachines) -> None:
    steps = [
        {"at": at, "transition": "t", "from": "x", "to": to}
        for at, to in ((10, "priming"), (12, "active"), (20, "closing"), (20, "closed"), (50, "kept"))
    ]
    shown = unit_row(unit("kept", "tenant:1", *steps, {"at": 51, "refused": "setup"}), lease, {}, ())
    assert [(one["from"], one["to"], one["use"]) for one in shown["past"]] == [(10, 12, "working"), (12, 20, "used")]
    assert shown["use"] == "held"
    free = unit_row(unit("closed", "tenant:1", *steps[:4]), lease, {"tenant:1": 90}, ("tenant:1",))
    assert (free["use"], free["lease"], free["until"]) == ("free", "", 0)


def test_without_a_specification_nothing_is_told_apart() -> None:
    steps = [{"at": at, "transition": "t", "from": "x", "to": "anything"} for at in (1, 2)]
    shown = unit_row(unit("anything", "r:1", *steps), None, {}, ("r:1",))
    assert (shown["use"], shown["past"][0]["use"]) == ("used", "used")


def machine(data: dict[str, Any], over: bool = False, times: str = "start term_end") -> dict[str, Any]:
    return {"lease": "t:1", "state": "s", "since": 7, "over": over, "data": data, "times": times.split()}


def test_a_period_has_a_start_an_end_and_an_amount() -> None:
    row = machine({"start": 5, "term_end": 9, "units": 2})
    assert periods([row]) == [{"lease": "t:1", "start": 5, "end": 9, "units": 2, "state": "s"}]
    assert periods([{**row, "over": True}]) == []
    assert periods([machine({"start": 0, "term_end": 9, "units": 2})])[0]["start"] == 7  # it had begun when it came
    assert periods([machine({"start": 5, "term_end": 9, "units": 0}), machine({"start": 5, "term_end": 9})]) == []
    assert periods([machine({"end": 9, "units": 2}, times="end")]) == []


def test_what_is_promised_comes_before_what_is_asked_for() -> None:
    data = {"requested_start": 1, "requested_end": 4, "requested_units": 8, "start": 5, "term_end": 9, "units": 2}
    times = "requested_start requested_end start term_end"
    assert periods([machine(data, times=times)])[0]["units"] == 2
    assert periods([machine({**data, "units": 0}, times=times)])[0]["units"] == 8


def test_a_lease_ends_at_its_latest_time() -> None:
    rows = [machine({"start": 5, "term_end": 9}), machine({"start": 12, "term_end": 0}), machine({}, times="")]
    assert ends_of(rows) == {"t:1": 12}
