"""Where machines are in the product, of a system that has several of a role before another one."""

from __future__ import annotations

from leasehold.reports.coverage import _where
from leasehold.reports.product import where_are
from tests.systems import load


def test_each_role_of_the_product_is_where_its_own_machines_are() -> None:
    tried = 0
    for name in ("two_phase_commit", "three_phase_commit", "contention"):
        system = load(name)
        roles = [system.roles[role] for role in system.product]
        states = {role.name: [[*role.states][n % len(role.states)] for n in range(role.count)] for role in roles}
        control = tuple(state for role in roles for state in states[role.name])
        assert _where(system, control) == tuple(where_are(role, states[role.name]) for role in roles)
        tried += any(role.count > 1 for role in roles[:-1])
    assert tried > 0
