"""The site's policy against the site's machines, as they are compiled, in random runs."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.values import LARGEST
from leasehold.impl.lease.authority import NAMED, BestFit, FirstFit, Spread
from leasehold.impl.lease.delegations import Delegations
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.lease.stock_admission import CountedUnits, HeldLeases
from leasehold.impl.policy.policy import Decision, Lease, Question, Undecided
from leasehold.impl.store.store import RecordKey
from leasehold.spec import load
from tests.impl.lease.machines import Machines, first_data

UNITS = 4
DOWN = ("idle", "closed", "failed")
FIRST = first_data("authority")


class Core(Machines):
    """Authority and unit machines with their policy; the site's units are seen by all leases."""

    def __init__(self, lazy: bool = True, policy: type[FirstFit] = FirstFit) -> None:
        hosts = [{"name": f"u-{n}", "properties": {"host": f"h-{n // 3}"}} for n in range(UNITS)]
        self.inventory = Inventory.parse({"units": hosts})
        self.lazy = lazy
        super().__init__(
            "authority",
            lambda: policy(self.inventory, lazy=lazy, hold_back={"failures": 0}),  # test_failures.py has it
            self.inventory,
            max_units=UNITS,
            lazy_close=lazy,
            losses=True,
            repair_limit=0,
        )

    def unit(self, n: int) -> str:
        """The state of a unit."""
        instance = self.table.instances.get(RecordKey(BELOW, f"unit[{n}]"))
        return "idle" if instance is None else instance.state

    def check(self, decision: Decision) -> None:
        """The contract of spec/systems/contention/system.yaml, and that no unit is promised twice."""
        records = self.records
        r = records[decision.lease]
        assigned, end = r.data["assigned"], r.data["end"]
        if decision.event == "reclaim":
            assert self.lazy
            assert self.now >= end
            assert r.state in ("priming", "active", "modifying")
            waits = [n for n in records if n != decision.lease and self.waits(n)]
            assert waits or not assigned, "nobody needs its units"
            for name, other in records.items():
                if assigned and other.data["assigned"] and other.state in ("priming", "active", "modifying"):
                    told = any(d.lease == name and d.event == "reclaim" for d in self.pending)
                    older = (other.data["end"], name) < (end, decision.lease)
                    up = any(self.unit(n) not in ("failed", "kept") for n in other.data["assigned"])
                    assert told or not older or not up, f"{name} has ended before"
            return
        assert decision.state_epoch == r.state_epoch
        assert self.waits(decision.lease)
        if decision.event == "no_room":
            chosen = r.data["chosen"]
            usable = sum(self.unit(n) != "failed" or n in chosen for n in range(UNITS))
            assert usable < r.data["wanted"] or r.data["repairing"]
            assert decision.fields["reason"]
            return
        for n in decision.fields["units"] - r.data["chosen"]:
            assert self.unit(n) in ("idle", "closed"), f"{n} is {self.unit(n)}"
            for name, other in records.items():
                assert name == decision.lease or n not in other.data["assigned"], f"{n} is held by {name}"
            for d in self.pending:
                if d.event == "placed" and d.lease != decision.lease:
                    late = records[d.lease].state_epoch != d.state_epoch
                    assert late or n not in d.fields["units"], f"{n} was given to {d.lease} a moment ago"

    def refused(self, decision: Decision) -> None:
        """A lease that was to be reclaimed has been extended meanwhile."""
        assert decision.event == "reclaim", decision
        assert self.now < self.records[decision.lease].data["end"]

    def waits(self, name: str) -> bool:
        r = self.records[name]
        return r.state in ("priming", "modifying") and len(r.data["chosen"]) != r.data["wanted"]

    def redeem(self, units: int, end: int) -> str:
        name = f"l:{len(self.instances)}"
        self.hear(name, "redeem", units=units, end=end, properties={"type": "unit"})
        return name

    def extend(self, name: str, units: int, end: int, victims: Iterable[int] = ()) -> None:
        kept = self.records[name].data["assigned"] - {*victims}
        said = {"victims": frozenset(victims), "kept": kept, "properties": {"type": "unit"}}
        self.hear(name, "extend_lease", units=units, end=end, **said)

    def close(self, name: str) -> None:
        self.hear(name, "close", end=self.records[name].data["end"])

    def busy(self) -> list[int]:
        """The units on which an action is under way."""
        return [self.table.instances[key].number for key in self.actions]

    def end(self, n: int, well: bool = True) -> None:
        """The action on a unit ends."""
        self.finish(RecordKey(BELOW, f"unit[{n}]"), well)

    def lose(self, n: int) -> None:
        """A unit that is up is lost."""
        self.tell(RecordKey(BELOW, f"unit[{n}]"), "lost")

    def repair(self, n: int) -> None:
        self.tell(RecordKey(BELOW, f"unit[{n}]"), "repaired")

    def quarantined(self) -> list[int]:
        below = (one for one in self.table.instances.values() if one.core.role == "unit")
        return [one.number for one in below if one.state == "failed" and one.core.view(one.record)["quarantined"]]

    def all_done(self) -> None:
        self.settle()
        while self.actions:
            self.end(self.busy()[0])
            self.settle()


