"""The service manager's policy against its machine, with a broker and a site that answer as the test says."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from leasehold.impl.core.values import LARGEST
from leasehold.impl.lease.demand import DemandError, LeaseDemand, LeaseGroup, TargetState
from leasehold.impl.lease.service_manager import DOUBLINGS, FixedDemand
from leasehold.impl.policy.policy import Decision, Lease, Question, Undecided

DATA = {
    "requested_units": 0,
    "requested_start": 0,
    "requested_end": 0,
    "ticket_units": 0,
    "ticket_start": 0,
    "ticket_end": 0,
    "lease_units": frozenset(),
    "lease_lost": frozenset(),
    "lease_end": 0,
}
UNSAID: dict[str, Any] = {"properties": {}, "configuration": {}, "local": {}}
RUNS = ("active", "active_ticketed", "extending_ticket", "extending_lease", "joining")


class Core:
    """A service manager machine, as in the lease's roles/service_manager.yaml; an event that it refuses is an error."""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.policy = self.make()
        self.name = "l"
        self.state, self.data, self.state_epoch, self.now = "nascent", dict(DATA), 0, 0
        self.kept: dict[str, bytes] = {}
        self.said: list[tuple[int, str, dict[str, Any]]] = []
        self.victims: frozenset[int] = frozenset()

    def make(self) -> FixedDemand:
        return FixedDemand(**self.settings)

    @property
    def view(self) -> Lease:
        return Lease(self.name, "service_manager", self.state, dict(self.data), {})

    def keep(self) -> None:
        self.kept.update(self.policy.changed_wishes())

    def enter(self, state: str, **data: Any) -> None:
        self.state, self.state_epoch = state, self.state_epoch + 1
        self.data.update(data)
        self.take(self.policy.changed(self.view, self.now))
        self.keep()
        self.ask()

    def ask(self) -> None:
        call = {"ticketed": "schedule_redeem", "active_ticketed": "schedule_extension"}.get(self.state)
        if call:
            answer = "redeem_now" if self.state == "ticketed" else "extend_now"
            self.take(self.policy.begin(Question(call, self.view, (answer,), self.state_epoch), self.now))

    def take(self, decisions: Any) -> None:
        for d in decisions:
            self.hear(d)

    def hear(self, d: Decision) -> None:
        fields, data = dict(d.fields), self.data
        if d.state_epoch >= 0 and d.state_epoch != self.state_epoch:
            return
        self.said.append((self.now, d.event, fields))
        self.keep()
        if d.event == "demand":
            assert self.state == "nascent"
            assert fields["units"] >= 1
            assert fields["end"] > self.now
            assert fields["end"] > fields["start"]
            asked = {f"requested_{name}": fields[name] for name in ("units", "start", "end")}
            self.enter("ticketing", **asked)
        elif d.event == "redeem_now":
            assert self.state == "ticketed"
            assert self.now >= data["ticket_start"]
            self.enter("redeeming")
        elif d.event == "extend_now":
            assert self.state == "active_ticketed"
            victims = fields["victims"]
            assert not victims or victims <= data["lease_units"]
            assert not victims or len(data["lease_units"] - victims) == data["ticket_units"]
            self.victims = victims
            self.enter("extending_lease")
        elif d.event == "extend":
            assert self.state in ("active", "active_ticketed")
            assert self.now < data["lease_end"]
            assert fields["end"] > data["ticket_end"]
            self.enter("extending_ticket", requested_units=fields["units"], requested_end=fields["end"])
        else:
            assert d.event == "close"
            if self.state not in ("closing", "closed", "failed"):
                early = self.state in ("nascent", "ticketing", "ticketed")
                self.enter("closed" if early else "closing")

    def answer(self, well: bool = True) -> None:
        """The broker, site or guest answers what the state waits for."""
        data = self.data
        if self.state in ("ticketing", "extending_ticket"):
            first = self.state == "ticketing"
            asked = {"ticket_units": data["requested_units"], "ticket_end": data["requested_end"]}
            asked |= {"ticket_start": data["requested_start"]} if first else {}
            waits = {"requested_units": 0, "requested_start": 0, "requested_end": 0}
            if well:
                self.enter("ticketed" if first else "active_ticketed", **asked, **waits)
            elif first:
                self.enter("failed")
            else:
                self.enter("active" if self.as_ticketed() else "active_ticketed", **waits)
        elif self.state in ("redeeming", "extending_lease"):
            # A site that could not set all units up grants the term with those that are up.
            units = data["ticket_units"] if well else max(1, data["ticket_units"] - 1)
            kept = sorted(data["lease_units"] - self.victims)
            units = frozenset([*kept, *(n for n in range(9) if n not in data["lease_units"])][:units])
            self.victims = frozenset()
            if self.state == "redeeming" and not well:
                self.enter("failed")
            else:
                self.enter("joining", lease_units=units, lease_end=data["ticket_end"])
        elif self.state == "joining":
            self.enter("active" if self.as_ticketed() else "active_ticketed")
        elif self.state == "closing":
            self.enter("closed")

    def as_ticketed(self) -> bool:
        d = self.data
        return len(d["lease_units"]) == d["ticket_units"] and d["lease_end"] == d["ticket_end"]

    def settle(self) -> None:
        while self.state in ("ticketing", "redeeming", "joining", "extending_ticket", "extending_lease", "closing"):
            self.answer()

    def tick(self) -> None:
        self.now += 1
        d = self.data
        over = {
            "ticketing": d["requested_end"],
            "ticketed": d["ticket_end"],
            "redeeming": d["ticket_end"],
            "joining": d["lease_end"],
            "active": d["lease_end"],
            "active_ticketed": d["ticket_end"],
            "extending_ticket": d["lease_end"],
            "extending_lease": d["ticket_end"],
            "closing": d["ticket_end"],
        }
        if self.state in over and self.now >= over[self.state]:
            ends = {"ticketing": "failed", "ticketed": "closed", "closing": "closed"}
            self.enter(ends.get(self.state, "closing"))
        self.take(self.policy.tick(self.now))

    def demand(self, units: int, until: int, term: int, start: int = 0, **options: Any) -> None:
        self.take(self.policy.demand(self.name, units, until, term, now=self.now, start=start, **options))
        self.keep()

    def restart(self) -> None:
        self.policy = self.make()
        for lease, kept in self.kept.items():
            if kept:
                self.policy.restore(lease, kept)
        if self.state != "nascent":
            self.policy.recovered(self.view)
        self.state_epoch += 1
        self.ask()

    def events(self, name: str) -> list[tuple[int, dict[str, Any]]]:
        return [(now, fields) for now, event, fields in self.said if event == name]


