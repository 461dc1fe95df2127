"""What is known of the machines of an actor that ends and begins anew, and of those of the others."""

from __future__ import annotations

from copy import deepcopy
from itertools import chain, product
from typing import Any

import pytest

from leasehold.checker.explain.machines import KnownMachines
from leasehold.checker.explain.story import step_entry
from leasehold.checker.explain.views import EventViews
from leasehold.checker.history.fold import MachineOf
from leasehold.impl.actor.table import BELOW
from leasehold.impl.events.event import (
    AnyEvent,
    ForgottenEvent,
    FoundEvent,
    MigratedEvent,
    RecoveredEvent,
    RefusedEvent,
    StepEvent,
)
from tests.checker.conform.walks import SYSTEMS, walked
from tests.checker.explain.test_explained_cuts import explainer_of
from tests.checker.verify.histories import history_of
from tests.checker.verify.test_histories import plan_in_two_settings


def of_walk(name: str) -> KnownMachines:
    machines = KnownMachines()
    for event in sorted((e for events in walked(name, 0).values() for e in events), key=lambda e: (e.now, e.time)):
        machines.take(event)
    return machines


def test_what_is_known_of_a_machine_is_what_its_events_say() -> None:
    """Read backwards from the last event, of random runs: since when, after how many restarts, and by whom."""
    restarted = set[tuple[bool, bool]]()  # since it came to its state, and before
    for events in chain.from_iterable(history_of(plan_in_two_settings(seed)).values() for seed in range(8)):
        machines = KnownMachines()
        for event in events:
            machines.take(event)
        for key, known in machines.machines.items():
            own = [
                (n, event, step)
                for n, event in enumerate(events)
                if isinstance(event, StepEvent)
                for step in event.steps()
                if (step.lease, step.machine) == (key.lease, key.machine)
            ]
            forgotten = [n for n, e in enumerate(events) if isinstance(e, ForgottenEvent) and key == _of(e)]
            first = max((n for n in forgotten if own and n < own[-1][0]), default=-1)
            own = [one for one in own if one[0] > first]
            entered = [one for one in own if one[2].source != one[2].record.state]
            last, event, step = entered[-1]
            ends = [n for n in forgotten if n > last]
            starts = [n for n, e in enumerate(events) if isinstance(e, RecoveredEvent)]
            assert known.restarts == len([n for n in starts if last < n and (not ends or n < ends[0])])
            assert (known.since, known.record.state) == (event.now, step.record.state)
            assert known.came == step_entry(event, step, step is not event.step)
            transitions = [one[2].transition for one in own if one[2].transition]
            assert [entry["transition"] for entry in known.history if "transition" in entry] == transitions
            told = [one[2] for one in own]
            players = {s.received.machine: s.received.actor for s in told if s.received is not None}
            assert players.keys() <= known.peers.keys() <= players.keys() | {m.to for s in told for m in s.sends}
            restarted.add((known.restarts > 0, any(own[0][0] < n < last for n in starts)))
    assert restarted >= {(True, False), (False, True)}


def _of(event: ForgottenEvent) -> MachineOf:
    return MachineOf(event.actor, event.lease, event.machine)


class More:
    """Further events of an actor."""

    def __init__(self, machines: KnownMachines, actor: str) -> None:
        self.machines, self.actor, self.of = machines, actor, machines.actors[actor]

    def take(self, kind: Any, **fields: Any) -> AnyEvent:
        spec = next(one.spec for key, one in self.machines.machines.items() if key.actor == self.actor)
        of = {"before": "", "epoch": 9, "spec": spec, "now": self.of.now + 1, "time": self.of.time + 1, "commit": 99}
        event: AnyEvent = kind(actor=self.actor, position=self.of.position + 1, **of, **fields)
        self.machines.take(event)
        return event

    def there(self) -> list[MachineOf]:
        return [k for k, one in self.machines.machines.items() if k.actor == self.actor and one.forgotten is None]


def actors_of(machines: KnownMachines) -> list[str]:
    return sorted({key.actor for key, one in machines.machines.items() if one.forgotten is None})


def others(machines: KnownMachines, actor: str) -> dict[MachineOf, Any]:
    return {key: one for key, one in machines.machines.items() if key.actor != actor}


@pytest.mark.parametrize("unrecorded", [0, 3])
@pytest.mark.parametrize("name", SYSTEMS)
def test_what_an_actor_has_that_begins_anew_is_what_it_had(name: str, unrecorded: int) -> None:
    """Where commits have no events, it tells of all its records."""
    machines = of_walk(name)
    for actor in actors_of(machines):
        before, more = deepcopy(machines), More(machines, actor)
        there = more.there()
        more.take(RecoveredEvent, machines=len(there), agreement="", unrecorded=unrecorded)
        assert more.there() == ([] if unrecorded else there)
        for key in there if unrecorded else ():
            had = before.machines[key]
            serves = had.serves if key.lease == BELOW else ""
            more.take(FoundEvent, lease=key.lease, machine=key.machine, record=had.record, serves=serves)
        assert more.there() == there
        for key in there:
            before.machines[key].restarts += 1
            assert machines.machines[key] == before.machines[key]
        assert others(machines, actor) == others(before, actor)


