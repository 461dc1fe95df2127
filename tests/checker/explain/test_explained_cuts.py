"""What is explained from the events of a cut is what the running actors said at that moment."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest

from leasehold.checker.explain.explanation import Explainer
from leasehold.checker.history.moments import Moments
from leasehold.checker.recovery.lease.random_runs.plan import plan_of
from leasehold.checker.recovery.lease.random_runs.run import RandomRun
from leasehold.impl.events.event import read
from leasehold.impl.server.subscribers import History
from leasehold.impl.server.views import Views
from tests.checker.verify.histories import known

SAME = ("lease", "actor", "machine", "state", "since", "over", "asks", "data", "times", "doc", "leaves")

ANSWERS = {"update_ticket", "update_lease"}


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
        self.histories = {name: History() for name in self.disks}
        self.sim.subscribers.append(lambda notice: self.histories[notice.actor](notice))
        self.sim.ends.append(lambda name: self.histories.update({name: History()}))
        self._advance, self.sim.loop.advance = self.sim.loop.advance, self._look  # type: ignore[method-assign]

    def _look(self, seconds: float) -> None:
        self._advance(seconds)
        if self.pick.random() >= self.share:
            return
        told = {}
        for name, actor in self.sim.actors.items():
            if self.disks[name].fault is None and actor.running:
                views = Views(actor, known(self.plan.units, self.plan.lazy).system, self.histories[name], 1.0)
                told[name] = actor.clock.now(), {lease: views.lease(lease) for lease in self.leases}
        self.seen.append(({name: max(disk.events, default=0) for name, disk in self.disks.items()}, told))


def differences(live: Mapping[str, Any], told: Mapping[str, Any], whole: bool) -> Iterator[str]:
    """In what two views of one machine differ, beyond what no event can tell.

    Args:
        live: of a running actor.
        told: from events.
        whole: the cut has what peers had done by then, and is more than the causal past of the actor's events.
    """
    for name in SAME:
        if live[name] != told[name]:
            yield f"{name}: {live[name]!r}, and events tell {told[name]!r}"
    for name, peer in told["peers"].items():
        if peer not in ("", live["peers"][name]):
            yield f"peer {name}: {live['peers'][name]}, and events tell {peer}"
    units = [[{k: unit[k] for k in ("state", "since", "doc")} for unit in view["units"]] for view in (live, told)]
    if units[0] != units[1]:
        yield f"units: {units[0]}, and events tell {units[1]}"
    said, says = ({(m["message"], m["number"], m["to"]): m["taken"] for m in view["messages"]} for view in (live, told))
    late = {m["message"] for m in live["messages"]} & ANSWERS  # that was taken, and whose sender does not know yet
    # What a turn of several steps has said on its way is sent, though the state that it comes to does not say it.
    turns = [{step["at"] for step in view["history"][-2:]} for view in (live, told)]
    missing = [key for key in said if key not in says and key[0] not in late and min(map(len, turns)) > 1]
    more = [key for key in says if key not in said and not says[key]] if whole else []
    if missing or more:
        yield f"messages: {said}, and events tell {says}"
    if not set(live["handlers"]) <= set(told["handlers"]):
        yield f"handlers: {live['handlers']}, and events tell {told['handlers']}"
    shown = [{name: sorted(words) for name, words in view["shown"].items()} for view in (live, told)]
    if shown[0] != shown[1]:  # the keys of opaque values are sorted in events
        yield f"shown: {live['shown']}, and events tell {told['shown']}"
    moves, moved = (
        [{**step, "time": 0} for step in view["history"] if "transition" in step] for view in (live, told)
    )  # the actor's clock is asked a little later
    if moves != moved[len(moved) - len(moves) :]:
        yield f"history: {moves}, and events tell {moved}"


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
                    told = {m["machine"]: m for m in explainer.explain_cut(events, lease, now).machines
                            if m["actor"] == actor}  # fmt: skip
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
