"""Leases that are forgotten, compared with a plain set of their numbers."""

from __future__ import annotations

from random import Random

import pytest

from leasehold.impl.actor.pruned import Pruned, origin_of


def runs_of(numbers: set[int]) -> list[list[int]]:
    """The intervals of numbers that follow one another, both ends included."""
    firsts = sorted(n for n in numbers if n - 1 not in numbers)
    lasts = sorted(n for n in numbers if n + 1 not in numbers)
    return [list(pair) for pair in zip(firsts, lasts, strict=True)]


@pytest.mark.parametrize("seed", range(6))
def test_forgotten_leases_are_a_set_of_numbers_by_origin(seed: int) -> None:
    """In any order, some of them twice; and as they are read from what was written."""
    chance, pruned = Random(seed), Pruned()
    plain: dict[str, set[int]] = {"a": set(), "a-b.c": set()}
    again = Pruned()
    for step in range(80):
        origin, number = chance.choice(sorted(plain)), chance.randint(1, 40)
        assert pruned.add(f"{origin}:{number}") == origin
        plain[origin].add(number)
        assert len(pruned) == sum(len(runs_of(numbers)) for numbers in plain.values())
        again.read(origin, pruned.write(origin))
        if step % 8:
            continue
        for found in (pruned, again):
            for name, numbers in plain.items():
                assert found._of.get(name, []) == runs_of(numbers)
                assert [n for n in range(45) if f"{name}:{n}" in found] == sorted(numbers)
                free = [found.free_from(name, n) for n in range(1, 45)]
                assert free == [next(m for m in range(n, 99) if m not in numbers) for n in range(1, 45)]
    assert "other:1" not in pruned
    assert pruned.free_from("other", 7) == 7
    assert pruned.write("other") == Pruned().write("a"), "one that has none"


@pytest.mark.parametrize(
    ("lease", "named"),
    [("tenant:1", ("tenant", 1)), ("a.b-c_D:907", ("a.b-c_D", 907)), ("a:" + "9" * 18, ("a", 10**18 - 1))],
)
def test_the_name_of_a_lease_says_who_began_it_and_its_number(lease: str, named: tuple[str, int]) -> None:
    assert origin_of(lease) == named
