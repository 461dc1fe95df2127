"""The handler tasks that a machine owes, by what is at work on it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from leasehold.checker.recovery.progress import _idle_tasks
from leasehold.checker.recovery.properties import RunProperties
from leasehold.impl.actor.table import MachineInstance
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.store.store import RecordKey
from tests.systems import TESTS, load


@pytest.mark.parametrize(
    ("more", "at_work", "idle"),
    [
        (0, "", "af"),
        (0, "a", "f"),
        (0, "f", "a"),
        (0, "af", ""),
        (0, "cde", "af"),
        (1, "", "abf"),
        (1, "b", "af"),
        (1, "af", "b"),
        (1, "abf", ""),
        (1, "acde", "bf"),
    ],
)
def test_each_task_that_would_end_its_state_is_owed_by_itself(more: int, at_work: Sequence[str], idle: str) -> None:
    """Nobody waits for a policy here, nor for a handler whose answer may leave the machine where it is."""
    system = load(TESTS / "checker/recovery/systems/work")
    core = compile_system(system).roles["worker"]
    properties = RunProperties(system)
    record = list(core.first(0))
    record[0], record[core.data_at] = "on", more
    held = MachineInstance(RecordKey("tenant:1", "worker"), core, tuple(record), [])
    actor = cast(Any, SimpleNamespace(calls=SimpleNamespace(of=lambda key: iter(at_work))))
    state = list(properties.world.initial_states()[0])
    at, cells = properties.layout.at("worker", 0, None), core.cells(held.record)
    state[at : at + len(cells)] = cells
    assert [*_idle_tasks(properties.world.machines[0], actor, held, state)] == list(idle)
