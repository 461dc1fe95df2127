"""A machine is over where its state says so, or where no event leads out of the state or changes the record."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.impl.compiler.program import compile_system
from tests.systems import written

FILES = {
    "system.yaml": "system: lamps\nroles: {lamp: {}}\nenvironment: {press: {to: lamp}, shine: {to: lamp}}\n"
    "types: {colour: {members: [red, green]}}\n",
    "messages.yaml": "messages: {}\n",
    "invariants.yaml": "properties: {}\n",
}
LAMP = """role: lamp
data: {times: int, at: "map[colour, int]", hue: colour}
events: {press: Somebody presses it., shine: It is to shine., hot: It is hot.}
states:
  dark: {initial: true, on: {press: {to: lit}}, ignore: {shine: it is dark}}
  lit: {%s}
tasks: {heat: {call: handler.heat, answers: [hot]}}
"""
IGNORED = "ignore: {press: it shines, shine: it shines}"
# What a state does, and whether a machine is over in it.
STATES = {
    "nothing comes": (IGNORED, True),
    "an event stays": ("on: {press: {stay: true}}, ignore: {shine: so}", True),
    "an event enters it again": ("tasks: [heat], on: {press: {to: lit}, hot: {stay: true}}, ignore: {shine: so}", True),
    "an event leads out": ("on: {press: {to: dark}}, ignore: {shine: so}", False),
    "an event leads out, and the state is an end": ("over: true, on: {press: {to: dark}}, ignore: {shine: so}", True),
    "an event stays, and counts": ("on: {press: {stay: true, set: {times: times + 1}}}, ignore: {shine: so}", False),
    "an event enters it again, and counts": ("on: {press: {to: lit, set: {times: 1}}}, ignore: {shine: so}", False),
    "an event stays, and sets a cell": ('on: {press: {stay: true, set: {"at[hue]": 1}}}, ignore: {shine: so}', False),
    "one of two counts": ("on: {press: {stay: true}, shine: {stay: true, set: {times: times + 1}}}", False),
    "one of two leads out": ("on: {press: {stay: true}, shine: {to: dark}}", False),
    "one of two ways counts": (
        "on: {press: [{stay: true, when: times > 2}, {stay: true, when: times <= 2, set: {times: times + 1}}]}, "
        "ignore: {shine: so}",
        False,
    ),
    "an event counts, and the state is an end": (
        "over: true, on: {press: {stay: true, set: {times: times + 1}}}, ignore: {shine: so}",
        True,
    ),
}


@pytest.mark.parametrize("name", STATES)
def test_a_machine_is_over_where_nothing_can_change_it(name: str, tmp_path: Path) -> None:
    does, over = STATES[name]
    lamp = LAMP % does
    if "heat" not in does:
        lamp = lamp.replace(", hot: It is hot.", "").partition("tasks: {heat")[0]
    system = written(tmp_path, {**FILES, "roles/lamp.yaml": lamp})
    assert system.roles["lamp"].states["lit"].over == over
    assert compile_system(system).roles["lamp"].over("lit") == over
