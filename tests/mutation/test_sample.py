"""Mutants that the tests have found before are found again: a few of each package, others in each run."""

from __future__ import annotations

import json
import random
import subprocess
from typing import Any

import pytest

from tests.mutation.judging import APART, MutantCopy
from tests.mutation.operators import Mutant, mutants
from tests.planted.judge import ROOT

RESULTS = ROOT / "reports" / "implementation_mutants.json"
MOST = 6


def still_there(row: dict[str, Any]) -> Mutant | None:
    """The mutant of a row of the results, if its place in the source and the test that found it are as they were."""
    module, test = ROOT / row["path"], ROOT / row["test"].partition("::")[0]
    if not module.is_file() or not test.is_file():
        return None
    known = ("path", "function", "operator", "old", "new")
    found = [
        m for m in mutants(row["path"], module.read_bytes()) if all(getattr(m, name) == row[name] for name in known)
    ]
    return found[0] if len(found) == 1 else None


@pytest.mark.long
def test_a_sample_is_found_again() -> None:
    if subprocess.run([*APART, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no namespace of processes can be made: this needs root")
    packages = json.loads(RESULTS.read_text(encoding="utf-8"))["packages"].values()
    seed = random.randrange(2**32)
    rng, tried, survived, copy = random.Random(seed), 0, list[str](), MutantCopy()
    by_test = ([row for row in package["found"] if "::" in row["test"]] for package in packages)
    rows = [row for found in by_test for row in rng.sample(found, min(2, len(found)))]
    try:
        for row in rng.sample(rows, len(rows)):
            mutant = still_there(row)
            if mutant is None or tried == MOST:
                continue
            tried += 1
            if not copy.tried_with(mutant, [row["test"]], 60.0):
                survived.append(f"{mutant.name}: {mutant.old!r} -> {mutant.new!r}, which {row['test']} found")
    finally:
        copy.close()
    assert tried >= MOST // 2, "the results are old: run python -m tests.campaigns.mutants"
    assert not survived, f"seed {seed}: {survived}"
