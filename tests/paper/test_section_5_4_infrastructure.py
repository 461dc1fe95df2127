"""Section 5.4, Table 2: failures below the site, as far as units' handlers show them."""


def test_a_failed_setup_ends_a_lease_that_never_had_its_units(walk, ways):
    """Section 5.4: a failure below spreads to the lease; the holder hears of it, and may try again elsewhere."""
    w = walk()
    w.take(*ways["placed"], "unit[0]: broken", "authority: setup_failed")
    w.take("unit[0]: down", "authority: torn_down", "service_manager: update_lease")
    assert (w.control["service_manager"], w.control["authority"]) == ("failed", "closed")


def test_a_failing_image_does_not_use_up_the_site(walk, ways):
    """Section 5.4: a bad image exhausts a site that retries on other hosts; here a failed setup is not retried."""
    w = walk()
    w.take(*ways["placed"])
    for step in ("unit[0]: broken", "authority: setup_failed", "unit[0]: down", "authority: torn_down"):
        w.take(step)
        assert not [t for t in w.possible() if "placed" in t]
        assert w.control["unit[1]"] == "idle"
    assert w.control["authority"] == "closed"


def shortened(w, ways):
    """An extension from one unit to two, of which one comes up."""
    w.take(
        *ways["growing"],
        "unit[0]: changed",
        "unit[1]: broken",
        "authority: modify_failed",
    )


def test_a_lease_that_cannot_grow_goes_on_with_what_it_has(walk, ways):
    """Section 5.4: providing continuous service in spite of a failure."""
    w = walk()
    shortened(w, ways)
    assert (w.control["authority"], w.data["authority.end"]) == ("modifying", "4")
    assert [(d.machine, d.event) for d in w.steps[-1].driven] == [("unit[0]", "modify"), ("unit[1]", "teardown")]
    w.take("unit[0]: changed", "unit[1]: down", "authority: modified", "service_manager: update_lease")
    w.take("guest[0]: changed", "service_manager: joined")
    assert w.control["service_manager"] == "active_ticketed"
    assert (w.data["service_manager.lease_units"], w.data["service_manager.lease_end"]) == ("{unit[0]}", "4")


def test_a_lease_that_could_not_grow_may_be_extended_again(walk, ways):
    """Section 5.4: ... and beyond its term, with as many units as there are."""
    w = walk(last_end=3)
    shortened(w, ways)
    w.take("unit[0]: changed", "unit[1]: broken", "authority: modified", "service_manager: update_lease")
    w.take(
        "guest[0]: changed",
        "service_manager: joined",
        "service_manager: extend(units=1, end=5)",
        "broker: extend_ticket",
    )
    w.take("broker: granted(units=1, properties=0)", "service_manager: update_ticket", "service_manager: extend_now")
    w.take("authority: extend_lease", "unit[0]: changed", "authority: modified", "service_manager: update_lease")
    w.take("guest[0]: changed", "service_manager: joined")
    assert (w.control["service_manager"], w.control["unit[1]"]) == ("active", "failed")
    assert (w.data["service_manager.lease_units"], w.data["service_manager.lease_end"]) == ("{unit[0]}", "5")


LEFT_BEHIND = (  # a close of which the teardown fails
    "service_manager: close",
    "guest[0]: left",
    "service_manager: left",
    "authority: close",
    "unit[0]: broken",
    "authority: torn_down",
)


def test_a_unit_whose_teardown_failed_is_set_aside(walk, ways):
    """Section 5.4: nobody knows what is left of it, so no lease gets it."""
    w = walk()
    w.take(*ways["active"], *LEFT_BEHIND)
    assert (w.control["unit[0]"], w.data["unit[0].quarantined"]) == ("failed", "true")


def test_an_operator_can_repair_a_unit_in_quarantine(walk, ways, lease, verdict):
    """Section 5.4: detect, diagnose, repair; the last of them as an event from outside."""
    w = walk()
    w.take(*ways["active"])
    assert "unit[0]: repaired" not in w.possible()
    w.take(*LEFT_BEHIND, "unit[0]: repaired")
    assert (w.control["unit[0]"], w.data["unit[0].quarantined"]) == ("closed", "false")
    assert verdict(lease, "quarantine_can_end").verdict == "exhausted"


def test_quarantine_holds_in_every_state(lease, verdict):
    assert verdict(lease, "quarantine").verdict == "exhausted"
    assert verdict(lease, "a_unit_is_quarantined").verdict == "witnessed"


def test_units_of_a_host_that_reboots_are_set_up_again_and_their_holder_hears_of_it(walk, ways):
    """Table 2, row 1: a host reboots and does not recreate its machines."""
    w = walk(losses=True)
    w.take(*ways["two active"])
    for n in (0, 1):
        w.take(f"unit[{n}]: lost", "authority: unit_lost")
    assert (w.control["unit[0]"], w.control["unit[1]"], w.control["authority"]) == ("priming", "priming", "active")
    w.take("service_manager: update_lease", "service_manager: update_lease")
    assert w.data["service_manager.lease_lost"] == "{unit[0], unit[1]}"
    w.take("guest[0]: left", "guest[1]: left", "service_manager: joined")
    assert w.control["service_manager"] == "active"
    for n in (0, 1):
        w.take(f"unit[{n}]: up", "authority: unit_lost")
    w.take("service_manager: update_lease", "service_manager: update_lease")
    w.take("guest[0]: joined", "guest[1]: joined", "service_manager: joined")
    assert w.data["service_manager.lease_lost"] == "{}"
    assert {w.control[f"unit[{n}]"] for n in (0, 1)} == {"active"}


def test_a_failure_of_what_is_up_is_exposed_to_its_lease(walk, ways):
    """Section 4.3: an extension that notices a failure says so, unasked: here a probe, of a unit that is up."""
    w = walk(losses=True)
    w.take(*ways["two active"])
    assert w.take("unit[1]: lost").title == "unit[1]: lost"
    assert w.data["authority.lost"] == "{}"
    w.take("authority: unit_lost", "service_manager: update_lease")
    assert (w.data["authority.lost"], w.data["service_manager.lease_lost"]) == ("{unit[1]}", "{unit[1]}")


def test_a_unit_that_is_lost_again_and_again_is_replaced_within_bounds(walk, ways):
    """Section 5.4: a bad image exhausts a site that retries on other hosts; here retries are counted."""
    w = walk(losses=True, repair_limit=0, replace_limit=1, max_units=3)
    w.take(
        *ways["two active"], "unit[1]: lost", "authority: unit_failed", "authority: placed(units={unit[0], unit[2]})"
    )
    w.take("unit[2]: up", "unit[1]: down", "authority: modified")
    assert (w.data["authority.assigned"], w.data["authority.replaced"]) == ("{unit[0], unit[2]}", "1")
    w.take("unit[2]: lost", "authority: unit_failed")
    assert not [t for t in w.possible() if "placed" in t]
    w.take("unit[2]: down", "authority: modified")
    assert (w.control["authority"], w.data["authority.assigned"]) == ("active", "{unit[0]}")
