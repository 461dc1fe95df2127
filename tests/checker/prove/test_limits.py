"""A limit of a query is one of work, which z3 counts: it ends at the same point however busy the machine is."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
import z3

from leasehold.checker.prove import Setting
from leasehold.checker.prove.decide.induction import OUT_OF_TIME
from leasehold.checker.prove.decide.k_induction import k_induction
from leasehold.checker.prove.decide.set_aside import worker_pool
from leasehold.checker.prove.encode.encoding import MOST, Encoding, work_seconds
from leasehold.checker.prove.encode.properties import claims as claims_of
from leasehold.checker.prove.prover import OUT_OF_TIME as TIME_IS_OVER
from leasehold.checker.prove.prover import Strategies
from tests.systems import load


@pytest.fixture(scope="module")
def encoding() -> Encoding:
    return Setting(limit_seconds=0.2).encoding(load("two_phase_commit"))


def _hard(solver: z3.Solver) -> z3.Solver:
    """A sum of two cubes that is a cube: no solution, and no end to the search for one."""
    a, b, c = z3.Ints("a b c")
    solver.add(a * a * a + b * b * b == c * c * c, a > 0, b > 0, c > 0)
    return solver


@pytest.mark.parametrize("incremental", [False, True])
def test_a_query_ends_at_its_limit_of_work(encoding: Encoding, incremental: bool) -> None:
    """The same work each time, and not less for wall time that passes."""
    found = []
    for _ in range(2):
        solver = _hard(encoding.solver())
        if incremental:
            solver.push()
        before = work_seconds(solver)
        assert solver.check(*([z3.Bool("known")] if incremental else [])) == z3.unknown
        assert solver.reason_unknown() in OUT_OF_TIME
        found.append(round(work_seconds(solver) - before, 2))
    assert found == [0.2, 0.2]


def test_time_ends_a_query_before_its_limit() -> None:
    """`--time` is wall time, and bounds all of it."""
    encoding = Setting(limit_seconds=3600).limited(0.3).encoding(load("two_phase_commit"))
    solver, began = _hard(encoding.solver()), time.perf_counter()
    assert solver.check() == z3.unknown
    assert time.perf_counter() - began < 60  # the limit of work alone would be an hour
    assert work_seconds(solver) < 3600


def test_a_limit_beyond_what_z3_counts_is_none() -> None:
    """As large as a user may ask for: the question is asked, and answered."""
    encoding = Setting(limit_seconds=float(MOST)).encoding(load("two_phase_commit"))
    solver = encoding.solver()
    solver.add(z3.Int("a") > 0)
    assert solver.check() == z3.sat


def test_k_induction_has_one_limit_for_each_property(encoding: Encoding) -> None:
    """Queries that cost little count, too: their terms are built in Python."""
    claims = {c.name: c for c in claims_of(encoding)}
    asked, solver = [], encoding.solver
    encoding.solver = lambda seconds=None: asked.append(seconds) or solver(seconds)  # type: ignore[assignment,func-returns-value]
    assert k_induction(encoding, claims["agreement"], [], seconds=0.1) is None
    assert 1 <= len(asked) <= 5
    assert asked == sorted(asked, reverse=True)


def test_a_question_is_taken_when_a_process_is_free_for_it() -> None:
    """So what an earlier one has found can still change it; one that comes sooner goes before the others."""
    found, known, sooner = list[int](), list[int](), deque([-7])

    def works() -> Iterator[int]:
        for n in (-1, -2):
            known.append(len(found))
            yield n

    with worker_pool(60.0, jobs=1) as pool:
        found.extend(future.result() for _, future in pool.asked(abs, works(), sooner))
    assert (found, known, list(sooner)) == ([7, 1, 2], [1, 2], [])


@pytest.mark.parametrize(
    ("text", "is_over", "noted"), [("push canceled", True, TIME_IS_OVER), ("push canceled", False, "")]
)
def test_a_solver_that_the_alarm_interrupts_ends_with_the_time(text: str, is_over: bool, noted: str) -> None:
    """An exception at the end of the time is no error; where there is time left, it is one."""
    model = load("two_phase_commit")
    strategies = Strategies(model, Setting().limited(0.0 if is_over else 60.0), model)
    with nullcontext() if noted else pytest.raises(z3.Z3Exception), strategies.within_limits():
        raise z3.Z3Exception(text.encode())
    assert strategies.cut_short == noted