class Runs(RuleBasedStateMachine):
    @initialize(lazy=st.booleans(), policy=st.sampled_from([FirstFit, FirstFit, BestFit, Spread]))
    def begin(self, lazy: bool, policy: type[FirstFit]) -> None:
        self.core = Core(lazy, policy)

    def room(self) -> int:
        """Units that a broker could still promise, which forgets a lease when its term is over."""
        running = [r for r in self.core.records.values() if r.state not in ("nascent", "closed", "closing")]
        return UNITS - sum(r.data["wanted"] for r in running if self.core.now < r.data["end"])

    @rule(units=st.integers(1, UNITS), term=st.integers(1, 4))
    def redeem(self, units: int, term: int) -> None:
        if units <= self.room():
            self.core.redeem(units, self.core.now + term)

    @rule(units=st.integers(1, UNITS + 1), term=st.integers(1, 4))
    def redeem_what_no_honest_broker_promised(self, units: int, term: int) -> None:
        if len(self.core.records) < 6:
            self.core.redeem(units, self.core.now + term)

    @precondition(lambda self: self.core.names("active"))
    @rule(data=st.data(), units=st.integers(1, UNITS), more=st.integers(1, 4))
    def extend(self, data: st.DataObject, units: int, more: int) -> None:
        name = data.draw(st.sampled_from(self.core.names("active")))
        end = max(self.core.now, self.core.records[name].data["end"]) + more
        held = self.core.records[name].data["assigned"]
        victims = data.draw(st.sets(st.sampled_from(sorted(held)))) if len(held) > units else set()
        self.core.extend(name, units, end, victims if len(victims) == len(held) - units else ())

    @precondition(lambda self: self.core.names("active"))
    @rule(data=st.data())
    def lose(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.core.names("active")))
        self.core.lose(data.draw(st.sampled_from(sorted(self.core.records[name].data["assigned"]))))

    @precondition(lambda self: self.core.names("priming", "active", "modifying"))
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        self.core.close(data.draw(st.sampled_from(self.core.names("priming", "active", "modifying"))))

    @precondition(lambda self: self.core.busy())
    @rule(data=st.data(), well=st.sampled_from([True, True, True, False]))
    def finish(self, data: st.DataObject, well: bool) -> None:
        self.core.end(data.draw(st.sampled_from(self.core.busy())), well)

    @precondition(lambda self: self.core.quarantined())
    @rule()
    def repair(self) -> None:
        for n in self.core.quarantined():
            self.core.repair(n)

    @precondition(lambda self: self.core.pending)
    @rule()
    def deliver(self) -> None:
        self.core.deliver()

    @rule()
    def all_done(self) -> None:
        self.core.all_done()

    @rule()
    def tick(self) -> None:
        self.core.tick()

    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        self.core.restart(data.draw(st.permutations([*self.core.instances])))

    @invariant()
    def a_unit_is_held_by_one_lease(self) -> None:
        held = [n for r in self.core.records.values() for n in r.data["assigned"]] if hasattr(self, "core") else []
        assert len(held) == len(set(held))

    @invariant()
    def the_map_of_free_units_is_that_of_the_records(self) -> None:
        if not hasattr(self, "core") or self.core.pending:
            return
        core = self.core
        held = {n for r in core.records.values() for n in r.data["assigned"]}
        free = {n for n in range(UNITS) if core.unit(n) in ("idle", "closed") and n not in held}
        assert core.policy.free() == free

    def teardown(self) -> None:
        """Whoever waits is served in the end, or told that there is no room, once the others have gone."""
        if not hasattr(self, "core"):
            return
        core = self.core
        core.all_done()
        for _ in range(len(core.records)):
            for name in core.names("active", "modifying"):  # one that grows may wait for one that waits for it
                core.close(name)
            core.all_done()
        left = [n for n in core.records if core.waits(n)]
        assert all(core.now >= core.records[n].data["end"] for n in left)
        assert not core.names("closing")


Runs.TestCase.settings = settings(max_examples=100, stateful_step_count=30)
TestRandomRuns = Runs.TestCase


def test_the_first_units_that_are_free() -> None:
    core = Core()
    core.redeem(2, 5)
    second = core.redeem(1, 5)
    core.all_done()
    assert core.records[second].data["assigned"] == {2}


def test_a_lease_keeps_what_it_can() -> None:
    core = Core()
    lease = core.redeem(2, 5)
    core.all_done()
    core.extend(lease, 3, 7)
    core.all_done()
    assert core.records[lease].data["assigned"] == {0, 1, 2}
    core.extend(lease, 1, 9)
    core.all_done()
    assert core.records[lease].data["assigned"] == {0}


def test_expired_leases_are_kept_until_needed_and_the_oldest_goes_first() -> None:
    """Paper, section 4.2.1: lazy close."""
    core = Core()
    late, early = core.redeem(2, 3), core.redeem(2, 2)
    core.all_done()
    for _ in range(4):
        core.tick()
    assert not core.pending
    needy = core.redeem(1, 9)
    assert [(d.lease, d.event) for d in core.pending] == [(early, "reclaim")]
    core.all_done()
    assert core.records[needy].state == "active"
    assert core.records[late].state == "active"
    assert core.records[early].state == "closed"


def test_the_eager_site_reclaims_nothing() -> None:
    core = Core(lazy=False)
    core.redeem(4, 2)
    core.all_done()
    core.now = 3  # the machines have not heard yet
    core.redeem(1, 9)
    assert not core.pending


def test_a_quarantined_unit_is_given_to_nobody_until_it_is_repaired() -> None:
    """No room is said only where waiting would not help; so a lease waits for what another holds."""
    core = Core()
    lease = core.redeem(1, 9)
    core.all_done()
    core.close(lease)
    core.end(0, well=False)
    core.restart([lease])
    holder = core.redeem(3, 9)
    core.all_done()
    assert core.records[holder].data["assigned"] == {1, 2, 3}
    waits, cannot = core.redeem(1, 9), core.redeem(4, 9)
    core.all_done()
    assert core.records[waits].state == "priming"
    assert core.records[cannot].state == "closed"
    core.repair(0)
    core.all_done()
    assert core.records[waits].data["assigned"] == {0}


