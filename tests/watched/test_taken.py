"""Each message that a step takes was on its way in the state before the step, whatever the actors' clocks say."""

from __future__ import annotations

from collections import Counter

import pytest

from leasehold.checker.recovery.lease.random_runs.plan import plan_of
from leasehold.checker.verify.cuts import ConsistentCuts, Cut
from leasehold.impl.core.values import from_plain
from tests.watched.sources import known_lease, played_plan

SEEDS = {7: 0, 16: 0, 17: 0, 30: 1}  # clocks differ in them; how many messages are taken of which a sender has moved on


@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_step_takes_was_on_its_way(seed: int) -> None:
    plan = plan_of(seed)
    known = known_lease(plan.units, plan.lazy)
    history = played_plan(plan).history
    made = ConsistentCuts(known, history, whole=True)
    for actor, events in history.items():
        made.add(actor, events)
    made.close()
    kinds: Counter[str] = Counter()
    before: dict[str, Cut] = {}
    for cut in made.ready():
        assert isinstance(cut, Cut)
        kinds[cut.action.kind if cut.action else ""] += 1
        step = cut.step
        if step is not None and step.received is not None:
            fields = tuple(from_plain(f.type, step.fields[f.name]) for f in known.system.messages[step.event].fields)
            on_their_way = [
                (kind, said) for lane in known.layout.lanes for _, kind, said in before[cut.run].state[lane.cell][1]
            ]
            assert (step.event, fields) in on_their_way
        before[cut.run] = cut
    assert kinds["deliver"] > 10
    assert kinds["late"] == SEEDS[seed]
