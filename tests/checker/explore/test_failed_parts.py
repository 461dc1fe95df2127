"""A violated claim says which of its parts is false, in every engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.explore.engines import Engine
from leasehold.checker.explore.properties import MOST_PARTS, claim_parts
from leasehold.reports.json_report import property_json
from leasehold.spec.language import expression as x
from tests.systems import files_of, load, write

LAMP = files_of("checker/explore/systems/lamp")


@pytest.fixture
def lamp(tmp_path: Path) -> Path:
    return write(tmp_path, LAMP)


@pytest.mark.parametrize("engine", ["packed", "reference"])
def test_the_false_parts_are_named(lamp: Path, engine: Engine) -> None:
    found = {p.name: p for p in explore(load(lamp), engine=engine).properties}
    assert found["new"].failed == ("not lamp.worn",)
    assert found["counted"].failed == (
        "old(lamp.state) == lamp.state or lamp.presses > old(lamp.presses)",
        "old(lamp.state) == lamp.state or lamp.worn == old(lamp.worn)",
    )
    assert found["careful"].failed == (
        "lamp.state == dark or lamp.presses == 0 or lamp.presses > 5",
        "lamp.state == dark or lamp.presses == 0 or lamp.worn",
    )
    whole = {name: p.verdict for name, p in found.items() if not p.failed}
    assert whole == {"one_thing": "violated", "kept": "exhausted"}
    assert property_json(found["new"], paths=False)["failed"] == ["not lamp.worn"]


def test_the_parts_together_are_the_claim() -> None:
    for p in load("lease").properties.values():
        parts = claim_parts(p.claim)
        assert 1 <= len(parts) <= MOST_PARTS
        assert all(part.type == p.claim.type for part in parts)
        assert not any(isinstance(part, x.Apply) and part.op == "and" for part in parts)


def test_what_would_have_too_many_parts_is_not_taken_apart() -> None:
    pair = x.conjunction((x.TRUE, x.TRUE))
    assert len(claim_parts(x.disjunction([pair] * 6))) == 64
    many = x.disjunction([pair] * 7)
    assert claim_parts(many) == (many,)
