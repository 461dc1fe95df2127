"""Section 4.2: sequence numbers, duplicates and stale messages; 4.2.1: expired leases."""

from leasehold.checker.explore import explore
from leasehold.checker.explore.channels import empty, entries, put, put_again, take
from tests.systems import load

ONCE_MORE = {"duplicates": 1, "max_units": 1, "expiry": False}


# 4.2: sequence numbers, in the channel


def test_numbers_rise_with_every_message():
    """Section 4.2: a send number is incremented with each message."""
    channel = put("mailbox", None, put("mailbox", None, empty("mailbox"), "redeem", (1,)), "close", ())
    assert [(number, kind) for number, kind, _ in entries("mailbox", channel)] == [(1, "redeem"), (2, "close")]


def test_a_message_that_is_sent_again_has_its_old_number():
    """Section 4.2: a retransmitted message has the number of the original."""
    once = put("mailbox", None, empty("mailbox"), "redeem", (1,))
    assert put_again("mailbox", None, once, "redeem", (1,)) == once
    received = take("mailbox", once, 0)
    (again,) = entries("mailbox", put_again("mailbox", None, received, "redeem", (1,)))
    assert again[0] == 0  # the number last received: a duplicate, not a new message


def test_what_a_sender_has_moved_on_from_is_not_sent_for_ever():
    """Section 4.2: only the last transition's message is sent again; of a kind, the one before may be on its way."""
    channel = empty("mailbox")
    for end in range(5):
        channel = put("mailbox", None, channel, "extend_lease", (end,))
    assert [fields for _, _, fields in entries("mailbox", channel)] == [(3,), (4,)]


def test_an_overtaken_message_is_stale_and_dropped():
    """Section 4.2: a message with a number below the last received does not come in."""
    both = put("mailbox", None, put("mailbox", None, empty("mailbox"), "redeem", (1,)), "close", ())
    assert entries("mailbox", take("mailbox", both, 1)) == ()


# 4.2: sequence numbers, in the lease


def test_a_duplicate_is_not_executed_again_but_its_reply_is(walk):
    """Section 4.2: the result is returned, whether or not the operation is executed again."""
    w = walk(**ONCE_MORE)
    w.take(
        "service_manager: demand(units=1, end=3)",
        "broker: ticket",
        "broker: granted",
        "service_manager: update_ticket",
        "service_manager: redeem_now",
        "authority: redeem(units=1, end=3, properties=0) from service_manager, which comes again",
        "authority: placed(units={unit[0]})",
        "unit[0]: up",
        "authority: primed",
        "service_manager: update_lease",
    )
    before, data = w.control, w.data
    step = w.take("authority: redeem(units=1, end=3, properties=0) from service_manager (received again)")
    assert (step.kind, step.transition, step.driven) == ("duplicate", None, ())
    assert (w.control, w.data) == (before, data)
    assert [(m.message, dict(m.fields)) for m in step.sent] == [
        (
            "update_lease",
            {
                "units": "{unit[0]}",
                "lost": "{}",
                "renewed": "{}",
                "end": "3",
                "properties": "{unit[0]: 0}",
                "reason": "0",
            },
        )
    ]
    step = w.take("service_manager: update_lease(end=3) from authority (received again)")
    assert (step.transition, step.sent) == (None, ())  # the reply came before, so it is a duplicate itself
    assert (w.control, w.data) == (before, data)


def test_a_duplicate_is_held_back_while_the_original_is_processed(walk):
    """Section 4.2: while the machine still processes the original, a duplicate is answered with nothing."""
    w = walk(**ONCE_MORE)
    w.take(
        "service_manager: demand(units=1, end=3)",
        "broker: ticket(units=1, end=3) from service_manager, which comes again",
    )
    step = w.take("broker: ticket(units=1, end=3) from service_manager (received again)")
    assert (step.before, step.after, step.sent) == ("ticketing", "ticketing", ())


def test_a_request_that_its_cancellation_has_overtaken_is_dropped(walk, ways):
    """Section 4.2: delivery in order; a redeem behind the close that follows it has no effect."""
    w = walk(reorders=1, expiry=False)
    w.take(*ways["ticketed"], "service_manager: redeem_now", "service_manager: close")
    assert w.under_way == ["close(end=3)", "redeem(units=1, start=0, end=3, type=0, properties=0, configuration=0)"]
    w.take("authority: close")
    assert w.control["authority"] == "closed"
    told = "update_lease(units={}, lost={}, renewed={}, end=3, properties={unit[0]: 0, unit[1]: 0}, reason=0)"
    assert w.under_way == [told]


def test_duplicates_and_overtaking_reach_no_new_cell(timeless, lease):
    """Section 4.2: sequence numbers make a network that repeats and reorders look like one that does not."""
    twice = explore(load("lease", {"duplicates": 1, "expiry": False, "max_units": 1, "last_end": 2}))
    overtaking = explore(load("lease", {"reorders": 1, "last_end": 2}))
    assert {c.control for c in twice.cells} == {c.control for c in timeless.cells}
    assert {c.control for c in overtaking.cells} == {c.control for c in lease.cells}
    for found in (twice, overtaking):
        assert [p.name for p in found.properties if p.verdict == "violated" and p.kind != "sometimes"] == []