@pytest.mark.parametrize("name", SYSTEMS)
def test_what_an_actor_has_migrated_is_not_known_until_it_is_found(name: str) -> None:
    machines = of_walk(name)
    for actor in actors_of(machines):
        before, more = deepcopy(machines), More(machines, actor)
        there = more.there()
        more.take(MigratedEvent, source="0" * 64, records=len(there))
        assert more.there() == []
        assert others(machines, actor) == others(before, actor)
        key = there[0]
        record = before.machines[key].record
        moved = type(record)(record.state, record.data, record.epoch + 1)
        more.take(FoundEvent, lease=key.lease, machine=key.machine, record=moved)
        found = machines.machines[key]
        assert more.there() == [key]
        assert (found.record, found.since, found.came, found.history, found.peers) == (moved, None, None, [], {})


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_refusal_is_told_of_its_machine_alone(name: str) -> None:
    machines = of_walk(name)
    before, more = deepcopy(machines), More(machines, actors_of(machines)[0])
    key = more.there()[0]
    told = {"lease": key.lease, "event": "close", "cause": "client", "reason": "too early"}
    more.take(RefusedEvent, machine=key.machine, **told)
    more.take(RefusedEvent, machine="nobody", **told)  # of a machine that nothing else is told of
    (last,) = machines.machines[key].history[len(before.machines[key].history) :]
    assert (last["refused"], last["words"], last["times"]) == ("close", "too early", 1)
    changed = [at for at, one in machines.machines.items() if one != before.machines.get(at)]
    assert changed == [key]


@pytest.mark.parametrize("end", [ForgottenEvent, MigratedEvent, RecoveredEvent])
@pytest.mark.parametrize("name", SYSTEMS)
def test_what_steps_after_it_was_forgotten_has_no_past(name: str, end: Any) -> None:
    """As a machine that nothing was told of before, whichever event has ended it."""
    machines = of_walk(name)
    event = next(e for events in walked(name, 0).values() for e in events if isinstance(e, StepEvent))
    key = MachineOf(event.actor, event.step.lease, event.step.machine)
    more = More(machines, key.actor)
    fields: dict[Any, dict[str, Any]] = {
        ForgottenEvent: {"lease": key.lease, "machine": key.machine, "state": "gone"},
        MigratedEvent: {"source": "0" * 64, "records": 1},
        RecoveredEvent: {"machines": 1, "agreement": "", "unrecorded": 3},
    }
    more.take(end, **fields[end])
    anew = deepcopy(machines)
    del anew.machines[key]
    anew.take(more.take(StepEvent, step=event.step))
    assert machines.machines[key] == anew.machines[key]
    assert machines.plays(key.actor, key.lease)


@pytest.mark.parametrize("kind", [RecoveredEvent, MigratedEvent])
def test_no_view_has_a_unit_that_is_forgotten(kind: Any) -> None:
    """After an actor has told its records anew, without some of its units, they are as if nobody had told of them."""
    shown = 0
    for seed, share in product(range(6), (0.3, 0.5, 0.7)):
        plan, machines = plan_in_two_settings(seed), KnownMachines()
        views, events = explainer_of(plan.units, plan.lazy).machines, history_of(plan)["site"]
        for event in events[: round(share * len(events))]:
            machines.take(event)
        if not machines.machines:
            continue
        before, more = deepcopy(machines), More(machines, "site")
        told = {"source": "0" * 64, "records": 1} if kind is MigratedEvent else {"machines": 1, "unrecorded": 1}
        more.take(kind, **({"agreement": ""} if kind is RecoveredEvent else {}), **told)
        for key in [k for k, one in before.machines.items() if k.lease != BELOW and one.forgotten is None]:
            more.take(FoundEvent, lease=key.lease, machine=key.machine, record=before.machines[key].record)
        bare = deepcopy(machines)
        for key, one in machines.machines.items():
            if key.lease == BELOW and one.forgotten is not None:
                one.spec = "that of before" if kind is MigratedEvent else one.spec
                del bare.machines[key]
        for lease in machines.leases():
            had, seen, alone = (EventViews(views, known, 99).lease(lease) for known in (before, machines, bare))
            assert seen == alone
            shown += [one["units"] for one in had] != [one["units"] for one in seen]
    assert shown
