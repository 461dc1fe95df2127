"""Stretches of a history: parts between migrations, which belong together where they have one agreement."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from leasehold.impl.events.event import AnyEvent, FoundEvent, MachineRecord, MigratedEvent, RecoveredEvent
from leasehold.impl.events.stretches import Stretch, stretches


def begun(agreement: str | None) -> RecoveredEvent | None:
    if agreement is None:
        return None
    return RecoveredEvent(
        position=1,
        before="0" * 64,
        actor="site",
        spec="s",
        now=0,
        time=0.0,
        epoch=1,
        commit=1,
        agreement=agreement,
        machines=0,
    )


@pytest.mark.parametrize(
    ("one", "other"), [*product((("s", "a"), ("s", "b"), ("s", None), ("t", "a"), ("t", None)), repeat=2)]
)
def test_parts_of_one_specification_and_one_set_of_constants_belong_together(
    one: tuple[str, str | None], other: tuple[str, str | None]
) -> None:
    """A part that does not tell its constants may have any."""
    same = one[0] == other[0] and (None in (one[1], other[1]) or one[1] == other[1])
    assert Stretch(one[0], begun(one[1])).is_of(Stretch(other[0], begun(other[1]))) == same


def chain(actor: str, *words: str) -> list[AnyEvent]:
    """A chain in short: `r:a` recovers with agreement a, `R:a` with machines, `f` finds a record, `m:t` migrates to t.

    The specification is `s` until the first migration.
    """
    spec, found = "s", list[AnyEvent]()
    for position, word in enumerate(words, 1):
        kind, _, of = word.partition(":")
        spec = of if kind == "m" else spec
        first: dict[str, Any] = {
            "position": position,
            "before": "0" * 64,
            "actor": actor,
            "spec": spec,
            "now": 0,
            "time": 0.0,
            "epoch": 1,
            "commit": position,
        }
        match kind:
            case "r" | "R":
                found.append(RecoveredEvent(**first, agreement=of, machines=int(kind == "R")))
            case "m":
                found.append(MigratedEvent(**first, source="s", records=1))
            case _:
                found.append(FoundEvent(**first, lease="a:1", machine="unit", record=MachineRecord("idle", {}, 1)))
    return found


HISTORIES: list[tuple[dict[str, str], list[tuple[str, str | None, dict[str, tuple[int, int]]]]]] = [
    # Without a migration all is one stretch, also where constants have changed.
    ({}, []),
    ({"a": "r:x f f"}, [("s", "x", {"a": (1, 3)})]),
    ({"a": "f f"}, [("s", None, {"a": (1, 2)})]),
    ({"a": "r:x f r:y f"}, [("s", "x", {"a": (1, 4)})]),
    ({"a": "r:x f", "b": "r:x f f"}, [("s", "x", {"a": (1, 2), "b": (1, 3)})]),
    ({"a": "f", "b": "r:x f f"}, [("s", "x", {"a": (1, 1), "b": (1, 3)})]),
    ({"a": "r:x f", "b": "f f"}, [("s", "x", {"a": (1, 2), "b": (1, 2)})]),
    ({"a": "r:x", "b": "r:y"}, [("s", "x", {"a": (1, 1)}), ("s", "y", {"b": (1, 1)})]),
    # The event that migrates is in no stretch.
    ({"a": "r:x f m:t f r:y f"}, [("s", "x", {"a": (1, 2)}), ("t", "y", {"a": (4, 6)})]),
    ({"a": "f m:t f r:y"}, [("s", None, {"a": (1, 1)}), ("t", "y", {"a": (3, 4)})]),
    ({"a": "r:x m:t r:y"}, [("s", "x", {"a": (1, 1)}), ("t", "y", {"a": (3, 3)})]),
    ({"a": "r:x m:t f f"}, [("s", "x", {"a": (1, 1)})]),  # after it there are records alone: it has not begun yet
    ({"a": "r:x m:t"}, [("s", "x", {"a": (1, 1)})]),
    ({"a": "m:t f r:y"}, [("t", "y", {"a": (2, 3)})]),
    ({"a": "r:x m:t m:u f r:z"}, [("s", "x", {"a": (1, 1)}), ("u", "z", {"a": (4, 5)})]),
    (
        {"a": "r:x m:t f r:y m:u r:z f"},
        [("s", "x", {"a": (1, 1)}), ("t", "y", {"a": (3, 4)}), ("u", "z", {"a": (6, 7)})],
    ),
    # Actors that were migrated together are in the same stretches, whoever is first by name.
    (
        {"a": "r:x f m:t f r:y", "b": "r:x m:t r:y f"},
        [("s", "x", {"a": (1, 2), "b": (1, 1)}), ("t", "y", {"a": (4, 5), "b": (3, 4)})],
    ),
    (
        {"a": "f m:t r:y", "b": "r:x m:t f r:y"},
        [("s", "x", {"a": (1, 1), "b": (1, 1)}), ("t", "y", {"a": (3, 3), "b": (3, 4)})],
    ),
    # One without records begins anew with other constants; with records it is the same stretch still.
    (
        {"a": "r:x f m:s r:y", "b": "r:x f r:y f"},
        [("s", "x", {"a": (1, 2), "b": (1, 2)}), ("s", "y", {"a": (4, 4), "b": (3, 4)})],
    ),
    (
        {"b": "r:x f m:s r:y", "a": "r:x f r:y f"},
        [("s", "x", {"a": (1, 2), "b": (1, 2)}), ("s", "y", {"a": (3, 4), "b": (4, 4)})],
    ),
    (
        {"a": "r:x f m:s r:y", "b": "r:x f R:y f"},
        [("s", "x", {"a": (1, 2), "b": (1, 4)}), ("s", "y", {"a": (4, 4)})],
    ),
    (
        {"a": "r:x f m:s r:y", "b": "r:x f r:x f"},
        [("s", "x", {"a": (1, 2), "b": (1, 4)}), ("s", "y", {"a": (4, 4)})],
    ),
    # One that came later is in the later stretch alone; one of other constants in none of the others'.
    ({"a": "r:x m:t r:y", "c": "r:x"}, [("s", "x", {"a": (1, 1), "c": (1, 1)}), ("t", "y", {"a": (3, 3)})]),
    ({"a": "r:x m:s r:y", "c": "r:y f"}, [("s", "x", {"a": (1, 1)}), ("s", "y", {"a": (3, 3), "c": (1, 2)})]),
    (
        {"a": "r:x m:t r:y", "c": "r:z"},
        [("s", "x", {"a": (1, 1)}), ("t", "y", {"a": (3, 3)}), ("s", "z", {"c": (1, 1)})],
    ),
]


@pytest.mark.parametrize(("chains", "expected"), HISTORIES, ids=[str(chains) for chains, _ in HISTORIES])
def test_a_history_is_cut_where_it_was_migrated(
    chains: dict[str, str], expected: list[tuple[str, str | None, dict[str, tuple[int, int]]]]
) -> None:
    """Each stretch with its specification, its first constants, and the positions that it has of each actor."""
    given = {actor: chain(actor, *words.split()) for actor, words in chains.items()}
    found = stretches(given)
    assert [(one.spec, one.begun and one.begun.agreement) for one in found] == [(s, b) for s, b, _ in expected]
    shown = [{actor: (at[0], at[-1]) for actor, at in one.positions.items()} for one in found]
    assert shown == [parts for _, _, parts in expected]
    for one in found:
        for actor, part in one.chains.items():
            assert part == [event for event in given[actor] if event.position in one.positions[actor]]