def test_a_lease_is_renewed_until_the_demand_is_over() -> None:
    core = Core(renew_before=2)
    core.demand(2, 12, 5)
    core.settle()
    while core.state != "closed":
        core.tick()
        core.settle()
        assert core.now >= 12 or core.state == "active"
    assert core.now == 12
    assert core.events("extend") == [(3, extend(2, 10)[1]), (8, extend(2, 12)[1])]


def test_a_ticket_for_later_is_redeemed_then() -> None:
    core = Core()
    core.demand(1, 20, 5, start=3)
    assert core.data["requested_end"] == 8
    core.settle()
    assert core.state == "ticketed"
    core.tick()
    core.restart()
    assert core.state == "ticketed"
    core.tick()
    core.tick()
    assert (core.now, core.state) == (3, "redeeming")


def test_a_policy_says_what_it_waits_for() -> None:
    """Reasons to wait: the start of a ticket; other leases; another try after a site could not extend."""
    policy = wanting(start=7)
    ticketed = record("ticketed", ticket_start=5, ticket_end=12)
    assert policy.undecided("l", 1) is None
    assert [*policy.begin(Question("schedule_redeem", ticketed, ("redeem_now",), 2), 1)] == []
    assert policy.undecided("l", 1) == Undecided("its ticket is for later", 7)
    (redeem,) = policy.tick(7)
    assert redeem.event == "redeem_now"
    assert policy.undecided("l", 7) is None
    waiting = FixedDemand(held_joins=True)
    waiting.demand("other", 1, 50, 10, now=0)
    waiting.demand("l", 1, 50, 10, now=0, after=["other"])
    joining = record("joining", lease_end=10)
    assert [*waiting.begin(Question("schedule_join", joining, ("join_now",), 4), 1)] == []
    assert waiting.undecided("l", 1) == Undecided("its guests wait for other to be active", 10)
    trying = wanting()
    again = active(9, ticket_end=14)
    (first,) = trying.begin(Question("schedule_extension", again, ("extend_now",), 5), 1)
    assert first.event == "extend_now"
    assert [*trying.begin(Question("schedule_extension", again, ("extend_now",), 7), 1)] == []
    assert trying.undecided("l", 1) == Undecided("its site has not extended it, and is asked again", 2)


def test_flex_takes_effect_at_the_next_renewal_or_at_once() -> None:
    core = Core(renew_before=1)
    core.demand(1, 100, 5)
    core.settle()
    core.take(core.policy.flex("l", 3, now=core.now))
    core.settle()
    assert not core.events("extend")
    for _ in range(4):
        core.tick()
        core.settle()
    assert len(core.data["lease_units"]) == 3
    core.tick()
    core.take(core.policy.flex("l", 2, now=core.now, soon=True))
    core.settle()
    assert len(core.data["lease_units"]) == 2


@pytest.mark.parametrize("steps", range(5))
def test_a_demand_that_is_stopped_closes_in_every_state(steps: int) -> None:
    core = Core()
    core.demand(1, 100, 5)
    for _ in range(steps):
        core.answer()
    core.take(core.policy.stop("l", now=core.now))
    core.settle()
    assert core.state == "closed"
    assert core.policy.wish("l") is None
    assert core.policy.changed_wishes() == {}
    assert core.kept == {"l": b""}


def test_a_demand_stopped_before_it_came_to_the_machine_is_closed_there() -> None:
    policy = FixedDemand()
    said = [*policy.demand("l", 1, 100, 5, now=0), *policy.stop("l", now=0), *policy.tick(1)]
    assert [d.event for d in said] == ["demand", "close"]
    assert policy.changed_wishes() == {"l": b""}


def test_wishes_outlive_a_restart() -> None:
    core = Core(renew_before=1)
    core.demand(1, 30, 5)
    core.settle()
    core.take(core.policy.flex("l", 4, now=core.now))
    core.keep()
    while core.now < 29:
        core.restart()
        core.tick()
        core.settle()
    assert (core.state, len(core.data["lease_units"]), core.data["lease_end"]) == ("active", 4, 30)


def test_a_demand_whose_record_was_never_committed_is_asked_for_after_a_restart() -> None:
    core = Core()
    core.policy.demand("l", 2, 30, 5, now=0)
    core.keep()
    core.restart()
    core.tick()
    assert core.state == "ticketing"


def test_a_lease_that_is_over_is_not_asked_for_again_after_a_restart() -> None:
    """The wish may be given back before or after the record, and although the actor died before dropping it."""
    wish = LeaseDemand(1, 30, 5)
    for early in (True, False):
        policy = FixedDemand()
        kept = b'{"units":1,"until":30,"term":5}'
        if early:
            policy.restore("l", kept)
            assert policy.wish("l") == wish
        policy.recovered(Lease("l", "service_manager", "failed", DATA, {}))
        if not early:
            policy.restore("l", kept)
        assert list(policy.tick(1)) == []
        assert policy.changed_wishes() == {"l": b""}


def test_what_is_denied_is_not_asked_for_without_a_pause() -> None:
    core = Core(renew_before=4, retry_after=2)
    core.demand(1, 100, 8)
    core.settle()
    while core.now < 7:
        core.tick()
        while core.state == "extending_ticket":
            core.answer(well=False)
    assert [now for now, _ in core.events("extend")] == [4, 6]


def test_what_the_site_cannot_give_is_tried_again_after_a_pause() -> None:
    core = Core(renew_before=1, retry_after=3)
    core.demand(2, 100, 10)
    core.settle()
    core.take(core.policy.flex("l", 3, now=0, soon=True))
    core.answer()  # the ticket
    core.answer(well=False)  # the lease, with fewer units
    core.answer()
    for _ in range(6):
        core.tick()
        while core.state in ("extending_lease", "joining"):
            core.answer(well=False)
    assert [now for now, _ in core.events("extend_now")] == [0, 3, 6]


