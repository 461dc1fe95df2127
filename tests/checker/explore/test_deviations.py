"""Systems whose machines deviate from the semantics; whether each mistake is found is asked in tests/mutants."""

from __future__ import annotations

import pytest

from leasehold.checker.crash.analysis import crash
from leasehold.checker.explore import explore
from leasehold.faults.model import Budget
from tests.mutants.deviant import DeviationError
from tests.mutants.deviation import Deviation
from tests.mutants.deviations import DEVIATIONS, deviant, deviating
from tests.mutants.mutant import mutants
from tests.systems import load

SMALL = {"expiry": False, "last_end": 1, "max_units": 1}
SEEN_WITHOUT_FAULTS = {"newer_taken_for_duplicate"}
MADE = {m.deviation for m in mutants() if m.deviation is not None}


def test_every_deviation_is_seeded() -> None:
    assert {d.name for d in MADE} == DEVIATIONS.keys()


@pytest.mark.parametrize("deviation", sorted(MADE, key=str), ids=str)
def test_without_faults_a_deviation_does_not_show(deviation: Deviation) -> None:
    system = load("lease", SMALL)
    plain, found = explore(system), explore(system, reference=deviating(deviation))
    world = found.paths.world
    same = {world.without_faults(s) for s in found.paths.states} == set(plain.paths.states)
    assert same == (deviation.name not in SEEN_WITHOUT_FAULTS)


@pytest.mark.parametrize(
    ("deviation", "says"),
    [
        (Deviation("duplicate_drop"), "did you mean `duplicate_dropped`"),
        (Deviation("no_recovery", ("authority/closin",)), "did you mean `authority/closing`"),
        (Deviation("recover_to", ("authority/priming -> close",)), "no `close`"),
        (Deviation("field_not_saved", ("authority.asigned",)), "did you mean `authority.assigned`"),
        (Deviation("duplicate_executed", ("agent",)), "no `agent`"),
    ],
    ids=str,
)
def test_a_deviation_that_does_not_fit_is_refused(deviation: Deviation, says: str) -> None:
    with pytest.raises(DeviationError, match=says):
        deviant(load("lease", SMALL), Budget(crash=1), deviation)


def test_what_crashes_do_to_a_system_with_a_mistake() -> None:
    """Legal is what the system reaches without the mistake; a policy that forgets a request does not come back."""
    system = load("lease", SMALL)
    report = crash(system, Budget(crash=1), reference=deviating(Deviation("no_recovery", ("broker/ticketing",))))
    assert report.convergence is not None
    assert not report.convergence.converges
    assert report.weakest["requests_are_answered"] == Budget(crash=1)
    assert report.holds is False