def test_a_ticket_for_what_the_site_has_not_finds_no_room() -> None:
    policy = FirstFit(Inventory.parse({"units": [{"name": "a", "type": "node"}, {"name": "b", "type": "disk"}]}))
    data = {**FIRST, "wanted": 1, "end": 5}

    def placed(properties: dict[str, Any]) -> list[tuple[str, Any]]:
        lease = Lease("l", "authority", "priming", {**data, "properties": properties}, {})
        return [(d.event, dict(d.fields)) for d in policy.begin(Question("place", lease, (), 1), 0)]

    assert placed({"type": "tape"}) == [("no_room", {"reason": "this site has no units of the type 'tape'"})]
    assert placed({}) == [("no_room", {"reason": "this site has no units of the type ''"})]
    assert placed({"type": "disk"}) == [("placed", {"units": {1}})]


def test_the_type_of_the_ticket_counts_before_what_the_broker_has_put_on_it() -> None:
    policy = FirstFit(Inventory.parse({"units": [{"name": "a", "type": "node"}, {"name": "b", "type": "disk"}]}))
    data = {**FIRST, "wanted": 1, "end": 5, "type": "disk", "properties": {"type": "node"}}
    asked = Lease("l", "authority", "priming", data, {})
    assert words(policy.begin(Question("place", asked, (), 1), 0)) == [placed("l", 1)]


# Alone: leases as their records say them, and what the policy answers.


def site(units: int = UNITS, **more: Any) -> FirstFit:
    return FirstFit(Inventory.parse({"units": [{"name": "u", "count": units}]}), **more)


def lease(
    name: str,
    state: str = "priming",
    wanted: int = 1,
    end: int = 9,
    *,
    assigned: Iterable[int] = (),
    chosen: Iterable[int] = (),
    units: Mapping[int, str] | None = None,
    quarantined: Iterable[int] = (),
    type: str = "",
    repairing: bool = False,
    reason: str | None = None,
    configuration: Mapping[str, Any] | None = None,
    deadline: int = 1000,
) -> Lease:
    machines = {
        ("unit", n): {"state": state, "quarantined": n in {*quarantined}, "deadline": deadline}
        for n, state in (units or {}).items()
    }
    data = {
        "wanted": wanted,
        "end": end,
        "assigned": frozenset(assigned),
        "chosen": frozenset(chosen),
        "properties": {"type": type} if type else {},
        "type": 0,
        "repairing": repairing,
        "reason": reason,
        "configuration": configuration or 0,
    }
    return Lease(name, "authority", state, data, machines)


def holding(name: str, *assigned: int, state: str = "active", end: int = 9, **more: Any) -> Lease:
    """A lease that has its units, which are up."""
    up = {"units": dict.fromkeys(assigned, "active"), **more}
    return lease(name, state, len(assigned), end, assigned=assigned, chosen=assigned, **up)


def ask(policy: FirstFit, asked: Lease, now: int = 0, epoch: int = 1) -> list[tuple[str, str, frozenset[int]]]:
    return words(policy.begin(Question("place", asked, ("placed", "no_room"), epoch), now))


def words(decisions: Iterable[Decision]) -> list[tuple[str, str, frozenset[int]]]:
    return [(d.lease, d.event, d.fields.get("units", frozenset())) for d in decisions]


def placed(name: str, *units: int) -> tuple[str, str, frozenset[int]]:
    return name, "placed", frozenset(units)


def reclaim(name: str) -> tuple[str, str, frozenset[int]]:
    return name, "reclaim", frozenset()


def no_room(name: str) -> tuple[str, str, frozenset[int]]:
    return name, "no_room", frozenset()


def test_who_is_asked_again_answers_the_same_and_gives_nothing_twice() -> None:
    policy = site(2)
    assert ask(policy, lease("a")) == [placed("a", 0)]
    assert ask(policy, lease("b")) == [placed("b", 1)]
    assert ask(policy, lease("a")) == [placed("a", 0)]
    assert policy.free() == set()
    list(policy.changed(lease("a", "closed"), 0))
    assert ask(policy, lease("b")) == [placed("b", 1)], "also where it would be given another now"
    assert policy.free() == {0}


def free_from(policy: FirstFit, now: int) -> list[tuple[int, int, int]]:
    (of,) = policy.query(now)["inventory"]
    return [(period["from"], period["until"], period["units"]) for period in of["free"]]


def test_a_query_is_told_what_is_free_when() -> None:
    """If leases end when they are said to, also one that is kept past its end; what has failed never comes back."""
    policy = site(7)
    assert free_from(policy, 3) == [(3, LARGEST, 7)]
    list(policy.changed(holding("kept", 0, end=2), 3))
    list(policy.changed(holding("a", 1, 2, end=5), 3))
    list(
        policy.changed(lease("b", wanted=2, end=8, assigned=(3, 4), chosen=(3, 4), units={3: "active", 4: "failed"}), 3)
    )
    assert ask(policy, lease("c", end=5), 3) == [placed("c", 5)]
    assert free_from(policy, 3) == [(3, 4, 1), (4, 5, 2), (5, 8, 5), (8, LARGEST, 6)]
    assert free_from(policy, 3) == free_from(policy, 3), "it changes nothing"
    list(policy.changed(holding("a", 1, 2, 6, end=5), 3))
    assert free_from(policy, 3)[0] == (4, 5, 1), "what is not free is not said"


def test_an_answer_that_came_too_late_holds_nothing() -> None:
    """The state was entered anew: what was decided for the epoch before is nobody's, and it may want another number."""
    policy = site(3)
    ask(policy, lease("a", wanted=3), epoch=1)
    assert ask(policy, lease("a", wanted=1), epoch=2) == [placed("a", 0)]
    assert policy.free() == {1, 2}
    list(policy.changed(holding("a", 0), 0))
    assert policy.free() == {1, 2}
    list(policy.changed(lease("a", "closed"), 0))
    assert policy.free() == {0, 1, 2}


