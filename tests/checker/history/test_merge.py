"""A message into a channel with a capacity comes after the receipt that made room, whatever the clocks say."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from random import Random
from types import FrameType

import pytest

from leasehold.checker.history.fault import CONTRADICTION, UNDECIDED
from leasehold.checker.history.merge import CausalMerge
from leasehold.checker.history.moments import Moments
from leasehold.impl.events.event import AnyEvent, MachineRecord, MachineStep, ReceivedMessage, SentMessage, StepEvent

LANE = {"ask": 1}


def event(actor: str, position: int, machine: str, time: float, sends: int = 0, receives: int = 0) -> StepEvent:
    received = ReceivedMessage("a", "left", receives) if receives else None
    step = MachineStep(
        lease="left:1",
        machine=machine,
        event="ask" if receives else "go",
        source="x",
        record=MachineRecord("x", {}, position, {"b": sends} if sends else {}, {"a": receives} if receives else {}, {}),
        received=received,
        sends=(SentMessage("b", sends, "ask", {}, "right"),) if sends else (),
    )
    return StepEvent(
        position=position, before="", actor=actor, epoch=1, spec="", now=0, time=time, commit=position, step=step
    )


LEFT = [event("left", n, "a", 0.0, sends=n) for n in (1, 2, 3)]
RIGHT = [event("right", n, "b", 9.0, receives=n) for n in (1, 2, 3)]
TURNS = [("left", 1), ("right", 1), ("left", 2), ("right", 2), ("left", 3), ("right", 3)]


def order(merge: CausalMerge) -> list[tuple[str, int]]:
    for actor in merge.actors:
        merge.close(actor)
    found = [(e.actor, e.position) for e in merge.ready()]
    assert not merge.faults
    return found


def merged(capacities: dict[str, int]) -> CausalMerge:
    merge = CausalMerge(["left", "right"], capacities=capacities)
    merge.add("left", LEFT)
    merge.add("right", RIGHT)
    return merge


@pytest.mark.parametrize(
    ("capacity", "expected"),
    [
        (1, TURNS),
        (2, [TURNS[0], TURNS[2], TURNS[1], TURNS[4], TURNS[3], TURNS[5]]),
        (3, [("left", n) for n in (1, 2, 3)] + [("right", n) for n in (1, 2, 3)]),
    ],
)
def test_as_many_are_on_their_way_as_have_room(capacity: int, expected: list[tuple[str, int]]) -> None:
    assert order(merged({"ask": capacity})) == expected


def test_one_that_goes_on_knows_what_waits() -> None:
    merge = CausalMerge(["left", "right"], lambda run: {("a", "b"): 1}, LANE)
    left: deque[AnyEvent] = deque(LEFT[1:])
    merge.resume("left", 1, 3, left)
    merge.resume("right", 1, 3, RIGHT)
    assert order(merge) == TURNS[1:]


def test_nobody_waits_for_what_is_dropped() -> None:
    merge = CausalMerge(["left", "right", "other"], capacities=LANE)
    merge.add("left", LEFT)
    merge.add("right", RIGHT)
    merge.add("other", [event("other", 1, "c", 5.0)])
    merge.drop("right")
    assert order(merge) == [("left", 1), ("left", 2), ("left", 3), ("other", 1)]


@pytest.mark.parametrize(
    ("since", "known", "kind"),
    [
        (1, 0, CONTRADICTION),
        (1, 1, CONTRADICTION),
        (2, 1, CONTRADICTION),
        (3, 0, UNDECIDED),
    ],
)
def test_a_number_beyond_what_a_sender_is_known_to_have_sent_is_a_contradiction(
    since: int, known: int, kind: str
) -> None:
    """An actor whose events begin later, and of which nothing is known, may have sent it before."""
    merge = CausalMerge(["left", "right"])
    sends = [event("left", since, "a", 0.0, sends=known)] if known else [event("left", since, "c", 0.0)]
    merge.add("left", [*sends, event("left", since + 1, "c", 9.0)])
    merge.add("right", [event("right", 1, "b", 5.0, receives=3)])
    for actor in merge.actors:
        merge.close(actor)
    assert len([*merge.ready()]) == 3
    assert [(fault.actor, fault.position, fault.kind) for fault in merge.faults] == [("right", 1, kind)]


def test_an_event_of_another_actor_is_not_judged() -> None:
    merge = CausalMerge(["left", "right"])
    assert merge.add("left", [LEFT[0], RIGHT[0], LEFT[1]]) == LEFT[:2]
    assert [(fault.actor, fault.reason) for fault in merge.faults] == [("left", "it is an event of right")]
    assert merge.add("left", [LEFT[1], LEFT[2]]) == LEFT[2:]
    assert merge.faults[1].reason == "it comes after event 2"


@pytest.mark.parametrize(("capacity", "receipts"), [(1, 2), (2, 1), (3, 0)])
def test_the_cut_of_a_step_has_the_receipt_that_made_room(capacity: int, receipts: int) -> None:
    moments = Moments({"left": LEFT, "right": RIGHT}, {"ask": capacity})
    assert moments.of_event("left", 3) == {"left": 3, "right": receipts}


# Against a twin that looks at every chain for each event


class Twin(CausalMerge):
    def _next(self) -> AnyEvent | None:
        streams = self._streams.values()
        waiting = sorted((stream.events[0] for stream in streams if stream.events), key=lambda e: (e.now, e.time))
        closed, full = all(stream.closed for stream in streams), None
        for one in waiting:
            if self._missing(one) is None:
                if not self._lacks_room(one):
                    return one if self._complete((one.now, one.time)) else None
                full = full or one
            elif closed and not self._comes(one):
                return self._passed_over(one)
        if full and all(stream.closed or stream.events for stream in streams):
            return full
        return self._passed_over(waiting[0]) if waiting and closed else None

    def _complete(self, moment: tuple[int, float]) -> bool:
        for stream in self._streams.values():
            now, time = stream.known
            known = time >= moment[1] if now is None else (now, time) >= moment
            if not (stream.closed or stream.events or known):
                return False
        return True


def tokens(rng: Random, actors: int, runs: int, hops: int, skew: float, untold: float) -> dict[str, list[StepEvent]]:
    """The chains of actors whose clocks differ: in each run a token goes from one to another; some sends are untold."""
    names = [f"n{i}" for i in range(actors)]
    chains: dict[str, list[StepEvent]] = {name: [] for name in names}
    late = {name: rng.uniform(-skew, skew) for name in names}
    waiting: list[tuple[float, int, str, str, int]] = [
        (rng.uniform(0, 20), run, rng.choice(names), "", 0) for run in range(runs)
    ]
    sent: dict[tuple[int, str, str], int] = {}
    left = dict.fromkeys(range(runs), hops)
    heapify(waiting)
    while waiting:
        at, run, actor, sender, number = heappop(waiting)
        to = rng.choice(names)
        sent[run, actor, to] = after = sent.get((run, actor, to), 0) + 1
        told = {to: after} if rng.random() >= untold else {}
        step = MachineStep(
            lease=f"r{run}",
            machine=actor,
            event="ask" if sender else "go",
            source="x",
            record=MachineRecord("x", {}, 1, told, {}, {}),
            transition="",
            received=ReceivedMessage(sender, sender, number) if sender else None,
            sends=tuple(SentMessage(to, after, "ask", {}, to) for to, after in told.items()),
        )
        time, position = at + late[actor] + 5, len(chains[actor]) + 1
        chains[actor].append(
            StepEvent(
                position=position,
                before="",
                actor=actor,
                epoch=1,
                spec="",
                now=int(time / 2),
                time=time,
                commit=position,
                step=step,
            )
        )
        left[run] -= 1
        if left[run]:
            heappush(waiting, (at + rng.expovariate(1.0), run, to, actor, after))
    return chains


@pytest.mark.parametrize("untold", [0.0, 0.1], ids=["all is told", "some sends are not told"])
@pytest.mark.parametrize("seed", range(20))
def test_the_order_is_that_of_a_twin_that_looks_at_every_chain(seed: int, untold: float) -> None:
    """However the events come: in pages, of chains that are known up to a moment, are dropped, or end."""
    rng = Random(seed)
    chains = tokens(rng, rng.choice([2, 5, 12]), 15, 12, rng.choice([0.0, 0.5, 4.0]), untold)
    capacities = {"ask": rng.choice([1, 2, 9])} if seed % 2 else {}
    merges = [CausalMerge(chains, capacities=capacities), Twin(chains, capacities=capacities)]
    found: list[list[tuple[str, int]]] = [[], []]
    read, names = dict.fromkeys(chains, 0), [*chains]

    def both(what: str, *words: object) -> None:
        for merge, order in zip(merges, found, strict=True):
            getattr(merge, what)(*words)
            order += [(e.actor, e.position) for e in merge.ready()]
        assert found[0] == found[1]
        assert [str(fault) for fault in merges[0].faults] == [str(fault) for fault in merges[1].faults]
        assert merges[0].known_now() == merges[1].known_now()

    for _ in range(60):
        actor = rng.choice(names)
        page = chains[actor][read[actor] : read[actor] + rng.randrange(8)]
        read[actor] += len(page)
        both("add", actor, page)
        if page and rng.random() < 0.7:
            moment = page[-1].time + rng.choice([0.0, 0.5])
            both("quiet", actor, rng.choice([None, int(moment / 2)]), moment)
        if rng.random() < 0.02:
            both("drop", actor)
    for actor in names:
        both("add", actor, chains[actor][read[actor] :])
        both("close", actor)
    assert len(found[0]) > 20


def test_an_event_costs_no_more_with_many_actors() -> None:
    """Counted are the lines of the merge that an event takes, as chains have no other place to be looked at."""
    lines = []
    for actors in (10, 400):
        chains = tokens(Random(1), actors, 60, 20, 0.3, 0.0)
        merge, count = CausalMerge(chains), 0
        for name, events in chains.items():
            merge.add(name, events)
            merge.close(name)

        def counted(frame: FrameType, what: str, _: object) -> Callable[..., object]:
            nonlocal count
            count += what == "line"
            return counted

        before = sys.gettrace()
        sys.settrace(counted)
        try:
            found = [*merge.ready()]
        finally:
            sys.settrace(before)
        lines.append(count / len(found))
    assert lines[1] < 2 * lines[0]
