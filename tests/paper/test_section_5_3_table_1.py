"""Section 5.3, Table 1: each of the nine invariants holds, has cases, and is broken by a spec that breaks its rule.

A change breaks one rule of one machine as a careless author would. The test demands the very invariant, and a path
whose last step shows the culprit. `SHORT_OF_THE_TABLE` are changes that break a rule of the table in a way that no text
here speaks of yet: the honest end of the list.
"""

import re
from typing import Any

import pytest

TABLE = {
    1: [
        "valid_ticket",
        "ticket_lasts_while_it_is_used",
        "ticket_is_as_issued",
        "a_site_is_shown_the_ticket",
        "a_ticket_is_held_to_its_end",
        "a_ticket_is_redeemed_before_its_end",
        "a_ticket_that_lasts_is_accepted",
        "a_ticket_is_kept_to_its_end",
    ],
    2: [
        "assigned_equals_ticketed",
        "active_as_ticketed",
        "site_wants_what_the_ticket_says",
        "a_new_lease_is_as_ticketed",
        "a_site_is_shown_the_ticket",
    ],
    3: ["ticket_changes_on_extension_only", "ticket_is_as_issued"],
    4: ["lease_changes_on_extension_only", "lease_changes_when_asked_only"],
    5: ["extension_asked_before_the_end"],
    6: [
        "extension_answered_before_the_end",
        "extension_request_is_taken_up",
        "broker_decides",
        "a_ticket_is_extended_before_its_end",
    ],
    7: ["never_terminated_early"],
    8: ["never_terminated_when_extended", "valid_extension_is_accepted"],
    9: [
        "handlers_end_in_time",
        "deadlines_are_the_limit",
        "handlers_are_waited_for_in_bounded_time",
        "guests_end_in_time",
        "guests_have_their_time",
    ],
}
NAMES = list(dict.fromkeys(name for names in TABLE.values() for name in names))

SM = "roles/service_manager.yaml"
BROKER = "roles/broker.yaml"
SITE = "roles/authority.yaml"
UNIT = "roles/unit.yaml"
GUEST = "roles/guest.yaml"
WORLD = "system.yaml"


def of_table(lease):
    """The rows of Table 1 as the spec cites them, to the names of their properties."""
    found = {}
    for p in lease.system.properties.values():
        if cited := re.fullmatch(r"paper, Table 1, invariants? ([1-9 and]+)", p.source):
            for number in re.findall(r"\d", cited[1]):
                found.setdefault(int(number), []).append(p.name)
    return found


def test_the_spec_has_each_row_of_the_table(lease):
    rows = of_table(lease)
    assert {number: set(names) for number, names in rows.items()} == {n: set(names) for n, names in TABLE.items()}


@pytest.mark.parametrize("name", NAMES)
def test_the_invariant_holds_and_has_cases(lease, verdict, name):
    assert verdict(lease, name).verdict == "exhausted"
    assert name not in lease.vacuous
    of_every_step = {"guests_have_their_time"}  # it is about each guest, of which there are some
    assert name in of_every_step or lease.system.properties[name].when is not None


TIMED = {"max_units": 1}  # enough where units do not matter
TIMED_WITH_TWO: dict[str, int] = {}
TIMELESS = {"expiry": False}