@pytest.mark.parametrize("asked", [lease("a", "closed"), lease("a", "nascent"), holding("a", 0, state="priming")])
def test_who_needs_no_units_is_given_none(asked: Lease) -> None:
    assert ask(site(), asked) == []


@pytest.mark.parametrize("state", ["closing", "closed"])
def test_a_lease_that_ends_while_it_waits_is_out_of_the_queue(state: str) -> None:
    policy = site(1)
    list(policy.changed(holding("h", 0), 0))
    assert ask(policy, lease("a")) == ask(policy, lease("b")) == []
    assert words(policy.changed(lease("a", state), 0)) == []
    assert words(policy.changed(lease("h", "closed"), 0)) == [placed("b", 0)]


def test_a_lease_that_waits_says_for_whose_units_and_behind_whom() -> None:
    policy = site(3)
    list(policy.changed(holding("h", 0, 1, end=7), 0))
    assert ask(policy, lease("a", wanted=2, end=20)) == ask(policy, lease("b", wanted=1, end=9)) == []
    assert policy.undecided("a", 0) == Undecided(
        "2 more units of type unit are wanted and 1 free, h has 2, until tick 7", 20
    )
    assert policy.undecided("b", 0) == Undecided(
        "1 more unit of type unit is wanted and 1 free, and a waits before it", 9
    )
    assert policy.undecided("h", 0) is None


def test_a_lease_that_waits_keeps_its_place_while_its_record_changes() -> None:
    policy = site(1)
    list(policy.changed(holding("h", 0), 0))
    ask(policy, lease("a"))
    ask(policy, lease("b"))
    assert words(policy.changed(lease("a"), 0)) == []
    assert ask(policy, lease("a"), epoch=2) == []
    assert words(policy.changed(lease("h", "closed"), 0)) == [placed("a", 0)]


def test_after_a_restart_those_that_wait_are_served_by_their_ends_and_then_by_name() -> None:
    """Nobody who is asked first goes before: the units of the others are their own until they are asked."""
    waiting = [lease("d", end=5), lease("b", end=7), lease("a", end=7), lease("c", end=9)]
    policy = site(3)
    for one in waiting:
        policy.recovered(one)
    assert ask(policy, lease("c", end=9)) == []
    assert ask(policy, lease("new", end=3)) == []
    d, b, a, _ = waiting
    assert ask(policy, b) == []
    assert ask(policy, d) == [placed("d", 0)]
    assert ask(policy, a) == [placed("a", 1), placed("b", 2)]


@pytest.mark.parametrize("heard", ["tick", "changed"])
def test_after_a_restart_units_are_taken_back_for_who_waits_before_it_is_asked(heard: str) -> None:
    policy = site(1)
    policy.recovered(lease("a"))
    policy.recovered(holding("old", 0, end=3))
    said = policy.tick(3) if heard == "tick" else policy.changed(lease("other", "nascent"), 3)
    assert words(said) == [reclaim("old")]


def test_after_a_restart_who_has_its_units_waits_for_none() -> None:
    policy = site(2)
    for one in (holding("a", 0, state="priming"), lease("x", "closed"), lease("t", type="tape", end=1)):
        policy.recovered(one)
    assert policy.free() == {1}
    assert ask(policy, lease("b")) == [placed("b", 1)]
    list(policy.changed(lease("b", "closing"), 0))
    list(policy.changed(holding("b", 1), 0))
    assert ask(policy, lease("c")) == []
    assert ask(policy, lease("a", "modifying", 2, assigned=(0,), chosen=(0,))) == [], "it comes after c"
    assert words(policy.changed(lease("b", "closed"), 0)) == [placed("c", 1)]


def test_who_waited_after_a_restart_and_is_over_waits_no_more() -> None:
    policy = site(1)
    policy.recovered(lease("a"))
    assert ask(policy, lease("a")) == [placed("a", 0)]
    for state in ("priming", "closing"):
        list(policy.changed(holding("a", 0, state=state), 1))
    list(policy.changed(lease("a", "closed"), 1))
    assert words(policy.tick(2)) == []
    assert ask(policy, lease("b")) == [placed("b", 0)]


def test_who_shrinks_after_a_restart_does_not_count_for_who_waits() -> None:
    policy = site(3)
    policy.recovered(lease("less", "modifying", 1, 5, assigned=(0, 1), chosen=(0, 1)))
    policy.recovered(lease("a", end=7))
    policy.recovered(holding("old", 2, end=3))
    assert words(policy.tick(3)) == [reclaim("old")]


def test_who_shrinks_and_was_not_asked_yet_needs_nothing() -> None:
    policy = site(3)
    policy.recovered(lease("less", "modifying", 1, 5, assigned=(0, 1), chosen=(0, 1)))
    policy.recovered(holding("old", 2, end=3))
    assert words(policy.tick(3)) == []


def test_after_a_restart_that_there_is_no_room_is_said_to_who_asks() -> None:
    policy = site(1)
    policy.recovered(lease("a", wanted=2))
    assert words(policy.tick(1)) == []
    assert ask(policy, lease("a", wanted=2)) == [no_room("a")]


def test_an_expired_lease_is_taken_back_from_its_end_on_where_another_waits() -> None:
    policy = site(1)
    list(policy.changed(holding("old", 0, end=5), 0))
    assert ask(policy, lease("a"), 4) == []
    assert words(policy.tick(4)) == []
    assert words(policy.tick(5)) == [reclaim("old")]


