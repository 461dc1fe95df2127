"""Messages that are lost with the actor to which they are on their way: claims about the step of its crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.prove.decide.induction import Setting, induct
from leasehold.faults.model import Budget
from tests.systems import edited, files_of, written

CLAIM = """  a_crash_loses_nothing:
    when: old(running(server)) and not running(server) and not took(server) and not took(client)
    step: old(len(pending(ask)) == 0) or len(pending(ask)) > 0
  a_crash_loses_no_answer:
    when: old(running(server)) and not running(server) and not took(server) and not took(client)
    step: old(len(pending(done)) == 0) or len(pending(done)) > 0
"""


@pytest.mark.parametrize("fate", ["lost", "kept"])
@pytest.mark.parametrize("budget", ["crash=1", "power_cut=1"])
def test_what_a_crash_loses_is_not_proved_to_stay(fate: str, budget: str, tmp_path: Path) -> None:
    files = edited(files_of("constructs/connections"), ("on_crash: lost", f"on_crash: {fate}"))
    files["invariants.yaml"] += CLAIM
    system = written(tmp_path, files)
    found = {p.name: p.verdict for p in explore(system, budget=Budget.parse(budget)).properties}
    assert found["a_crash_loses_nothing"] == ("violated" if fate == "lost" else "exhausted")
    assert found["a_crash_loses_no_answer"] == "exhausted"
    proved = induct(system, Setting(limit_seconds=5.0), jobs=1).proved
    assert {"a_crash_loses_nothing", "a_crash_loses_no_answer"} & {*proved} == (
        {"a_crash_loses_no_answer"} | ({"a_crash_loses_nothing"} if fate == "kept" else set())
    )