@settings(max_examples=150)
@given(st.data())
def test_random_runs(data: st.DataObject) -> None:
    """No word is refused, whatever happens; and while brokers and sites answer well in time, the lease goes on."""
    core = Core(renew_before=data.draw(st.integers(1, 4)), retry_after=data.draw(st.integers(1, 3)))
    core.demand(data.draw(st.integers(1, 3)), data.draw(st.integers(1, 30)), data.draw(st.integers(1, 6)))
    for _ in range(data.draw(st.integers(0, 40))):
        match data.draw(st.sampled_from(["tick", "answer", "badly", "restart", "flex", "soon", "prolong", "again"])):
            case "tick":
                core.tick()
            case "answer":
                core.answer()
            case "badly":
                core.answer(well=False)
            case "restart":
                core.restart()
            case "again":
                core.ask()
            case "prolong" if core.policy.wish("l"):
                later = max(core.now, core.policy.wish("l").until - 1)  # type: ignore[union-attr]
                core.take(core.policy.prolong("l", later + data.draw(st.integers(1, 20)), now=core.now))
            case word if core.policy.wish("l"):
                soon = word == "soon" and core.data["ticket_end"] < core.policy.wish("l").until  # type: ignore[union-attr]
                units, held = data.draw(st.integers(1, 3)), core.data["lease_units"]
                most = len(held) - units if core.state in RUNS else 0
                victims = data.draw(st.sets(st.sampled_from(sorted(held)), max_size=most)) if most > 0 else ()
                core.take(core.policy.flex("l", units, now=core.now, soon=soon, victims=victims))
        core.keep()
        assert (core.kept.get("l", b"") != b"") == (core.state not in ("closing", "closed", "failed"))
    wish = core.policy.wish("l")
    core.settle()
    while wish is not None and core.now < wish.until and core.state in RUNS:
        core.tick()
        core.settle()
        assert core.now >= min(wish.until, core.data["lease_end"]) or core.state in RUNS
    if core.state == "active":
        core.take(core.policy.stop("l", now=core.now))
        core.settle()
        assert core.state == "closed"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"units": 0}, "units is 0; it needs at least one unit"),
        ({"until": 3}, "until is 3; it needs a time after now, which is 3"),
        ({"units": 10**30}, "units is 10{29}; 20 is the most that can ever be had"),
        ({"units": 21}, "units is 21; 20 is the most"),
        ({"until": 2**63}, "until is 9223372036854775808; 9223372036854775807 is the most"),
        ({"term": 10**400}, "is the most that can ever be had"),
        ({"term": True}, "term is True; it needs at least one tick"),
        ({"start": 50}, "start is 50, and the demand is over at 40"),
        ({"start": "soon"}, "start is 'soon'; it needs a time"),
    ],
)
def test_a_demand_that_makes_no_sense_changes_nothing(wrong: dict[str, Any], words: str) -> None:
    policy = FixedDemand(max_units=20)
    with pytest.raises(DemandError, match=words):
        policy.demand("l", **{"units": 1, "until": 40, "term": 5, "now": 3, **wrong})
    assert policy.changed_wishes() == {}
    assert list(policy.tick(4)) == []


def test_wishes_for_leases_that_are_not_there_or_are_are_refused() -> None:
    policy = FixedDemand()
    for call in (policy.stop, lambda lease, now: policy.flex(lease, 1, now=now)):
        with pytest.raises(DemandError, match="nothing is wanted of lease 'l'"):
            call("l", now=0)
    policy.demand("l", 1, 10, 5, now=0)
    with pytest.raises(DemandError, match="give it a new name"):
        policy.demand("l", 1, 10, 5, now=0)
    with pytest.raises(DemandError, match="is no wish"):
        policy.restore("m", b"{}")
    with pytest.raises(DemandError, match="renew_before is 0"):
        FixedDemand(renew_before=0)


def test_a_close_is_said_at_each_tick_until_it_is_heard() -> None:
    policy, data = FixedDemand(), {**DATA, "lease_end": 9, "ticket_end": 9}
    list(policy.demand("l", 1, 5, 5, now=1))
    list(policy.changed(Lease("l", "service_manager", "active", data, {}), 2))
    said = {now: [d.event for d in policy.tick(now)] for now in range(3, 9)}
    assert [said[now] for now in (5, 6, 7)] == [["close"]] * 3
    list(policy.changed(Lease("l", "service_manager", "closing", data, {}), 8))
    assert list(policy.tick(9)) == []


# Alone: the lease as its record says it, and what the policy says.


def record(state: str, name: str = "l", **data: Any) -> Lease:
    return Lease(name, "service_manager", state, {**DATA, **data}, {})


def active(end: int, name: str = "l", **data: Any) -> Lease:
    return record("active", name, **{"lease_end": end, "ticket_end": end, **data})


def words(decisions: Iterable[Decision]) -> list[tuple[str, dict[str, Any]]]:
    return [(d.event, dict(d.fields)) for d in decisions]


def wanting(until: int = 100, term: int = 5, units: int = 2, start: int = 0, now: int = 0, **given: int) -> FixedDemand:
    """A policy of which a lease is wanted."""
    policy = FixedDemand(**given)
    list(policy.demand("l", units, until, term, now=now, start=start))
    policy.changed_wishes()
    return policy


def extend(units: int, end: int) -> tuple[str, dict[str, Any]]:
    return "extend", {"units": units, "end": end, **UNSAID}


def demand(units: int, end: int, start: int = 0) -> tuple[str, dict[str, Any]]:
    return "demand", {"units": units, "start": start, "end": end, "type": "", **UNSAID}


CLOSE: tuple[str, dict[str, Any]] = ("close", {})


@pytest.mark.parametrize(
    ("method", "good", "wrong"),
    [
        ("demand", {"units": 1}, {"units": 0}),
        ("demand", {"units": 20}, {"units": 21}),
        ("demand", {"until": 4}, {"until": 3}),
        ("demand", {"term": 1}, {"term": 0}),
        ("demand", {"start": 0}, {"start": -1}),
        ("demand", {"start": 39}, {"start": 40}),
        ("flex", {"units": 1}, {"units": 0}),
        ("flex", {"units": 20}, {"units": 21}),
        ("prolong", {"until": 40}, {"until": 39}),
    ],
)
def test_each_number_of_a_wish_has_its_bounds(method: str, good: dict[str, int], wrong: dict[str, int]) -> None:
    """At the bound it is taken; beyond it is refused, and the wish is as it was."""
    first = {"units": 2, "until": 40, "term": 5}

    def say(policy: FixedDemand, **numbers: int) -> None:
        all_of_it = {**first, **numbers} if method == "demand" else numbers
        list(getattr(policy, method)("l", **all_of_it, now=3))

    policy = FixedDemand(max_units=20)
    if method != "demand":
        list(policy.demand("l", **first, now=3))
    policy.changed_wishes()
    before = policy.wish("l")
    with pytest.raises(DemandError, match=next(iter(wrong))):
        say(policy, **wrong)
    assert (policy.wish("l"), policy.changed_wishes()) == (before, {})
    say(policy, **good)
    wish = policy.wish("l")
    assert wish is not None
    assert {name: getattr(wish, name) for name in good} == good
    assert policy.changed_wishes() == {"l": policy.wishes("l")}


