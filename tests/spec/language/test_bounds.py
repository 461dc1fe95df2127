"""Constants that bound exploring are no settings of a run, which is held to what is so, whatever was explored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from leasehold.impl.compiler.contract_source import not_enforced
from leasehold.impl.compiler.program import compile_system
from leasehold.spec import SHIPPED, load, load_for_run
from leasehold.spec.language import expression as x
from leasehold.spec.language.bounds import as_running
from leasehold.spec.language.diagnostics import SpecError


@pytest.mark.parametrize("system", [*SHIPPED, "examples/mutex", "examples/raft", "examples/register", "examples/ring"])
def test_what_is_explored_does_not_change_how_a_system_runs(system: str) -> None:
    """All bounds, set otherwise, give the same program, the same contracts and the same values of properties."""
    usual = load(system)
    run, program = as_running(usual), compile_system(usual)
    assert as_running(run) == run
    bounds = {name: constant for name, constant in usual.constants.items() if constant.bounds}
    assert not bounds.keys() & program.constants.keys()
    other = {n: not c.value if isinstance(c.value, bool) else c.value + 1 for n, c in bounds.items()}
    explored = as_running(load(system, other))
    assert compile_system(explored).source == program.source
    assert explored.environment == run.environment
    read = [name for name, constant in usual.constants.items() if not constant.bounds or constant.running is not None]
    assert {name: explored.values()[name] for name in read} == {name: run.values()[name] for name in read}


def test_a_run_of_the_lease_has_losses_and_an_operator() -> None:
    run = load_for_run("lease", {"max_units": 3})
    assert {name: run.constants[name].value for name in ("losses", "retiring", "max_units")} == {
        "losses": True,
        "retiring": True,
        "max_units": 3,
    }
    assert load("lease").constants["losses"].value is False
    assert not {"lost", "retire", "returned"} & {one.name for one in not_enforced(run)}


def test_a_bound_cannot_be_set_for_a_run() -> None:
    with pytest.raises(SpecError) as caught:
        load_for_run("lease", {"losses": False, "max_units": 3})
    (found,) = caught.value.diagnostics
    assert (found.code, "it is true in every run" in str(found)) == ("LH704", True)


def test_conjuncts_that_only_bound_exploring_are_no_part_of_a_run_s_contract() -> None:
    usual = load("examples/register")
    for name in ("read", "write"):
        before, after = usual.environment[name].when, as_running(usual).environment[name].when
        assert before is not None
        assert after is not None
        assert len(x.conjuncts(before)) == len(x.conjuncts(after)) + 2
    alone = replace(usual, environment={"read": replace(usual.environment["read"], when=x.conjuncts(before)[0])})
    assert as_running(alone).environment["read"].when is None
