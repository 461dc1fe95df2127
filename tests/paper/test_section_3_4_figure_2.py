"""The paper's Figure 2 (section 3.4): states that encode history, so that a task of an earlier state is restarted.

What the loader makes in other cases, and what expressions then mean, is in tests/spec/language/test_outlives.py.
"""

import pytest

from leasehold.checker.explore import explore
from leasehold.faults.model import Budget
from leasehold.spec import System
from tests.systems import TESTS, load


@pytest.fixture
def machine() -> System:
    return load(TESTS / "paper/systems/figure_2")


def test_a_task_goes_on_in_a_state_that_remembers_it(machine: System) -> None:
    assert [t.name + " -> " + t.target for t in machine.roles["m"].transitions()] == [
        "m/x_i#ended -> x_k",
        "m/x_i#sigma -> x_j__t",
        "m/x_j__t#ended -> x_j",
    ]
    work = {name: state.tasks for name, state in machine.roles["m"].states.items()}
    assert work == {"x_i": ("t",), "x_j": (), "x_j__t": ("t",), "x_k": ()}


def test_a_task_of_an_earlier_state_is_restarted_by_recovery(machine: System) -> None:
    found = explore(machine, budget=Budget(crash=2))
    assert {p.name: p.verdict for p in found.properties} == {"t_ends": "exhausted"}
    assert ("x_j__t",) in {c.control for c in found.cells}