def test_it_is_said_once_a_tick_until_it_is_heard_and_nobody_else_is_taken_for_it() -> None:
    policy = site(2)
    for name, unit in (("old", 0), ("older", 1)):
        list(policy.changed(holding(name, unit, end=5 - unit), 0))
    assert ask(policy, lease("a"), 6) == [reclaim("older")]
    assert words(policy.changed(lease("a"), 6)) == []
    assert words(policy.tick(7)) == [reclaim("older")]
    assert words(policy.changed(holding("older", 1, end=4, state="closing"), 7)) == []
    assert words(policy.changed(lease("older", "closed"), 7)) == [placed("a", 1)]
    list(policy.changed(holding("older", 1, end=4), 7))
    assert ask(policy, lease("b"), 7) == [reclaim("older")], "a lease of the same name, later"


def test_as_many_are_taken_back_as_all_that_wait_need() -> None:
    """The first by name goes first of two that have ended at once."""
    policy = site(4)
    for unit, name in enumerate("dcba"):
        list(policy.changed(holding(name, unit, end=2), 0))
    assert ask(policy, lease("x", wanted=1), 2) == [reclaim("a")]
    assert ask(policy, lease("y", wanted=2), 2) == [reclaim("b"), reclaim("c")]


def test_for_who_was_not_asked_yet_units_are_taken_back_too() -> None:
    policy = site(3)
    policy.recovered(lease("x", wanted=1, end=8))
    for unit in range(3):
        policy.recovered(holding(f"old{unit}", unit, end=2))
    assert ask(policy, lease("y", wanted=1), 2) == [reclaim("old0"), reclaim("old1")]


@pytest.mark.parametrize(
    ("others", "comes"),
    [
        ([holding("h", 2, 3)], True),
        ([holding("h", 2, 3), holding("c", 1, state="closing")], True),
        ([holding("h", 3), lease("c", "modifying", 1, assigned=(1, 2), chosen=(2,))], True),
        ([holding("h", 1, 2, 3)], False),
        ([holding("h", 2, 3), holding("c", 1, state="closing", units={1: "failed"})], False),
        ([holding("h", 3), lease("c", "modifying", 1, assigned=(1, 2), chosen=(2,), units={1: "failed"})], False),
        ([holding("h", 2, 3), lease("c", "closed", units={1: "failed"})], False),
    ],
    ids=["free", "closing", "shrinking", "held", "failed in closing", "failed in shrinking", "failed and closed"],
)
def test_units_that_come_back_by_themselves_need_not_be_taken_back(others: list[Lease], comes: bool) -> None:
    """A unit whose machine has failed does not come."""
    for wanted in (1, 2):
        policy = site(4)
        for one in (holding("old", 0, end=1), *others):
            list(policy.changed(one, 2))
        said = ask(policy, lease("a", wanted=wanted), 2)
        assert (reclaim("old") in said) == (wanted == 2 or not comes), said


@pytest.mark.parametrize("state", ["priming", "active", "modifying"])
def test_an_expired_lease_is_taken_back_in_every_state_that_holds_units(state: str) -> None:
    policy = site(1)
    list(policy.changed(holding("old", 0, end=1, state=state), 2))
    assert ask(policy, lease("a"), 2) == [reclaim("old")]


def test_an_expired_lease_of_which_all_units_failed_gives_nothing_back() -> None:
    policy = site(2)
    list(policy.changed(holding("bad", 0, end=1, units={0: "failed"}), 2))
    list(policy.changed(holding("old", 1, end=2), 2))
    assert ask(policy, lease("a"), 2) == [reclaim("old")]


@pytest.mark.parametrize(("lazy", "said"), [(True, [reclaim("a")]), (False, [])])
def test_who_has_expired_while_it_waits_is_not_served_and_stands_in_nobodys_way(lazy: bool, said: list[Any]) -> None:
    """With lazy close it is taken back, as it holds nothing; else its machine ends by the clock."""
    policy = site(1, lazy=lazy)
    list(policy.changed(holding("h", 0), 0))
    assert ask(policy, lease("a", end=3), 2) == ask(policy, lease("b"), 2) == []
    assert words(policy.changed(lease("h", "closed"), 3)) == [*said, placed("b", 0)]


def test_who_has_expired_while_it_waits_for_more_keeps_what_it_has() -> None:
    policy = site(2)
    list(policy.changed(holding("h", 1), 0))
    grows = lease("a", "modifying", 2, 3, assigned=(0,), chosen=(0,), units={0: "active"})
    assert ask(policy, grows, 2) == []
    assert words(policy.tick(3)) == []


def test_who_shrinks_or_stays_is_served_though_others_wait_and_its_term_is_over() -> None:
    policy = site(2)
    list(policy.changed(holding("h", 0), 0))
    list(policy.changed(holding("b", 1), 0))
    assert ask(policy, lease("a", wanted=1)) == []
    less = lease("b", "modifying", 1, 3, assigned=(1, 2), chosen=(1, 2), units={1: "active", 2: "active"})
    assert ask(policy, less, 3)[0] == placed("b", 1)


def test_one_that_needs_more_than_is_free_is_not_overtaken() -> None:
    policy = site(3)
    list(policy.changed(holding("h", 0, 1), 0))
    assert ask(policy, lease("a", wanted=2)) == ask(policy, lease("b", wanted=1)) == []
    assert words(policy.changed(lease("h", "closed"), 0)) == [placed("a", 0, 1), placed("b", 2)]


