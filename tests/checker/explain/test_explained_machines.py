"""The ways out of a state, as the specification has them, and when its timer is due."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from leasehold.checker.explain.explained_machines import ExplainedMachines
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.work import local
from tests.systems import files_of, load, load_for_run, write

WAYS: dict[tuple[str, str], list[tuple[str, str, list[str], str, str, int | None]]] = {
    ("broker", "nascent"): [
        ("ticket", "service_manager", ["ticketing"], "message", "", None),
        ("relinquish", "service_manager", ["closed"], "message", "", None),
    ],
    ("broker", "ticketing"): [
        ("granted", "here", ["ticketed"], "policy", "allocate", None),
        ("denied", "here", ["closed"], "policy", "allocate", None),
        ("relinquish", "service_manager", ["closed"], "message", "", None),
        ("tick", "the clock", ["closed"], "timer", "", 7),
    ],
    ("broker", "closed"): [],
    ("unit", "priming"): [
        ("up", "here", ["active"], "handler", "run_setup", None),
        ("broken", "here", ["failed"], "handler", "run_setup", None),
        ("tick", "the clock", ["failed"], "timer", "", 7),
        ("teardown", "here", ["closing"], "parent", "", None),
    ],
    ("unit", "active"): [
        ("modify", "here", ["modifying"], "parent", "", None),
        ("lost", "here", ["failed", "priming"], "client", "", None),
        ("teardown", "here", ["closing"], "parent", "", None),
    ],
    ("unit", "failed"): [
        ("repaired", "here", ["closed", "kept"], "client", "", None),
        ("teardown", "here", ["closing"], "parent", "", None),
    ],
    ("coordinator", "idle"): [("begin", "here", ["asking"], "client", "", None)],
    ("coordinator", "committing"): [("acknowledge", "participant", ["committed"], "message", "", None)],
    ("participant", "voting"): [
        ("able", "here", ["prepared"], "policy", "vote", None),
        ("unable", "here", ["refused"], "policy", "vote", None),
        ("abort", "coordinator", ["aborted"], "message", "", None),
    ],
}


@cache
def views_of(name: str) -> ExplainedMachines:
    system = load(name)
    return ExplainedMachines(system, compile_system(system))


@pytest.mark.parametrize(("role", "state"), WAYS)
def test_the_ways_out_of_a_state_are_those_of_the_specification(role: str, state: str) -> None:
    """Events that lead out of it, with who gives them, the task that they end, and when the clock does."""
    views = views_of("two_phase_commit" if role in ("coordinator", "participant") else "lease")
    core = views.program.roles[role]
    record = (state, *core.first(0)[1:])
    keys = ("event", "from", "to", "cause", "task", "due")
    found = [tuple(way[key] for key in keys) for way in views.leaves(core, record, 7)]
    assert found == WAYS[role, state]


EGG = files_of("checker/explain/systems/egg")


@pytest.mark.parametrize(("since", "now", "due"), [(None, 5, None), (4, 5, 7), (4, 7, 7), (4, 9, 9)])
def test_a_timer_is_shown_with_when_it_is_due_unless_it_waits_for_more(
    since: int | None, now: int, due: int | None, tmp_path: Path
) -> None:
    """One that is due already is due now."""
    system = load_for_run(write(tmp_path, EGG))
    program = compile_system(system)
    core = program.roles["egg"]
    record = core.step(core.first(), local("buy"), 0)[0]
    if since is not None:
        record = core.step(record, local("start"), since)[0]
    (way,) = ExplainedMachines(system, program).leaves(core, record, now)
    assert way == {"event": "tick", "from": "the clock", "to": ["hard"], "cause": "timer", "task": "", "due": due}
