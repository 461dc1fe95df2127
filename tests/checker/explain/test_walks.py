"""What events tell of the machines of any system is what its actors say."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from leasehold.checker.explain.explanation import Explainer
from leasehold.checker.explain.machines import KnownMachines
from leasehold.checker.explain.views import EventViews
from leasehold.checker.history.fold import MachineOf
from leasehold.checker.recovery.campaign import silent
from leasehold.impl.events.event import AnyEvent, ForgottenEvent, FoundEvent, read
from leasehold.impl.server.views import Views
from tests.checker.conform.walks import SYSTEMS, CrashingWalk, Log, known, properties
from tests.checker.explain.test_explained_cuts import SAME

WALKS = 3  # of each system
WITH_SUBSIDIARIES = ("lease", "tests/impl/actor/lodge", "tests/checker/conform/depot")


def at_the_end(name: str, seed: int) -> tuple[Log, dict[tuple[str, str], tuple[list[dict[str, Any]], list[AnyEvent]]]]:
    """The logs of a walk, and by actor and lease the views of those that run at its end, with the events of now."""
    said = {}
    with silent():
        walk = CrashingWalk(known(name), properties(name), seed, 40)
        walk.run()
        for actor, running in walk.sim.actors.items():
            views = Views(running, known(name).system, 1.0)
            for lease in {key.lease for key in running.table.instances}:
                said[actor, lease] = views.lease(lease), [*map(read, running.chronicle.present(lease))]
        log = walk.log
        walk.close()
    return log, {at: shown for at, shown in said.items() if shown[0]}


def peers_of(log: Log, actor: str, lease: str, machine: str) -> dict[str, str]:
    """By machine, the actor with which messages were exchanged, as far as steps tell."""
    found: dict[str, str] = {}
    for event in log[actor]:
        if isinstance(event, ForgottenEvent) and (event.lease, event.machine) == (lease, machine):
            found.clear()
        for step in event.steps():
            if (step.lease, step.machine) == (lease, machine):
                found |= {} if step.received is None else {step.received.machine: step.received.actor}
                found |= {sent.to: sent.actor for sent in step.sends if sent.actor}
    return found


@pytest.mark.parametrize("name", SYSTEMS)
def test_events_tell_what_actors_say(name: str) -> None:
    explainer, compared = Explainer(known(name).system), 0
    for seed in range(WALKS):
        log, said = at_the_end(name, seed)
        now = max(event.now for events in log.values() for event in events)
        for (actor, lease), (live, present) in said.items():
            explained = explainer.explain_cut(log, lease, now)
            told = {view["machine"]: view for view in explained.machines if view["actor"] == actor}
            assert sorted(told) == [view["machine"] for view in live]
            for view in live:
                of = told[view["machine"]]
                assert {field: of[field] for field in SAME} == {field: view[field] for field in SAME}, (seed, actor)
                assert peers_of(log, actor, lease, view["machine"]).items() <= of["peers"].items()
                assert [unit["state"] for unit in of["units"]] == [unit["state"] for unit in view["units"]]
                compared += 1
            # Who has none of the events that led there is told as much by those of now; and records change no account.
            bare = KnownMachines()
            for event in present:
                bare.take(event)
            views = EventViews(explainer.machines, bare, now)
            for view in live:  # the facts of now come before what events tell
                merged = views.at_present(view)
                assert {field: merged[field] for field in view if field != "units"} == {
                    field: value for field, value in view.items() if field != "units"
                }
            alone = {view["machine"]: view for view in views.lease(lease)}
            assert sorted(alone) == sorted(told)
            for machine, view in alone.items():
                for field in (*SAME, "doc", "leaves", "shown"):
                    assert view[field] == (None if field == "since" else told[machine][field]), (seed, actor, field)
            found = [event for event in present if isinstance(event, FoundEvent)]
            again = explainer.explain_cut({**log, actor: [*log[actor], *found]}, lease, now)
            assert [view for view in again.machines if view["actor"] == actor] == [*told.values()]
    assert compared > 0


def test_records_are_those_of_actors_and_so_are_the_subsidiary_ones_that_they_see() -> None:
    seen = 0
    for name, seed in product(WITH_SUBSIDIARIES, range(WALKS)):
        with silent():
            walk = CrashingWalk(known(name), properties(name), seed, 40)
            walk.run()
            machines = KnownMachines()
            for event in sorted((e for events in walk.log.values() for e in events), key=lambda e: (e.now, e.time)):
                machines.take(event)
            views = EventViews(Explainer(known(name).system).machines, machines, walk.sim.time.now)
            for actor, running in walk.sim.actors.items():
                for key, held in running.table.instances.items():
                    record = views._seen(MachineOf(actor, *key)).record
                    assert record[: held.core.below_at] == held.record[: held.core.below_at]
                    below = zip(held.core.below, record[held.core.below_at :], strict=True)
                    for at, (core, told) in enumerate(below, held.core.below_at):
                        has = [held.record[at][number] for number in range(core.count)]
                        assert [told[number] for number in range(core.count)] == has, (name, seed, actor, key)
                        seen += any(one[0] != core.states[0] for one in has)
            walk.close()
    assert seen > 0


def test_what_a_machine_waits_for_is_so_alone_and_in_the_view_of_its_lease() -> None:
    walk = CrashingWalk(known("lease"), properties("lease"), 1, 40)
    with silent():
        walk.run()
    machines = KnownMachines()
    for event in sorted((e for events in walk.log.values() for e in events), key=lambda e: (e.now, e.time)):
        machines.take(event)
    views = EventViews(Explainer(known("lease").system).machines, machines, walk.sim.time.now)
    walk.close()
    seen = [view for lease in machines.leases() for view in views.lease(lease)]
    for view in seen:
        waiting = views.waiting(MachineOf(view["actor"], view["lease"], view["machine"]))
        assert waiting == {name: view[name] for name in ("since", "peers", "leaves")}
    assert any(view["leaves"] for view in seen)
