"""`m.latest`: that a message on its way has the last number that its sender gave, in every engine and under faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.faults.model import Budget
from leasehold.spec import System
from tests.checker.explore.test_fault_twin import compare, holds, shape
from tests.systems import edited, files_of, written

FAULTS = ("none", "lose=1", "crash=1", "duplicate=1,reorder=1", "crash=1,lose=1,duplicate=1", "amnesia=1")
CLAIMS = {
    "one": "all(m.latest for m in pending(wire))",
    "none_is_lost": "heard(wire) or any(m.latest for m in pending(wire))",
    "older": "not any(not m.latest and m.number > 0 for m in pending(count))",
    "as_the_teller_counts": "all(m.k == t.k for t in teller for m in pending(count) if m.latest and m.number > 0)",
    "one_kind": "all(m.latest for m in pending(count)) or all(m.latest for m in pending(bye))",
    "again": "not any(m.latest and m.number == 0 for m in pending(wire))",
    "of_each": "heard(wire) == all(heard(wire, t) for t in teller)",
    "of_one": "all(heard(wire, t) or any(m.latest and m.sender == t for m in pending(wire)) for t in teller)",
    "of_all": "heard(wire, hearer) == heard(wire)",
    "before": "not any(m.latest and n.number < m.number for m in pending(wire) for n in pending(count))",
}
STEPS = {"it_was": "not (took(hearer) and old(any(m.latest for m in pending(count))) and heard(wire))"}


def counting(folder: Path, tellers: int) -> System:
    files = edited(files_of("checker/explore/systems/counting"), ("instances: 1", f"instances: {tellers}"))
    files["invariants.yaml"] = "properties:\n" + "".join(
        f'  {name}: {{{kind}: "{claim}"}}\n'
        for kind, claims in (("always", CLAIMS), ("step", STEPS))
        for name, claim in claims.items()
    )
    return written(folder, files)


@pytest.mark.parametrize("faults", FAULTS)
def test_the_latest_message_is_the_one_of_the_last_number(faults: str, tmp_path: Path) -> None:
    """In every state the explorer says of each claim what numbers without end say."""
    system = counting(tmp_path / "system", 1)
    found, twin = compare(system, Budget.parse(faults))
    by_shape = {w.shape(): w for w in twin.worlds}
    world = found.paths.world
    for name in CLAIMS:
        claim = system.properties[name].claim
        asked = world.function(claim)
        for state in found.paths.states:
            assert asked(state, (), -1) == holds(twin, claim, by_shape[shape(world, state)]), (name, state)


@pytest.mark.parametrize("tellers", [1, 2])
@pytest.mark.parametrize("faults", FAULTS)
def test_engines_agree_on_the_latest_message(faults: str, tellers: int, tmp_path: Path) -> None:
    system = counting(tmp_path / "system", tellers)
    budget = Budget.parse(faults)
    slow, fast = (explore(system, budget=budget, engine=engine) for engine in ("reference", "packed"))
    assert fast.distinct == slow.distinct

    def verdicts(found: object) -> list[tuple[str, str, int | None]]:
        return [(p.name, p.verdict, None if p.path is None else len(p.path.steps)) for p in found.properties]  # type: ignore[attr-defined]

    assert verdicts(slow) == verdicts(fast)
    few = explore(system, budget=budget, symmetry=True)
    assert [v[:2] for v in verdicts(few)] == [v[:2] for v in verdicts(slow)]
    assert {p.verdict for p in slow.properties} == {"violated", "exhausted"}
