"""Fairness of each value of an event: not of an answer, of which any may come."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.spec.language.diagnostics import SpecError
from leasehold.spec.language.load import load
from tests.systems import write

LEVEL = "fields: {level: {type: int, min: 0, max: 1}}"
FILES = {
    "invariants.yaml": "properties: {}\n",
    "roles/asks.yaml": f"""\
role: asks
events: {{flip: {{doc: It is told., {LEVEL}}}}}
states: {{on: {{initial: true, tasks: [ask], on: {{flip: {{to: on}}}}}}}}
tasks: {{ask: {{call: policy.ask, answers: [flip]}}}}
""",
    "roles/waits.yaml": f"""\
role: waits
events: {{flip: {{doc: Somebody flips it., {LEVEL}}}}}
states: {{on: {{initial: true, on: {{flip: {{to: on}}}}}}}}
""",
}
SYSTEM = """\
system: lamps
roles: {{asks: {{}}, waits: {{}}}}
environment:
  told: {{to: asks, event: flip, fair: true{asks}}}
  flipped: {{to: waits, event: flip, fair: true{waits}}}
"""
EACH = ", fair_for_each: [level]"


@pytest.mark.parametrize(("role", "codes"), [("asks", {"LH604"}), ("waits", set())])
def test_each_value_of_an_event_may_be_fair_where_it_is_no_answer(role: str, codes: set[str], tmp_path: Path) -> None:
    """In another role an event of that name may be an answer."""
    system = SYSTEM.format(**{"asks": "", "waits": "", role: EACH})
    found = set()
    try:
        load(write(tmp_path, {**FILES, "system.yaml": system}))
    except SpecError as error:
        found = {d.code for d in error.diagnostics if d.severity == "error"}
    assert found == codes
