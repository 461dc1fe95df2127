"""The difference that an observer outside sees: the shortest one, or none, and never one that is hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.mutation.battery import Trial
from leasehold.checker.mutation.observer import (
    HIDDEN,
    Comparison,
    Config,
    Label,
    Node,
    ObservedSystem,
    SeenWords,
    compared,
)
from leasehold.checker.mutation.operators import mutations
from leasehold.faults.model import Budget
from leasehold.spec import System, shipped_folder
from tests.systems import edited, files_of, load, write, written

CRASH = Trial(budget=Budget.parse("crash=1"))


def named(system: System, name: str) -> System:
    return next(m for m in mutations(system, every_target=True) if m.name == name).applied(system)


def difference(system: System, mutant: System, trial: Trial, most: int = 200_000) -> Comparison:
    return compared(ObservedSystem(system, trial), ObservedSystem(mutant, trial), trial, most)


def test_a_message_that_differs_is_seen() -> None:
    system = load(shipped_folder("starter"))
    found = difference(system, named(system, "drop_task client/returned give_back"), Trial()).difference
    assert found is not None
    assert found.before == (
        "want at client[0]; acquire is sent (client[0] to server); client[0] is waiting",
        "acquire is received (client[0] to server); server calls policy.choose; server is choosing",
        "choose(who=client[0]) at server; granted(who=client[0]) is sent (server to client[0]); server is held",
        "granted(who=client[0]) is received (server to client[0]); client[0] calls handler.work; client[0] is holding",
    )
    assert found.system == "done at client[0]; release is sent (client[0] to server); client[0] is returned"
    assert found.mutant == "done at client[0]; client[0] is returned"


def test_what_nobody_sees_is_no_difference() -> None:
    """The last vote decides, and nothing reads the set of votes after that; also not after a crash."""
    system = load("two_phase_commit", {"participants": 2})
    mutant = named(system, "drop_update coordinator/asking#agree agreed")
    assert difference(system, mutant, Trial()) == difference(system, mutant, CRASH) == Comparison()


def test_what_only_a_crash_shows_is_seen_under_crashes() -> None:
    system = load("two_phase_commit", {"participants": 2})
    mutant = named(system, "swap_target participant/working#abort -> voting")
    assert difference(system, mutant, Trial()).difference is None
    found = difference(system, mutant, CRASH).difference
    assert found is not None
    assert "coordinator crashes" in found.before[1]
    assert found.system.endswith("participant[1] is aborted")
    assert found.mutant.endswith("participant[1] calls policy.vote; participant[1] is voting")


def test_a_search_that_is_cut_short_says_so() -> None:
    system = load("two_phase_commit", {"participants": 2})
    mutant = named(system, "drop_update coordinator/asking#agree agreed")
    assert difference(system, mutant, Trial(), most=10) == Comparison(complete=False)


def test_a_mutant_that_breaks_a_range_is_seen_to_fail(tmp_path: Path) -> None:
    edits = (("{type: int, min: 0}", "{type: int, max: 2}"), ("when: times < most", "when: times < 2"))
    files = edited(files_of("checker/mutation/systems/lamp"), *edits, (", red: true", ""), (", red: bool", ""))
    system = written(tmp_path, {**files, "invariants.yaml": "properties: {worn: {sometimes: lamp.times == 2}}\n"})
    found = difference(system, named(system, "drop_guard lamp/dark#press"), Trial()).difference
    assert found is not None
    assert (found.before, found.system) == (("press at lamp", "press at lamp"), "")
    assert found.mutant == "fails: lamp/dark#press sets `times` to 3, outside its type's range"


def test_units_are_seen_and_what_their_site_notes_is_not() -> None:
    system = load("lease", {"max_units": 1, "last_end": 1, "expiry": False, "close_early": False})
    seen = ObservedSystem(system, Trial())
    labels, nodes, todo = set[Label](), set[Node](), list(seen.first().values())
    while todo:
        node = todo.pop()
        if node not in nodes:
            nodes.add(node)
            following = seen.following(node)
            labels |= following.keys()
            todo += following.values()
    assert {name for label in labels for name, _ in label.changed} == {"unit[0]", "guest[0]"}
    called = {task for label in labels for _, task in label.calls}
    assert called >= {"handler.setup", "handler.teardown", "handler.join", "handler.leave", "policy.allocate"}
    assert {event for label in labels if label.cause[:1] == ("local",) for event in label.cause[3:4]}.isdisjoint(
        {"primed", "torn_down"}  # a site learns so of its own units
    )


EGG = files_of("checker/mutation/systems/egg")
TURNED, LOOKED = "look at cook; stove is cold", "look at cook"


@pytest.mark.parametrize(
    ("name", "before", "of_system", "of_mutant"),
    [
        ("drop_guard cook/boils#tick", (), "", TURNED),
        ("shift_comparison cook/boils#tick now >= 1 -> now > 1", ("now 1",), TURNED, ""),
        ("swap_target cook/boils#tick -> boils", ("now 1",), TURNED, ""),
        ("swap_target cook/boils#tick -> over", ("now 1",), "", "stove is cold"),
        ("swap_target cook/done#look -> done", ("now 1",), TURNED, LOOKED),
        ("swap_target stove/hot#turn -> hot", ("now 1",), TURNED, LOOKED),
        ("add_transition cook/over#look -> over", ("now 1", TURNED), "", LOOKED),
        ("ignore_event cook/done#look", ("now 1",), TURNED, ""),
        ("drop_task cook/over turn", ("now 1",), TURNED, LOOKED),
    ],
)
def test_what_comes_behind_a_hidden_step_is_seen(
    name: str, before: tuple[str, ...], of_system: str, of_mutant: str, tmp_path: Path
) -> None:
    """The state of the cook, which a timer changes, is hidden; what it does to the stove is not."""
    system = load(write(tmp_path, EGG))
    found = difference(system, named(system, name), Trial()).difference
    assert found is not None
    assert (found.before, found.system, found.mutant) == (before, of_system, of_mutant)


# A second opinion: all traces up to a length, by brute force.


def traces(seen: ObservedSystem, length: int) -> set[tuple[Label, ...]]:
    found: set[tuple[Label, ...]] = set()
    todo: list[tuple[Config, tuple[Label, ...]]] = [((s, seen.world.budgeted), ()) for s in seen.world.initial_states()]
    known = set(todo)
    while todo:
        config, trace = todo.pop()
        found.add(trace)
        for label, to in seen.steps(config) if len(trace) < length else ():
            step = (to, trace if label == HIDDEN else (*trace, label))
            if step not in known:
                known.add(step)
                todo.append(step)
    return found


@pytest.mark.parametrize(("trial", "length"), [(Trial(), 7), (CRASH, 4)])
def test_the_difference_is_a_shortest_one(trial: Trial, length: int) -> None:
    system = load("two_phase_commit", {"participants": 1})
    own = traces(ObservedSystem(system, trial), length)
    lengths = []
    for mutation in mutations(system)[::9]:
        mutant = mutation.applied(system)
        others = traces(ObservedSystem(mutant, trial), length)
        shortest = min((len(trace) for trace in own ^ others), default=None)
        found = difference(system, mutant, trial).difference
        seen = len(found.before) + 1 if found is not None else None
        assert shortest == (seen if seen is not None and seen <= length else None), mutation.name
        lengths.append(shortest)
    assert None in lengths
    assert len(set(lengths)) > 3


# What is seen, in words


ASK = ("ask", (), "to_participants", 0, 1)
SEEN = [
    (Label(("local", "coordinator", 0, "begin", ())), "begin at coordinator"),
    (Label(("local", "participant", 1, "agreed", ())), "agreed at participant[1]"),
    (Label(("deliver", *ASK, False)), "ask is received (coordinator to participant[1])"),
    (Label(("deliver", *ASK, True)), "ask is received (coordinator to participant[1]) and comes again"),
    (Label(("duplicate", *ASK, False)), "ask is received again (coordinator to participant[1])"),
    (Label(("lose", *ASK, False)), "ask is lost (coordinator to participant[1])"),
    (Label(("crash", "coordinator")), "coordinator crashes"),
    (Label(("recover", "coordinator")), "coordinator restarts"),
    (Label(("clock", "now 3")), "now 3"),
    (Label(calls=(("participant[1]", "policy.vote"),)), "participant[1] calls policy.vote"),
    (Label(sent=(ASK,)), "ask is sent (coordinator to participant[1])"),
    (Label(changed=(("a", "idle"), ("b", "busy"))), "a is idle; b is busy"),
    (
        Label(("clock", "now 3"), (("a", "x"),), (ASK,), (("b", "c"),)),
        "now 3; a calls x; ask is sent (coordinator to participant[1]); b is c",
    ),
    (HIDDEN, ""),
]


def test_labels_in_words() -> None:
    """Each part is said, in the order of cause, calls, messages and changes; and no two labels read alike."""
    system = load("two_phase_commit", {"participants": 2})
    channel = system.channel_of("ask").name
    words = SeenWords(system)
    for label, text in SEEN:
        cause = tuple(channel if part == "to_participants" else part for part in label.cause)
        sent = tuple((message, fields, channel, *ends) for message, fields, _, *ends in label.sent)
        assert words.text(label._replace(cause=cause, sent=sent)) == text
    assert len({text for _, text in SEEN}) == len(SEEN)


def test_of_two_that_differ_the_same_cause_is_shown() -> None:
    """Else what the mutant alone does, or else what it does not do; the same whichever order they come in."""
    words = SeenWords(load("two_phase_commit", {"participants": 2}))
    now, later = ("clock", "now 1"), ("clock", "now 2")
    one, other = Label(now, changed=(("a", "x"),)), Label(now, changed=(("a", "y"),))
    both, more, last = Label(later), Label(("clock", "now 3")), Label(("clock", "now 0"))
    for turn in (1, -1):
        assert words.apart([both, one, more][::turn], [other, both][::turn]) == ("now 1; a is x", "now 1; a is y")
        assert words.apart([both][::turn], [both, more, last][::turn]) == ("", "now 0")
        assert words.apart([both, more, last][::turn], [both][::turn]) == ("now 0", "")
        assert words.apart([more, both][::turn], [last, both][::turn]) == ("", "now 0")
