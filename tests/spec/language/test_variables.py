"""Names that the loader makes hide none that the author wrote, and none is taken for another."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.prove import prove
from leasehold.spec import System
from tests.checker.explore.test_engines import assert_alike
from tests.sampled import one_in
from tests.systems import files_of, written

NAMED = files_of("spec/language/systems/named")


def claims(kind: str, *texts: str) -> str:
    return "".join(f'  p{n}: {{{kind}: "{text}"}}\n' for n, text in enumerate(texts))


def system(folder: Path, properties: str) -> System:
    return written(folder, {**NAMED, "invariants.yaml": f"properties:\n{properties}"})


NAMES = ("v", "u", "v__2", "key__1", "key__2", "key__3", "v__guard", "event__who", "event__who__guard", "some__w")


@pytest.mark.parametrize("name", one_in(3, NAMES))
def test_a_claim_does_not_depend_on_the_name_of_its_variable(name: str, tmp_path: Path) -> None:
    texts = (
        "apart(NAME)",
        "again(NAME)",
        "(hub.cells | {NAME: 7})[NAME] == 7",
        "(hub.cells | {w[0]: hub.cells[NAME]})[w[0]] == hub.cells[NAME]",
        "({z: hub.cells[NAME] for z in w} | {NAME: 7 for NAME in w if index(NAME) > 5})[w[0]] == hub.cells[NAME]",
        "({z: 0 for z in w} | {NAME: 1 for NAME in NAME.f})[NAME] == (1 if NAME in NAME.f else 0)",
        "(hub.cells | {v: 3 for v in NAME.f})[NAME] == (3 if NAME in NAME.f else hub.cells[NAME])",
        "max((index(NAME) for NAME in NAME.f), default=index(NAME)) >= 0",
        "accepts(NAME.go) == any(z not in NAME.f and (NAME in NAME.f or NAME.k < 2) for z in w)",
    )
    always = claims("always", *(f"all({t} for {name} in w)".replace("NAME", name) for t in texts))
    runs = "".join(
        f'  r{n}: {{for: {{{name}: w}}, always_eventually: "{t.replace("NAME", name)}"}}\n' for n, t in enumerate(texts)
    )
    found = system(tmp_path, always + runs)
    assert_alike(found)
    assert {p.name for p in explore(found).properties if p.verdict != "exhausted"} == set()
    assert {v.name for v in prove(found, jobs=1).verdicts if v.verdict == "proved"} == {
        f"p{n}" for n in range(len(texts))
    }


def test_what_a_task_reads_has_a_field_of_its_own(tmp_path: Path) -> None:
    """A field of the record is not overwritten, nor one that another part of the task reads."""
    kept = {**NAMED, "system.yaml": NAMED["system.yaml"].replace("fifo(1)", "bag(1)")}  # which may repeat it
    properties = claims(
        "always",
        "hub.tell__x == w[0]",
        "all(m.b != hub.odd or hub.state == s for m in pending(m))",
        "all(m.n == (4 if hub.old_odd else 5) or hub.state == s for m in pending(m))",
    )
    found = written(tmp_path, {**kept, "invariants.yaml": f"properties:\n{properties}"})
    assert_alike(found)
    assert {p.name for p in explore(found).properties if p.verdict != "exhausted"} == set()
    assert [*found.roles["hub"].data] == [
        "cells",
        "tell__x",
        "odd",
        "old_odd",
        "tell__x_",
        "tell__old_odd",
        "tell__old_odd_",
    ]


def test_a_field_is_nearer_than_a_channel_of_its_name(tmp_path: Path) -> None:
    files = files_of("spec/language/systems/near")
    found = {p.name: p.verdict for p in explore(written(tmp_path, files)).properties}
    assert found == {"all_have": "exhausted", "both_at_once": "witnessed"}
