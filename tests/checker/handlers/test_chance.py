"""Sequences by chance ask for nothing that a machine never asks for."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings

from leasehold.checker.handlers.chance import sequences
from leasehold.checker.handlers.sequence import CHANGE, DOWN, HandlerStep, Sequence


def test_a_unit_is_changed_after_it_was_set_up_to_the_end() -> None:
    changes = []

    @settings(max_examples=100, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(sequences(("setup", "modify", "teardown"), 2, {}, {}, 6))
    def play(drawn: Sequence) -> None:
        assert drawn.follows
        made = [False, False]
        for step in drawn.steps:
            if step.verb in CHANGE or step.beside in CHANGE:
                changes.append([made[unit] for unit in step.units])
            for unit in step.units if step.verb != "lose" and not step.old else ():
                last = step.beside or step.verb
                if last not in CHANGE:
                    made[unit] = last not in DOWN and step.fault is None

    play()
    assert changes
    assert not Sequence((HandlerStep("modify"),)).follows
    assert not Sequence((HandlerStep("setup"), HandlerStep("teardown", beside="modify"))).follows
    assert Sequence((HandlerStep("setup"), HandlerStep("setup", beside="modify"), HandlerStep("modify"))).follows
    assert all(all(units) for units in changes)
