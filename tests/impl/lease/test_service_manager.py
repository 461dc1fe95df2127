"""The service manager's policy against its machine, with a broker and a site that answer as the test says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.impl.lease.service_manager import DemandError, FixedDemand, Wish
from leasehold.impl.policy.policy import Decision, Lease, Question

DATA = {
    "requested_units": 0, "requested_end": 0, "ticket_units": 0, "ticket_end": 0, "lease_units": 0, "lease_end": 0,
}  # fmt: skip
RUNS = ("active", "active_ticketed", "extending_ticket", "extending_lease", "joining")


class Core:
    """A service manager machine, as in the lease's roles/service_manager.yaml; an event that it refuses is an error."""

    def __init__(self, **settings: int) -> None:
        self.settings = settings
        self.policy = FixedDemand(**settings)
        self.state, self.data, self.state_epoch, self.now = "nascent", dict(DATA), 0, 0
        self.kept: dict[str, bytes] = {}
        self.said: list[tuple[int, str, dict[str, Any]]] = []

    @property
    def view(self) -> Lease:
        return Lease("l", "service_manager", self.state, dict(self.data), {})

    def keep(self) -> None:
        self.kept.update(self.policy.changed_wishes())

    def enter(self, state: str, **data: int) -> None:
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
            self.enter("ticketing", requested_units=fields["units"], requested_end=fields["end"])
        elif d.event == "redeem_now":
            assert self.state == "ticketed"
            self.enter("redeeming")
        elif d.event == "extend_now":
            assert self.state == "active_ticketed"
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
            waits = {"requested_units": 0, "requested_end": 0}
            if well:
                self.enter("ticketed" if first else "active_ticketed", **asked, **waits)
            elif first:
                self.enter("failed")
            else:
                self.enter("active" if self.as_ticketed() else "active_ticketed", **waits)
        elif self.state in ("redeeming", "extending_lease"):
            # A site that could not set all units up grants the term with those that are up.
            units = data["ticket_units"] if well else max(1, data["ticket_units"] - 1)
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
        return d["lease_units"] == d["ticket_units"] and d["lease_end"] == d["ticket_end"]

    def settle(self) -> None:
        while self.state in ("ticketing", "redeeming", "joining", "extending_ticket", "extending_lease", "closing"):
            self.answer()

    def tick(self) -> None:
        self.now += 1
        d = self.data
        over = {
            "ticketing": d["requested_end"], "ticketed": d["ticket_end"], "redeeming": d["ticket_end"],
            "joining": d["lease_end"], "active": d["lease_end"], "active_ticketed": d["ticket_end"],
            "extending_ticket": d["lease_end"], "extending_lease": d["ticket_end"], "closing": d["ticket_end"],
        }  # fmt: skip
        if self.state in over and self.now >= over[self.state]:
            ends = {"ticketing": "failed", "ticketed": "closed", "closing": "closed"}
            self.enter(ends.get(self.state, "closing"))
        self.take(self.policy.tick(self.now))

    def demand(self, units: int, until: int, term: int, start: int = 0) -> None:
        self.take(self.policy.demand("l", units, until, term, now=self.now, start=start))
        self.keep()

    def restart(self) -> None:
        self.policy = FixedDemand(**self.settings)
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
    assert core.events("extend") == [(3, {"units": 2, "end": 10}), (8, {"units": 2, "end": 12})]


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
    assert core.data["lease_units"] == 3
    core.tick()
    core.take(core.policy.flex("l", 2, now=core.now, soon=True))
    core.settle()
    assert core.data["lease_units"] == 2


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
    assert (core.state, core.data["lease_units"], core.data["lease_end"]) == ("active", 4, 30)


def test_a_demand_whose_record_was_never_committed_is_asked_for_after_a_restart() -> None:
    core = Core()
    core.policy.demand("l", 2, 30, 5, now=0)
    core.keep()
    core.restart()
    core.tick()
    assert core.state == "ticketing"


def test_a_lease_that_is_over_is_not_asked_for_again_after_a_restart() -> None:
    """Whether the wish is given back before or after the record, and although the actor died before dropping it."""
    wish = Wish(1, 30, 5)
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


@settings(max_examples=150, deadline=None)
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
                core.take(core.policy.prolong("l", core.now + data.draw(st.integers(1, 20)), now=core.now))
            case word if core.policy.wish("l"):
                soon = word == "soon" and core.data["ticket_end"] < core.policy.wish("l").until  # type: ignore[union-attr]
                core.take(core.policy.flex("l", data.draw(st.integers(1, 3)), now=core.now, soon=soon))
        core.keep()
        assert (core.kept.get("l", b"") != b"") == (core.state not in ("closed", "failed"))
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
