"""Section 4.1: a lease as cooperating state machines (Figure 3), told as a conversation."""


def messages(steps):
    return [(m.sender, m.message, m.receiver) for s in steps for m in s.sent]


SM, BROKER, SITE = "service_manager", "broker", "authority"


def test_an_undisturbed_lease(walk):
    """Section 4.1, Figure 3: demand, ticket, redeem, join, active; then an extension of both; then the close."""
    w = walk(last_end=3)
    w.take(
        "service_manager: demand(units=2, end=3)",
        "broker: ticket",
        "broker: granted(units=2, properties=0)",
        "service_manager: update_ticket",
        "service_manager: redeem_now",
        "authority: redeem",
        "authority: placed",
        "unit[0]: up",
        "unit[1]: up",
        "authority: primed",
        "service_manager: update_lease",
        "guest[0]: joined",
        "guest[1]: joined",
        "service_manager: joined",
    )
    assert messages(w.steps) == [
        (SM, "ticket", BROKER),
        (BROKER, "update_ticket", SM),
        (SM, "redeem", SITE),
        (SITE, "update_lease", SM),
    ]
    below = dict.fromkeys(("unit[0]", "unit[1]", "guest[0]", "guest[1]"), "active")
    assert w.control == {SM: "active", BROKER: "ticketed", SITE: "active", **below}
    assert w.under_way == []

    before = len(w.steps)
    w.take(
        "service_manager: extend(units=2, end=5)",
        "broker: extend_ticket",
        "broker: granted(units=2, properties=0)",
        "service_manager: update_ticket",
        "service_manager: extend_now",
        "authority: extend_lease",
        "unit[0]: changed",
        "unit[1]: changed",
        "authority: modified",
        "service_manager: update_lease",
        "guest[0]: changed",
        "guest[1]: changed",
        "service_manager: joined",
    )
    assert messages(w.steps[before:]) == [
        (SM, "extend_ticket", BROKER),
        (BROKER, "update_ticket", SM),
        (SM, "extend_lease", SITE),
        (SITE, "update_lease", SM),
    ]
    assert w.control[SM] == "active"
    assert {w.data[f] for f in ("service_manager.lease_end", "broker.term_end", "authority.end")} == {"5"}

    before = len(w.steps)
    w.take(
        "service_manager: close",
        "guest[0]: left",
        "guest[1]: left",
        "service_manager: left",
        "authority: close",
        "unit[0]: down",
        "unit[1]: down",
        "authority: torn_down",
        "service_manager: update_lease",
        "broker: relinquish",
        "service_manager: update_ticket",
    )
    assert messages(w.steps[before:]) == [
        (SM, "close", SITE),
        (SITE, "update_lease", SM),
        (SM, "relinquish", BROKER),
        (BROKER, "update_ticket", SM),
    ]
    assert set(w.control.values()) == {"closed", "idle"}
    assert w.possible().keys() <= {"now 1"}


def test_the_states_of_a_lease_at_its_service_manager(walk, ways):
    """Section 4.1: the local machine follows the logic of its role."""
    w = walk()
    w.take(*ways["extension asked"])
    moved = [s.after for s in w.steps if s.machine == SM]
    assert moved == [
        "ticketing",
        "ticketed",
        "redeeming",
        "joining",
        "active",
        "extending_ticket",
        "active_ticketed",
        "extending_lease",
    ]


def test_a_lease_grows_and_its_guest_joins_the_new_units(walk, ways):
    """Section 4.1: an extension may change the number of units; the service manager deploys its guest on them."""
    w = walk()
    w.take(
        *ways["growing"],
        "unit[0]: changed",
        "unit[1]: up",
        "authority: modified",
        "service_manager: update_lease",
    )
    assert w.control[SM] == "joining"
    w.take("guest[0]: changed", "guest[1]: joined", "service_manager: joined")
    assert w.data["service_manager.lease_units"] == "{unit[0], unit[1]}"


def test_a_guest_joins_whatever_units_there_are_after_an_extension(walk, ways):
    """Section 4.1: as many units as before may be others, and the site says which."""
    w = walk()
    w.take(
        *ways["growing"],
        "unit[0]: broken",
        "unit[1]: up",
        "authority: modify_failed",
        "unit[0]: down",
        "unit[1]: changed",
        "authority: modified",
        "service_manager: update_lease",
    )
    assert (w.data["authority.assigned"], w.data["service_manager.lease_units"]) == ("{unit[1]}", "{unit[1]}")
    assert w.control[SM] == "joining"


def test_leases_are_independent_but_for_units_and_inventory(systems):
    """Section 4: leases transition independently of each other; what they share is written in the environment."""
    lease, contention = systems["lease"], systems["contention"]
    for role in ("service_manager", "broker", "authority", "unit"):
        assert contention.roles[role].states.keys() == lease.roles[role].states.keys()
    assert contention.roles["broker"].count == 2
    assert all(c.same_index for c in contention.channels.values())
    assert {"granted", "placed", "reclaim"} <= contention.environment.keys()
