"""What a proposal keeps of what it is to replace; test_truth.py explores each."""

from __future__ import annotations

from leasehold import spec
from tests.checker.explore.test_truth import PROPOSALS


def test_the_lease_keeps_its_control_states() -> None:
    """Decision 38: what is proposed for the lease gives no machine of the product another state."""
    proposed, present = spec.load(PROPOSALS / "lease"), spec.load("lease")
    for role in present.product:
        assert list(proposed.roles[role].states) == list(present.roles[role].states)


def test_no_property_of_the_lease_is_given_up() -> None:
    proposed, present = spec.load(PROPOSALS / "lease"), spec.load("lease")
    assert set(present.properties) <= set(proposed.properties)
