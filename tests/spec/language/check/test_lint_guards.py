"""Guards are tried with each value up to both ends of what is explored, and with none beyond."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.spec import load
from leasehold.spec.language.diagnostics import SpecError

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
