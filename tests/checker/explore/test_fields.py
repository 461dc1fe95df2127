"""States in words: whatever values come, a state is what was packed, and no two atoms lie in one place."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.packed.fields import WORD, Fields, MapCell, PlainCell, SetCell
from leasehold.spec.language import types as t
from tests.systems import written

TYPES = {
    "flag": "bool",
    "hue": "colour",
    "who": "hand",
    "some": "option[colour]",
    "few": "{type: int, min: -3, max: 9}",
    "many": "int",
    "held": '"set[hand]"',
    "hues": '"set[colour]"',
    "by": '"map[hand, int]"',
    "told": '"map[colour, set[hand]]"',
    "deep": '"map[hand, map[colour, bool]]"',
    "at": "{type: time}",
}
FILES = {
    "system.yaml": "system: many\ntypes: {colour: {members: [red, green, blue]}}\n"
    "roles: {box: {}, hand: {instances: 5}}\nclock: {horizon: 2}\nchannels:\n"
    "  words: {from: box, to: hand, kind: set, messages: word}\n  calls: {from: box, to: hand, kind: fifo}\n"
    "environment: {go: {to: box}}\n",
    "messages.yaml": "messages:\n  word: {from: box, to: hand, fields: {hue: colour, flag: bool}}\n"
    "  call: {from: box, to: hand, fields: {many: int}}\n",
    "roles/hand.yaml": "role: hand\nstates: {here: {initial: true, ignore: {word: it is, call: it is}}}\n",
    "roles/box.yaml": "role: box\ndata:\n"
    + "".join(f"  {name}: {kind}\n" for name, kind in TYPES.items())
    + "events: {go: It goes on.}\nstates:\n"
    "  there: {initial: true, tasks: [say], on: {go: {to: here}}}\n  here: {tasks: [call], ignore: {go: it is}}\n"
    "tasks:\n  say: {send: word, to: hand, with: {hue: hue, flag: flag}}\n"
    "  call: {send: call, to: hand, with: {many: many}}\n",
}


@pytest.fixture
def layout(tmp_path: Path) -> Any:
    return reference_of(written(tmp_path, FILES)).layout


def drawn(rng: random.Random, kind: t.Type | None) -> Any:
    """A value of a type, sometimes a large one."""
    match kind:
        case t.Option(of=of):
            return None if rng.random() < 0.3 else drawn(rng, of)
        case t.Set(of=of) if of is not None:
            return frozenset(m for m in t.members(of) if rng.random() < 0.5)
        case t.Map(key=key, of=of):
            return tuple(drawn(rng, of) for _ in t.members(key))
        case t.Int(low=int(low), high=int(high)):
            return rng.randint(low, high)
        case t.Int() | t.Time():
            return rng.choice((0, 1, 7, -4, rng.randrange(10**6)))
    return rng.choice(list(t.domain(kind, None)))  # type: ignore[arg-type]


def state(rng: random.Random, layout: Any) -> tuple[Any, ...]:
    cells = [None] * layout.size
    for role, i in layout.system.records():
        cells[layout.at(role.name, i, None)] = rng.choice(list(role.states))
        for datum in role.data.values():
            cells[layout.at(role.name, i, datum.name)] = drawn(rng, datum.type)
    for lane in layout.lanes:
        (name,) = lane.channel.messages
        fields = layout.system.messages[name].fields
        found = [(1, name, tuple(drawn(rng, f.type) for f in fields)) for _ in range(rng.randrange(3))]
        cells[lane.cell] = frozenset(found) if lane.channel.kind == "set" else tuple(found)
    cells[layout.clock] = rng.randrange(3)
    return tuple(cells)


def packed(fields: Fields, s: tuple[Any, ...]) -> list[int]:
    for _ in fields.numberings:
        try:
            return fields.pack(s)
        except OverflowError:  # of one value, which has room from now on
            fields.lay_out()
    return fields.pack(s)


def test_a_state_is_what_was_packed(layout: Any) -> None:
    """Also once the layout has grown, in another that is told the same, and cell by cell."""
    rng, fields, met = random.Random(5), Fields(layout), {}
    kinds = {type(place) for place in fields.cells}
    assert kinds == {PlainCell, SetCell, MapCell}
    for _ in range(120):
        s = state(rng, layout)
        words = packed(fields, s)
        assert len(words) == fields.words
        assert words[0] >> (WORD - 1) == 1
        assert fields.unpack(words) == s
        assert [fields.value(cell, words) for cell in range(layout.size)] == list(s)
        met[s] = tuple(words)
        taken = set()
        for at, numbering in zip(fields.places, fields.numberings, strict=True):
            assert at.bits >= numbering.needs
            bits = {(at.word, bit) for bit in range(at.shift, at.shift + at.bits)}
            assert not bits & taken
            assert max(bit for _, bit in bits) < (WORD if at.word else WORD - 1)
            taken |= bits
    assert fields.words > 1
    again = [tuple(fields.pack(s)) for s in met]
    assert len(set(again)) == len(met)
    assert [fields.unpack(words) for words in again] == list(met)
    told = Fields(layout)
    told.known([(list(n.values), n.bits) for n in fields.numberings])
    assert (told.places, told.words) == (fields.places, fields.words)
    assert [tuple(told.pack(s)) for s in met] == again


def test_the_values_of_a_cell_are_known_ahead_where_they_are_few(layout: Any) -> None:
    fields = Fields(layout)
    known = {
        name: fields.domain(layout.at("box", 0, name)) for name in TYPES if name not in ("hues", "told", "deep", "at")
    }
    assert known == {
        "flag": [False, True],
        "hue": ["red", "green", "blue"],
        "who": [0, 1, 2, 3, 4],
        "some": [None, "red", "green", "blue"],
        "few": list(range(-3, 10)),
        "many": None,
        "held": None,
        "by": None,
    }
    assert fields.domain(layout.at("box", 0, None)) == ["there", "here"]