def test_an_operation_that_comes_twice_is_taken_once(changed, verdict):
    """Section 4.2: whatever speaks of a redeem that was taken does not speak of its duplicate."""
    once = {"when": "took(authority.redeem)", "step": "old(authority.state) == nascent"}
    found = changed(("invariants.yaml", "properties.redeemed_once", once), **ONCE_MORE)
    assert verdict(found, "redeemed_once").verdict == "exhausted"
    assert "redeemed_once" not in found.vacuous


def test_one_duplicate_is_followed_by_finitely_many_messages(walk):
    """Sections 3 and 4.2: consistent again after finitely many exchanges; a duplicate of an answer is not answered."""
    w = walk(**ONCE_MORE)
    w.take("service_manager: close", "broker: relinquish")
    w.take("service_manager: update_ticket(units=0, end=0, properties=0) from broker, which comes again")
    seen = []
    while w.under_way and w.state not in seen:
        seen.append(w.state)
        w.take(next(t for t in w.possible() if t.endswith("(received again)")))
    assert w.under_way == []


def test_ranks_stand_for_numbers():
    """Section 4.2: only the order of numbers is ever looked at, so 0 (last received), 1, 2, ... are enough."""
    channel = empty("mailbox")
    for end in range(5):
        channel = put("mailbox", None, channel, "extend_lease", (end,))
        assert entries("mailbox", channel) == ((1, "extend_lease", (end,)),)
        channel = take("mailbox", channel, 0)
    assert channel == empty("mailbox")


# 4.2.1: expired leases


def test_a_lazy_site_keeps_an_expired_lease(walk, ways):
    """Section 4.2.1: the site does not release the units only because the term is over."""
    w = walk()
    w.take(*ways["ticket extended"], "now 1", "service_manager: tick", "guest[0]: left", "now 2", "now 3")
    assert (w.control["authority"], w.control["unit[0]"], w.data["authority.end"]) == ("active", "active", "3")
    assert "authority: tick" not in w.possible()


def test_an_extension_that_comes_late_finds_the_lease_alive(walk, ways):
    """Section 4.2.1: the service manager has extended its ticket, and the site could not hear of it in time."""
    w = walk(last_end=5)
    w.take(*ways["waiting"], "authority: extend_lease")
    assert (w.control["authority"], w.data["authority.end"]) == ("modifying", "7")
    w.take("unit[0]: changed", "authority: modified", "service_manager: update_lease")
    w.take("guest[0]: joined", "service_manager: joined")
    assert (w.control["service_manager"], w.control["unit[0]"]) == ("active", "active")


def test_an_eager_site_ends_it(walk, ways):
    """Section 4.2.1: releasing at once is correct too; then a late extension finds nothing, and begins anew."""
    w = walk(lazy_close=False, last_end=5)
    w.take(*ways["waiting"], "authority: tick")
    assert w.control["unit[0]"] == "closing"
    w.take("authority: extend_lease", "unit[0]: down", "authority: torn_down")
    assert (w.control["authority"], w.data["authority.assigned"]) == ("closed", "{}")
    w.take("service_manager: update_lease", "authority: extend_lease", "authority: placed(units={unit[1]})")
    w.take("unit[1]: up", "authority: primed", "service_manager: update_lease")
    w.take("guest[1]: joined", "service_manager: joined")
    assert (w.control["service_manager"], w.data["service_manager.lease_units"]) == ("active", "{unit[1]}")


def test_a_kept_lease_ends_by_an_explicit_close(walk, ways):
    """Section 4.2.1: units are kept until a close comes ..."""
    w = walk()
    w.take(*ways["active"], "now 1", "service_manager: tick", "guest[0]: left", "service_manager: left")
    w.take("now 2", "now 3", "authority: close", "unit[0]: down", "authority: torn_down")
    assert w.control["authority"] == "closed"


def test_a_kept_lease_ends_when_another_request_needs_its_units(walk):
    """Section 4.2.1: ... or until another request needs them; it is then served with the very unit."""
    w = walk("contention", last_end=3)

    def lease(i, end):
        yield f"service_manager[{i}]: demand(units=1, end={end})"
        yield f"broker[{i}]: ticket"
        yield f"broker[{i}]: granted(units=1, properties=0)"
        yield f"service_manager[{i}]: update_ticket"
        yield f"service_manager[{i}]: redeem_now"
        yield f"authority[{i}]: redeem"

    w.take(*lease(0, 2), "authority[0]: placed(units={unit[0]})", "unit[0]: up", "authority[0]: primed")
    w.take("now 1", "now 2", "broker[0]: tick")
    assert w.control["authority[0]"] == "active"
    assert not [t for t in w.possible() if "reclaim" in t]  # nobody needs the unit, so it is kept
    w.take(*lease(1, 4))
    assert not [t for t in w.possible() if "placed" in t]  # and nobody else gets it while it is held
    w.take("authority[0]: reclaim", "unit[0]: down", "authority[0]: torn_down")
    w.take("authority[1]: placed(units={unit[0]})", "unit[0]: up", "authority[1]: primed")
    assert (w.control["authority[0]"], w.control["authority[1]"]) == ("closed", "active")


def test_no_lease_is_reclaimed_before_its_end(walk, ways):
    """Section 4.2.1: only an expired lease is ever given up for another."""
    w = walk()
    w.take(*ways["active"])
    assert not [t for t in w.possible() if "reclaim" in t]