# Invariant, the step that shows it (a transition, or a title), what was changed, settings.
BROKEN = [
    pytest.param(
        "valid_ticket",
        "service_manager/ticketing#update_ticket",
        [
            (SM, "states.ticketing.on.update_ticket.0.when", "msg.units >= 0"),
            (SM, "states.ticketing.on.update_ticket.1", None),
        ],
        TIMELESS,
        id="1: a denial is taken for a ticket",
    ),
    pytest.param(
        "valid_ticket",
        "authority/nascent#redeem",
        [(SITE, "states.nascent.on.redeem.0.set.end", "msg.end + 1")],
        TIMELESS,
        id="1: the site grants a longer term than the ticket's",
    ),
    pytest.param(
        "ticket_is_as_issued",
        "service_manager/ticketing#update_ticket",
        [(SM, "states.ticketing.on.update_ticket.0.set.ticket_units", "min(msg.units + 1, max_units)")],
        TIMELESS,
        id="1, 3: the service manager raises the number of units on its own ticket",
    ),
    pytest.param(
        "a_site_is_shown_the_ticket",
        "service_manager/ticketed#redeem_now",
        [(SM, "tasks.redeem_ticket.with.units", "min(ticket_units + 1, max_units)")],
        TIMELESS,
        id="1, 2: the service manager shows its site another ticket",
    ),
    pytest.param(
        "ticket_lasts_while_it_is_used",
        "authority/nascent#redeem",
        [(SM, "states.closing.tasks", ["leave_all", "close_lease", "give_ticket_back"])],
        TIMELESS,
        id="1: the ticket is given back while the site still holds the units",
    ),
    pytest.param(
        "a_ticket_is_held_to_its_end",
        "now 4",
        [(BROKER, "states.ticketed.on.tick", None)],
        TIMED,
        id="1: the broker never lets go of a ticket that is over",
    ),
    pytest.param(
        "a_ticket_is_redeemed_before_its_end",
        "authority/nascent#redeem",
        [
            (SITE, "states.nascent.on.redeem.0.when", "msg.end >= now"),
            (SITE, "states.nascent.on.redeem.1.when", "msg.end < now"),
        ],
        TIMED,
        id="1: the site takes a ticket at its end",
    ),
    pytest.param(
        "a_ticket_that_lasts_is_accepted",
        "authority/nascent#redeem.2",
        [
            (SITE, "states.nascent.on.redeem.0.when", "msg.end > now + 1"),
            (SITE, "states.nascent.on.redeem.1.when", "msg.end <= now + 1"),
        ],
        TIMED,
        id="1: the site denies a ticket shortly before its end",
    ),
    pytest.param(
        "a_ticket_is_kept_to_its_end",
        "broker/extending#denied",
        [(BROKER, "states.extending.on.denied", {"to": "closed", "set": {"units": "0"}})],
        TIMED,
        id="1: the broker takes the ticket back when it denies a longer one",
    ),
    pytest.param(
        "assigned_equals_ticketed",
        "service_manager/joining#joined",
        [(SITE, "states.modifying.on.modified.set", {"told": "chosen"})],
        TIMELESS,
        id="2: units that an extension released stay assigned",
    ),
    pytest.param(
        "assigned_equals_ticketed",
        "service_manager/joining#joined",
        [
            (SITE, "tasks.setup.answers.primed", "any(u.state == active for u in chosen)"),
            (SITE, "tasks.setup.answers.setup_failed", "all(u.state == failed for u in chosen)"),
        ],
        TIMELESS,
        id="2: the site is content when one of the units is up",
    ),
    pytest.param(
        "a_new_lease_is_as_ticketed",
        "service_manager/redeeming#update_lease",
        [(SITE, "states.nascent.on.redeem.0.set.wanted", "1")],
        TIMELESS,
        id="2: the site sets up one unit, whatever the ticket says",
    ),
    pytest.param(
        "ticket_changes_on_extension_only",
        "broker/extending#denied",
        [(BROKER, "states.extending.on.denied.set.units", "requested_units")],
        TIMELESS,
        id="3: a denied extension changes the ticket's units",
    ),
    pytest.param(
        "ticket_changes_on_extension_only",
        "service_manager/active_ticketed#extend_now",
        [
            (
                SM,
                "states.active_ticketed.on.extend_now.set",
                {"victims": "event.victims", "ticket_units": "len(lease_units)"},
            )
        ],
        TIMELESS,
        id="3: the service manager alters its ticket",
    ),
    pytest.param(
        "lease_changes_on_extension_only",
        "authority/active#extend_lease.2",
        [(SITE, "states.active.on.extend_lease.1.set", {"told": "{u for u in unit if index(u) < msg.units}"})],
        TIMED_WITH_TWO,
        id="4: a refused extension changes the lease's units",
    ),
    pytest.param(
        "lease_changes_on_extension_only",
        "service_manager/active_ticketed#extend_now",
        [
            (
                SM,
                "states.active_ticketed.on.extend_now.set",
                {"victims": "event.victims", "lease_units": "{u for u in unit}"},
            )
        ],
        TIMELESS,
        id="4: the service manager counts on units before it has them",
    ),
    pytest.param(
        "lease_changes_when_asked_only",
        "authority/active#reclaim",
        [
            (SITE, "states.active.on.reclaim", {"to": "modifying", "when": "len(told) > 1", "set": {"wanted": "1"}}),
            (WORLD, "environment.reclaim.when", "lazy_close"),
        ],
        TIMELESS,
        id="4: the site takes a unit away for another lease",
    ),
    pytest.param(
        "extension_asked_before_the_end",
        "service_manager/active#extend",
        [
            (SM, "states.active.on.extend.when", "event.end > ticket_end"),
            (SM, "states.active.on.tick.when", "now >= lease_end"),
        ],
        {**TIMED, "last_end": 4},
        id="5: an extension is asked for at the end of the lease",
    ),
    pytest.param(
        "extension_answered_before_the_end",
        "broker/extending#granted",
        [(BROKER, "states.extending.on.granted.when", "event.units <= requested_units and now <= term_end")],
        TIMED,
        id="6: the broker grants an extension when the ticket has ended",
    ),
    pytest.param(
        "extension_answered_before_the_end",
        "now 4",
        [(BROKER, "states.extending.on.tick", None)],
        TIMED,
        id="6: the broker thinks for ever",
    ),
    pytest.param(
        "extension_request_is_taken_up",
        "broker/ticketed#extend_ticket.2",
        [
            (BROKER, "states.ticketed.on.extend_ticket.0.when", "msg.end > term_end and now < term_end - 1"),
            (BROKER, "states.ticketed.on.extend_ticket.1.when", "msg.end <= term_end or now >= term_end - 1"),
        ],
        TIMED,
        id="6: the broker denies what comes shortly before the end",
    ),
    pytest.param(
        "a_ticket_is_extended_before_its_end",
        "broker/ticketed#extend_ticket",
        [
            (BROKER, "states.ticketed.on.extend_ticket.0.when", "msg.end > term_end and now <= term_end"),
            (BROKER, "states.ticketed.on.extend_ticket.1.when", "msg.end <= term_end or now > term_end"),
        ],
        TIMED,
        id="6: the broker takes up what comes at the end",
    ),
    pytest.param(
        "broker_decides",
        "broker/ticketed#extend_ticket",
        [(BROKER, "tasks.allocate_extension.when", "requested_units > 1")],
        TIMELESS,
        id="6: the broker forgets some requests for extension",
    ),
    pytest.param(
        "never_terminated_early",
        "authority/active#reclaim",
        [
            (SITE, "states.active.on.reclaim", {"to": "closing"}),
            (SITE, "states.active.refuse", None),
            (WORLD, "environment.reclaim.when", "lazy_close"),
        ],
        TIMED,
        id="7: the site gives a lease up before its end",
    ),
    pytest.param(
        "never_terminated_when_extended",
        "authority/active#extend_lease",
        [(SITE, "states.active.on.extend_lease.0.set.end", None)],
        TIMED,
        id="8: the site takes an extension, but keeps the old end",
    ),
    pytest.param(
        "never_terminated_when_extended",
        "authority/active#extend_lease.2",
        [
            (SITE, "states.active.on.extend_lease.0.when", "msg.end >= end and msg.end > now and msg.units > 1"),
            (SITE, "states.active.on.extend_lease.1.when", "msg.end < end or msg.end <= now or msg.units <= 1"),
            (SITE, "states.active.on.extend_lease.1.to", "closing"),
        ],
        TIMED,
        id="8: the site answers some extensions by closing",
    ),
    pytest.param(
        "valid_extension_is_accepted",
        "authority/active#extend_lease.2",
        [
            (SITE, "states.active.on.extend_lease.0.when", "msg.end >= end and msg.end > now and msg.units > 1"),
            (SITE, "states.active.on.extend_lease.1.when", "msg.end < end or msg.end <= now or msg.units <= 1"),
        ],
        TIMED,
        id="8: the site denies a valid extension, and ends the lease at its old end",
    ),
    pytest.param(
        "handlers_end_in_time",
        "now 2",
        [(UNIT, "states.closing.on.tick", None)],
        TIMED,
        id="9: a teardown is never given up",
    ),
    pytest.param(
        "guests_end_in_time",
        "now 2",
        [(GUEST, "states.leaving.on.tick", None)],
        TIMED,
        id="9: a guest that does not leave is never given up",
    ),
    pytest.param(
        "guests_have_their_time",
        "service_manager/redeeming#update_lease",
        [(GUEST, "states.idle.on.join.set.deadline", "now")],
        TIMED,
        id="9: a guest that joins is given up at once",
    ),
    pytest.param(
        "handlers_are_waited_for_in_bounded_time",
        "now 2",
        [(UNIT, "states.idle.on.setup.set.deadline", "now + handler_limit + 1")],
        TIMED,
        id="9: a setup may take longer than its limit",
    ),
    pytest.param(
        "deadlines_are_the_limit",
        "authority/priming#close",
        [(UNIT, "states.active.on.teardown.set.deadline", "now + handler_limit + 1")],
        TIMED,
        id="9: a teardown may take longer than its limit",
    ),
    pytest.param(
        "deadlines_are_the_limit",
        "authority/active#extend_lease",
        [(UNIT, "states.active.on.modify.set.deadline", "now + handler_limit + 1")],
        TIMED,
        id="9: a modify may take longer than its limit",
    ),
    pytest.param(
        "site_wants_what_the_ticket_says",
        "authority/active#extend_lease",
        [(SITE, "states.active.on.extend_lease.0.set.wanted", None)],
        TIMELESS,
        id="2: the site extends the term, but never changes the units",
    ),
    pytest.param(
        "active_as_ticketed",
        "service_manager/joining#joined",
        [
            (SM, "states.joining.on.joined.0.when", "lease_end == ticket_end"),
            (SM, "states.joining.on.joined.1.when", "lease_end != ticket_end"),
        ],
        TIMELESS,
        id="2: the service manager takes fewer units than ticketed for the lease that it wanted",
    ),
]


