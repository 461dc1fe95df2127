"""The demo between its steps: what it waits for, and when its actors are parted."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from leasehold.cli.lease.demo import Demo
from leasehold.cli.lease.partitions import BETWEEN_SECONDS, FIRST_SECONDS, Partitions
from leasehold.impl.lease.fleet import BROKER, SITE, TENANT, Fleet

LEASES = ("tenant:1", "tenant:2")


def demo(over: tuple[str, ...] = LEASES, asked: bool = True, **more: Any) -> Demo:
    story = SimpleNamespace(plans=dict.fromkeys(LEASES), all_asked=asked)
    watcher = SimpleNamespace(over=lambda lease: lease in over)
    found = Demo(cast(Any, None), cast(Any, story), cast(Any, watcher))
    for name, value in more.items():
        setattr(found, name, value)
    return found


@pytest.mark.parametrize(
    "left",
    [
        {"kills": [(3.0, SITE)]}, {"_down": {SITE: 1.0}}, {"_back": {SITE: 1.0}}, {"asked": False}, {"over": ()},
        {"over": LEASES[:1]}, {"over": LEASES[1:]}, {"partitions": SimpleNamespace(over=False)},
    ],
)  # fmt: skip
def test_the_demo_is_over_when_nothing_is_left_to_happen(left: dict[str, Any]) -> None:
    assert demo().over
    assert demo(partitions=SimpleNamespace(over=True)).over
    assert not demo(**left).over


def test_an_actor_that_dies_again_as_it_comes_back_is_down() -> None:
    assert [demo(**more).state(SITE) for more in ({}, {"_down": {SITE: 1.0}}, {"_back": {SITE: 1.0}})] == [
        "up", "down", "recovering",
    ]  # fmt: skip
    assert demo(_down={SITE: 1.0}, _back={SITE: 1.0}).state(SITE) == "down"


def test_actors_are_parted_one_pair_after_the_other_for_longer_than_a_term(tmp_path: Path) -> None:
    fleet, term = Fleet(tmp_path), 5
    for seed in range(3):
        with Partitions(fleet, seed, term) as partitions:
            said: list[str] = []
            partitions.watch(cast(Any, SimpleNamespace(last=None)), said.append)
            changes, parted = list[float](), False
            seconds = 0.0
            while not partitions.over:
                partitions.step(seconds, holder_down=False)
                if parted != partitions.parted:
                    parted = partitions.parted
                    changes.append(seconds)
                seconds += fleet.tick_seconds / 4
            assert len(said) == 2 * partitions.summary()["partitions"] == 4
        pairs = [{TENANT, SITE}, {TENANT, BROKER}]
        assert [{name for name in pair if name in words} for pair, words in zip(pairs, said[::2], strict=True)] == pairs
        assert changes[0] >= FIRST_SECONDS
        lasted = [after - before for before, after in pairwise(changes)]
        assert min(lasted[::2]) >= (term + 1) * fleet.tick_seconds - fleet.tick_seconds / 2
        assert lasted[1] >= BETWEEN_SECONDS
