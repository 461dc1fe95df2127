"""Section 4.3: policies, handlers and the node state machine; 4.4: misbehaving extensions."""

from leasehold.spec.language.model import Call


def test_extensions_answer_with_events_and_never_move_the_lease_themselves(systems):
    """Section 4.3: plugin tasks signal a local event on completion; what it leads to is the core's."""
    called = {"service_manager": set(), "broker": set(), "authority": set(), "unit": set(), "guest": set()}
    for role in systems["lease"].roles.values():
        for task in role.tasks.values():
            if isinstance(task, Call):
                called[role.name].add(task.target)
                assert set(task.answers) <= role.events.keys()
    assert called == {
        "service_manager": {"policy.schedule_redeem", "policy.schedule_join", "policy.schedule_extension"},
        "guest": {"handler.join", "handler.modify", "handler.leave"},
        "broker": {"policy.allocate", "policy.extend"},
        "authority": {"policy.place"},
        "unit": {"handler.setup", "handler.modify", "handler.teardown"},
    }


# 4.3.1


def test_a_granted_request_makes_the_broker_issue_a_ticket(walk, ways):
    """Section 4.3.1: the policy's decision moves the broker to ticketed, and that sends the ticket."""
    w = walk()
    w.take(*ways["ticketed"])
    decision = w.steps[-2]
    assert (decision.before, decision.after) == ("ticketing", "ticketed")
    assert [m.message for m in decision.sent] == ["update_ticket"]


def test_a_denied_request_is_answered_too(walk):
    """Section 4.3.1: a broker's policy grants or denies."""
    w = walk()
    w.take("service_manager: demand(units=1, end=3)", "broker: ticket")
    w.take("broker: denied(reason=0)", "service_manager: update_ticket")
    assert w.control["service_manager"] == "failed"


def test_an_undecided_request_stays_open(walk):
    """Section 4.3.1: a request without a recorded decision is still pending, and nothing else is known of it."""
    w = walk()
    w.take("service_manager: demand(units=2, end=3)", "broker: ticket")
    assert w.control["broker"] == "ticketing"
    assert (w.data["broker.requested_units"], w.data["broker.units"]) == ("2", "0")
    granted = "broker: granted(units=1, later=0, longer=0, properties=0, local=0, reason=0)"
    assert {"broker: denied(reason=0)", granted} <= w.possible().keys()


def test_the_site_s_policy_places_a_lease_on_units(walk, ways):
    """Section 4.3.1: the site's policy determines which units serve a ticket."""
    w = walk()
    w.take(*ways["redeemed"])
    assert {
        "authority: placed(units={unit[0]}, local=0)",
        "authority: placed(units={unit[1]}, local=0)",
    } <= w.possible().keys()


# 4.3.2, 4.3.3


def test_handlers_prepare_and_clear_units_at_both_ends_of_a_lease(systems):
    """Section 4.3.2: setup and teardown at the site, join and leave at the service manager."""
    roles = systems["lease"].roles
    assert "run_setup" in roles["unit"].states["priming"].tasks
    assert "run_teardown" in roles["unit"].states["closing"].tasks
    assert "join" in roles["service_manager"].states["joining"].tasks
    for state, task in (("closing", "leave_all"), ("closed", "leave"), ("failed", "leave")):
        assert task in roles["service_manager"].states[state].tasks
    assert "run_leave" in roles["guest"].states["leaving"].tasks


def test_a_guest_that_has_joined_is_always_asked_to_leave(lease):
    """Section 4.3.2: the epilogue runs at the end of every lease whose prologue ran."""
    role = lease.system.roles["service_manager"]
    joined = {"active", "extending_ticket", "active_ticketed", "extending_lease"}
    without = {
        t.name
        for t in role.transitions()
        if t.source in joined
        and t.target not in joined | {"joining"}
        and not {"leave", "leave_all"} & set(role.states[t.target].tasks)
        and lease.taken.get(t.name)
    }
    assert without == set()


