"""Handlers that were written without a look at the harness: it finds their mistakes, and none in right ones.

unseen.yaml says of each which kinds of faults show its mistake.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from leasehold.checker.handlers.harness import Options, Tried, verify_handler
from leasehold.checker.handlers.sequence import FindingKind
from leasehold.checker.handlers.target import target_of

HANDLERS = Path(__file__).with_name("unseen")
ROWS: dict[str, dict[str, Any]] = yaml.safe_load(HANDLERS.with_suffix(".yaml").read_text(encoding="utf-8"))
AT_ONCE = ("draining_worker", "web_site")  # found by the first sequences

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("strace") is None, reason="needs root, for worlds of their own, and strace"
)


def tried(name: str, folder: Path) -> Tried:
    row, place = ROWS[name], folder / name
    shutil.copytree(HANDLERS / name, place)
    subprocess.run(["bash", "-c", row.get("prepare", "")], cwd=place, check=True)
    target = target_of(str(place / "handler.yaml"), properties=row.get("properties"), modified=row.get("modified"))
    return verify_handler(target, Options(sequences=300, seconds=900, skip=tuple(row.get("skip", ()))))


def test_each_handler_has_a_row() -> None:
    assert {path.name for path in HANDLERS.iterdir()} == ROWS.keys()
    kinds = {kind for row in ROWS.values() for kind in row.get("found_by", ())}
    assert kinds <= {*FindingKind}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if name in AT_ONCE else pytest.mark.slow)
        for name, row in ROWS.items()
        if row
    ],
)
def test_a_mistake_is_found(name: str, tmp_path: Path) -> None:
    result = tried(name, tmp_path)
    assert not result.broken
    found = {failure.finding.kind for failure in result.failures}
    assert found & {*ROWS[name]["found_by"]}, found


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if not row])
def test_nothing_is_found_in_a_right_one(name: str, tmp_path: Path) -> None:
    result = tried(name, tmp_path)
    assert (result.broken, [str(failure.steps) for failure in result.failures]) == ("", [])
