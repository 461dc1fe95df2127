"""Section 2, with 2.1 (resource leases), 2.2 (crash recovery) and 2.3 (robust extensions)."""

import pytest
import yaml

from leasehold.faults.model import Budget
from leasehold.spec import shipped_folder
from tests.sampled import one_in

# What time does to whom holds something, with the rules of each role that has a clock.
EXPIRY = [
    "a_request_is_given_up_at_its_end",
    "a_ticket_is_held_to_its_end",
    "a_lease_is_used_to_its_end",
    "an_eager_site_closes_at_the_end",
    "extension_answered_before_the_end",
    "handlers_end_in_time",
    "guests_end_in_time",
    "a_guest_is_gone_before_the_end",
]
# Of the text, as a specification that is refused has timers, too.
TIMERS = [
    (file.stem, name)
    for file in sorted((shipped_folder("lease") / "roles").glob("*.yaml"))
    for name, state in yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)["states"].items()
    if "tick" in state.get("on", {})
]


def test_a_lease_is_a_contract_over_units_and_a_period(systems):
    """Section 2: a lease grants a number of units of a resource for a period of time."""
    held = systems["lease"].roles["authority"].data
    assert {"assigned", "end", "properties"} <= held.keys()
    assert str(held["end"].type) == "time"


def test_a_lease_may_be_renewed_cancelled_and_renegotiated(lease, verdict):
    """Section 2: the contract is renewed, cancelled, or its terms renegotiated."""
    for witness in ("a_lease_is_extended", "a_lease_grows", "a_lease_shrinks", "a_lease_of_all_units"):
        assert verdict(lease, witness).verdict == "witnessed", witness
    for state in lease.system.roles["service_manager"].states.keys() - {"closing", "closed", "failed"}:
        assert lease.taken[f"service_manager/{state}#close"], state


def test_units_are_reclaimed_at_expiry_without_the_holder(walk, ways):
    """Section 2: a site reclaims resources unilaterally on expiry, the last line of defence."""
    w = walk()
    w.take(*ways["active"], "now 1", "service_manager: tick", "guest[0]: left", "now 2", "now 3")
    w.take("authority: reclaim", "unit[0]: down", "authority: torn_down")
    assert w.control["authority"] == "closed"
    assert not [s for s in w.steps if s.event == "close"]


def test_who_may_tell_whom_what(systems):
    """Section 2.1, Figure 3: the core says which messages the servers exchange; a broker and a site never talk."""
    messages = {(m.sender, m.receiver): set() for m in systems["lease"].messages.values()}
    for m in systems["lease"].messages.values():
        messages[m.sender, m.receiver].add(m.name)
    assert messages == {
        ("service_manager", "broker"): {"ticket", "extend_ticket", "shrunk", "relinquish"},
        ("broker", "service_manager"): {"update_ticket"},
        ("service_manager", "authority"): {"redeem", "extend_lease", "close"},
        ("authority", "service_manager"): {"update_lease"},
    }


def test_a_neighbour_that_is_silent_is_waited_for_while_the_ticket_lasts(walk, ways):
    """Section 2.2, "preserve service": no failure is declared before no other option is left (5.1, communication)."""
    w = walk(last_end=5)
    w.take(*ways["waiting"])
    # The site has not heard of the extension, the old lease is over, its guest has left, and still nobody gives up.
    assert not [t for t in w.possible() if "tick" in t]
    assert (w.control["service_manager"], w.control["guest[0]"]) == ("extending_lease", "idle")
    w.take("authority: extend_lease", "unit[0]: changed", "authority: modified", "service_manager: update_lease")
    w.take("guest[0]: joined", "service_manager: joined")
    assert (w.control["service_manager"], w.data["service_manager.lease_end"]) == ("active", "7")


def test_every_inconsistency_ends_with_the_term(lease, verdict):
    """Section 2.2, "eventual consistency": leases expire, so all that was leased is released at last."""
    for name in ("never_stuck", "deadlock_free", "closing_ends", "units_come_free", *EXPIRY):
        assert verdict(lease, name).verdict == "exhausted", name
        assert name not in lease.vacuous