@pytest.mark.parametrize("name", ["renew_before", "retry_after"])
def test_each_setting_is_a_number_of_ticks(name: str) -> None:
    FixedDemand(**{name: 1})
    for wrong in (0, True, "2", 1.5):
        with pytest.raises(DemandError, match=f"{name} is "):
            FixedDemand(**{name: wrong})  # type: ignore[arg-type]


def test_what_is_not_set() -> None:
    """Renewed two ticks before its end; asked for again after a tick; any number of units."""
    policy = FixedDemand()
    assert words(policy.demand("l", 10**12, 100, 9, now=0)) == [demand(10**12, 9)]
    assert policy.wish("l") == LeaseDemand(10**12, 100, 9, start=0, soon=False)
    assert words(policy.tick(1)) == [demand(10**12, 10)]
    list(policy.changed(active(10), 2))
    assert [words(policy.tick(now)) for now in (7, 8)] == [[], [extend(10**12, 19)]]


def test_a_lease_that_is_there_is_not_asked_for_anew_though_nobody_wants_it() -> None:
    policy = FixedDemand()
    policy.recovered(active(9))
    with pytest.raises(DemandError, match="give it a new name"):
        policy.demand("l", 1, 40, 5, now=3)


def test_a_demand_is_asked_for_again_after_a_pause_until_its_machine_has_it() -> None:
    """The actor may have failed to commit it."""
    policy = wanting(retry_after=3)
    assert [words(policy.tick(now)) for now in range(1, 7)] == [[], [], [demand(2, 8)], [], [], [demand(2, 11)]]
    assert words(policy.changed(record("nascent"), 6)) == []
    assert words(policy.tick(9)) == [demand(2, 14)]
    list(policy.changed(record("ticketing", requested_end=14), 9))
    assert [said for now in range(10, 30) for said in words(policy.tick(now))] == []


@pytest.mark.parametrize(
    ("start", "until", "end"), [(0, 100, 8), (3, 100, 8), (4, 100, 9), (10, 100, 15), (0, 7, 7), (10, 12, 12)]
)
def test_the_first_term_begins_now_or_when_units_are_of_use_and_ends_with_the_demand(
    start: int, until: int, end: int
) -> None:
    policy = FixedDemand()
    assert words(policy.demand("l", 2, until, 5, now=3, start=start)) == [demand(2, end, start)]


@pytest.mark.parametrize(
    ("lease", "until", "end"),
    [
        (active(10), 100, 15),
        (active(10), 12, 12),
        (active(10), 11, 11),
        (active(10), 10, None),
        (active(10, ticket_end=14), 100, None),
    ],
)
def test_a_renewal_is_for_a_term_more_than_the_ticket_says_when_that_ends_but_not_beyond_the_demand(
    lease: Lease, until: int, end: int | None
) -> None:
    policy = wanting(until=until)
    assert words(policy.changed(lease, 8)) == ([] if end is None else [extend(2, end)])


@pytest.mark.parametrize(
    ("renew_before", "term", "early"), [(2, 5, 2), (4, 9, 4), (4, 8, 4), (5, 8, 4), (9, 3, 1), (9, 1, 1), (1, 9, 1)]
)
def test_when_a_lease_is_renewed(renew_before: int, term: int, early: int) -> None:
    """An extension is asked for as long before the end as is set; terms that are too short for that at half of them."""
    policy = wanting(term=term, renew_before=renew_before)
    list(policy.changed(active(30), 1))
    said = {now: words(policy.tick(now)) for now in range(2, 31)}
    assert next(now for now, some in said.items() if some) == 30 - early


@pytest.mark.parametrize(
    "state", ["ticketed", "redeeming", "joining", "extending_ticket", "extending_lease", "closing"]
)
def test_only_a_lease_that_runs_is_renewed(state: str) -> None:
    policy = wanting()
    assert words(policy.changed(record(state, lease_end=10, ticket_end=10), 9)) == []
    assert words(policy.tick(9)) == []


def test_a_lease_whose_end_has_come_is_not_renewed() -> None:
    assert words(wanting().changed(active(10), 10)) == []
    assert words(wanting().changed(active(10), 9)) == [extend(2, 15)]


def test_a_lease_that_nobody_wants_is_not_renewed() -> None:
    assert words(FixedDemand().changed(active(10), 9)) == []


def test_a_renewal_changes_no_wish() -> None:
    """Wishes that have not changed are not written again."""
    policy = wanting()
    assert words(policy.changed(active(10), 9)) == [extend(2, 15)]
    assert policy.changed_wishes() == {}


class Read(dict[str, Any]):
    """Data of a record that count how often they are read."""

    times = 0

    def __getitem__(self, name: str) -> Any:
        self.times += 1
        return super().__getitem__(name)


@pytest.mark.parametrize(("state", "looks"), [("active", [48, 49]), ("joining", []), ("redeeming", [])])
def test_a_lease_is_looked_at_only_when_its_time_comes(state: str, looks: list[int]) -> None:
    """Few leases among a hundred thousand have anything to be decided at a tick."""
    data, looked = Read({**DATA, "lease_end": 50, "ticket_end": 50}), []
    policy = wanting()
    list(policy.changed(Lease("l", "service_manager", state, data, {}), 1))
    for now in range(2, 50):
        before = data.times
        list(policy.tick(now))
        looked += [now] if data.times > before else []
    assert looked == looks


def test_who_has_a_ticket_that_is_not_used_yet_may_renew_too() -> None:
    """It renews when that ticket comes to its end, as long as the lease lasts."""
    lease = record("active_ticketed", lease_end=10, ticket_end=11)
    assert words(wanting().changed(lease, 8)) == []
    assert words(wanting().changed(lease, 9)) == [extend(2, 16)]
    assert words(wanting().changed(lease, 10)) == []