def test_a_lease_that_shrinks_keeps_the_units_that_are_up() -> None:
    policy = site()
    states = {0: "failed", 1: "active", 2: "priming", 3: "active"}
    less = lease("a", "modifying", 2, assigned=range(4), chosen=range(4), units=states)
    assert ask(policy, less) == [placed("a", 1, 3)]
    three = lease("a", "modifying", 3, assigned=range(4), chosen=range(4), units=states)
    assert ask(policy, three, epoch=2) == [placed("a", 0, 1, 3)]
    many = lease("b", "modifying", 1, assigned=(8, 1), chosen=(8, 1), units={8: "active", 1: "active"})
    assert ask(site(9), many) == [placed("b", 1)]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (lease("o", "closing", assigned=(0,), units={0: "failed"}), []),
        (lease("o", "closing", assigned=(0,), units={0: "failed"}, quarantined=(0,)), [no_room("a")]),
        (lease("o", "closed", units={0: "failed"}), [no_room("a")]),
        (lease("o", "closed", units={0: "closing"}), []),
    ],
    ids=["it is torn down next", "in quarantine", "nobody tears it down", "it is being torn down"],
)
def test_there_is_no_room_only_where_waiting_would_not_help(other: Lease, words: list[Any]) -> None:
    policy = site(2)
    list(policy.changed(other, 0))
    assert ask(policy, lease("a", wanted=2)) == words
    assert ask(policy, lease("b", wanted=1)) == ([placed("b", 1)] if words else [])


UNIT_STATES = {
    **dict.fromkeys(("idle", "closed"), "placed"),
    **dict.fromkeys(("priming", "active", "modifying", "closing"), "waits"),
    **dict.fromkeys(("failed", "kept"), "no_room"),
}


def test_every_state_of_a_unit_is_free_or_waited_for_or_out_of_reach() -> None:
    """Also of one that no lease has had, as an operator may keep it back, or that a lease has had which is over."""
    assert UNIT_STATES.keys() == set(load("lease").roles["unit"].states)
    for state, said in UNIT_STATES.items():
        for name in ("", "o"):
            policy = site(2)
            list(policy.changed(lease(name, "closed", units={0: state}), 0))
            told = ask(policy, lease("a", wanted=2))
            assert (told[0][1] if told else "waits", policy.free() >= {0}) == (said, False), (state, name)
            policy = site(2)
            policy.recovered(lease(name, "closed", units={0: state}))
            assert (0 in policy.free()) == (said == "placed"), (state, name)


def test_its_own_failed_unit_is_not_missing_to_a_lease_that_grows() -> None:
    policy = site(3)
    list(policy.changed(holding("h", 2), 0))
    grows = lease("a", "modifying", 3, assigned=(0,), chosen=(0,), units={0: "failed"}, quarantined=(0,))
    assert ask(policy, grows) == []
    assert ask(policy, lease("b", wanted=3)) == [no_room("b")]


def test_a_unit_that_was_repaired_is_counted_again() -> None:
    policy = site(2)
    list(policy.changed(lease("o", "closed", units={0: "failed"}), 0))
    for state in ("closed", "idle"):
        list(policy.changed(lease("o", "closed", units={0: state}), 0))
        assert policy.free() == {0, 1}
    assert ask(policy, lease("a", wanted=2)) == [placed("a", 0, 1)]


def test_a_unit_is_free_when_the_last_that_holds_it_lets_go() -> None:
    """Another lease may have it assigned already while one tears it down."""
    policy = site(1)
    list(policy.changed(holding("a", 0), 0))
    list(policy.changed(lease("b", "closed", units={0: "closing"}), 0))
    list(policy.changed(lease("a", "closed"), 0))
    assert policy.free() == set()
    list(policy.changed(lease("b", "closed"), 0))
    assert policy.free() == {0}


@pytest.mark.parametrize("unit", [-1, 2])
def test_a_unit_that_this_site_has_not_is_nobodys(unit: int) -> None:
    policy = site(2)
    list(policy.changed(holding("a", unit), 0))
    assert policy.free() == {0, 1}
    list(policy.changed(lease("a", "closed"), 0))
    assert policy.free() == {0, 1}


def test_types_of_units_have_nothing_to_do_with_each_other() -> None:
    """Neither who waits for one waits for the other, nor are units of one taken back, or foreseen, for the other."""
    units = [{"name": "n", "type": "node", "count": 3}, {"name": "d", "type": "disk", "count": 2}]
    policy = FirstFit(Inventory.parse({"units": units}))
    assert (policy.free("node"), policy.free("disk")) == ({0, 1, 2}, {3, 4})
    held = (
        holding("nodes", 0, 1, end=2, type="node"),
        holding("disks", 3, end=1, type="disk"),
        holding("closing", 4, end=9, type="disk", state="closing"),
        holding("other", 2, type="node"),
    )
    for one in held:
        list(policy.changed(one, 0))
    assert ask(policy, lease("a", wanted=2, type="disk"), 0) == []
    assert ask(policy, lease("b", wanted=2, type="node"), 2) == [reclaim("nodes"), reclaim("disks")]
    assert words(policy.changed(lease("other", "closed"), 3)) == [reclaim("nodes"), reclaim("disks")]
    assert ask(policy, lease("c", wanted=1, type="tape"), 3)[0] == no_room("c")
    assert words(policy.changed(lease("nodes", "closed"), 3))[0] == placed("b", 0, 1)


def test_what_is_over_is_forgotten() -> None:
    """However many leases there were: a site runs for years."""
    core = Core()

    def serve(name: str) -> int:
        core.forget()
        first, waits = f"{name}:1", f"{name}:2"
        core.hear(first, "redeem", units=3, end=core.now + 2, properties={"type": "unit"})
        core.all_done()
        core.hear(waits, "redeem", units=2, end=core.now + 9, properties={"type": "unit"})
        core.tick()
        core.tick()
        core.all_done()
        assert core.records[first].state == "closed"
        core.close(waits)
        core.end(core.busy()[0], well=False)
        core.all_done()
        core.repair(*core.quarantined())
        list(core.policy.changed(lease(f"{name}:3", "nascent"), core.now))
        return len(pickle.dumps(core.policy))

    assert len({serve(f"l{n}") for n in range(4)}) == 1


