"""The table of machines: which leases are forgotten (compared with a plain set), and which timers are due."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.impl.actor.table import MachineInstance, MachineTable, Pruned, origin_of
from leasehold.impl.store.store import RecordKey


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 30))))
def test_it_knows_exactly_what_was_forgotten(leases: list[tuple[str, int]]) -> None:
    pruned, plain = Pruned(), set()
    for origin, number in leases:
        assert pruned.add(f"{origin}:{number}") == origin
        plain.add((origin, number))
        again = Pruned()
        for name in "ab":
            again.read(name, pruned.write(name))
        for found in (pruned, again):
            assert {(o, n) for o in "ab" for n in range(1, 32) if f"{o}:{n}" in found} == plain
    apart = sum(1 for origin, number in plain if (origin, number - 1) not in plain)
    assert len(pruned) == apart


@pytest.mark.parametrize("name", ["", "a", "a:", ":1", "a:0", "a:01", "a:-1", "a b:1", "a:1:2", "a:" + "9" * 19])
def test_a_name_that_is_none_is_never_forgotten(name: str) -> None:
    assert origin_of(name) is None
    assert name not in Pruned()
    with pytest.raises(ValueError, match="ORIGIN:NUMBER"):
        Pruned().add(name)


def _waking(wake: int) -> tuple[MachineTable, MachineInstance]:
    """A table with one machine, whose record is its state and the time at which its timer is due."""
    program: Any = SimpleNamespace(roles={})
    core: Any = SimpleNamespace(wake=lambda record: record[1])
    table, instance = (
        MachineTable(program, frozenset()),
        MachineInstance(RecordKey("tenant:1", "lease"), core, ("used", wake), []),
    )
    table.instances[instance.key] = instance
    table.wake_later(instance)
    return table, instance


def test_timers_that_are_due_follow_each_other_at_once() -> None:
    table, _ = _waking(5)
    assert list(table.due(4)) == []
    states = []
    for due in table.due(7):
        states.append(due.state)
        due.record = ("closing", 6) if due.state == "used" else ("closed", None)
        table.wake_later(due)
    assert states == ["used", "closing"]
    assert list(table.due(9)) == []


@pytest.mark.parametrize("back", [("used", 5), ("used", 6)])
def test_a_timer_that_stays_due_is_looked_at_once_a_tick(back: tuple[str, int]) -> None:
    table, _ = _waking(5)
    for now in (7, 8):
        seen = []
        for due in table.due(now):
            seen.append(due.state)
            due.record = ("closing", 5) if due.state == "used" else back
            table.wake_later(due)
        assert seen == ["used", "closing"], "or time would never pass"
        assert list(table.due(now)) == []
        assert len(table._wakes) == 1


def test_a_timer_that_is_not_taken_is_looked_at_again() -> None:
    table, instance = _waking(5)
    for now in (5, 6, 7):
        assert list(table.due(now)) == [instance]
        assert list(table.due(now)) == []


def test_a_wake_that_is_set_for_later_waits_for_its_time() -> None:
    table, instance = _waking(5)
    for due in table.due(5):
        due.record = ("used", 8)
        table.wake_later(due)
    assert list(table.due(7)) == []
    assert list(table.due(8)) == [instance]