def test_who_wants_units_for_a_while_asks_for_a_term_in_which_its_guests_can_leave() -> None:
    """At the start, and when the time to leave is near; at the end of the demand no longer term is of use."""
    policy = FixedDemand(leave_limit=2, clock_margin=1)
    assert words(policy.demand("l", 2, 9, 5, now=0)) == [demand(2, 8)]
    list(policy.changed(active(8), 1))
    assert min(at for at in range(2, 6) if words(policy.tick(at)) == [extend(2, 12)]) == 3
    assert [words(policy.changed(active(12), at)) for at in (6, 8)] == [[], []]
    assert words(policy.tick(9)) == [("close", {})]


def test_a_renewal_is_asked_for_again_after_a_pause_although_the_record_did_not_change() -> None:
    policy = wanting(retry_after=3, renew_before=9, term=20)
    list(policy.changed(active(30), 1))
    assert [now for now in range(2, 30) if words(policy.tick(now))] == [21, 24, 27]


def test_units_wanted_soon_are_asked_for_once() -> None:
    """The wish is kept without the haste from then on, or a restart would ask once more."""
    policy = wanting()
    list(policy.changed(active(50), 1))
    assert words(policy.flex("l", 4, now=2, soon=True)) == [extend(4, 55)]
    assert policy.wish("l") == LeaseDemand(4, 100, 5)
    assert policy.changed_wishes() == {"l": policy.wishes("l")}
    assert [said for now in range(3, 40) for said in words(policy.tick(now))] == []


def test_units_wanted_soon_need_a_term_in_which_to_come() -> None:
    policy = wanting(until=50)
    list(policy.changed(active(20, ticket_end=50), 1))
    with pytest.raises(DemandError, match="no term is left"):
        policy.flex("l", 4, now=2, soon=True)
    list(policy.flex("l", 3, now=2))
    list(policy.prolong("l", 51, now=2))
    assert words(policy.flex("l", 4, now=2, soon=True)) == [extend(4, 51)]
    list(wanting().flex("l", 4, now=2, soon=True))  # it has no ticket yet


@pytest.mark.parametrize("change", [lambda p: p.stop("l", now=7), lambda p: p.prolong("l", 190, now=7)])
def test_whoever_changes_a_wish_leaves_the_rest_of_it(change: Callable[[FixedDemand], Any]) -> None:
    policy = wanting(start=6)
    list(policy.changed(record("redeeming"), 6))
    list(change(policy))
    wish = policy.wish("l")
    assert wish is not None
    assert (wish.units, wish.term, wish.start) == (2, 5, 6)
    assert policy.changed_wishes() == {"l": policy.wishes("l")}


def test_a_demand_that_is_prolonged_goes_on() -> None:
    policy = wanting(until=10)
    list(policy.changed(active(10), 1))
    assert words(policy.prolong("l", 30, now=9)) == [extend(2, 15)]
    policy = wanting(until=10)
    list(policy.changed(active(10), 1))
    with pytest.raises(DemandError, match=r"wanted until 10 already.*to end it sooner, say `leasehold close l`"):
        policy.prolong("l", 9, now=2)
    list(policy.prolong("l", 12, now=2))
    assert [(now, words(policy.tick(now))) for now in range(7, 11)] == [
        (7, []),
        (8, [extend(2, 12)]),
        (9, [extend(2, 12)]),
        (10, []),
    ]


def test_a_ticket_is_used_from_the_time_at_which_units_are_of_use() -> None:
    policy, lease = wanting(start=6), record("ticketed", ticket_end=11)
    assert words(policy.begin(Question("schedule_redeem", lease, ("redeem_now",), 1), 2)) == []
    assert words(policy.tick(5)) == []
    assert words(policy.changed(lease, 5)) == []
    (said,) = policy.tick(6)
    assert (said.event, said.state_epoch) == ("redeem_now", 1)
    assert words(policy.changed(lease, 6)) == words(policy.tick(7)) == [], "it is answered once"


def test_a_ticket_that_nobody_wants_any_more_is_used_at_once() -> None:
    """The wish may be lost, never the units that others paid for with room."""
    lease = record("ticketed", ticket_end=11)
    asked = Question("schedule_redeem", lease, ("redeem_now",), 1)
    assert words(FixedDemand().begin(asked, 2)) == [("redeem_now", {})]


def test_a_question_is_not_answered_when_its_state_was_left() -> None:
    policy = wanting(start=6)
    list(policy.begin(Question("schedule_redeem", record("ticketed", ticket_end=11), ("redeem_now",), 1), 2))
    list(policy.changed(record("redeeming", ticket_end=11), 3))
    list(policy.changed(record("ticketed", ticket_end=11), 3))
    assert words(policy.tick(6)) == []


def test_an_extension_is_tried_again_after_a_pause_and_a_newer_ticket_at_once() -> None:
    policy = wanting(retry_after=3)

    def asked(ticket_end: int, now: int) -> list[str]:
        lease = record("active_ticketed", lease_end=50, ticket_end=ticket_end)
        question = Question("schedule_extension", lease, ("extend_now",), now)
        return [event for event, _ in words(policy.begin(question, now))]

    assert [asked(60, now) for now in (1, 2, 3, 4)] == [["extend_now"], [], [], ["extend_now"]]
    assert asked(70, 5) == ["extend_now"]
    assert asked(70, 5) == []
    assert [(now, d.state_epoch) for now in (6, 7, 8, 9) for d in policy.tick(now)] == [(8, 5)]


@pytest.mark.parametrize("state", ["nascent", "ticketing", "ticketed", "active", "joining"])
def test_a_close_is_said_from_the_end_of_the_demand_on(state: str) -> None:
    policy = wanting(until=5)
    list(policy.changed(record(state, lease_end=20, ticket_end=20, requested_end=20), 1))
    said = [[event for event, _ in words(policy.tick(now))] for now in (4, 5, 6)]
    assert ["close" in some for some in said] == [False, True, True]
    list(policy.changed(record("closing"), 6))
    assert words(policy.tick(7)) == []
    list(policy.changed(record("closed"), 7))
    assert policy.wish("l") is None
    assert policy.changed_wishes() == {"l": b""}


