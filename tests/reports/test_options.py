"""A value that is absent is `none`, as the language writes it: in reports, and where a person reads or types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console

from leasehold.checker.explore import explore
from leasehold.cli.client import fields_given
from leasehold.cli.leases import one_lease
from leasehold.impl.core.values import ValueFault, from_plain
from leasehold.reports.trace import trace_text
from leasehold.reports.write import write_report
from leasehold.spec.language.types import Enum, Option
from tests.systems import TESTS, load

COLOUR = Enum("colour", ("red", "green"))
FILES = TESTS / "reports/systems/options"


def test_reports_have_no_other_word(tmp_path: Path) -> None:
    found = explore(load(FILES))
    paths = [p.path for p in found.properties if p.path is not None]
    assert len(paths) == 3
    text = "".join(map(trace_text, paths))
    assert "one: paint c=none" in text
    assert "word(c=none)" in text
    assert "m={red: none, green: none}" in text
    write_report(found, tmp_path / "report")
    files = [file.read_text() for file in (tmp_path / "report").rglob("*") if file.is_file()]
    assert len(files) > 5
    assert any("two.c != none" in file for file in files)
    for words in (text, *files):
        assert "None" not in words


def test_an_event_is_told_with_none() -> None:
    assert fields_given(("c=none", "n=null")) == {"c": None, "n": None}
    assert from_plain(Option(COLOUR), None) is None
    with pytest.raises(ValueFault, match="none is none of red, green"):
        from_plain(COLOUR, None)


def test_a_lease_is_shown_with_none() -> None:
    machine = {
        "machine": "one",
        "actor": "here",
        "state": "a",
        "data": {"c": None, "b": True, "end": 7},
        "times": ["end"],
        "shown": {"c": "none", "b": "true", "end": "7"},
        "peers": {},
        "units": [],
    }
    console = Console(width=80)
    with console.capture() as printed:
        console.print(one_lease([json.loads(json.dumps(machine))], [{"name": "here", "now": 5, "tick_seconds": 1.0}]))
    assert "None" not in printed.get()
    assert [line.split()[:2] for line in printed.get().splitlines()[1:3]] == [["c", "none"], ["b", "true"]]
