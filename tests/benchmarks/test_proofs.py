"""That reports/proofs.md is about the systems as they are: a verdict for each property. No times are compared."""

from __future__ import annotations

import re

import pytest

from leasehold.checker.prove.decide.proof import PROVABLE
from tests.benchmarks.proofs import ABOUT, LITERATURE, PAGE, SYSTEMS, folder_of, section
from tests.systems import load

ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| (proved|proved, but vacuous|counterexample|undecided) \| .", re.MULTILINE)


SECTIONS = set(re.findall(r"<!-- end of (\w+) -->", PAGE.read_text())) - {"about"}


def test_the_page_has_the_systems_from_the_literature() -> None:
    assert set(LITERATURE) <= SECTIONS <= set(SYSTEMS)


@pytest.mark.parametrize("name", sorted(SECTIONS))
def test_a_section_has_every_property(name: str) -> None:
    text = PAGE.read_text()
    first, last = text.index(f"<!-- {name} -->"), text.index(f"<!-- end of {name} -->")
    written = {(row[0], row[1]) for row in ROW.findall(text[first:last])}
    alone = re.search(r"^For the explorer alone: (.*)\.$", text[first:last], re.MULTILINE)
    left_out = set(re.findall(r"`(\w+)`", alone[1])) if alone else set()
    properties = load(folder_of(name)).properties.values()
    there = {(p.name, p.kind) for p in properties if p.kind in PROVABLE and p.name not in left_out}
    assert len(left_out & {p.name for p in properties if p.kind in PROVABLE}) <= 1  # one claim has no encoding
    assert written == there, f"python -m tests.benchmarks.proofs {name} writes this section again"


def test_the_page_has_the_words_of_its_generator() -> None:
    assert ABOUT.strip() in PAGE.read_text()


def test_a_section_says_what_is_proved_and_what_is_not() -> None:
    rows = [
        {"name": "one", "kind": "always", "verdict": "proved", "method": "induction", "vacuous": "never so"},
        {"name": "two", "kind": "step", "verdict": "undecided", "method": "", "reason": "it was not decided"},
        {"name": "three", "kind": "always", "verdict": "counterexample", "method": "explored", "faults": "crash=1"},
    ]
    proof = {
        "for": "all values",
        "assumptions": {"machines": {"a": "1"}, "limit_seconds": 3.0},
        "lemmas": [],
        "found_lemmas": {},
        "helpers": 2,
        "properties": rows,
        "not_asked": [],
    }
    text = section("some", proof, 1.25)
    verdicts = [row[2] for row in ROW.findall(text)]
    assert verdicts == ["proved, but vacuous", "undecided", "counterexample"]
    assert "never so" in text
    assert "it was not decided" in text
    assert "explored with crash=1" in text