@pytest.mark.parametrize("state", ["closed", "failed"])
def test_a_lease_that_is_over_is_wanted_no_more(state: str) -> None:
    policy = wanting()
    list(policy.changed(active(9), 1))
    list(policy.changed(record(state), 2))
    assert (policy.wish("l"), policy.wishes("l"), policy.changed_wishes()) == (None, b"", {"l": b""})
    assert [said for now in range(3, 120) for said in words(policy.tick(now))] == []
    list(policy.changed(record(state), 3))
    assert policy.changed_wishes() == {}, "it is dropped once"


def test_wishes_are_handed_out_once_and_by_name() -> None:
    policy = FixedDemand()
    for name in ("b", "a"):
        list(policy.demand(name, 1, 9, 5, now=0))
    assert [*policy.changed_wishes()] == ["a", "b"]
    assert policy.changed_wishes() == {}


def test_a_wish_is_the_same_after_a_restart() -> None:
    policy, later = wanting(start=4), FixedDemand()
    later.restore("l", policy.wishes("l"))
    assert later.wish("l") == policy.wish("l") == LeaseDemand(2, 100, 5, 4)
    assert later.changed_wishes() == {}, "nothing has changed"
    with pytest.raises(AttributeError):
        later.wish("l").units = 3  # type: ignore[misc, union-attr]
    for kept in (b"", b"[]", b'{"units":1,"until":9}', b'{"units":1,"until":9,"term":1,"hue":3}'):
        with pytest.raises(DemandError, match="is no wish"):
            later.restore("m", kept)
    assert later.wish("m") is None


def test_nothing_of_a_wish_is_lost_in_a_restart() -> None:
    """Each field, those that the next version adds as well."""
    lists: tuple[dict[str, Any], ...] = {"a": 1}, {"b": [2]}, {"c": {}}
    wish = LeaseDemand(2, 100, 5, 4, True, "disk", *lists, ("other:1",), (7,), "market", "rack", 1, 2, 9)
    wish = replace(wish, group=LeaseGroup("job", 2, 9), ended="l is over", slice="web")
    wish = replace(wish, target=TargetState(3, 4, 9, 2, ((0, 12), (1, 7))))
    plain = LeaseDemand(1, 1, 1)
    assert [name for name in wish.__struct_fields__ if getattr(wish, name) == getattr(plain, name)] == []
    policy, later = FixedDemand(), FixedDemand()
    policy._set("l", wish)
    for kept in (policy.wishes("l"), policy.changed_wishes()["l"]):
        later.restore("l", kept)
        assert later.wish("l") == wish


def test_a_demand_that_has_no_record_after_a_restart_is_asked_for_at_once() -> None:
    policy = FixedDemand()
    policy.restore("l", wanting().wishes("l"))
    assert words(policy.tick(0)) == [demand(2, 5)]


@pytest.mark.parametrize("order", ["wish first", "record first"])
def test_after_a_restart_a_lease_is_looked_at_at_once(order: str) -> None:
    """Its renewal, and its close, may have come due while the actor was down."""
    for until, said in ((100, [extend(2, 15)]), (8, [CLOSE])):
        kept, policy = wanting(until=until).wishes("l"), FixedDemand()
        if order == "wish first":
            policy.restore("l", kept)
        policy.recovered(active(10))
        if order == "record first":
            policy.restore("l", kept)
        assert words(policy.tick(9)) == said


def test_after_a_restart_what_is_over_and_is_wanted_anew_is_another_matter() -> None:
    """Leases that were over are told of before the clock goes on; a wish of the same name after that is a new one."""
    policy = FixedDemand()
    policy.recovered(record("closed"))
    list(policy.tick(1))
    policy.restore("l", wanting().wishes("l"))
    assert policy.wish("l") is not None


def test_what_is_over_is_forgotten() -> None:
    """However many leases there were: a service manager runs for years."""

    def serve(policy: FixedDemand, name: str) -> int:
        core = Core()
        core.name, core.policy = name, policy
        core.demand(1, 14, 4)
        core.settle()
        core.take(policy.flex(name, 3, now=core.now, soon=True))
        core.answer()
        core.answer(well=False)
        while core.state != "closed":
            core.answer(well=core.now % 3 != 0)
            core.tick()
        core.keep()
        early = f"{name}-"
        list(policy.demand(early, 1, 9, 5, now=1))
        list(policy.stop(early, now=2))
        policy.changed_wishes()
        list(policy.tick(1_000))
        return len(pickle.dumps(policy))

    policy = FixedDemand()
    new = len(pickle.dumps(policy))
    assert [serve(policy, f"l{n}") for n in range(3)] == [new] * 3


# Types, reservations, units that are given back, and guests that wait.


def test_a_demand_says_what_is_wanted_and_what_for() -> None:
    policy = FixedDemand()
    said = policy.demand(
        "l",
        2,
        100,
        5,
        now=0,
        type="node",
        properties={"rack": 3},
        configuration={"image": "web"},
        local={"team": "blue"},
    )
    told = {"units": 2, "start": 0, "end": 5, "type": "node"}
    assert words(said) == [
        ("demand", told | {"properties": {"rack": 3}, "configuration": {"image": "web"}, "local": {"team": "blue"}})
    ]
    later = FixedDemand()
    later.restore("l", policy.wishes("l"))
    later.recovered(active(10))
    ((_, fields),) = words(later.tick(9))
    assert (fields["properties"], fields["configuration"], fields["local"]) == (
        {"rack": 3},
        {"image": "web"},
        {"team": "blue"},
    )


def test_a_ticket_for_a_term_that_begins_later_is_redeemed_when_it_begins() -> None:
    """Also where nobody wants the lease any more, as the machine refuses it before."""
    policy, lease = FixedDemand(), record("ticketed", ticket_start=6, ticket_end=11)
    assert words(policy.begin(Question("schedule_redeem", lease, ("redeem_now",), 1), 2)) == []
    assert [words(policy.tick(now)) for now in (5, 6)] == [[], [("redeem_now", {})]]


def victims(lease: Lease, *named: int, units: int = 0) -> frozenset[int]:
    policy = wanting(units=units or 2)
    list(policy.changed(lease, 1))
    if named:
        list(policy.flex("l", units or lease.data["ticket_units"], now=1, victims=named))
    asked = Lease("l", "service_manager", "active_ticketed", lease.data, {})
    (said,) = policy.begin(Question("schedule_extension", asked, ("extend_now",), 1), 1)
    return said.fields["victims"]  # type: ignore[no-any-return]