OVER = {
    "service_manager": "service_manager.state in {nascent, closed, failed}",
    "broker": "broker.state in {nascent, closed}",
    "authority": "authority.state in {nascent, closed}",
}


@pytest.mark.parametrize("lazy", [True, False], ids=["lazy", "eager"])
def test_who_is_gone_for_good_is_abandoned_with_the_term(changed, verdict, lazy):
    """Sections 2.2 and 3.2: an actor that stays unreachable holds up neither of the others beyond the term."""
    rules = {
        f"{gone}_gone_{other}_over": {"when": f"not running({gone}) and not ({over})", "leads_to": over}
        for gone in OVER
        for other, over in OVER.items()
        if gone != other
    }
    found = changed(("invariants.yaml", "properties", rules), budget=Budget(halt=1), max_units=1, lazy_close=lazy)
    assert {name: verdict(found, name).verdict for name in rules} == dict.fromkeys(rules, "exhausted")
    assert found.vacuous == ()


@pytest.mark.parametrize(("role", "state"), one_in(3, TIMERS))
def test_a_timer_that_is_left_out_is_found(changed, role, state):
    """Section 2.2: each timer of each role is needed, for a rule about expiry that does not speak of timers."""
    found = changed((f"roles/{role}.yaml", f"states.{state}.on.tick", None), max_units=1, last_end=3, lazy_close=False)
    assert {p.name for p in found.properties if p.verdict == "violated"} & set(EXPIRY)


def test_every_role_has_timers():
    """Section 2.2: a service manager, a broker and a site end by the clock what they hold, and a unit its handlers."""
    assert {role for role, _ in TIMERS} == {"service_manager", "broker", "authority", "unit", "guest"}
    assert len(TIMERS) == 21


def test_actors_share_nothing(systems):
    """Section 2.2, "loose coupling": no actor runs two of the three roles, and each role has an actor."""
    actors = systems["lease"].actors
    homes = {role: actor for actor, roles in actors.items() for role in roles}
    assert len({homes[r] for r in ("service_manager", "broker", "authority")}) == 3
    assert homes["unit"] == homes["authority"]
    assert homes["guest"] == homes["service_manager"]


def test_policies_decide_only_when_and_which(systems):
    """Section 2.3: a policy triggers transitions; whichever it chooses, it is the core that has them."""
    calls = {
        (role.name, task.target): task.answers
        for role in systems["lease"].roles.values()
        for task in role.tasks.values()
        if hasattr(task, "target") and task.target.startswith("policy.")
    }
    assert calls == {
        ("service_manager", "policy.schedule_redeem"): ("redeem_now",),
        ("service_manager", "policy.schedule_join"): ("join_now",),
        ("service_manager", "policy.schedule_extension"): ("extend_now",),
        ("broker", "policy.allocate"): ("granted", "denied"),
        ("broker", "policy.extend"): ("granted", "denied"),
        ("authority", "policy.place"): ("placed", "no_room"),
    }


def test_a_policy_that_grants_too_much_is_refused(systems):
    """Section 2.3: a misbehaving policy is stopped by the core where the core can see it."""
    roles = systems["lease"].roles
    assert "granted" in roles["broker"].states["ticketing"].refuse
    assert "granted" in roles["broker"].states["extending"].refuse
    assert "placed" in roles["authority"].states["priming"].refuse
    assert "reclaim" in roles["authority"].states["active"].refuse


def test_ticket_properties_reach_the_site_unread(walk):
    """Sections 2, 4.3 and 4.3.1: attributes of a resource are carried, and never understood."""
    w = walk(kinds=2)
    w.take("service_manager: demand(units=1, end=3)", "broker: ticket", "broker: granted(units=1, properties=1)")
    w.take("service_manager: update_ticket", "service_manager: redeem_now", "authority: redeem")
    assert w.data["authority.properties"] == "1"
