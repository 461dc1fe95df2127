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
    """A table with one machine, whose record is the time at which its timer is due."""
    program: Any = SimpleNamespace(roles={})
    core: Any = SimpleNamespace(wake=lambda record: record[0])
    table, instance = (
        MachineTable(program, frozenset()),
        MachineInstance(RecordKey("tenant:1", "lease"), core, (wake,), []),
    )
    table.instances[instance.key] = instance
    table.wake_later(instance)
    return table, instance


def test_a_wake_that_is_set_while_due_wakes_are_gone_through_is_not_lost() -> None:
    table, instance = _waking(5)
    assert list(table.due(4)) == []
    for due in table.due(7):
        due.record = (6,)  # it has moved, and its new timer is due already
        table.wake_later(due)
    assert list(table.due(7)) == [], "each machine once a tick"
    assert list(table.due(8)) == [instance]
    assert list(table.due(9)) == []


def test_a_wake_that_is_set_for_later_waits_for_its_time() -> None:
    table, instance = _waking(5)
    for due in table.due(5):
        due.record = (8,)
        table.wake_later(due)
    assert list(table.due(7)) == []
    assert list(table.due(8)) == [instance]