def test_a_unit_that_no_lease_has_had_is_not_free_once_it_has_moved() -> None:
    policy = FirstFit(Inventory.parse({"units": [{"name": "u", "count": UNITS}]}))

    def moved(*names: str) -> frozenset[int]:
        units = {("unit", n): {"state": state} for n, state in enumerate(names)}
        assert policy.changed(Lease("", "authority", "closed", FIRST, units), 0) == []
        return policy.free()

    assert moved("idle", "failed") == {0, 2, 3}
    data = FIRST | {"wanted": 2, "units": 2, "end": 9}
    question = Question("place", Lease("tenant:1", "authority", "priming", data, {}), ("placed", "no_room"), 1)
    (placed,) = policy.begin(question, 0)
    assert placed.fields["units"] == {0, 2}
    assert moved("idle", "idle") == {1, 3}
    assert moved() == {1, 3}


# Units that a lease gives up, or has lost.


def repairing(name: str, wanted: int, chosen: Iterable[int], units: Mapping[int, str]) -> Lease:
    return lease(name, "modifying", wanted, assigned=units, chosen=chosen, units=units, repairing=True)


def test_a_lost_unit_is_replaced_by_a_free_one() -> None:
    assert ask(site(3), repairing("a", 2, (0,), {0: "active", 1: "closing"})) == [placed("a", 0, 2)]


def test_a_lease_that_lost_a_unit_waits_for_no_other_lease() -> None:
    """Its holder has to hear what it has."""
    policy = site(2)
    list(policy.changed(holding("h", 1), 0))
    assert ask(policy, repairing("a", 1, (), {0: "failed"})) == [no_room("a")]
    (told,) = policy.begin(Question("place", repairing("a", 1, (), {0: "failed"}), (), 2), 0)
    assert told.fields["reason"] == "no unit of type unit is free for one that was lost"


def test_a_lease_gets_its_own_unit_again_where_no_other_is_free() -> None:
    """The unit is given as soon as it is torn down, which is waited for."""
    policy = site(1)
    assert ask(policy, repairing("a", 1, (), {0: "closing"})) == []
    assert words(policy.changed(repairing("a", 1, (), {0: "closed"}), 0)) == [placed("a", 0)]
    assert policy.free() == frozenset()


def test_a_unit_in_quarantine_is_not_waited_for() -> None:
    lost = lease("a", "modifying", 1, assigned=(0,), units={0: "failed"}, quarantined=(0,), repairing=True)
    assert ask(site(1), lost) == [no_room("a")]


def test_a_lease_that_lost_a_unit_does_not_overtake() -> None:
    policy = site(3)
    for name in ("a", "h"):
        list(policy.changed(holding(name, "ah".index(name)), 0))
    assert ask(policy, lease("w", wanted=2)) == []
    assert ask(policy, repairing("a", 1, (), {0: "closing"})) == []
    assert words(policy.changed(repairing("a", 1, (), {0: "closed"}), 0)) == [placed("a", 0)]
    assert policy.free() == {2}


def test_what_a_lease_gives_up_is_given_to_nobody_else_before_it_is_let_go() -> None:
    policy = site(2)
    less = lease("a", "modifying", 1, assigned=(0, 1), chosen=(0,), units={0: "active", 1: "closed"})
    list(policy.changed(less, 0))
    assert ask(policy, lease("b")) == []
    assert words(policy.changed(holding("a", 0), 0)) == [placed("b", 1)]


@pytest.mark.parametrize(
    ("units", "free", "before", "waits"),
    [
        ({0: "closing", 1: "closing"}, 0, False, True),
        ({0: "closed", 1: "closing"}, 0, False, True),
        ({0: "closing"}, 0, False, False),
        ({0: "closing"}, 1, False, False),
        ({0: "closing", 1: "failed"}, 1, False, False),
        ({0: "failed", 1: "failed"}, 1, False, False),
        ({0: "closed", 1: "failed"}, 1, False, False),
        ({0: "closed", 1: "closing", 2: "failed"}, 1, False, True),
        ({0: "active", 1: "priming"}, 0, False, True),
        ({0: "closing"}, 3, True, False),
        ({0: "closing", 1: "modifying"}, 3, True, True),
    ],
)
def test_a_lease_that_lost_units_waits_where_its_own_come_back(
    units: dict[int, str], free: int, before: bool, waits: bool
) -> None:
    """It needs two: of its own those count that are down, or on their way down; free ones are not for it behind others.

    Others have units enough, so that these could come free, which it does not wait for.
    """
    policy = site(len(units) + free + 4)
    taken = range(len(units) + free, len(units) + free + 4)
    list(policy.changed(holding("h", *taken), 0))
    list(policy.changed(repairing("a", 2, (), units), 0))
    if before:
        assert ask(policy, lease("first", wanted=free + 1)) == []
    assert ask(policy, repairing("a", 2, (), units)) == ([] if waits else [no_room("a")])


@pytest.mark.parametrize(
    ("state", "quarantined", "waits"),
    [
        ("failed", False, True),
        ("failed", True, False),
        ("kept", False, False),
        ("kept", True, False),
        ("closing", False, True),
        ("active", False, True),
    ],
)
def test_a_unit_that_a_lease_still_has_is_waited_for_unless_it_is_out_of_reach(
    state: str, quarantined: bool, waits: bool
) -> None:
    policy = site(2)
    out = (0,) if quarantined else ()
    list(policy.changed(lease("o", "closing", assigned=(0,), units={0: state}, quarantined=out), 0))
    (*said,) = policy.begin(Question("place", lease("a", wanted=2), ("placed", "no_room"), 1), 0)
    assert words(said) == ([] if waits else [no_room("a")])
    assert [d.fields["reason"] for d in said] == [] if waits else ["of 2 units of type unit, 1 can be used"]


