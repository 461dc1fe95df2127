"""Running leases in words: each of what a view has is said once, in its place, and nothing that it has not."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from leasehold.cli.leases import awaited, explained, lease_table, one_lease, span, unit_table, units_of

NOW, TICK = 100, 2.0
ABOUTS = [
    {"name": "tenant", "now": NOW, "tick_seconds": TICK},
    {"name": "site", "now": NOW + 50, "tick_seconds": 60.0},
]
LEAF = {"event": "ticket", "from": "broker", "to": ["active"], "cause": "message", "task": "", "due": None}
TIMER = {"event": "tick", "from": "here", "to": ["closed"], "cause": "timer", "task": "", "due": 130}
MOVED = {"at": 88, "transition": "m/a#go.2", "from": "a", "to": "b", "said": []}
FAILED = {"at": 80, "failure": "join", "words": "it is full"}
REFUSED = {"at": 95, "refused": "close", "words": "it is too late.", "times": 1}
MACHINE: dict[str, Any] = {
    "lease": "tenant:1",
    "actor": "tenant",
    "machine": "service_manager",
    "state": "waiting",
    "since": 90,
    "over": False,
    "doc": "It waits.",
    "data": {},
    "times": [],
    "shown": {},
    "peers": {"broker": "b", "authority": ""},
    "client": "",
    "wish": None,
    "undecided": None,
    "units": [],
    "messages": [],
    "refused": None,
    "handlers": [],
    "leaves": [LEAF],
    "history": [],
    "came": None,
    "restarts": 0,
    "forgotten": None,
    "asks": [],
}
UNIT: dict[str, Any] = {
    "unit": "unit[1]",
    "actor": "tenant",
    "lease": "tenant:1",
    "state": "priming",
    "since": 70,
    "facts": {},
    "handlers": [],
    "leaves": [],
    "history": [],
    "data": {},
    "times": [],
    "shown": {},
}


def printed(table: Any) -> list[str]:
    screen = Console(width=400, record=True, file=None, force_terminal=False)
    with screen.capture() as found:
        screen.print(table)
    return [line.rstrip() for line in found.get().splitlines()]


@pytest.mark.parametrize(
    ("ticks", "tick", "words"),
    [
        (0, 2.0, "0 s"),
        (1, 0.25, "0.25 s"),
        (59, 2.0, "118 s"),
        (60, 2.0, "2 min"),
        (119, 1.0, "119 s"),
        (7199, 1.0, "120 min"),
        (7200, 1.0, "2 h"),
        (9000, 1.0, "2.5 h"),
        (172_799, 1.0, "48 h"),
        (172_800, 1.0, "2 days"),
        (36, 3600.0, "36 h"),
        (72, 3600.0, "3 days"),
    ],
)
def test_a_span_is_said_in_the_unit_that_fits(ticks: int, tick: float, words: str) -> None:
    assert span(ticks, tick) == words


HEAD = ["tenant:1 at tenant (service_manager) is waiting, for 20 s.", "  It waits."]
WAITS = ["  It waits since tick 90 (20 s ago), and no timer ends that, for:", "    ticket of broker (b) -> active"]


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, []),
        (
            {"wish": {"units": 2, "until": 130, "term": 10}},
            ["  Somebody wants 2 units for another 60 s, in terms of 20 s."],
        ),
        (
            {"client": "alice", "wish": {"units": 2, "until": 130, "term": 10}},
            ["  alice wants 2 units for another 60 s, in terms of 20 s."],
        ),
        (
            {"wish": {"units": 1, "until": 100, "term": 10, "type": "big", "start": 101, "after": ["a:1", "b:2"]}},
            [
                "  Somebody wants 1 unit of type big no longer, in terms of 20 s, from 101 (in 2 s) on, and its guests "
                "wait for a:1, b:2."
            ],
        ),
        (
            {"data": {"lease_units": [1, 4], "lease_lost": [4], "unit_properties": [{}, {"name": "x"}]}},
            ["  It has 2 units: x, 4; lost, and not repaired yet: 4."],
        ),
        ({"data": {"lease_units": [0]}}, ["  It has 1 unit: 0."]),
        ({"data": {"lease_units": []}}, []),
        ({"data": {"lost": [2]}, "shown": {"lost": "{unit[2]}"}}, ["  Lost, and being set up again: {unit[2]}."]),
        (
            {"data": {"ticket_reason": "a", "lease_reason": "b", "reason": "c"}},
            ["  Its broker said of the ticket: a.", "  Its site said of the lease: b.", "  It said: c."],
        ),
        ({"data": {"reason": ""}}, []),
        (
            {
                "messages": [
                    {
                        "message": "m",
                        "number": 3,
                        "to": "b",
                        "times": None,
                        "taken": None,
                        "reason": "",
                        "again_seconds": None,
                    }
                ]
            },
            ["  It says m (3) to b: whether it was taken is not known."],
        ),
        (
            {
                "messages": [
                    {
                        "message": "m",
                        "number": 3,
                        "to": "b",
                        "times": 2,
                        "taken": True,
                        "reason": "x",
                        "again_seconds": 4.0,
                    }
                ]
            },
            ["  It says m (3) to b: sent 2 times, taken, and not answered yet."],
        ),
        (
            {
                "messages": [
                    {
                        "message": "m",
                        "number": 3,
                        "to": "b",
                        "times": 1,
                        "taken": False,
                        "reason": "it is away",
                        "again_seconds": 4.04,
                    }
                ]
            },
            ["  It says m (3) to b: sent 1 time, not taken: it is away; again in 4.0 s."],
        ),
        (
            {
                "messages": [
                    {
                        "message": "m",
                        "number": 3,
                        "to": "b",
                        "times": 0,
                        "taken": False,
                        "reason": "",
                        "again_seconds": None,
                    }
                ]
            },
            ["  It says m (3) to b: sent 0 times, not taken."],
        ),
        ({"refused": ("ask", "no room")}, ["  Its ask was refused: no room."]),
        (
            {"asks": [{"call": "policy.grant", "task": "grant"}, {"call": "handler.join", "task": "join"}]},
            ["  It waits for its policy to decide: grant."],
        ),
        (
            {"asks": [{"call": "policy.grant", "task": "grant"}], "undecided": {"words": "it saves", "until": None}},
            ["  It waits for its policy to decide: grant: it saves."],
        ),
        (
            {"asks": [{"call": "policy.grant", "task": "grant"}], "undecided": {"words": "it saves", "until": 110}},
            ["  It waits for its policy to decide: grant: it saves; until tick 110 (in 20 s) at the latest."],
        ),
        ({"handlers": ["join", "probe"]}, ["  Its handler is at work: join.", "  Its handler is at work: probe."]),
        ({"history": [MOVED, REFUSED]}, ["  It has refused close 10 s ago: it is too late."]),
        (
            {"history": [{**REFUSED, "times": 3}]},
            ["  It has refused close 3 times, the last time 10 s ago: it is too late."],
        ),
        ({"history": [REFUSED, MOVED]}, []),
        ({"restarts": 2}, ["  Its actor has restarted 2 times since, and begun its calls and messages again."]),
        ({"units": [UNIT]}, ["  Unit unit[1] is priming."]),
        (
            {"units": [{**UNIT, "facts": {"pid": 7, "address": "x", "other": 1}, "handlers": ["join", "probe"]}]},
            ["  Unit unit[1] is priming, pid 7, address x; its handler is at work: join, probe."],
        ),
        (
            {"units": [{**UNIT, "leaves": [{**LEAF, "cause": "handler", "task": "join"}, {**TIMER, "due": 110}]}]},
            [
                "  Unit unit[1] is priming; it waits since tick 70 (60 s ago), until tick 110 (in 20 s) at the latest, "
                "for its handler (join)."
            ],
        ),
        (
            {"units": [{**UNIT, "leaves": [{**TIMER, "due": None}]}]},
            [
                "  Unit unit[1] is priming; it waits since tick 70 (60 s ago), and time alone does not end that, "
                "for the clock."
            ],
        ),
        (
            {"units": [{**UNIT, "left": {"words": "pid 7", "since": 95}, "history": [FAILED, FAILED, MOVED, FAILED]}]},
            [
                "  Unit unit[1] is priming.",
                "    pid 7: still there, for 10 s though it should be down",
                "    40 s ago: join: it is full",
                "    40 s ago: join: it is full",
            ],
        ),
        ({"leaves": []}, ["!"]),
        (
            {"leaves": [{**LEAF, "to": ["waiting"]}]},
            ["!  It stays in this state, and takes:", "!    ticket of broker (b) -> waiting"],
        ),
        (
            {"leaves": [{**LEAF, "to": ["waiting"]}, LEAF]},
            [
                WAITS[0].replace("  It", "!  It", 1),
                "!    ticket of broker (b) -> waiting",
                "!    ticket of broker (b) -> active",
            ],
        ),
        (
            {"leaves": [TIMER, {**TIMER, "due": 120}, {**LEAF, "to": ["x", "y"]}]},
            [
                "!  It waits since tick 90 (20 s ago), until tick 120 (in 40 s) at the latest, for:",
                "!    tick -> closed, at tick 130 (in 60 s)",
                "!    tick -> closed, at tick 120 (in 40 s)",
                "!    ticket of broker (b) -> x, y",
            ],
        ),
        (
            {
                "leaves": [
                    {**LEAF, "from": "authority"},
                    {**LEAF, "from": "here", "cause": "policy", "task": "grant"},
                    {**LEAF, "from": "here", "cause": "client"},
                    {**LEAF, "from": "here", "cause": "parent"},
                    {**LEAF, "from": "here", "cause": "subsidiary", "task": "units"},
                ]
            },
            [
                WAITS[0].replace("  It", "!  It", 1),
                "!    ticket of authority -> active",
                "!    ticket -> active, as its policy decides (grant)",
                "!    ticket -> active, as a client or its policy says",
                "!    ticket -> active, as its parent drives it",
                "!    ticket -> active, as its units come there (units)",
            ],
        ),
        ({"over": True}, ["!  It is over, and will be forgotten."]),
        (
            {"over": True, "times": ["end"], "data": {"end": 90}},
            ["!  It is over, and will be forgotten: its time was over."],
        ),
        ({"over": True, "times": ["end"], "data": {"end": 91}}, ["!  It is over, and will be forgotten."]),
        ({"over": True, "restarts": 2, "history": [REFUSED]}, ["!  It is over, and will be forgotten."]),
        (
            {
                "over": True,
                "messages": [
                    {
                        "message": "m",
                        "number": 3,
                        "to": "b",
                        "times": None,
                        "taken": True,
                        "reason": "",
                        "again_seconds": None,
                    }
                ],
            },
            ["!  It says m (3) to b: taken.", "!  It is over, and will be forgotten."],
        ),
        *(
            (
                {
                    "over": True,
                    "history": [
                        MOVED,
                        {**MOVED, "to": "closing", "transition": f"m/b#{event}.1", "from": "b"},
                        {**MOVED, "at": 99, "to": "closed", "from": "closing"},
                        FAILED,
                    ],
                },
                [f"!  It is over, and will be forgotten: {words} when it was b, 24 s ago."],
            )
            for event, words in (("tick", "its time was over"), ("close", "it was closed"), ("lost", "lost came"))
        ),
        (
            {
                "over": True,
                "history": [{**MOVED, "to": "closing"}, MOVED, {**MOVED, "at": 95, "to": "failed", "from": "c"}],
            },
            ["!  It is over, and will be forgotten: go came when it was c, 10 s ago."],
        ),
        (
            {
                "over": True,
                "history": [
                    {**MOVED, "to": "closing"},
                    {**MOVED, "at": 99, "to": "closed", "unanswered": [{"to": "broker", "message": "ask"}]},
                ],
            },
            ["!  It is over, and will be forgotten: go came when it was a, 24 s ago; b had not answered ask."],
        ),
        (
            {
                "over": True,
                "history": [
                    {
                        **MOVED,
                        "to": "failed",
                        "unanswered": [{"to": "broker", "message": "ask"}, {"to": "authority", "message": "go"}],
                    }
                ],
            },
            [
                "!  It is over, and will be forgotten: go came when it was a, 24 s ago; b had not answered ask; "
                "authority had not answered go."
            ],
        ),
    ],
)
def test_a_machine_is_explained_by_each_of_its_parts(changes: dict[str, Any], lines: list[str]) -> None:
    """The lines between its head and for what it waits; those with `!` stand in the place of the latter."""
    end = [line.removeprefix("!") for line in lines if line.startswith("!")]
    middle = [line for line in lines if not line.startswith("!")]
    assert [*explained({**MACHINE, **changes}, ABOUTS)] == [*HEAD, *middle, *(filter(None, end) if end else WAITS)]


@pytest.mark.parametrize(
    ("changes", "lasted", "since"),
    [
        ({}, ", for 20 s", "since tick 90 (20 s ago)"),
        ({"since": 97}, ", for 6 s", "since tick 97 (6 s ago)"),
        ({"actor": "site"}, ", for 60 min", "since tick 90 (60 min ago)"),
        ({"since": 100}, ", for 0 s", "since tick 100 (0 s ago)"),
        ({"since": None}, "", "since a tick that is not known"),
        ({"actor": "nobody"}, ", for 20 s", "since tick 90 (20 s ago)"),
    ],
)
def test_times_are_those_of_the_actor_that_a_machine_is_at(changes: dict[str, Any], lasted: str, since: str) -> None:
    """Times follow its clock and the length of its ticks; one that is not known has those of the first."""
    first, _, third, _ = explained({**MACHINE, **changes}, ABOUTS)
    assert first == f"tenant:1 at {changes.get('actor', 'tenant')} (service_manager) is waiting{lasted}."
    assert third == f"  It waits {since}, and no timer ends that, for:"


def test_it_waits_for_clients_only_where_it_waits_for_nobody_else() -> None:
    def leave(cause: str, sender: str = "here") -> dict[str, Any]:
        return {"event": "e", "from": sender, "cause": cause, "task": "", "to": ["s"], "due": None}

    peers = {"voter[0]": "anna", "voter[1]": "ben", "chief": ""}
    client, votes, orders = leave("client"), leave("message", "voter"), leave("message", "chief")
    assert awaited([client, votes, leave("timer"), votes], peers) == ["anna", "ben", "the clock"]
    assert awaited([orders, leave("policy"), leave("handler"), leave("subsidiary")], peers) == [
        "chief (not known yet)",
        "its policy",
        "its handler",
        "its units",
    ]
    assert awaited([client, leave("parent")], peers) == ["a client", "its lease"]
    assert awaited([], peers) == []


def test_a_machine_that_is_forgotten_says_no_more_than_why() -> None:
    loud = {"wish": {"units": 1, "until": 9, "term": 1}, "handlers": ["x"], "restarts": 2, "forgotten": 95}
    assert [*explained({**MACHINE, **loud, "doc": ""}, ABOUTS)] == [
        "tenant:1 at tenant (service_manager) was waiting, for 20 s.",
        "  It was over, and is forgotten since tick 95 (10 s ago).",
    ]


def test_units_are_those_of_the_record_with_what_is_said_of_each() -> None:
    said = [{"name": "x", "site": "s"}, "no mapping", {"site": "t"}]
    data = {"lease_units": [0, 1, 2, 3], "unit_properties": said, "lease_lost": [1, 3]}
    assert units_of({"data": data}) == [
        {"number": 0, "name": "x", "site": "s", "lost": False},
        {"number": 1, "name": "1", "site": "", "lost": True},
        {"number": 2, "name": "2", "site": "t", "lost": False},
        {"number": 3, "name": "3", "site": "", "lost": True},
    ]
    assert units_of({"data": {}}) == units_of({"data": {"lease_units": "none"}}) == []


# Tables


def row(lease: str, actor: str = "tenant", **fields: Any) -> dict[str, Any]:
    return {**MACHINE, "lease": lease, "actor": actor, **fields}


def test_leases_stand_in_the_order_of_their_numbers_with_a_cell_for_each_actor() -> None:
    rows = [
        row("b:10", times=["end", "later"], data={"end": 105, "later": 120}),
        row("b:9", "site", state="x"),
        row("b:9", times=["end"], data={"end": 100}),
        row("b:9", "site", state="y", over=True, data={"end": 300}),
        row("a:11", times=["end"], data={"end": 0}),
        row("c", state="z", over=True, times=["end"], data={"end": 200}),
    ]
    lines = printed(lease_table(rows, ABOUTS))
    assert [line.split() for line in lines] == [
        ["lease", "tenant", "site"],
        ["a:11", "waiting"],
        ["b:9", "waiting,", "past", "its", "end", "x,", "y"],
        ["b:10", "waiting,", "40", "s"],
        ["c", "z"],
    ]
    assert printed(lease_table([], ABOUTS))[1:] == ["no leases"]


def test_units_stand_with_what_they_are_and_what_happened_last() -> None:
    """The actor is named where there are several; of what happened the last step, and the failure that led to it."""
    unit = {
        **UNIT,
        "data": {"on": True, "off": False, "end": 110, "kind": "k", "none": None},
        "times": ["end"],
        "shown": {"kind": "big"},
    }
    lines = printed(unit_table([{**unit, "history": [MOVED, FAILED, MOVED]}], ABOUTS))
    assert [" ".join(line.split()) for line in lines] == [
        "unit state for lease data last",
        "unit[1] priming 60 s tenant:1 on, end 110 (in 20 s), kind big join: it is full; m/a#go.2 (a -> b)",
    ]
    left = {
        **UNIT,
        "actor": "site",
        "since": None,
        "left": {"words": "pid 7", "since": 149},
        "history": [FAILED, MOVED, REFUSED],
    }
    lines = printed(unit_table([unit, left], ABOUTS))
    assert [" ".join(line.split()) for line in lines] == [
        "unit actor state for lease data last",
        "unit[1] tenant priming 60 s tenant:1 on, end 110 (in 20 s), kind big",
        "unit[1] site priming tenant:1 pid 7: still there, for 60 s though it should be down; refused close: it is too "
        "late.",
    ]
    assert printed(unit_table([], ABOUTS))[1:] == ["no units"]


def test_a_lease_is_shown_with_every_field_peer_and_unit() -> None:
    machine = row(
        "tenant:1",
        data={"end": 90, "later": 0, "kind": "k"},
        times=["end", "later"],
        shown={"end": "?", "later": "0", "kind": "big"},
        units=[UNIT, {**UNIT, "unit": "unit[2]", "facts": {"pid": 7, "x": 1}}],
    )
    lines = [" ".join(line.split()) for line in printed(one_lease([machine, row("tenant:1", "site")], ABOUTS))]
    assert lines == [
        "service_manager at tenant: waiting",
        "end 90 (20 s ago)",
        "later 0",
        "kind big",
        "peers broker: b, authority: not known yet",
        "unit[1] priming",
        "unit[2] priming (pid 7, x 1)",
        "service_manager at site: waiting",
        "peers broker: b, authority: not known yet",
    ]