def first_of_each_rule() -> list[Any]:
    """The changes, of which the first of each rule is made in every run of the tests, and the others in long ones."""
    seen = set[str]()
    found = []
    for change in BROKEN:
        rules = str(change.id).partition(":")[0]
        found.append(pytest.param(*change.values, id=change.id, marks=[pytest.mark.long] * (rules in seen)))
        seen.add(rules)
    return found


@pytest.mark.parametrize(("name", "culprit", "edits", "settings"), first_of_each_rule())
def test_what_breaks_the_rule_is_found(changed, verdict, name, culprit, edits, settings):
    found = changed(*edits, **settings)
    result = verdict(found, name)
    assert result.verdict == "violated"
    assert result.path is not None
    last = result.path.steps[-1]
    assert culprit in (last.transition, last.title)
    violated = {p.name for p in found.properties if p.verdict == "violated"}
    rows = {number for number, names in of_table(found).items() if violated & set(names)}
    assert rows >= {number for number, names in TABLE.items() if name in names}
    assert len(rows) <= 3  # where rules rest on one another, they fall together; never the whole table


def test_each_row_is_broken_by_something():
    assert {p.values[0] for p in BROKEN} == set(NAMES)


BEYOND_THE_TABLE = [
    pytest.param(
        "close_is_always_legal",
        "service_manager/redeeming#close",
        [(SM, "states.redeeming.on.close", {"to": "failed"})],
        id="a close is not obeyed",
    ),
    pytest.param(
        "the_ticket_is_given_back_last",
        "broker/ticketed#relinquish",
        [(SM, "states.closing.tasks", ["leave_all", "close_lease", "give_ticket_back"])],
        id="the ticket is given back with the close",
    ),
    pytest.param(
        "site_gives_no_more_than_the_ticket",
        "authority/nascent#redeem",
        [(SITE, "states.nascent.on.redeem.0.set.wanted", "min(msg.units + 1, max_units)")],
        id="the site sets up one unit more than it was asked for",
    ),
    pytest.param(
        "quarantine_can_end",
        "unit/closing#broken",
        [(WORLD, "environment.repaired.when", "false")],
        id="nobody repairs a unit",
    ),
    pytest.param(
        "redeeming_ends",
        "authority/closing#torn_down",
        [(SITE, "states.closed.tasks", None)],
        id="the site does not say that a lease is over",
    ),
    pytest.param(
        "extensions_are_answered",
        "broker/ticketed#extend_ticket",
        [(BROKER, "tasks.allocate_extension.when", "requested_units > 1")],
        id="the broker forgets some requests for extension",
    ),
    pytest.param(
        "no_regress",
        "service_manager/joining#join_failed",
        [(SM, "states.joining.on.join_failed.to", "ticketed")],
        id="section 3.5: the service manager regresses from a lease to a ticket",
    ),
]


@pytest.mark.parametrize(("name", "culprit", "edits"), BEYOND_THE_TABLE)
def test_a_rule_that_is_taken_for_granted_can_be_broken_too(changed, verdict, name, culprit, edits):
    """Section 5.3: beyond the table."""
    result = verdict(changed(*edits, expiry=False), name)
    assert result.verdict == "violated"
    assert result.path is not None
    assert result.path.steps[-1].transition == culprit