@pytest.mark.parametrize("others", range(NAMED + 3))
def test_those_that_have_the_units_are_named_by_their_ends_and_the_rest_is_counted(others: int) -> None:
    """The waiting lease itself is none of them, nor one that has units of another type."""
    units = [{"name": "u", "type": "node", "count": 20}, {"name": "d", "type": "disk", "count": 1}]
    policy = FirstFit(Inventory.parse({"units": units}))
    list(policy.changed(holding("disk", 20, end=1), 0))
    for n in reversed(range(others)):
        list(policy.changed(holding(f"h{n}", 2 * n, 2 * n + 1, end=20 + n), 0))
    grows = lease("a", "modifying", 20, 30, assigned=(18,), chosen=(18,), units={18: "active"}, type="node")
    said = ask(policy, grows)
    undecided = policy.undecided("a", 0)
    if not others:
        assert (said, undecided) == ([placed("a", *range(20))], None)
        return
    named = [f"h{n} has 2, until tick {20 + n}" for n in range(min(others, NAMED))]
    more = [f"{others - NAMED} more leases have others"] if others > NAMED else []
    free = 19 - 2 * others
    assert undecided == Undecided(
        ", ".join([f"19 more units of type node are wanted and {free} free", *named, *more]), 30
    )


def test_a_type_that_the_site_has_not_is_named_in_the_reason_and_shortened() -> None:
    for type, named in (("tape", "tape"), ("x" * 80, "x" * 80), ("x" * 81, "x" * 80)):
        (told,) = site().begin(Question("place", lease("a", type=type), ("placed", "no_room"), 3), 0)
        assert (told.event, told.machine, told.state_epoch) == ("no_room", "authority", 3)
        assert told.fields == {"reason": f"this site has no units of the type {named!r}"}


@pytest.mark.parametrize("now", range(5))
def test_the_end_of_a_lease_is_the_first_tick_at_which_it_is_taken_back(now: int) -> None:
    """Leases go in the tick of their end; those that end at one time by name, and no more than are needed."""
    policy = site(3)
    for name, unit, end in (("b", 0, 2), ("a", 1, 2), ("c", 2, 4)):
        list(policy.changed(holding(name, unit, end=end), 0))
    said = ask(policy, lease("w", wanted=2, end=20), now)
    assert said == ([reclaim("a"), reclaim("b")] if now >= 2 else [])
    more = ask(policy, lease("v", wanted=1, end=20), now)
    assert more == ([reclaim("c")] if now >= 4 else [])
    assert words(policy.tick(now + 1)) == [
        reclaim(name) for name, end in (("a", 2), ("b", 2), ("c", 4)) if now + 1 >= end
    ]


# Over hosts

HOSTS = Inventory.parse(
    {"units": [{"name": f"{host}-{n}", "properties": {"host": host}} for host in ("a", "b", "c") for n in range(3)]}
)


@pytest.mark.parametrize(
    ("policy", "free", "count", "chosen", "picked"),
    [
        (FirstFit, {1, 4, 7, 8}, 2, set(), {1, 4}),
        (BestFit, {0, 1, 2, 4, 7, 8}, 2, set(), {7, 8}),
        (BestFit, {0, 1, 2, 4, 7, 8}, 1, set(), {4}),
        (BestFit, {0, 1, 2, 4, 7, 8}, 4, set(), {0, 1, 2, 4}),
        (Spread, {0, 1, 2, 4, 7, 8}, 2, set(), {0, 7}),
        (Spread, {0, 1, 2, 4, 7, 8}, 3, {3}, {0, 7, 1}),
        (Spread, {0, 1, 2}, 2, set(), {0, 1}),
    ],
)
def test_a_policy_picks_units_by_their_hosts(
    policy: type[FirstFit], free: set[int], count: int, chosen: set[int], picked: set[int]
) -> None:
    assert set(policy(HOSTS).pick(frozenset(free), count, frozenset(chosen))) == picked


def test_a_unit_without_a_host_is_one() -> None:
    policy = Spread(Inventory.parse({"units": [{"name": "u", "count": 3}]}))
    assert [policy.host(n) for n in range(3)] == ["u-0", "u-1", "u-2"]


def test_a_site_that_hands_units_on_says_which_leases_have_others_beside(tmp_path: Path) -> None:
    """Once a tick; a lease whose ticket was cut from a delegation has none of these, nor has one that is over."""
    policy = site(delegations=Delegations(tmp_path, "east"))
    file = HeldLeases(tmp_path, "east")
    cut = holding("b", 1, 2)
    cut.data["properties"]["delegation"] = "east:1~1~1.0"
    for one in (holding("a", 0, end=7), cut, lease("c", wanted=2, end=8)):
        policy.recovered(one)
    assert file.read() == ()
    list(policy.tick(1))
    assert file.read() == (CountedUnits("a", "unit", 1, 7), CountedUnits("c", "unit", 2, 8))
    list(policy.changed(lease("a", "closed", end=7), 2))
    list(policy.tick(2))
    assert file.read() == (CountedUnits("c", "unit", 2, 8),)
    file.path.unlink()
    tmp_path.joinpath(file.path.name).mkdir()
    list(policy.changed(lease("c", "closed", end=8), 3))
    list(policy.tick(3))  # what cannot be written is tried again, and the policy goes on
    file.path.rmdir()
    list(policy.tick(4))
    assert file.read() == ()
    assert file.path.exists()
