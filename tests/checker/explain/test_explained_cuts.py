"""What is explained from the events of a cut is what the running actors said at that moment."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from leasehold.checker.explain.explanation import Explainer
from leasehold.checker.history.moments import Moments
from leasehold.checker.recovery.lease.random_runs.plan import plan_of
from leasehold.checker.recovery.lease.random_runs.run import RandomRun
from leasehold.impl.actor.actor import Actor
from leasehold.impl.events.event import read
from leasehold.impl.notices import Kind, Notice
from leasehold.impl.server.views import Views
from leasehold.impl.store.store import RecordKey
from tests.checker.verify.histories import known

SAME = ("lease", "actor", "machine", "state", "since", "over", "asks", "data", "times")

ANSWERS = {"update_ticket", "update_lease"}

Move = tuple[int, str, str, str]  # when, by which transition, from where to where


class WatchedRun(RandomRun):
    """A random run, of which views are kept where its actors are at rest.

    Attributes:
        seen: at each moment the position of the last event of every actor, and of those that run the clock and the view
            of each lease.
    """

    def __init__(self, seed: int, share: float) -> None:
        super().__init__(plan_of(seed))
        self.share, self.pick = share, random.Random(seed)
        self.seen: list[tuple[dict[str, int], dict[str, tuple[int, dict[str, Any]]]]] = []
        self.moves = {name: defaultdict[RecordKey, list[Move]](list) for name in self.disks}  # since the actor began
        self.sim.subscribers.append(self._note_move)
        self.sim.ends.append(lambda name: self.moves[name].clear())
        self._advance, self.sim.loop.advance = self.sim.loop.advance, self._look  # type: ignore[method-assign]

    def _note_move(self, notice: Notice) -> None:
        if notice.kind is Kind.TRANSITION:
            move = notice.now, notice.name, notice.data["from"], notice.data["to"]
            self.moves[notice.actor][RecordKey(notice.lease, notice.machine)].append(move)

    def _view(self, name: str, actor: Actor, lease: str) -> list[dict[str, Any]]:
        """A lease as the actor shows it, with the ways out by its own records, and its moves as its notices told."""
        explained, now = explainer_of(self.plan.units, self.plan.lazy).machines, actor.clock.now()
        views = Views(actor, explained.system, 1.0).lease(lease)
        for view in views:
            key = RecordKey(lease, view["machine"])
            held = actor.table.instances[key]
            view["leaves"] = list(explained.leaves(held.core, held.record, now))
            view["moves"] = list(self.moves[name][key])
        return views

    def _look(self, seconds: float) -> None:
        self._advance(seconds)
        if self.pick.random() >= self.share:
            return
        told = {}
        for name, actor in self.sim.actors.items():
            if self.disks[name].fault is None and actor.running:
                told[name] = actor.clock.now(), {lease: self._view(name, actor, lease) for lease in self.leases}
        self.seen.append(({name: max(disk.events, default=0) for name, disk in self.disks.items()}, told))


def differences(live: Mapping[str, Any], told: Mapping[str, Any], whole: bool) -> Iterator[str]:
    """In what two views of one machine differ, beyond what no event can tell.

    Args:
        live: of a running actor.
        told: from events.
        whole: the cut has what peers had done by then, and is more than the causal past of the actor's events.
    """
    for name in (*SAME, "leaves"):
        if live[name] != told[name]:
            yield f"{name}: {live[name]!r}, and events tell {told[name]!r}"
    for name, peer in told["peers"].items():
        if peer not in ("", live["peers"][name]):
            yield f"peer {name}: {live['peers'][name]}, and events tell {peer}"
    units = [[{k: unit[k] for k in ("machine", "state", "since")} for unit in view["units"]] for view in (live, told)]
    if units[0] != units[1]:
        yield f"units: {units[0]}, and events tell {units[1]}"
    said, says = ({(m["message"], m["number"], m["to"]): m["taken"] for m in view["messages"]} for view in (live, told))
    late = {m["message"] for m in live["messages"]} & ANSWERS  # that was taken, and whose sender does not know yet
    # What a turn of several steps has said on its way is sent, though the state that it comes to does not say it.
    turns = {step["at"] for step in told["history"][-2:]}
    missing = [key for key in said if key not in says and key[0] not in late and len(turns) > 1]
    more = [key for key in says if key not in said and not says[key]] if whole else []
    if missing or more:
        yield f"messages: {said}, and events tell {says}"
    if not set(live["handlers"]) <= set(told["handlers"]):
        yield f"handlers: {live['handlers']}, and events tell {told['handlers']}"
    shown = [{name: sorted(words) for name, words in view["shown"].items()} for view in (live, told)]
    if shown[0] != shown[1]:  # the keys of opaque values are sorted in events
        yield f"shown: {live['shown']}, and events tell {told['shown']}"
    steps = (step for step in told["history"] if "transition" in step)
    moved = [(step["at"], step["transition"], step["from"], step["to"]) for step in steps]
    if live["moves"] != moved[len(moved) - len(live["moves"]) :]:
        yield f"moves: {live['moves']}, and events tell {moved}"


@cache
def explainer_of(units: int, lazy: bool) -> Explainer:
    return Explainer(known(units, lazy).system)


def compare(seed: int, share: float) -> int:
    run = WatchedRun(seed, share)
    run.play()
    chains = {name: [*map(read, disk.chain())] for name, disk in run.disks.items()}
    moments, compared = Moments(chains), 0
    explainer = explainer_of(run.plan.units, run.plan.lazy)
    for cut, actors in run.seen:
        for actor, (now, leases) in actors.items():
            for lease, live in leases.items():
                if not live:
                    continue
                for whole, events in (
                    (True, moments.before(cut)),
                    (False, moments.before(moments.of_event(actor, cut[actor]))),
                ):
                    told = {
                        m["machine"]: m
                        for m in explainer.explain_cut(events, lease, now).machines
                        if m["actor"] == actor
                    }
                    for machine in live:
                        compared += 1
                        found = list(differences(machine, told[machine["machine"]], whole))
                        assert not found, f"seed {seed}, {lease} at {actor}:{cut[actor]}: " + "; ".join(found)
    return compared


def test_what_is_explained_from_a_cut_is_what_the_actor_said_then() -> None:
    assert sum(compare(seed, 0.05) for seed in range(2)) > 10


@pytest.mark.slow
def test_what_is_explained_from_many_cuts_is_what_the_actors_said_then() -> None:
    assert sum(compare(seed, 0.3) for seed in range(100, 160)) > 3000
