"""The site's policy against the site's machines, as the specification says them, in random runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leasehold.impl.lease.authority import FirstFit
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.policy.policy import Decision, Lease, Question

UNITS = 4
BUSY = {"priming": "active", "modifying": "active", "closing": "closed"}
DOWN = ("idle", "closed", "failed")


@dataclass
class Record:
    state: str = "nascent"
    state_epoch: int = 0
    data: dict[str, Any] = field(
        default_factory=lambda: {
            "wanted": 0, "units": 0, "end": 0, "properties": 0, "chosen": frozenset(), "assigned": frozenset()
        }
    )  # fmt: skip
    units: dict[int, dict[str, Any]] = field(default_factory=dict)
    driven: int = -1  # the state epoch whose units were driven

    def of(self, unit: int) -> str:
        return str(self.units.get(unit, {}).get("state", "idle"))

    def put(self, unit: int, state: str, quarantined: bool = False) -> None:
        self.units[unit] = {"state": state, "deadline": 0, "quarantined": quarantined}


class Core:
    """Authority and unit machines, as in spec/systems/lease/roles; each lease has its own machine of each unit."""

    def __init__(self, lazy: bool = True) -> None:
        self.inventory = Inventory.parse({"units": [{"name": "u", "count": UNITS}]})
        self.lazy = lazy
        self.policy = FirstFit(self.inventory, lazy=lazy)
        self.records: dict[str, Record] = {}
        self.pending: list[Decision] = []
        self.now = 0

    def view(self, name: str) -> Lease:
        r = self.records[name]
        units = {("unit", n): dict(machine) for n, machine in r.units.items()}
        return Lease(name, "authority", r.state, dict(r.data), units)

    def commit(self, name: str, state: str = "", **data: Any) -> None:
        record = self.records[name]
        if state:
            record.state, record.state_epoch = state, record.state_epoch + 1
        record.data.update(data)
        self.take(self.policy.changed(self.view(name), self.now))
        if state:
            self.ask(name)
        self.drive(name)

    def ask(self, name: str) -> None:
        r = self.records[name]
        if r.state in ("priming", "modifying") and len(r.data["chosen"]) != r.data["wanted"]:
            question = Question("place", self.view(name), ("placed", "no_room"), r.state_epoch)
            self.take(self.policy.begin(question, self.now))

    def drive(self, name: str) -> None:
        """The drive tasks of the state, and their answers."""
        r = self.records[name]
        chosen, assigned, ready = r.data["chosen"], r.data["assigned"], len(r.data["chosen"]) == r.data["wanted"]
        if r.driven != r.state_epoch and (ready or r.state == "closing"):
            r.driven = r.state_epoch
            up = chosen if r.state in ("priming", "modifying") else frozenset()
            down = {"modifying": assigned - chosen, "closing": assigned}.get(r.state, frozenset())
            for n in up:
                if r.of(n) in ("idle", "closed"):
                    r.put(n, "priming")
                elif r.of(n) == "active" and r.state == "modifying":
                    r.put(n, "modifying")
            for n in down:
                if r.of(n) not in ("idle", "closed", "closing"):
                    r.put(n, "closing")
            if up or down:
                self.commit(name)
                return
        states = {r.of(n) for n in chosen}
        released = all(r.of(n) in DOWN for n in assigned - chosen)
        if r.state == "priming" and ready and states == {"active"}:
            self.commit(name, "active", units=r.data["wanted"])
        elif r.state == "priming" and ready and "failed" in states and states <= {"active", "failed"}:
            self.commit(name, "closing")
        elif r.state == "modifying" and ready and states == {"active"} and released:
            self.commit(name, "active", units=r.data["wanted"], assigned=chosen)
        elif r.state == "modifying" and ready and "failed" in states and states <= {"active", "failed"} and released:
            left = frozenset(n for n in chosen if r.of(n) == "active")
            if left:
                self.commit(name, "modifying", wanted=len(left), chosen=left)
            else:
                self.commit(name, "closing")
        elif r.state == "closing" and all(r.of(n) in DOWN for n in assigned):
            self.commit(name, "closed", units=0, wanted=0, chosen=frozenset(), assigned=frozenset())

    def take(self, decisions: Any) -> None:
        for decision in decisions:
            self.check(decision)
            self.pending.append(decision)

    def failed(self, n: int) -> bool:
        return any(r.of(n) == "failed" for r in self.records.values())

    def check(self, decision: Decision) -> None:
        """The contracts of spec/systems/lease/system.yaml and spec/systems/contention/system.yaml."""
        r = self.records[decision.lease]
        assigned, end = r.data["assigned"], r.data["end"]
        if decision.event == "reclaim":
            assert self.lazy
            assert self.now >= end
            assert r.state in ("priming", "active", "modifying")
            waits = [n for n, o in self.records.items() if o is not r and self.waits(o)]
            assert waits or not assigned, "nobody needs its units"
            for name, other in self.records.items():
                if assigned and other.data["assigned"] and other.state in ("priming", "active", "modifying"):
                    told = any(d.lease == name and d.event == "reclaim" for d in self.pending)
                    older = (other.data["end"], name) < (end, decision.lease)
                    up = any(other.of(n) != "failed" for n in other.data["assigned"])
                    assert told or not older or not up, f"{name} has ended before"
            return
        assert decision.state_epoch == r.state_epoch
        assert self.waits(r)
        if decision.event == "no_room":
            assert sum(not self.failed(n) or n in assigned for n in range(UNITS)) < r.data["wanted"]
            return
        units = decision.fields["units"]
        assert len(units) == r.data["wanted"]
        assert units <= assigned or assigned <= units
        for n in units - assigned:
            assert 0 <= n < UNITS
            for name, other in self.records.items():
                assert other.of(n) in ("idle", "closed"), f"{n} is {other.of(n)} for {name}"
                assert n not in other.data["assigned"], f"{n} is held by {name}"
            for d in self.pending:
                if (
                    d.event == "placed"
                    and d.lease != decision.lease
                    and self.records[d.lease].state_epoch == d.state_epoch
                ):
                    assert n not in d.fields["units"], f"{n} was given to {d.lease} a moment ago"

    @staticmethod
    def waits(r: Record) -> bool:
        return r.state in ("priming", "modifying") and len(r.data["chosen"]) != r.data["wanted"]

    def deliver(self) -> None:
        decision = self.pending.pop(0)
        r = self.records[decision.lease]
        if decision.event == "reclaim":
            if r.state in ("priming", "active", "modifying"):
                self.commit(decision.lease, "closing")
        elif decision.state_epoch == r.state_epoch:
            assigned = r.data["assigned"]
            if decision.event == "placed":
                units = decision.fields["units"]
                keep = assigned if r.state == "modifying" else frozenset()
                self.commit(decision.lease, r.state, chosen=units, assigned=keep | units)
            elif r.state == "priming":
                self.commit(decision.lease, "closing")
            else:
                self.commit(decision.lease, "modifying", wanted=len(assigned), chosen=assigned)

    def settle(self) -> None:
        while self.pending:
            self.deliver()

    def redeem(self, units: int, end: int) -> str:
        name = f"l{len(self.records)}"
        self.records[name] = Record()
        self.commit(name, "priming", wanted=units, end=end, properties={"type": "unit"})
        return name

    def extend(self, name: str, units: int, end: int) -> None:
        self.commit(name, "modifying", wanted=units, end=end, properties={"type": "unit"})

    def busy(self) -> list[tuple[str, int]]:
        return [(name, n) for name, r in self.records.items() for n in r.units if r.of(n) in BUSY]

    def finish(self, name: str, n: int, well: bool = True) -> None:
        r = self.records[name]
        before = r.of(n)
        r.put(n, BUSY[before] if well else "failed", quarantined=not well and before == "closing")
        self.commit(name)

    def all_done(self) -> None:
        self.settle()
        while busy := self.busy():
            self.finish(*busy[0])
            self.settle()

    def tick(self) -> None:
        self.now += 1
        for name, r in list(self.records.items()):
            if not self.lazy and r.state in ("priming", "active", "modifying") and self.now >= r.data["end"]:
                self.commit(name, "closing")
        self.take(self.policy.tick(self.now))

    def restart(self, order: list[str]) -> None:
        self.policy, self.pending = FirstFit(self.inventory, lazy=self.lazy), []
        for name in order:
            self.policy.recovered(self.view(name))
        for name in order:
            self.records[name].state_epoch += 1
            self.records[name].driven = self.records[name].state_epoch  # what was driven goes on
        for name in order:
            self.ask(name)

    def names(self, *states: str) -> list[str]:
        return [n for n, r in self.records.items() if r.state in states]


class Runs(RuleBasedStateMachine):
    @initialize(lazy=st.booleans())
    def begin(self, lazy: bool) -> None:
        self.core = Core(lazy)

    def room(self) -> int:
        """What a broker could still promise, which forgets a lease when its term is over."""
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
        self.core.extend(name, units, end)

    @precondition(lambda self: self.core.names("priming", "active", "modifying"))
    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        self.core.commit(data.draw(st.sampled_from(self.core.names("priming", "active", "modifying"))), "closing")

    @precondition(lambda self: self.core.busy())
    @rule(data=st.data(), well=st.sampled_from([True, True, True, False]))
    def finish(self, data: st.DataObject, well: bool) -> None:
        self.core.finish(*data.draw(st.sampled_from(self.core.busy())), well)

    @precondition(lambda self: any(m["quarantined"] for r in self.core.records.values() for m in r.units.values()))
    @rule()
    def repair(self) -> None:
        for name, r in self.core.records.items():
            for n, machine in r.units.items():
                if machine["quarantined"]:
                    r.put(n, "closed")
            self.core.commit(name)

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
        self.core.restart(data.draw(st.permutations(list(self.core.records))))

    @invariant()
    def a_unit_is_held_by_one_lease(self) -> None:
        held = [n for r in self.core.records.values() for n in r.data["assigned"]] if hasattr(self, "core") else []
        assert len(held) == len(set(held))

    @invariant()
    def the_map_of_free_units_is_that_of_the_records(self) -> None:
        if not hasattr(self, "core") or self.core.pending:
            return
        core = self.core
        free = {
            n
            for n in range(UNITS)
            if all(r.of(n) in ("idle", "closed") and n not in r.data["assigned"] for r in core.records.values())
        }
        assert core.policy.free() == free

    def teardown(self) -> None:
        """Whoever waits is served in the end, or told that there is no room, once the others have gone."""
        if not hasattr(self, "core"):
            return
        core = self.core
        core.all_done()
        for _ in range(len(core.records)):
            for name in core.names("active", "modifying"):  # one that grows may wait for one that waits for it
                core.commit(name, "closing")
            core.all_done()
        left = [n for n, r in core.records.items() if core.waits(r)]
        assert all(core.now >= core.records[n].data["end"] for n in left)
        assert not core.names("closing")


Runs.TestCase.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)
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
    core.commit(lease, "closing")
    core.finish(lease, 0, well=False)
    core.restart([lease])
    holder = core.redeem(3, 9)
    core.all_done()
    assert core.records[holder].data["assigned"] == {1, 2, 3}
    waits, cannot = core.redeem(1, 9), core.redeem(4, 9)
    core.all_done()
    assert core.records[waits].state == "priming"
    assert core.records[cannot].state == "closed"
    core.records[lease].put(0, "closed")
    core.commit(lease)
    core.all_done()
    assert core.records[waits].data["assigned"] == {0}


def test_a_ticket_for_what_the_site_has_not_finds_no_room() -> None:
    policy = FirstFit(Inventory.parse({"units": [{"name": "a", "type": "node"}, {"name": "b", "type": "disk"}]}))
    data = {**Record().data, "wanted": 1, "end": 5}

    def placed(properties: dict[str, Any]) -> list[tuple[str, Any]]:
        lease = Lease("l", "authority", "priming", {**data, "properties": properties}, {})
        return [(d.event, dict(d.fields)) for d in policy.begin(Question("place", lease, (), 1), 0)]

    assert placed({"type": "tape"}) == [("no_room", {})]
    assert placed({}) == [("no_room", {})]
    assert placed({"type": "disk"}) == [("placed", {"units": {1}})]
