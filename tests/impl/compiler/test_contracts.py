"""An event with several contracts in `environment` comes where one of them lets it: explored and compiled alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from leasehold.checker.explore import explore
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.work import local
from leasehold.spec import load
from tests.cli.conftest import write

CLERK = """
role: clerk
data: {n: {type: int, min: 0, max: 1}}
events: {said: It is as it was asked for., more: Something else happens.}
TASKS
states:
  asking: {initial: true, BEGINS on: {said: {to: over}, more: {stay: true, set: {n: 0}}}}
  over: {ignore: {more: it is over}, REST}
"""
ASKED = {
    "TASKS": "tasks: {ask: {call: handler.ask, answers: [said]}}", "BEGINS": "tasks: [ask],",
    "REST": "refuse: {}",
}  # fmt: skip
UNASKED = {"TASKS": "", "BEGINS": "", "REST": "refuse: {said: it is over}"}
TRUE, FALSE = "clerk.n == 0", "clerk.n == 1"
CONTRACTS = {  # the conditions under which each lets the event come; None: it has none
    (FALSE,): False, (TRUE,): True, (None,): True,
    (FALSE, FALSE): False, (FALSE, TRUE): True, (TRUE, FALSE): True,
    (FALSE, None): True, (None, FALSE): True, (FALSE, None, FALSE): True,
}  # fmt: skip


@pytest.mark.parametrize("conditions", CONTRACTS, ids=str)
@pytest.mark.parametrize("words", [ASKED, UNASKED], ids=["an answer", "from outside"])
def test_one_contract_is_enough(words: dict[str, str], conditions: tuple[str | None, ...], tmp_path: Path) -> None:
    role = CLERK
    for old, new in words.items():
        role = role.replace(old, new)
    lines = "".join(
        f"  one_{n}: {{to: clerk, event: said{'' if when is None else f', when: {when}'}}}\n"
        for n, when in enumerate(conditions)
    )
    system = load(write(tmp_path / "asked", {
        "system.yaml": f"system: asked\nroles: {{clerk: {{}}}}\nenvironment:\n{lines}  more: {{to: clerk}}\n",
        "roles/clerk.yaml": role, "invariants.yaml": "properties: {ends: {sometimes: clerk.state == over}}\n",
    }))  # fmt: skip
    (found,) = (p.verdict == "witnessed" for p in explore(system).properties if p.name == "ends")
    core = compile_system(system).roles["clerk"]
    _, outcome = core.step_outside(core.first(0), local("said"), 0, cast(Any, None))
    assert (found, outcome.taken) == (CONTRACTS[conditions],) * 2
