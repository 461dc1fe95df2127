"""Guards are tried with each value up to both ends of what is explored, and with none beyond."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.spec import load
from leasehold.spec.language.diagnostics import SpecError
from tests.systems import write

SYSTEM = """system: ends
roles: {lamp: {}}
clock: {horizon: 3}
environment: {press: {to: lamp}}
"""
ROLE = """role: lamp
data: {%(data)s}
events: {press: {doc: Somebody presses it., fields: {%(fields)s}}}
states:
  dark:
    initial: true
    on:
      press:
%(choices)s
"""


def found(folder: Path, data: str, fields: str, *guards: str) -> set[str]:
    """The codes of what is wrong with guards of one event."""
    choices = "\n".join(f"        - {{stay: true, when: {guard}}}" for guard in guards)
    (folder / "roles").mkdir(exist_ok=True)
    (folder / "system.yaml").write_text(SYSTEM)
    (folder / "invariants.yaml").write_text("properties: {}\n")
    (folder / "roles/lamp.yaml").write_text(ROLE % {"data": data, "fields": fields, "choices": choices})
    try:
        load(folder)
    except SpecError as error:
        return {d.code for d in error.diagnostics if d.severity == "error"}
    return set()


# The declaration of a number, and the first and the last value that are tried; none: the clock.
ENDS = {
    "a range to explore": ("explore: [1, 4]", 1, 4),
    "a range to explore beyond 0": ("explore: [-2, 0]", -2, 0),
    "a least number": ("min: 7, explore: [0, 9]", 7, 9),
    "a largest number": ("min: 0, max: 5, explore: [0, 9]", 0, 5),
    "a range that goes on with the clock": ("explore: [now, now + 2]", 0, 5),
    "a range that grows with the clock": ("explore: [1, 1 + now]", 1, 4),
    "a range that is wide at one time": ("explore: [1 if now == 2 else 3, 7 if now == 1 else 5]", 1, 7),
    "the clock": ("", 0, 3),
}


@pytest.mark.parametrize("where", ["data", "event"])
@pytest.mark.parametrize("name", ENDS)
def test_guards_are_tried_at_both_ends_and_not_beyond(name: str, where: str, tmp_path: Path) -> None:
    declared, first, last = ENDS[name]
    kind = "time" if "now" in declared else "int"
    data = f"n: {{type: {kind}, {declared}, initial: {first}}}" if declared and where == "data" else ""
    fields = f"n: {{type: {kind}, {declared}}}" if declared and where == "event" else ""
    word = "now" if not declared else "n" if data else "event.n"
    for at in (first, last):  # both guards hold with this value alone
        assert found(tmp_path, data, fields, f"{word} <= {at}", f"{word} >= {at}") == {"LH402"}, at
    for at in (first, last):  # none does
        assert found(tmp_path, data, fields, f"{word} < {at}", f"{word} > {at}") == {"LH415"}, at
    assert found(tmp_path, data, fields, f"{word} <= {last}", f"{word} > {last}") == set()
    assert found(tmp_path, data, fields, f"{word} <= {last + 1}", f"{word} >= {last + 1}") == set()
    assert found(tmp_path, data, fields, f"{word} <= {first - 1}", f"{word} >= {first - 1}") == set()


HANDS = """system: hands
constants: {lamps: {type: int, value: 1, min: 1, max: 3}}
types: {colour: {members: [red, green]}, place: {count: lamps}, wall: {count: 2}}
roles: {lamp: {instances: lamps}, hand: {instances: lamps}}
clock: {horizon: 3}
channels: {wires: {from: hand, to: lamp, kind: mailbox}}
environment: {press: {to: lamp}, wave: {to: hand}}
"""
SWITCH = "messages: {switch: {from: hand, to: lamp, fields: {b: bool}}}\n"
HAND = """role: hand
events: {wave: Somebody waves.}
states: {still: {initial: true, on: {wave: {to: moved}}}, moved: {tasks: [tell], ignore: {wave: it was told}}}
tasks: {tell: {send: switch, to: lamp, with: {b: "true"}}}
"""
LAMP = """role: lamp
data: {%(data)s}
events: {press: {doc: Somebody presses it., fields: {%(fields)s}}}
states:
  dark:
    initial: true
    on: {%(event)s: {stay: true, when: "%(guard)s"}}
    ignore: {press: it may be, switch: it may be}
"""
# The data, the fields of the event, a guard that holds for all that is tried, and what is said of the ignore beside it.
# Numbers and the clock are tried up to a bound, and the machines that this setting has: a run may have more.
ALWAYS = {
    "a truth": ("b: bool", "", "b or not b", "error"),
    "a truth of the event": ("", "b: bool", "event.b or not event.b", "error"),
    "a truth of the message": ("", "", "msg.b or not msg.b", "error"),
    "a member": ("m: colour", "", "m in {red, green}", "error"),
    "a set": ('s: "set[colour]"', "", "s <= colour", "error"),
    "an option": ('o: "option[colour]"', "", "o == none or o != none", "error"),
    "a map": ('m: "map[colour, bool]"', "", "m[red] or not m[red]", "error"),
    "one of so many": ("w: wall", "", "index(w) <= 1", "error"),
    "one of as many as a constant says": ("p: place", "", "index(p) == 0", "warning"),
    "a number": ("n: int", "", "n <= 1000", ""),
    "a number that is explored up to an end": ("n: {type: int, explore: [0, 3]}", "", "n <= 3", ""),
    "a time": ("t: time", "", "t <= 1000", ""),
    "the clock": ("", "", "now <= 3", ""),
    "the machine itself": ("", "", "index(self) == 0", ""),
    "the sender": ("", "", "index(msg.sender) == 0", ""),
}


@pytest.mark.parametrize("name", ALWAYS)
def test_a_reason_never_applies_only_where_all_that_guards_may_read_was_tried(name: str, tmp_path: Path) -> None:
    data, fields, guard, severity = ALWAYS[name]
    event = "switch" if "msg." in guard else "press"
    lamp = LAMP % {"data": data, "fields": fields, "event": event, "guard": guard}
    write(tmp_path, {"system.yaml": HANDS, "messages.yaml": SWITCH, "roles/hand.yaml": HAND, "roles/lamp.yaml": lamp})
    try:
        diagnostics = load(tmp_path).warnings
    except SpecError as error:
        diagnostics = tuple(error.diagnostics)
    assert [d.severity for d in diagnostics if d.code == "LH412"] == ([severity] if severity else [])
    assert {d.code for d in diagnostics if d.severity == "error"} <= {"LH412"}
