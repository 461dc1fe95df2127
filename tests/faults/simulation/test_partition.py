"""Partitions of running actors: every pair, both ways and either way, for longer than a term."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product

import pytest

from leasehold.faults.simulation.network import SCHEME, SimulatedNetwork
from leasehold.faults.simulation.partition import LONGER, LinkCuts, drawn_partition, every_partition


@pytest.mark.parametrize("actors", ["", "a", "ab", "abc", "abcd"])
def test_every_pair_is_parted_both_ways_and_either_way(actors: str) -> None:
    found = every_partition(actors)
    assert len(found) == len(set(found))
    pairs = {(a, b) for a, b in product(actors, repeat=2) if a != b}
    links = [p.links for p in found]
    assert {link for p in found if not p.both for link in p.links} == pairs
    assert {p.links for p in found if p.both} == {frozenset({(a, b), (b, a)}) for a, b in pairs}
    assert len(links) == len(set(links)) == len(pairs) * 3 // 2


def test_any_partition_is_drawn_and_lasts_longer_than_a_term() -> None:
    chance = random.Random(3)
    drawn = [drawn_partition(chance, "abc", 5) for _ in range(400)]
    assert {partition for partition, _ in drawn} == set(every_partition("abc"))
    assert {ticks for _, ticks in drawn} == set(range(6, 6 + LONGER))
    again = random.Random(3)
    assert [drawn_partition(again, "abc", 5) for _ in range(400)] == drawn


@pytest.mark.parametrize("seed", range(20))
def test_a_link_is_open_when_every_partition_over_it_has_healed(seed: int) -> None:
    """Held against the partitions themselves, which begin and heal in any order, some of them healed twice."""
    chance, every = random.Random(seed), every_partition("abc")
    network, cuts, closed = SimulatedNetwork(), LinkCuts(), set()
    going: list[tuple[frozenset[tuple[str, str]], list[Callable[[], None]]]] = []
    for _ in range(60):
        if going and chance.random() < 0.5:
            _, heals = going.pop(chance.randrange(len(going)))
            for heal in heals * chance.choice([1, 2]):
                heal()
        else:
            links = chance.choice(every).links
            closed |= links
            going.append((links, [network.part(links), cuts.part(links, closed.difference_update)]))
        parted = set().union(*(links for links, _ in going))
        assert closed == parted
        assert network.cut == {(SCHEME + sender, SCHEME + receiver) for sender, receiver in parted}
