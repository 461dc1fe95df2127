"""A `within` of a run is broken by the first state after its last tick, as the explorer has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.step import Action
from leasehold.checker.verify.evaluator import ClaimsOfRuns, Decided, RunEvaluator
from leasehold.spec import load
from tests.systems import files_of, write

MOST = 2
BEGAN = 5
FILES = files_of("checker/verify/systems/clerk")


@pytest.mark.parametrize("ticks", range(MOST + 3))
def test_what_comes_in_the_last_tick_is_not_late(ticks: int, tmp_path: Path) -> None:
    files = {name: text.replace("TICKS", str(ticks)) for name, text in FILES.items()}
    system = load(write(tmp_path / "late", files))
    (explored,) = (p.verdict for p in explore(system).properties if p.name == "soon")
    world = reference_of(system, None)
    layout, evaluator, late = world.layout, RunEvaluator(ClaimsOfRuns(world)), list[Decided]()

    def see(now: int, state: str) -> None:
        cells = list(world.initial_states()[0])
        assert layout.clock is not None
        cells[layout.clock], cells[layout.at("clerk", 0, None)] = now, state
        late.extend(evaluator.see(tuple(cells), Action("clock", None, 0, "") if evaluator.cut >= 0 else None))

    see(0, "idle")
    for now in range(ticks):
        see(BEGAN + now, "asked")
    see(BEGAN + ticks, "done")
    see(BEGAN + 99, "done")
    assert {(one.name, one.cut) for one in late} == {("soon", cut) for cut in range(1, ticks - MOST + 1)}
    assert evaluator.end() == []
    assert (explored == "violated") == (ticks > MOST)
