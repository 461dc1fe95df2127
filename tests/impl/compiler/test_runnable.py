"""Reasons for which a specification is explored and cannot run: each is found, named, and is none in its near miss."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path

import pytest

from leasehold.impl.compiler.program import NotRunnable, check_runnable, compile_system
from leasehold.spec.language.load import load
from tests.systems import files_of, written

BAD = Path(__file__).resolve().parents[2] / "bad_specs"


@pytest.mark.parametrize("name", sorted(path.name for path in BAD.glob("LH8*")))
def test_each_reason_is_named_with_its_place_and_remedy(name: str) -> None:
    """The text beside the bad spec, from the check alone and from compiling."""
    settings = BAD / name / "settings.json"
    given = json.loads(settings.read_text()) if settings.is_file() else {}
    with contextlib.chdir(BAD):
        system = load(name, given)
        for check in (check_runnable, compile_system):
            with pytest.raises(NotRunnable) as refused:
                check(system)
            found = "".join(f"{d}\n" for d in refused.value.diagnostics)
            assert found == (BAD / name / "expected.txt").read_text()


BASE = files_of("impl/compiler/systems/runnable")
PAIR = "there: {from: a, to: b, kind: KIND}, back: {from: b, to: a, kind: mailbox}"
BOTH = "a: {instances: 2}, b: {instances: 2}"
FIFO = "fifo(2)"
THERE, BACK = (f"{n}: {{from: {f}, to: {t}, kind: mailbox" for n, f, t in (("there", "a", "b"), ("back", "b", "a")))
PLACES = {
    "ROLES": "a: {}, b: {}",
    "CHANNELS": f"{THERE}}}, {BACK}}}",
    "FIELDS": "",
    "OWN": "n: {type: int, max: 3}",
    "ALSO": "set: {n: 0}",
    "ONLY": "",
    "MORE_TASKS": "",
    "ON": "on: {ask: {to: busy}}",
    "MORE": "",
    "THEIRS": "",
}
MEMBERS = "standing: true\n"
FIRST = "n: {{type: int, max: 3, min: 0, initial: '{}'}}"
NAMED = {"ONLY": 'only: "it == b[1]"', "ROLES": "a: {}, b: {instances: 2, dynamic: true}", "MORE": MEMBERS}

VARIANTS: dict[str, tuple[dict[str, str], set[str]]] = {
    "as it is": ({}, set()),
    "a fifo": ({"CHANNELS": PAIR.replace("KIND", FIFO)}, set()),
    "a bag": ({"CHANNELS": PAIR.replace("KIND", "bag(2)")}, {"LH801"}),
    "a multiset": ({"CHANNELS": PAIR.replace("KIND", "multiset(2)")}, {"LH801"}),
    "a set": ({"CHANNELS": PAIR.replace("KIND", "set")}, {"LH801"}),
    "a fifo that loses": ({"CHANNELS": PAIR.replace("KIND", f"{FIFO}, lose: 1")}, {"LH801"}),
    "a fifo that duplicates": ({"CHANNELS": PAIR.replace("KIND", f"{FIFO}, duplicate: 1")}, {"LH801"}),
    "a fifo that reorders": ({"CHANNELS": PAIR.replace("KIND", f"{FIFO}, reorder: 1")}, {"LH801"}),
    "a mailbox that loses": ({"CHANNELS": PAIR.replace("KIND", "mailbox, lose: 1, duplicate: 1")}, set()),
    "pairs": ({"ROLES": BOTH, "CHANNELS": f"{THERE}, pairs: same}}, {BACK}, pairs: same}}"}, set()),
    "all": ({"ROLES": BOTH}, set()),
    "pairs there": ({"ROLES": BOTH, "CHANNELS": f"{THERE}, pairs: same}}, {BACK}}}"}, {"LH811"}),
    "pairs back": ({"ROLES": BOTH, "CHANNELS": f"{THERE}}}, {BACK}, pairs: same}}"}, {"LH811"}),
    "a shared variable": ({"MORE": "shared: {free: bool}", "ALSO": "set: {shared.free: true}"}, {"LH807"}),
    "a map in a message": (
        {
            "ROLES": "a: {}, b: {instances: 2}",
            "FIELDS": 'seen: "map[b, bool]"',
            "OWN": 'seen: "map[b, bool]"',
            "ALSO": "set: {'seen[b[0]]': true}",
            "ONLY": "with: {seen: seen}",
        },
        set(),
    ),
    "any first value": ({"OWN": "n: {type: int, max: 3, initial: any, min: 0}"}, {"LH804"}),
    "reads another": ({"ALSO": "when: b.state == idle", "OWN": ""}, {"LH802"}),
    "reads itself": ({"ALSO": "when: self.n >= 0 and n >= 0"}, set()),
    "looks at messages": ({"ALSO": "when: not any(true for m in pending(ask))", "OWN": ""}, {"LH803"}),
    "one member that is named": (NAMED, set()),
    "all members": (NAMED | {"ONLY": ""}, {"LH806"}),
    "members by another condition": (NAMED | {"ONLY": 'only: "it != b[1]"'}, {"LH806"}),
    "members of runs": (NAMED | {"MORE": ""}, {"LH806"}),
    "a member without a number": (NAMED | {"ROLES": "a: {}, b: {dynamic: true}", "ONLY": ""}, {"LH806"}),
    "all members are counted": (NAMED | {"ALSO": "when: all(x == x for x in b)", "OWN": ""}, {"LH806"}),
    "a map of members": (NAMED | {"OWN": 'n: {type: int, max: 3}, seen: "map[b, bool]"'}, {"LH806"}),
    "a first value by number": ({"ROLES": BOTH, "THEIRS": FIRST.format("index(self)")}, set()),
    "a first value of members by number": (NAMED | {"THEIRS": FIRST.format("index(self)")}, {"LH806"}),
    "a first value of one member": (NAMED | {"THEIRS": FIRST.format("1 if self == b[0] else 0")}, set()),
    "a first value of all but one": (NAMED | {"THEIRS": FIRST.format("1 if self != b[0] else 0")}, set()),
    "a first value of one and by number": (
        NAMED | {"THEIRS": FIRST.format("index(self) if self != b[0] else 0")},
        {"LH806"},
    ),
    "a set of members": (NAMED | {"OWN": 'n: {type: int, max: 3}, seen: "set[b]"'}, set()),
}


def _files(changes: dict[str, str]) -> dict[str, str]:
    found = {}
    for name, text in BASE.items():
        for place, value in (PLACES | changes).items():
            text = text.replace(f"{{{place}}}", f"{{{value}}}").replace(place, value) if place in text else text
        found[name] = text.replace(", }", "}").replace("{, ", "{").replace(", ,", ",")
    return found


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_specification_runs_unless_there_is_a_reason(variant: str) -> None:
    changes, codes = VARIANTS[variant]
    with tempfile.TemporaryDirectory() as folder:
        system = written(Path(folder), _files(changes))
    if not codes:
        assert list(compile_system(system).roles) == ["a", "b"]
        return
    with pytest.raises(NotRunnable) as refused:
        compile_system(system)
    assert {d.code for d in refused.value.diagnostics} == codes
