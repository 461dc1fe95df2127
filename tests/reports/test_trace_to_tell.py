"""Events of a path are printed as `leasehold tell` takes them."""

from __future__ import annotations

import shlex

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.explore.result import Snapshot, Step
from leasehold.cli.client import fields_given
from leasehold.impl.core.values import named_fields
from leasehold.reports.trace import title_to_tell
from leasehold.spec import load


def test_the_words_of_a_path_are_fields_of_the_event() -> None:
    system = load("lease", {"max_units": 1, "last_end": 2})
    told = 0
    for p in explore(system).properties:
        for step in p.path.steps if p.path is not None else ():
            if step.kind == "local" and step.machine is not None:
                role = system.roles[step.machine.partition("[")[0]]
                event, *words = shlex.split(title_to_tell(step).partition(": ")[2])
                fields = tuple((f.name, f.type) for f in role.events[event].fields)
                assert len(named_fields(fields, fields_given(tuple(words)))) == len(step.fields)
                told += bool(words)
    assert told > 5


@pytest.mark.parametrize(
    ("shown", "given"),
    [
        ("3", 3),
        ("true", True),
        ("red", "red"),
        ("none", None),
        ("participant[2]", "participant[2]"),
        ("{}", []),
        ("{participant[0], participant[1]}", ["participant[0]", "participant[1]"]),
        ("{red, blue}", ["red", "blue"]),
    ],
)
def test_values_of_every_type_are_taken(shown: str, given: object) -> None:
    step = Step("local", "m", "go", {"value": shown}, None, None, None, None, (), (), Snapshot({}, {}, {}, None))
    _, *words = shlex.split(title_to_tell(step).partition(": ")[2])
    assert fields_given(tuple(words)) == {"value": given}
    assert "null" not in words[0]
