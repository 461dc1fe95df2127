"""Leader election of Kubernetes' Go client: how far its clocks may differ, as its documentation argues.

kubernetes/client-go, tools/leaderelection/leaderelection.go: it is to tolerate clocks that are apart by any offset, and
rates whose ratio is that of LeaseDuration to RenewDeadline, "approximately". A leader begins to count RenewDeadline a
RetryPeriod after it has renewed, so what it tolerates is the ratio of LeaseDuration to the sum of the two.
docs/findings.md has that.
"""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.checker.explore import Exploration, Limits, explore
from leasehold.checker.explore.properties import only_these
from leasehold.faults.model import Budget
from tests.systems import TRUTH, load


def explored(faults: str = "none", **settings: Any) -> Exploration:
    budget = None if faults == "none" else Budget.parse(faults)
    system = only_these(load(TRUTH / "client_go_leader_election", settings), {"one_leader"})
    return explore(system, Limits(stop_at_violation=True), budget=budget)


def steps(found: Exploration) -> int | None:
    """The steps of the path on which two lead; None where there is none."""
    (claim,) = [p for p in found.properties if p.name == "one_leader"]
    assert claim.verdict in ("exhausted", "violated")
    return None if claim.path is None else len(claim.path)


@pytest.mark.parametrize(
    ("lease_duration", "retry_period", "length"),
    [(4, 2, 9), (4, 1, 9), (5, 1, None), (5, 2, 10), (6, 2, None), (8, 1, None)],  # RenewDeadline is 3
)
def test_without_drift_lease_duration_has_to_exceed_both_other_periods(
    lease_duration: int, retry_period: int, length: int | None
) -> None:
    """NewLeaderElector takes all: it asks for more than RenewDeadline, and for that to be more than 1.2 RetryPeriod."""
    assert steps(explored(lease_duration=lease_duration, retry_period=retry_period)) == length


@pytest.mark.parametrize("offsets", [0, 1, 2])
def test_offsets_that_last_change_nothing(offsets: int) -> None:
    assert steps(explored(offsets=offsets)) is None
    assert steps(explored(offsets=offsets, lease_duration=4)) == 9


@pytest.mark.parametrize(("faults", "length"), [("skew=1", None), ("skew=2", 15)])
def test_clocks_that_are_set_meanwhile(faults: str, length: int | None) -> None:
    """The leader's is set back, another's forward, each by so many ticks of the four that are between the periods."""
    assert steps(explored(faults)) == length


@pytest.mark.parametrize(
    ("drift", "length"),
    [
        pytest.param(10, None, marks=pytest.mark.long),
        pytest.param(20, 14, marks=pytest.mark.long),
        pytest.param(40, 12, marks=pytest.mark.long),
    ],
)
def test_rates_of_clocks(drift: int, length: int | None) -> None:
    """The periods' ratio is 8 to 4: a third is the limit, and less of it is left for rounding to ticks.

    At 40 percent the ratio of clocks is 2.33: less than the 2.67 of LeaseDuration to RenewDeadline.
    """
    assert steps(explored(f"drift={drift}")) == length


@pytest.mark.long
@pytest.mark.parametrize(("lease_duration", "length"), [(4, 7), (5, 8), (6, 10)])
def test_what_a_small_rate_needs(lease_duration: int, length: int) -> None:
    """A margin of two ticks is none: the model does not resolve less (docs/semantics.md, Clocks that drift)."""
    assert steps(explored("drift=10", lease_duration=lease_duration, horizon=6)) == length
