"""The story of a lease: what each kind of event says of it, to whom, and in which words; and moments by their names."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from leasehold.checker.explain.explanation import _tick_seconds, abouts_of, frontier_of, has_begun
from leasehold.checker.explain.machines import KnownMachines
from leasehold.checker.explain.story import StoryEntry, entries
from leasehold.checker.history.moments import Moments, NoSuchMoment
from leasehold.impl.events.event import (
    AnyEvent,
    EndedCall,
    ForgottenEvent,
    FoundEvent,
    MachineRecord,
    MachineStep,
    MigratedEvent,
    PrunedEvent,
    ReceivedMessage,
    RecoveredEvent,
    RefusedEvent,
    SealEvent,
    SentMessage,
    StartedCall,
    StepEvent,
)

BASE: dict[str, Any] = {
    "position": 4,
    "before": "",
    "actor": "site",
    "epoch": 2,
    "spec": "b" * 64,
    "now": 7,
    "time": 8.5,
    "commit": 3,
}
RECORD = MachineRecord("up", {"n": 1}, 5)
UNIT = MachineStep(
    "-",
    "unit[1]",
    "set_up",
    MachineRecord("priming", {}, 1),
    "idle",
    cause="subsidiary",
    transition="unit/idle#set_up",
    serves="l:1",
    starts=(StartedCall("join", "handler.join"), StartedCall("probe", "handler.probe")),
)
STEP = MachineStep(
    "l:1",
    "authority",
    "ticket",
    RECORD,
    "down",
    cause="message",
    transition="authority/down#ticket",
    fields={"units": 2},
    received=ReceivedMessage("broker", "b", 9),
    reason="why",
    driven=(UNIT,),
    sends=(SentMessage("broker", 3, "lease", {}, "b"), SentMessage("guest[0]", 1, "go")),
)
ENTRY = StoryEntry("site", 4, 7, 8.5, "step")
OF_STEP = replace(
    ENTRY,
    machine="authority",
    source="down",
    state="up",
    event="ticket",
    cause="message",
    fields={"units": 2},
    sender="broker",
    number=9,
    transition="authority/down#ticket",
    reason="why",
    sends=("lease to broker", "go to guest[0]"),
)
OF_UNIT = replace(
    ENTRY,
    machine="unit[1]",
    source="idle",
    state="priming",
    event="set_up",
    cause="subsidiary",
    transition="unit/idle#set_up",
    starts=("handler.join", "handler.probe"),
    driven=True,
)


def ended(well: bool) -> MachineStep:
    return MachineStep("l:1", "m", "done", RECORD, "up", cause="handler", answers=EndedCall(4, well, "it says so"))


REFUSED = RefusedEvent(lease="l:1", machine="m", event="close", cause="client", reason="no", fields={"a": 1}, **BASE)
FOUND = FoundEvent(lease="l:1", machine="m", record=RECORD, **BASE)
FOUND_UNIT = FoundEvent(lease="-", machine="unit[1]", record=RECORD, serves="l:1", **BASE)
TOLD: list[tuple[AnyEvent, str, list[StoryEntry]]] = [  # an event, what concerns the lease, and what it says
    (StepEvent(step=STEP, **BASE), "lease", [OF_STEP, OF_UNIT]),
    (StepEvent(step=UNIT, **BASE), "lease", [replace(OF_UNIT, driven=False)]),
    (
        StepEvent(step=ended(True), **BASE),
        "lease",
        [replace(ENTRY, machine="m", source="up", state="up", event="done", cause="handler", words="it says so")],
    ),
    (
        StepEvent(step=ended(False), **BASE),
        "lease",
        [
            replace(
                ENTRY,
                machine="m",
                source="up",
                state="up",
                event="done",
                cause="handler",
                words="it says so",
                well=False,
            )
        ],
    ),
    (
        REFUSED,
        "lease",
        [replace(ENTRY, kind="refused", machine="m", event="close", cause="client", fields={"a": 1}, reason="no")],
    ),
    (FOUND, "lease", [replace(ENTRY, kind="found", machine="m", state="up")]),
    (FOUND_UNIT, "lease", [replace(ENTRY, kind="found", machine="unit[1]", state="up")]),
    (
        ForgottenEvent(lease="l:1", machine="m", state="end", **BASE),
        "lease",
        [replace(ENTRY, kind="forgotten", machine="m", state="end")],
    ),
    (RecoveredEvent(agreement="", machines=3, **BASE), "actor", [replace(ENTRY, kind="recovered", number=2)]),
    (
        MigratedEvent(source="a" * 64, records=3, **BASE),
        "actor",
        [replace(ENTRY, kind="migrated", words=f"from specification {'a' * 12} to {'b' * 12}")],
    ),
    (PrunedEvent(until=1, root="", **BASE), "nobody", []),
    (SealEvent(why="many", key="", **BASE), "nobody", []),
]


@pytest.mark.parametrize(("event", "concerns", "told"), TOLD, ids=[type(one[0]).__name__ for one in TOLD])
def test_an_event_tells_those_whom_it_concerns_all_that_it_says(
    event: AnyEvent, concerns: str, told: list[StoryEntry]
) -> None:
    """Its lease, or each of its actor's; another lease hears of none of its machines."""
    for plays in (False, True):
        heard = told if concerns == "lease" or plays else []
        assert [*entries(event, "l:1", plays)] == heard
        assert [*entries(event, "l:2", plays)] == (heard if concerns == "actor" else [])


