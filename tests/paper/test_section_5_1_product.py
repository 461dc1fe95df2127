"""Section 5.1: the product of the local machines, what of it is reached, and where an actor may stop in a state."""

from leasehold.checker.explore import explore
from leasehold.faults.model import Budget
from tests.systems import load

CLOSE_ACTIVE_ONLY = """
nascent           nascent    nascent
ticketing         nascent    nascent
ticketing         ticketing  nascent
ticketing         ticketed   nascent
ticketing         closed     nascent
ticketed          ticketed   nascent
redeeming         ticketed   nascent priming active closing closed
joining           ticketed   active
active            ticketed   active
extending_ticket  ticketed   active
extending_ticket  extending  active
active_ticketed   ticketed   active
extending_lease   ticketed   active modifying closing closed
closing           ticketed   active closing closed
closed            ticketed   closed
closed            closed     closed
failed            ticketed   closed
failed            closed     nascent closed
"""

MORE_WHEN_ANY_MAY_BE_CLOSED = """
closing  ticketed   nascent priming modifying
closing  extending  active closing closed
closed   nascent    nascent
closed   ticketing  nascent
closed   ticketed   nascent
closed   extending  closed
closed   closed     nascent
"""

MORE_WHEN_TIME_PASSES = """
ticketed          closed     nascent
redeeming         closed     nascent priming active closing closed
joining           ticketed   closing closed
joining           closed     active closing closed
active            ticketed   closing closed
active            closed     active closing closed
extending_ticket  ticketed   closing closed
extending_ticket  extending  closing closed
extending_ticket  closed     active closing closed
active_ticketed   ticketed   closing closed
active_ticketed   closed     active closing closed
extending_lease   ticketed   priming
extending_lease   closed     priming active modifying closing closed
closing           closed     nascent priming active modifying closing closed
closed            ticketed   priming active modifying closing
closed            extending  active closing
closed            closed     priming active modifying closing
failed            nascent    nascent
failed            ticketing  nascent
failed            ticketed   nascent
"""


def cells(*tables):
    """Rows `service manager, broker, authorities ...` as cells."""
    found = []
    for row in "".join(tables).split("\n"):
        if row:
            holder, broker, *sites = row.split()
            found += [(holder, broker, site) for site in sites]
    assert len(found) == len(set(found))
    return set(found)


def reached(exploration):
    return {c.control for c in exploration.cells}


def test_the_product_has_360_states(lease):
    """Section 5.1: the distributed state machine has about 360 states."""
    assert lease.product_machines == ("service_manager", "broker", "authority")
    sizes = [len(lease.system.roles[r].states) for r in lease.product_machines]
    assert sizes == [12, 5, 6]
    assert lease.product_states == 360


def test_about_thirty_are_reached_as_the_paper_drives_its_leases(close_active_only):
    """Section 5.1: of which about 30 are legal and reachable; 28 when only an active lease is closed."""
    assert reached(close_active_only) == cells(CLOSE_ACTIVE_ONLY)
    assert len(close_active_only.cells) == 28


def test_39_are_reached_when_any_lease_may_be_closed(timeless):
    assert reached(timeless) == cells(CLOSE_ACTIVE_ONLY, MORE_WHEN_ANY_MAY_BE_CLOSED)
    assert len(timeless.cells) == 39


def test_92_are_reached_when_time_passes(lease):
    assert reached(lease) == cells(CLOSE_ACTIVE_ONLY, MORE_WHEN_ANY_MAY_BE_CLOSED, MORE_WHEN_TIME_PASSES)
    assert len(lease.cells) == 92


def test_every_reached_state_has_a_way_to_it_that_can_be_replayed(lease):
    """Section 5.1: the checker takes a list of states, and a condition that says how to come to each."""
    for cell in lease.cells:
        path = lease.path_to(cell)
        end = path.steps[-1].state.control if path.steps else path.initial.control
        assert tuple(end[m] for m in lease.product_machines) == cell.control
        assert len(path) == cell.depth


def test_a_state_with_several_tasks_has_a_point_for_each_part_of_them():
    """Section 5.1: several points, each after a combination of tasks; here of the requests to two participants."""
    found = explore(load("two_phase_commit", {"participants": 2}), budget=Budget(crash=1))
    points = {name.partition("#")[2] for name, _, _ in found.graph.points if "coordinator/asking" in name}
    assert points == {
        "before-commit",
        "after-commit",
        "after-some-ask_all",
        "before-acknowledge",
        "recovering-after-some-ask_all",
    }


def test_no_lease_is_stuck(lease, timeless, verdict):
    """Section 5.1, "policies": no lease is forgotten, with time and without."""
    for found in (lease, timeless):
        assert verdict(found, "never_stuck").verdict == "exhausted"
        assert verdict(found, "deadlock_free").verdict == "exhausted"


NEVER_NO_ROOM = ("system.yaml", "environment.no_room.when", "false")
NO_OPERATOR = ("system.yaml", "environment.repaired.when", "false")


def test_a_lease_that_is_forgotten_is_found(changed, verdict):
    """Section 5.1, "policies": a site's policy that never says that there is no room leaves a lease stuck."""
    found = changed(NEVER_NO_ROOM, NO_OPERATOR, expiry=False, close_early=False)
    path = verdict(found, "deadlock_free").path
    assert path is not None
    last = path.steps[-1].state
    assert (last.control["service_manager"], last.control["authority"]) == ("extending_lease", "modifying")


def test_a_lease_that_waits_for_an_operator_is_found(changed, verdict):
    """Section 5.1, "policies": an operator can repair a unit for the lease, and nothing says that one does."""
    found = changed(NEVER_NO_ROOM, expiry=False, close_early=False)
    assert verdict(found, "deadlock_free").verdict == "exhausted"
    assert verdict(found, "extensions_are_answered").verdict == "violated"


def test_the_term_ends_the_same_lease(changed, verdict):
    """Section 2.2: ... and expiry is what ends it in the end."""
    found = changed(NEVER_NO_ROOM, NO_OPERATOR)
    assert verdict(found, "deadlock_free").verdict == "exhausted"
