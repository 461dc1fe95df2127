"""An image that fails is held back, and takes no unit any more; hosts with failures are taken last (section 5.4)."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.impl.lease import failures
from leasehold.impl.lease.authority import BestFit, FirstFit, Spread
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.policy.policy import Decision, Lease, Question
from tests.impl.lease.test_authority import lease as lease_of

BAD, GOOD = {"image.id": "bad", "admin.key": "k"}, {"image.id": "good"}


def lease(name: str, state: str = "priming", **more: Any) -> Lease:
    return lease_of(name, state, **{"end": 5000, **more})


def site(units: int = 9, policy: type[FirstFit] = FirstFit, **hold_back: Any) -> FirstFit:
    """A site with three units on each host."""
    given = [{"name": f"u-{n}", "properties": {"host": f"h-{n // 3}"}} for n in range(units)]
    return policy(Inventory.parse({"units": given}), lazy=False, hold_back=hold_back)


def ask(policy: FirstFit, asked: Lease, now: int = 0, epoch: int = 1) -> list[Decision]:
    return [*policy.begin(Question("place", asked, ("placed", "no_room"), epoch), now)]


def fails(policy: FirstFit, name: str, said: dict[str, Any], now: int = 0, reason: str = "no such file") -> list[int]:
    """A lease is given units, which fail; returns them."""
    (decision,) = ask(policy, lease(name, configuration=said), now=now)
    if decision.event == "no_room":
        return []
    units = decision.fields["units"]
    at_work = {"assigned": units, "chosen": units, "configuration": said}
    list(policy.changed(lease(name, units=dict.fromkeys(units, "priming"), **at_work), now))
    going = lease(name, "closing", units=dict.fromkeys(units, "closing"), reason=reason, **at_work)
    list(policy.changed(going, now))
    list(policy.changed(lease(name, "closed", reason=reason, configuration=said), now))
    return sorted(units)


def works(policy: FirstFit, name: str, said: dict[str, Any], now: int = 0) -> list[int]:
    """A lease is given units, which come up, and ends; returns them."""
    (decision,) = ask(policy, lease(name, configuration=said), now=now)
    units = decision.fields["units"]
    at_work = {"assigned": units, "chosen": units, "configuration": said}
    list(policy.changed(lease(name, units=dict.fromkeys(units, "priming"), **at_work), now))
    list(policy.changed(lease(name, "active", units=dict.fromkeys(units, "active"), **at_work), now))
    list(policy.changed(lease(name, "closed", configuration=said), now))
    return sorted(units)


def refused(policy: FirstFit, name: str, said: dict[str, Any], now: int) -> str:
    (decision,) = ask(policy, lease(name, configuration=said), now=now)
    assert decision.event == "no_room"
    return str(decision.fields["reason"])


def test_a_wish_that_has_failed_three_times_is_refused_and_no_unit_is_touched() -> None:
    policy = site()
    assert all(fails(policy, f"a:{n}", BAD) for n in range(3))
    free = policy.free()
    reason = refused(policy, "a:3", BAD, 119)
    assert "have failed for 3 leases in a row, the last as: no such file; none is set up before tick 120" in reason
    assert policy.free() == free == frozenset(range(9)), "no unit is eaten"
    assert policy.query(5)["held_back"][0]["until"] == 120
    assert works(policy, "b:1", GOOD, 119), "others are served meanwhile"


def test_wishes_that_holders_make_up_are_forgotten_and_those_that_are_held_back_stay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failures, "MOST_WISHES", 3)
    policy = site()
    assert all(fails(policy, f"a:{n}", BAD) for n in range(3))
    assert all(fails(policy, f"b:{n}", {"image.id": f"made-up-{n}"}) for n in range(20))
    assert len(policy.failures._wishes) == 3
    assert refused(policy, "a:3", BAD, 119)
    for n in range(4):  # one more is held back, in place of the first
        assert all(fails(policy, f"c:{n}.{again}", {"image.id": f"bad-{n}"}) for again in range(3))
        assert refused(policy, f"c:{n}.3", {"image.id": f"bad-{n}"}, 119)
    assert len(policy.failures._wishes) == 3


def test_one_lease_tries_again_and_the_time_doubles_where_it_fails() -> None:
    policy = site(ticks=10)
    for n in range(3):
        fails(policy, f"a:{n}", BAD)
    (decision,) = ask(policy, lease("a:3", configuration=BAD), now=10)
    assert decision.event == "placed"
    units = {"assigned": decision.fields["units"], "chosen": decision.fields["units"], "configuration": BAD}
    list(policy.changed(lease("a:3", units=dict.fromkeys(units["chosen"], "priming"), **units), 11))
    assert "a:3 tries again" in refused(policy, "a:4", BAD, 12)
    list(policy.changed(lease("a:3", "closing", reason="as before", **units), 13))
    list(policy.changed(lease("a:3", "closed", reason="as before", configuration=BAD), 13))
    assert "before tick 33" in refused(policy, "a:5", BAD, 32)
    assert works(policy, "a:6", BAD, 33)
    assert all(works(policy, f"a:{n}", BAD, 34) for n in (7, 8)), "once it works it is held back no more"
    assert "held_back" not in policy.query(34)


def test_a_trial_that_its_holder_ends_lets_another_try() -> None:
    policy = site(ticks=10)
    for n in range(3):
        fails(policy, f"a:{n}", BAD)
    ask(policy, lease("a:3", configuration=BAD), now=10)
    list(policy.changed(lease("a:3", "closed", configuration=BAD), 11))
    assert works(policy, "a:4", BAD, 11)


def test_a_success_between_ends_the_count() -> None:
    policy = site()
    for n in range(6):
        assert fails(policy, f"a:{n}", BAD)
        if n % 2:
            works(policy, f"b:{n}", BAD)


def test_the_site_says_which_names_make_a_wish() -> None:
    policy = site(by=["image.id"])
    for n in range(3):
        assert fails(policy, f"a:{n}", {**BAD, "admin.key": str(n)})
    assert refused(policy, "b:1", {**BAD, "admin.key": "x"}, 1)
    other = site()
    assert all(fails(other, f"a:{n}", {**BAD, "admin.key": str(n)}) for n in range(4)), "each holder has its own"


def test_none_is_held_back_where_the_site_says_so() -> None:
    policy = site(failures=0)
    assert all(fails(policy, f"a:{n}", BAD) for n in range(9))
    with pytest.raises(ValueError, match="hold_back: Object contains unknown field `failure`"):
        site(failure=1)
    for wrong in ({"failures": -1}, {"ticks": 0}):
        with pytest.raises(ValueError, match="hold_back: Expected `int` >= "):
            site(**wrong)


@pytest.mark.parametrize("seen", ["priming", "failed"])
def test_a_handler_that_was_given_up_counts_and_a_lease_that_its_holder_ends_does_not(seen: str) -> None:
    """The policy may have heard of the unit alone before, or not."""
    policy = site(failures=1)
    for n, (now, counts) in enumerate([(3, False), (1000, True)]):
        (decision,) = ask(policy, lease(f"a:{n}", configuration=BAD), now=now)
        units = decision.fields["units"]
        at_work = {"assigned": units, "chosen": units, "configuration": BAD}
        list(policy.changed(lease(f"a:{n}", units=dict.fromkeys(units, "priming"), **at_work), now))
        if counts and seen == "failed":
            list(policy.changed(lease(f"a:{n}", units=dict.fromkeys(units, seen), **at_work), now))
        list(policy.changed(lease(f"a:{n}", "closing", units=dict.fromkeys(units, "closing"), **at_work), now))
        list(policy.changed(lease(f"a:{n}", "closed", configuration=BAD), now))
        assert bool(policy.failures.query(now)) == counts


def replaced(policy: FirstFit, name: str, times: int) -> None:
    """A lease comes up, and so often its unit dies for good and is replaced."""
    (decision,) = ask(policy, lease(name, configuration=BAD))
    has = decision.fields["units"]

    def at(state: str, chosen: frozenset[int], **more: Any) -> Lease:
        return lease(name, state, assigned=has, chosen=chosen, configuration=BAD, **more)

    list(policy.changed(at("priming", has, units=dict.fromkeys(has, "priming")), 0))
    list(policy.changed(at("active", has, units=dict.fromkeys(has, "active")), 0))
    for epoch in range(1, times + 1):
        none: frozenset[int] = frozenset()
        list(policy.changed(at("modifying", none, repairing=True, units=dict.fromkeys(has, "failed")), 0))
        asking = at("modifying", none, repairing=True, units=dict.fromkeys(has, "failed"))
        (decision,) = ask(policy, asking, epoch=epoch)
        if decision.event == "no_room":
            break
        has = decision.fields["units"]
        list(policy.changed(at("active", has, repairing=True, units=dict.fromkeys(has, "active")), 0))
    list(policy.changed(lease(name, "closed", configuration=BAD), 0))


def test_an_image_whose_units_die_again_and_again_is_held_back_too() -> None:
    policy = site()
    replaced(policy, "a:1", 3)
    assert refused(policy, "a:2", BAD, 1)


@pytest.mark.parametrize("policy", [FirstFit, BestFit, Spread])
def test_units_of_a_host_with_failures_are_taken_last_until_one_comes_up_there(policy: type[FirstFit]) -> None:
    estate = site(policy=policy, failures=0)
    (unit,) = fails(estate, "a:1", BAD)
    host = unit // 3
    assert estate.failures.suspect == {f"h-{host}"}
    (decision,) = ask(estate, lease("b:1", wanted=6))
    assert {n // 3 for n in decision.fields["units"]} == {0, 1, 2} - {host}
    (decision,) = ask(estate, lease("b:2", wanted=2))
    assert {n // 3 for n in decision.fields["units"]} == {host}, "better than none"
    has = decision.fields["units"]
    at_work = {"wanted": 2, "assigned": has, "chosen": has}
    list(estate.changed(lease("b:2", units=dict.fromkeys(has, "priming"), **at_work), 0))
    list(estate.changed(lease("b:2", "active", units=dict.fromkeys(has, "active"), **at_work), 0))
    assert not estate.failures.suspect


def test_only_units_that_are_given_up_make_their_host_suspect() -> None:
    """The lease goes on with what it has."""
    policy = site(failures=0)
    both = frozenset({0, 3})
    list(policy.changed(lease("a", "modifying", assigned=both, chosen=both), 0))
    has = frozenset({0})
    list(policy.changed(lease("a", "modifying", assigned=both, chosen=has, reason="no disk"), 0))
    assert policy.failures.suspect == {"h-1"}
    list(policy.changed(lease("a", "active", assigned=has, chosen=has, reason="no disk"), 0))
    assert policy.failures.suspect == {"h-1"}
    list(policy.changed(lease("a", "modifying", assigned=has, chosen=frozenset()), 0))  # an extension gives it back
    assert policy.failures.suspect == {"h-1"}
