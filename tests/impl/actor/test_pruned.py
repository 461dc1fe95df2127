"""Which leases are forgotten: intervals, compared with a plain set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.impl.actor.pruned import Pruned, origin_of


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