def test_the_states_of_a_node(systems):
    """Section 4.3.3: a node's states say how far its handlers are."""
    unit = systems["lease"].roles["unit"]
    assert list(unit.states) == ["idle", "priming", "active", "modifying", "closing", "closed", "failed", "kept"]
    running = {name for name, s in unit.states.items() if any(isinstance(unit.tasks[t], Call) for t in s.tasks)}
    assert running == {"priming", "modifying", "closing"}


def test_the_lease_waits_for_all_its_nodes(walk, ways):
    """Section 4.3.3: the lease polls its nodes, and moves when all have come to where they should be."""
    w = walk()
    w.take(*ways["two placed"], "unit[1]: up")
    assert "authority: primed" not in w.possible()
    w.take("unit[0]: up")
    assert "authority: primed" in w.possible()


def test_the_last_action_of_the_lease_wins(walk, ways):
    """Section 4.3.3, toggle principle: off after on, while on is still running, ends with off."""
    w = walk()
    w.take(*ways["placed"], "service_manager: close", "authority: close")
    assert [(d.before, d.after) for d in w.steps[-1].driven] == [("priming", "closing")]
    assert [t for t in w.possible() if t.startswith("unit[0]")] == ["unit[0]: down", "unit[0]: broken(reason=0)"]
    w.take("unit[0]: down")
    assert w.control["unit[0]"] == "closed"


def test_what_is_on_is_not_switched_on_again(systems):
    """Section 4.3.3: redundant operations are suppressed, so as not to disturb the guest."""
    states = systems["lease"].roles["unit"].states
    assert "setup" in states["active"].ignore
    assert {"setup", "modify"} <= states["priming"].ignore.keys()
    for off in ("idle", "closed", "closing"):
        assert "teardown" in states[off].ignore


def test_on_is_never_asked_for_while_off_is_running(lease):
    """Section 4.3.3: the actions on a unit come one after another."""
    unit = lease.system.roles["unit"]
    assert {"setup", "modify"} <= unit.states["closing"].refuse.keys()
    driven = {(d.event, d.before) for cell in lease.cells for step in lease.path_to(cell).steps for d in step.driven}
    assert driven
    assert not driven & {("setup", "closing"), ("modify", "closing"), ("setup", "failed"), ("modify", "failed")}


def test_a_handler_that_does_not_end_is_given_up(walk, ways):
    """Sections 4.3 and 4.3.3: the core is protected from plugins that fail to complete."""
    w = walk()
    w.take(*ways["placed"], "now 1", "unit[0]: tick")
    assert w.control["unit[0]"] == "failed"
    w.take("authority: setup_failed")
    assert w.control["authority"] == "closing"


# 4.4


def test_a_site_s_policy_that_chooses_the_wrong_number_changes_nothing(changed):
    """Section 4.4: the core refuses what the invariants forbid, so a policy that places too few does no harm."""
    found = changed(
        ("system.yaml", "environment.placed.when", "all(u.state in {idle, closed} for u in event.units)"),
        max_units=1,
        expiry=False,
    )
    assert [p.name for p in found.properties if p.verdict == "violated" and p.kind != "sometimes"] == []


def test_a_policy_that_hands_out_a_unit_in_quarantine_is_found(changed, verdict):
    """Section 4.4: a rule that no correct policy breaks is checked against one that does."""
    found = changed(
        ("system.yaml", "environment.placed.when", None),
        ("roles/unit.yaml", "states.failed.on.setup", {"to": "priming", "set": {"deadline": "now + handler_limit"}}),
        ("roles/unit.yaml", "states.failed.on.modify", {"to": "priming", "set": {"deadline": "now + handler_limit"}}),
        ("roles/unit.yaml", "states.failed.refuse", {"repaired": "it will be torn down by itself"}),
        ("roles/unit.yaml", "states.failed.ignore", None),
        expiry=False,
    )
    assert verdict(found, "quarantine").verdict == "violated"