def has(*units: int, ticket: int, lost: Iterable[int] = ()) -> Lease:
    return active(50, lease_units=frozenset(units), lease_lost=frozenset(lost), ticket_units=ticket, ticket_end=60)


@pytest.mark.parametrize(
    ("lease", "named", "gives"),
    [
        (has(1, 2, 3, ticket=2), (), {3}),
        (has(1, 2, 3, ticket=2, lost=[2]), (), {2}),
        (has(1, 2, 3, ticket=2), (1,), {1}),
        (has(1, 2, 3, ticket=1), (2,), {2, 3}),
        (has(1, 2, 3, ticket=1, lost=[1]), (2,), {1, 2}),
        (has(1, 2, 3, ticket=2), (1, 2), {1}),
        (has(1, 2, ticket=2), (1,), set()),
        (has(1, 2, ticket=3), (1,), set()),
    ],
    ids=[
        "none was named",
        "none was named and one is lost",
        "named",
        "too few",
        "lost ones first",
        "too many",
        "as many",
        "more",
    ],
)
def test_as_many_units_are_given_back_as_the_ticket_is_smaller_by(lease: Lease, named: Any, gives: set[int]) -> None:
    assert victims(lease, *named, units=1) == gives


def test_units_that_were_given_back_are_not_given_back_again() -> None:
    policy = wanting()
    list(policy.changed(has(1, 2, 3, ticket=3), 1))
    list(policy.flex("l", 2, now=1, victims=[1]))
    policy.changed_wishes()
    list(policy.changed(has(2, 3, ticket=2), 2))
    wish = policy.wish("l")
    assert wish is not None
    assert wish.victims == ()
    assert policy.changed_wishes() == {"l": policy.wishes("l")}


@pytest.mark.parametrize(
    ("named", "says"), [((4,), "has no unit 4; its units are 1, 2, 3"), ((1, 2), "gives back 1 and not 2")]
)
def test_only_units_that_the_lease_has_and_gives_up_are_given_back(named: Any, says: str) -> None:
    policy = wanting()
    list(policy.changed(has(1, 2, 3, ticket=3), 1))
    policy.changed_wishes()
    with pytest.raises(DemandError, match=says):
        policy.flex("l", 2, now=1, victims=named)
    assert policy.changed_wishes() == {}


def test_guests_wait_for_the_leases_that_they_are_said_to_wait_for() -> None:
    policy = FixedDemand(held_joins=True)
    list(policy.demand("a", 1, 100, 50, now=0))
    list(policy.demand("b", 1, 100, 50, now=0, after=["a"]))
    asked = Question("schedule_join", record("joining", "b", lease_end=50, ticket_end=50), ("join_now",), 3)
    assert words(policy.begin(asked, 1)) == []
    assert words(policy.changed(record("joining", "a", lease_end=50, ticket_end=50), 2)) == []
    (said,) = policy.changed(active(50, "a"), 3)
    assert (said.lease, said.event, said.state_epoch) == ("b", "join_now", 3)


def test_guests_do_not_wait_for_a_lease_that_is_over() -> None:
    policy = FixedDemand(held_joins=True)
    list(policy.demand("a", 1, 100, 50, now=0))
    list(policy.demand("b", 1, 100, 50, now=0, after=["a"]))
    joins = record("joining", "b", lease_end=50, ticket_end=50)
    assert words(policy.begin(Question("schedule_join", joins, ("join_now",), 3), 1)) == []
    list(policy.changed(active(50, "other"), 1))
    (said,) = policy.changed(record("failed", "a"), 3)
    assert (said.lease, said.event) == ("b", "join_now")


def test_guests_cannot_wait_for_a_lease_that_is_not_there() -> None:
    """A mistyped name would keep nobody waiting; so leases cannot wait for each other in a circle either."""
    policy = FixedDemand(held_joins=True)
    list(policy.demand("a", 1, 100, 50, now=0))
    list(policy.changed(record("closed", "a"), 1))
    for after in (["a"], ["b"], ["nobody:7"]):
        with pytest.raises(DemandError, match=f"there is no lease '{after[0]}' to wait for here, or it is over"):
            policy.demand("b", 1, 100, 50, now=2, after=after)
    assert policy.wish("b") is None


# Commands that are taken back, and leases that could not begin


COMMANDS: dict[str, Callable[[FixedDemand], Any]] = {
    "demand": lambda p: p.demand("new", 1, 50, 10, now=3),
    "flex": lambda p: p.flex("l", 1, now=3, soon=True, victims=[2, 1]),
    "prolong": lambda p: p.prolong("l", 70, now=3),
    "stop": lambda p: p.stop("l", now=3),
}


def _commanded(command: str) -> tuple[FixedDemand, str]:
    """A policy that was given a command, and the lease that it is about."""
    policy = wanting(until=61)
    list(policy.changed(has(1, 2, 3, ticket=3), 1))
    before = {"l": policy.wish("l"), "new": policy.wish("new")}
    list(COMMANDS[command](policy))
    name = "new" if command == "demand" else "l"
    assert policy.wish(name) != before[name]
    return policy, name


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_is_taken_back_leaves_the_wish_that_was_before(command: str) -> None:
    """It is handed out anew; once more takes nothing back."""
    policy, name = _commanded(command)
    policy.changed_wishes()
    first = None if command == "demand" else LeaseDemand(2, 61, 5)
    policy.take_back(name, 3)
    assert policy.wish(name) == first
    assert policy.changed_wishes() == {name: policy.wishes(name)}
    assert (policy.wishes(name) == b"") == (first is None)
    policy.take_back(name, 3)
    assert (policy.wish(name), policy.changed_wishes()) == (first, {})


@pytest.mark.parametrize(
    ("command", "then"),
    [*itertools.product(COMMANDS, ["another lease", "a tick"]), ("demand", "over")],
)
def test_nothing_but_the_last_command_is_taken_back(command: str, then: str) -> None:
    policy, name = _commanded(command)
    if then == "a tick":
        list(policy.tick(4))
    elif then == "over":
        list(policy.changed(record("closed", name), 4))
    policy.changed_wishes()
    after = policy.wish(name)
    policy.take_back("other" if then == "another lease" else name, 4)
    assert (policy.wish(name), policy.changed_wishes()) == (after, {})