def test_a_machine_of_the_actor_is_in_the_story_of_the_lease_that_it_serves() -> None:
    """Each of several within one step in that of its own."""
    other = StepEvent(
        step=MachineStep(
            "l:2",
            "authority",
            "x",
            RECORD,
            "up",
            driven=(
                UNIT,
                MachineStep(
                    "-",
                    "unit[2]",
                    "y",
                    RECORD,
                    "up",
                    serves="l:2",
                    driven=(MachineStep("l:1", "m", "z", RECORD, "up"),),
                ),
            ),
        ),
        **BASE,
    )
    assert [(one.machine, one.driven) for one in entries(other, "l:1", False)] == [("unit[1]", True), ("m", True)]
    assert [(one.machine, one.driven) for one in entries(other, "l:2", False)] == [
        ("authority", False),
        ("unit[2]", True),
    ]


@pytest.mark.parametrize(
    ("changes", "matters"),
    [
        ({}, False),
        ({"transition": "t"}, True),
        ({"well": False}, True),
        ({"kind": "refused"}, True),
        ({"kind": "recovered"}, True),
        ({"cause": "handler"}, False),
        ({"reason": "no"}, False),
        ({"words": "x"}, False),
        *(
            ({"cause": cause}, cause in ("policy", "client", "probe"))
            for cause in ("policy", "client", "probe", "message", "timer", "subsidiary", "parent", "handler")
        ),
    ],
)
def test_a_short_story_has_what_has_changed_was_decided_or_has_failed(changes: dict[str, Any], matters: bool) -> None:
    entry = replace(ENTRY, machine="m", **changes)
    assert entry.matters is matters
    assert entry.as_json() == {**{f.name: getattr(entry, f.name) for f in fields(entry)}, "matters": matters}


# Moments


def chain(actor: str, first: int, *nows: int, begins: int | None = None) -> list[AnyEvent]:
    """Events at these ticks; that at the place `begins` says that the actor has recovered."""
    found: list[AnyEvent] = []
    for at, now in enumerate(nows):
        base = {**BASE, "actor": actor, "position": first + at, "now": now, "time": now * 60.0}
        recovered = RecoveredEvent(agreement="", machines=0, **base)
        found.append(recovered if at == begins else SealEvent(why="many", key="", **base))
    return found


BEHIND = {"a": chain("a", 5, 10, 11, 12, begins=1), "b:c": chain("b:c", 3, 20, 21)}


@pytest.mark.parametrize(
    ("words", "begun"),
    [
        (None, True),
        ("a:4", False),
        ("a:5", True),
        ("a:6", True),
        ("a:9", True),
        ("b:c:2", False),
        ("b:c:3", True),
        ("10", False),
        ("11", True),
        ("30", True),
        ("0", False),
        ("d:9", False),
        ("soon", False),
        ("1970-01-01T00:10:30+00:00", False),
        ("1970-01-01T00:11:00+00:00", True),
        ("1970-01-01T00:25+00:00", True),
    ],
)
def test_a_moment_is_in_a_stretch_that_has_begun(words: str | None, begun: bool) -> None:
    """A position from the first one of its actor on; else once an actor has recovered in it."""
    assert has_begun(BEHIND, words) is begun


@pytest.mark.parametrize(
    ("words", "cut", "tick"),
    [
        (None, {"a": 7, "b:c": 4}, None),
        ("11", {"a": 6, "b:c": 2}, 11),
        ("b:c:3", {"a": 4, "b:c": 3}, None),
        ("a:7", {"a": 7, "b:c": 2}, None),
        ("1970-01-01T00:20:00Z", {"a": 7, "b:c": 3}, None),
        ("1970-01-01T01:10:00+01:00", {"a": 5, "b:c": 2}, None),
    ],
)
def test_a_moment_is_named_by_tick_time_or_event(words: str | None, cut: dict[str, int], tick: int | None) -> None:
    assert frontier_of(Moments(BEHIND), words) == (cut, tick)


def test_an_actor_without_events_has_none_in_any_cut() -> None:
    moments = Moments({"a": BEHIND["a"], "none": []})
    assert moments.all() == {"a": 7, "none": 0}
    assert [*map(len, moments.before(moments.all()).values())] == [3, 0]
    assert moments.of_tick(10) == {"a": 5, "none": 0}
    with pytest.raises(NoSuchMoment, match="none has no event 1 here: it has no events"):
        moments.of_event("none", 1)


def test_actors_are_told_of_by_their_last_event_and_their_first() -> None:
    known = KnownMachines()
    for events in reversed(BEHIND.values()):
        for event in events:
            known.take(event)
    agreement = {"tick_seconds": 1.0, "now": 30}
    assert abouts_of(known, 30) == [
        {"name": "a", **agreement, "position": 7, "tick": 12, "time": 720.0, "first": 5},
        {"name": "b:c", **agreement, "position": 4, "tick": 21, "time": 1260.0, "first": 3},
    ]
    lengths = {"": 1.0, "x": 1.0, "x.60": 1.0, "x.y.0.25": 0.25, "x.y.60": 60.0, "x.y.": 1.0, "x.y.none": 1.0}
    assert {words: _tick_seconds(words) for words in lengths} == lengths
