"""When a timer is due, and whether it was a tick before, on states that the explorer comes to."""

from __future__ import annotations

import random

from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.verify.blame import due
from leasehold.checker.verify.system import CutsOfSystem
from leasehold.faults.model import Budget
from leasehold.faults.model.lowering import UP
from tests.systems import load


def test_a_timer_is_late_if_it_was_due_a_tick_before() -> None:
    known = CutsOfSystem(load("lease"))
    world, clock, seen = reference_of(known.system, Budget(crash=1)), known.layout.clock, set()
    assert clock is not None
    for seed in range(60):
        chance, state = random.Random(seed), world.initial_states()[0]
        for _ in range(40):
            following = [after for _, after in world.successors(state)]
            if not following:
                break
            state = chance.choice(following)
            now = state[clock]
            for later in range(3) if now else ():  # a clock that has gone on while nothing else has
                at = (*state[:clock], now + later, *state[clock + 1 :])
                before = (*state[:clock], now + later - 1, *state[clock + 1 :])
                were = {timer.machine for timer in due(known, before)}
                for timer in due(known, at):
                    assert timer.late == (timer.machine in were), (seed, timer)
                    of = known.layout.of[known.machine(timer.machine)]  # type: ignore[index]
                    assert timer.running == (state[known.up[of.name]] == UP)
                    seen.add((timer.late, timer.running))
    assert {(True, True), (False, True), (True, False)} <= seen