@pytest.mark.parametrize("retry_after", [1, 3])
def test_a_lease_that_cannot_begin_is_asked_for_again_after_pauses_that_double(retry_after: int) -> None:
    """Pauses grow up to a longest one, and begin with the shortest again once the lease has begun."""
    policy = FixedDemand(retry_after=retry_after)
    (said,) = policy.demand("l", 1, 9_999, 5, now=0)
    times, expected, at = [], [], 0
    policy.refused(said, "nobody plays it", 0, final=False)
    for now in range(1, 400 * retry_after):
        for again in policy.tick(now):
            assert again.event == "demand"
            times.append(now)
            policy.refused(again, "nobody plays it", now, final=False)
    for n in range(1, 99):
        at += retry_after * 2 ** min(n, DOUBLINGS)
        expected += [at] if at < 400 * retry_after else []
    assert times == expected
    assert len(times) > DOUBLINGS
    list(policy.changed(record("ticketing", requested_units=1), 1_999))
    assert [d.event for d in policy.changed(record("nascent"), 2_000)] == ["demand"]
    pauses = [2_000 + n * retry_after for n in (1, 2, 3)]
    assert [now for now in range(2_001, pauses[-1] + 1) if list(policy.tick(now))] == pauses


def test_a_lease_that_no_record_can_take_is_given_up() -> None:
    for final in (True, False):
        policy = FixedDemand()
        (said,) = policy.demand("l", 1, 50, 5, now=0)
        policy.changed_wishes()
        policy.refused(said, "too many", 0, final=final)
        assert (policy.wish("l") is None) == final
        assert policy.changed_wishes() == ({"l": b""} if final else {})
        assert [d.event for now in range(1, 4) for d in policy.tick(now)] == ([] if final else ["demand"])


@pytest.mark.parametrize("final", [False, True])
def test_only_a_demand_for_a_lease_that_has_not_begun_is_given_up(final: bool) -> None:
    """A refused renewal changes nothing; nor does the demand for a lease that is there, or that nobody wants."""
    policy = wanting()
    list(policy.changed(active(9), 1))
    there, beside = policy.wish("l"), FixedDemand()
    (waiting,) = beside.demand("w", 1, 50, 5, now=0)
    beside.changed_wishes()
    for decision, asked in (
        (Decision("l", "service_manager", "demand", {}), policy),
        (Decision("l", "service_manager", "extend", {}), policy),
        (Decision("x", "service_manager", "demand", {}), policy),
        (Decision("w", "service_manager", "close", {}), beside),
    ):
        asked.refused(decision, "so", 1, final=final)
        assert asked.changed_wishes() == {}
    assert policy.wish("l") == there
    assert beside.wish("w") is not None
    assert [d.event for d in beside.tick(1)] == ["demand"], "its pause is the shortest"
    assert waiting.event == "demand"


def test_a_lease_that_never_began_is_not_closed_when_its_demand_is_over() -> None:
    """Its machine has heard of nothing; else the close is said, as the demand may be on its way."""
    for refused in (True, False):
        policy = FixedDemand()
        (said,) = policy.demand("l", 1, 5, 5, now=0)
        if refused:
            policy.refused(said, "nobody plays it", 0, final=False)
        told = [(now, d.event) for now in range(1, 8) for d in policy.tick(now) if d.event != "demand"]
        assert told == ([] if refused else [(5, "close")])
        assert policy.wish("l") is None
        assert policy.changed_wishes() == {"l": b""}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("units", 9),
        ("until", 99),
        ("term", 4),
        ("start", 3),
        ("soon", True),
        ("type", "disk"),
        ("properties", {"a": 1}),
        ("configuration", {"a": [1]}),
        ("local", {"a": None}),
        ("after", ("x", "y")),
        ("victims", (2, 1)),
    ],
)
def test_each_field_of_a_wish_is_restored(field: str, value: Any) -> None:
    kept = msgspec.json.encode({"units": 2, "until": 50, "term": 5} | {field: value})
    policy = FixedDemand()
    policy.restore("l", kept)
    assert policy.wish("l") == replace(LeaseDemand(2, 50, 5), **{field: value})
    again = FixedDemand()
    again.restore("l", policy.wishes("l"))
    assert again.wish("l") == policy.wish("l")
    assert again.changed_wishes() == {}


@pytest.mark.parametrize(
    "kept",
    [b"", b"{}", b"[]", b'{"units": 1, "until": 2}', b'{"units": 1, "until": 2, "term": 3, "price": 4}', b"\xff"],
)
def test_bytes_that_are_no_wish_are_refused(kept: bytes) -> None:
    policy = FixedDemand()
    with pytest.raises(DemandError, match=r"what was kept of lease 'l' is no wish: .*; drop the word to do without it"):
        policy.restore("l", kept)
    assert (policy.wish("l"), list(policy.tick(1))) == (None, [])


@pytest.mark.parametrize(("leave", "margin"), [(0, 0), (2, 0), (0, 3), (2, 3)])
def test_the_latest_end_of_a_demand_leaves_room_for_guests_to_leave(leave: int, margin: int) -> None:
    latest = LARGEST - leave - margin
    for say in ("demand", "prolong"):
        policy = FixedDemand(leave_limit=leave, clock_margin=margin)
        if say == "prolong":
            list(policy.demand("l", 1, 50, 5, now=0))
        command: Any = partial(policy.demand, "l", 1, term=5) if say == "demand" else partial(policy.prolong, "l")
        with pytest.raises(DemandError, match=f"until is {latest + 1}"[:30]) as refused:
            command(until=latest + 1, now=0)
        assert f"{latest} is the most that can ever be had" in str(refused.value)
        list(command(until=latest, now=0))


def test_guests_wait_for_all_leases_that_are_named_and_those_missing_are_told() -> None:
    policy = FixedDemand(held_joins=True)
    for name in ("a", "b", "c"):
        list(policy.demand(name, 1, 100, 50, now=0))
    list(policy.demand("l", 1, 100, 50, now=0, after=["a", "b", "c"]))
    joining = record("joining", lease_end=50)
    assert words(policy.begin(Question("schedule_join", joining, ("join_now",), 4), 1)) == []
    for name, missing in (("b", "a, c"), ("a", "c")):
        assert words(policy.changed(active(50, name), 2)) == []
        assert policy.undecided("l", 2) == Undecided(f"its guests wait for {missing} to be active", 50)
    assert [d.event for d in policy.changed(active(50, "c"), 2)] == ["join_now"]
    assert policy.undecided("l", 2) is None
