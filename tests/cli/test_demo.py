"""The demo between its steps: what it waits for, and the scripts of its faults."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from types import SimpleNamespace
from typing import Any, cast

import pytest

from leasehold.cli.lease.demo import BETWEEN_SECONDS, FIRST_SECONDS, Demo, Preset
from leasehold.faults.simulation.partition import ActorPartition
from leasehold.impl.lease.fleet import BROKER, ROLES, SITE, TENANT

LEASES = ("tenant:1", "tenant:2")
UP = SimpleNamespace(down={}, returning={}, all_serve=True)


def demo(
    over: tuple[str, ...] = LEASES, asked: bool = True, faults: tuple[bool, ...] = (), supervisor: Any = UP
) -> Demo:
    workload = SimpleNamespace(plans=dict.fromkeys(LEASES), all_asked=asked)
    oracle = SimpleNamespace(over=lambda lease: lease in over)
    runs = [SimpleNamespace(over=one, start=lambda: None) for one in faults]
    return Demo(
        cast(Any, SimpleNamespace(supervisor=supervisor)), cast(Any, oracle), cast(Any, workload), cast(Any, runs)
    )


@pytest.mark.parametrize(
    "left",
    [
        {"faults": (True, False)},
        {"supervisor": SimpleNamespace(all_serve=False)},
        {"asked": False},
        {"over": ()},
        {"over": LEASES[:1]},
        {"over": LEASES[1:]},
    ],
)
def test_the_demo_is_over_when_nothing_is_left_to_happen(left: dict[str, Any]) -> None:
    assert demo().over
    assert demo(faults=(True, True)).over
    assert not demo(**left).over


def test_an_actor_is_up_down_or_recovering() -> None:
    supervisors = (UP, SimpleNamespace(down={SITE: 1.0}), SimpleNamespace(down={}, returning={SITE: 1.0}))
    assert [demo(supervisor=one).state(SITE) for one in supervisors] == ["up", "down", "recovering"]


@pytest.mark.parametrize("seed", range(5))
def test_each_flag_is_a_script(seed: int) -> None:
    """Its seed draws it: one flag changes nothing of the others."""
    preset = Preset(seed, crash=True, lose=True, reboot=True, parted=True, within=9.0)
    kills, partitions, reboots, losses = preset.scripts(5, tick_seconds=0.5)
    kills, partitions, reboots, lost = [*kills], [*partitions], [*reboots], [*islice(losses, 50)]
    assert {(fault.kind, fault.target) for fault in kills} == {("kill", name) for name in ROLES}
    assert all(2.0 <= fault.after <= 19.0 for fault in kills)
    assert [(fault.kind, fault.after) for fault in reboots] == [("host", 2.0), ("host", 9.0)]
    assert {(fault.kind, fault.step) for fault in lost} == {("unit", "previous")}
    assert lost[0].after == 2.0
    assert len({fault.how for fault in lost}) == 2
    first, second = partitions
    pairs = [ActorPartition.named(fault.target) for fault in partitions]
    assert [{pair.one, pair.other} for pair in pairs] == [{TENANT, SITE}, {TENANT, BROKER}]
    assert first.after == FIRST_SECONDS
    assert second.after == first.after + first.lasts + BETWEEN_SECONDS
    assert all(fault.lasts > max(preset.terms) * 0.5 for fault in partitions)
    assert [[*script] for script in replace(preset, lose=False).scripts(5, 0.5)] == [kills, partitions, reboots]
    assert Preset(seed).scripts(5, 0.5) == []


def test_leases_are_longer_than_a_repair_takes() -> None:
    plain, lasting = Preset(1, crash=True, parted=True), (Preset(1, lose=True), Preset(1, reboot=True))
    assert {preset.terms for preset in lasting} == {lasting[0].terms}
    assert min(lasting[0].terms) > max(plain.terms)
