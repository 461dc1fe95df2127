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

MAPS = """asked: bool, seen: "map[b, bool]", votes: "map[b, int]", trust: {type: "map[b, int]", initial: 1}"""


def _asking(condition: str, updates: str = "votes: votes") -> dict[str, str]:
    """A machine with maps over the members, which it asks so and changes so."""
    return NAMED | {"OWN": MAPS, "ALSO": f'set: {{asked: "{condition}", {updates}}}'}


def _beginning(first: str) -> dict[str, str]:
    """A machine with a map over the members that begins so."""
    return NAMED | {"OWN": f'seen: {{type: "map[b, bool]", initial: "{first}"}}', "ALSO": ""}


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
    "pairs there": ({"ROLES": BOTH, "CHANNELS": f"{THERE}, pairs: same}}, {BACK}}}"}, set()),
    "pairs back": ({"ROLES": BOTH, "CHANNELS": f"{THERE}}}, {BACK}, pairs: same}}"}, set()),
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
    "all members are counted": (NAMED | {"ALSO": "when: count(true for x in b) > 1", "OWN": ""}, {"LH806"}),
    "members are asked what all are": (NAMED | {"ALSO": "when: all(x == x for x in b)", "OWN": ""}, set()),
    "a map of members": (_asking("true"), set()),
    "a map of members within another": (NAMED | {"OWN": 'seen: "option[map[b, bool]]"', "ALSO": ""}, {"LH806"}),
    "a map of maps of members": (NAMED | {"OWN": 'seen: "map[b, map[b, bool]]"', "ALSO": ""}, {"LH806"}),
    "votes are counted": (_asking("count(seen[x] for x in b) > 1"), set()),
    "those are counted who have not voted": (_asking("count(not seen[x] for x in b) > 1"), {"LH806"}),
    "nobody has voted": (_asking("all(not seen[x] for x in b)"), set()),
    "all have voted": (_asking("all(seen[x] for x in b)"), {"LH806"}),
    "votes are summed up": (_asking("sum(votes[x] for x in b) > 1"), set()),
    "what all begin with is summed up": (_asking("sum(trust[x] for x in b) > 1"), {"LH806"}),
    "what voters begin with is summed up": (_asking("sum(trust[x] for x in b if seen[x]) > 1"), set()),
    "the greatest vote": (_asking("max(votes[x] for x in b) > 1"), {"LH806"}),
    "the greatest vote of voters": (_asking("max((votes[x] for x in b if seen[x]), default=0) > 1"), set()),
    "a sum by number": (_asking("sum(index(x) for x in b) > 1"), {"LH806"}),
    "a sum by number of voters": (_asking("sum(index(x) for x in b if seen[x]) > 1"), set()),
    "the set of voters": (_asking("len({x for x in b if seen[x]}) > 1"), set()),
    "the set of those who have not voted": (_asking("len({x for x in b if not seen[x]}) > 1"), {"LH806"}),
    "maps with one first value": (_asking("seen == {x: x == b[0] for x in b}"), set()),
    "maps with two first values": (_asking("votes == trust"), {"LH806"}),
    "a map by number": (_asking("votes == {x: index(x) for x in b}"), {"LH806"}),
    "a choice of maps with two first values": (_asking("(votes if seen[b[0]] else trust)[b[0]] > 1"), {"LH806"}),
    "nobody has voted any more": (_asking("true", 'seen: "{x: false for x in b}"'), set()),
    "all have voted from now on": (_asking("true", 'seen: "{x: true for x in b}"'), {"LH806"}),
    "one has voted": (_asking("true", 'seen: "seen | {b[1]: true}"'), set()),
    "one has voted, cell by cell": (_asking("true", "'seen[b[1]]': true"), set()),
    "a map of another first value is written": (_asking("true", "votes: trust"), {"LH806"}),
    "a map of another first value is sent": (
        _asking("true") | {"FIELDS": 'votes: "map[b, int]"', "ONLY": 'with: {votes: trust}, only: "it == b[1]"'},
        {"LH806"},
    ),
    "a map of members is sent": (
        _asking("true") | {"FIELDS": 'votes: "map[b, int]"', "ONLY": 'with: {votes: votes}, only: "it == b[1]"'},
        set(),
    ),
    "a first value of each by its name": (_beginning("{x: x == b[0] for x in b}"), set()),
    "a first value of each by number": (_beginning("{x: index(x) > 0 for x in b}"), {"LH806"}),
    "a first value of all": (_beginning("true"), set()),
    "a first value of oneself": (
        NAMED | {"THEIRS": "seen: {type: 'map[b, bool]', initial: '{x: x == self for x in b}'}"},
        {"LH806"},
    ),
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


@pytest.mark.parametrize("variant", ["pairs there", "pairs back"])
def test_two_channels_of_which_one_joins_equal_indices_have_numbers_of_their_own(variant: str, tmp_path: Path) -> None:
    """One has a single machine at its other end, and the other has each of two."""
    program = compile_system(written(tmp_path, _files(VARIANTS[variant][0])))
    paired = variant.removeprefix("pairs ")
    for core in program.roles.values():
        ends = list(zip(core.channels, (number for _, number in core.neighbours), strict=True))
        assert sorted(ends) == sorted([(paired, -1), *(("there" if paired == "back" else "back", n) for n in (0, 1))])
