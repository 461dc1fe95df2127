"""The broker's policy against the broker's machine, as the specification says it, in random runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leasehold.impl.lease.broker import Calendar, FirstComeFirstServed
from leasehold.impl.lease.inventory import Inventory, InventoryError
from leasehold.impl.policy.policy import Decision, Lease, Question

UNITS = 4


@dataclass
class Record:
    state: str = "nascent"
    state_epoch: int = 0
    data: dict[str, Any] = field(
        default_factory=lambda: {"requested_units": 0, "requested_end": 0, "units": 0, "term_end": 0, "properties": 0}
    )


class Core:
    """Broker machines, as in the roles/broker.yaml of the lease; decisions come when they are delivered."""

    def __init__(self, units: int = UNITS, **kinds: Any) -> None:
        self.inventory = Inventory.parse({"units": [{"name": "u", "count": units}]})
        self.kinds = kinds
        self.policy = FirstComeFirstServed(self.inventory, **kinds)
        self.records: dict[str, Record] = {}
        self.arrived: list[str] = []  # in the order in which they are to be served
        self.pending: list[Decision] = []
        self.now = 0

    def view(self, name: str) -> Lease:
        record = self.records[name]
        return Lease(name, "broker", record.state, dict(record.data), {})

    def views(self) -> list[Lease]:
        return [self.view(name) for name in self.records]

    def enter(self, name: str, state: str, **data: Any) -> None:
        record = self.records[name]
        record.state, record.state_epoch = state, record.state_epoch + 1
        record.data.update(data)
        if state in ("ticketed", "closed"):
            record.data.update(requested_units=0, requested_end=0)
        if state == "closed":
            record.data.update(units=0)
        if state != "ticketing" and name in self.arrived:
            self.arrived.remove(name)
        self.take(self.policy.changed(self.view(name), self.now))
        self.ask(name)

    def ask(self, name: str) -> None:
        record = self.records[name]
        call = {"ticketing": "allocate", "extending": "extend"}.get(record.state)
        if call:
            question = Question(call, self.view(name), ("granted", "denied"), record.state_epoch)
            self.take(self.policy.begin(question, self.now))

    def take(self, decisions: Any) -> None:
        for decision in decisions:
            self.check(decision)
            self.pending.append(decision)

    def check(self, decision: Decision) -> None:
        """The guards of `granted`, and the contract of the system `contention`."""
        record = self.records[decision.lease]
        if decision.state_epoch != record.state_epoch:
            raise AssertionError(f"{decision} answers nothing that is asked: {record}")
        assert record.state in ("ticketing", "extending")
        if decision.event == "denied":
            return
        assert decision.event == "granted"
        units = decision.fields["units"]
        assert 1 <= units <= record.data["requested_units"]
        end = record.data["requested_end"] if record.state == "ticketing" else record.data["term_end"]
        assert self.now < end
        promised = {
            d.lease: d.fields["units"]
            for d in self.pending
            if d.event == "granted" and self.records[d.lease].state_epoch == d.state_epoch
        }
        promised[decision.lease] = units
        assert sum(max(r.data["units"], promised.get(n, 0)) for n, r in self.records.items()) <= len(self.inventory)
        if record.state == "ticketing" and not self.kinds.get("backfill"):
            answered = {d.lease for d in self.pending}
            before = self.arrived[: self.arrived.index(decision.lease)]
            assert all(n in answered or self.now >= self.records[n].data["requested_end"] for n in before), "overtaken"

    def deliver(self) -> None:
        decision = self.pending.pop(0)
        record = self.records[decision.lease]
        if decision.state_epoch != record.state_epoch:
            return  # late
        asked = record.data["requested_end"]
        if decision.event == "granted":
            assert self.now < (asked if record.state == "ticketing" else record.data["term_end"])
            self.enter(decision.lease, "ticketed", term_end=asked, **decision.fields)
        else:
            self.enter(decision.lease, "closed" if record.state == "ticketing" else "ticketed")

    def settle(self) -> None:
        while self.pending:
            self.deliver()

    def request(self, units: int, end: int, name: str = "") -> str:
        name = name or f"l{len(self.records)}"
        self.records[name] = Record()
        self.arrived.append(name)
        self.enter(name, "ticketing", requested_units=units, requested_end=end)
        return name

    def extend(self, name: str, units: int, end: int) -> None:
        self.enter(name, "extending", requested_units=units, requested_end=end)

    def tick(self) -> None:
        self.now += 1
        for name, record in list(self.records.items()):
            data = record.data
            over = data["requested_end"] if record.state == "ticketing" else data["term_end"]
            if record.state in ("ticketing", "ticketed", "extending") and self.now >= over:
                self.enter(name, "closed")
        self.take(self.policy.tick(self.now))

    def restart(self, order: list[str]) -> None:
        self.policy, self.pending = FirstComeFirstServed(self.inventory, **self.kinds), []
        for name in order:
            self.policy.recovered(self.view(name))
        self.arrived.sort(key=lambda n: (self.records[n].data["requested_end"], n))
        for name in order:
            self.records[name].state_epoch += 1
        for name in order:
            self.ask(name)

    def names(self, *states: str) -> list[str]:
        return [n for n, r in self.records.items() if r.state in states]


class Runs(RuleBasedStateMachine):
    @initialize(wait=st.booleans(), backfill=st.booleans())
    def begin(self, wait: bool, backfill: bool) -> None:
        self.core = Core(wait=wait, backfill=backfill)

    @rule(units=st.integers(1, UNITS + 1), term=st.integers(0, 4))
    def request(self, units: int, term: int) -> None:
        self.core.request(units, self.core.now + term)

    @precondition(lambda self: self.core.names("ticketed"))
    @rule(data=st.data(), units=st.integers(1, UNITS + 1), more=st.integers(1, 4))
    def extend(self, data: st.DataObject, units: int, more: int) -> None:
        name = data.draw(st.sampled_from(self.core.names("ticketed")))
        self.core.extend(name, units, self.core.records[name].data["term_end"] + more)

    @precondition(lambda self: self.core.names("ticketing", "ticketed", "extending"))
    @rule(data=st.data())
    def relinquish(self, data: st.DataObject) -> None:
        self.core.enter(data.draw(st.sampled_from(self.core.names("ticketing", "ticketed", "extending"))), "closed")

    @precondition(lambda self: self.core.pending)
    @rule()
    def deliver(self) -> None:
        self.core.deliver()

    @rule()
    def settle(self) -> None:
        self.core.settle()

    @rule()
    def tick(self) -> None:
        self.core.tick()

    @rule(data=st.data())
    def asked_again(self, data: st.DataObject) -> None:
        if names := self.core.names("ticketing", "extending"):
            self.core.ask(data.draw(st.sampled_from(names)))

    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        self.core.restart(data.draw(st.permutations(list(self.core.records))))

    @invariant()
    def never_more_than_the_inventory(self) -> None:
        if hasattr(self, "core"):
            assert sum(r.data["units"] for r in self.core.records.values()) <= UNITS

    @invariant()
    def the_calendar_is_that_of_the_records(self) -> None:
        if hasattr(self, "core"):
            assert self.core.policy.calendar == Calendar.rebuilt(self.core.views())

    def teardown(self) -> None:
        """Whoever waits is answered in the end, when room comes."""
        if not hasattr(self, "core"):
            return
        core = self.core
        core.settle()
        for _ in range(len(core.records)):
            for name in core.names("ticketed"):
                core.enter(name, "closed")
            core.settle()
        assert not core.names("extending")
        assert all(core.now >= core.records[n].data["requested_end"] for n in core.names("ticketing"))
        core.tick()
        core.settle()
        assert not core.names("ticketing")


Runs.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestRandomRuns = Runs.TestCase


def ticketed(core: Core, *names: str) -> None:
    core.settle()
    assert all(core.records[n].state == "ticketed" for n in names)


def test_tickets_name_their_type_and_number() -> None:
    """A ticket's number goes up with each extension, and needs no more than the record to go on after a restart."""
    core = Core()
    lease = core.request(2, 5)
    ticketed(core, lease)
    assert core.records[lease].data["properties"] == {"type": "unit", "ticket": 1}
    core.restart([lease])
    core.extend(lease, 2, 9)
    ticketed(core, lease)
    assert core.records[lease].data["properties"] == {"type": "unit", "ticket": 2}


def test_a_small_request_does_not_overtake() -> None:
    core = Core()
    first, large, small = core.request(3, 5), core.request(2, 9), core.request(1, 9)
    core.settle()
    assert [core.records[n].state for n in (first, large, small)] == ["ticketed", "ticketing", "ticketing"]
    core.enter(first, "closed")
    ticketed(core, large, small)


def test_backfill_goes_first_where_it_delays_nobody() -> None:
    """One that ends before the first waiting one can begin, or takes what is to spare then, goes first; others wait."""
    core = Core(backfill=True)
    first, large = core.request(3, 5), core.request(4, 9)
    core.settle()
    long, short = core.request(1, 9), core.request(1, 5)
    core.settle()
    assert core.policy.waiting == (large, long)
    ticketed(core, first, short)


def test_what_can_never_be_granted_is_denied_at_once() -> None:
    core = Core()
    core.request(2, 9)
    assert [d.event for d in core.pending] == ["granted"]
    core.settle()
    huge = core.request(UNITS + 1, 9)
    core.settle()
    assert core.records[huge].state == "closed"


def test_without_waiting_what_is_not_free_is_denied() -> None:
    core = Core(wait=False)
    core.request(3, 9)
    late = core.request(2, 9)
    core.settle()
    assert core.records[late].state == "closed"


def test_an_extension_gets_what_it_has_although_others_wait() -> None:
    """Paper, Table 1, invariant 6: an extension is answered before the end, so it does not stand in the queue."""
    core = Core()
    lease = core.request(3, 5)
    core.settle()
    waiting = core.request(4, 20)
    core.extend(lease, 4, 9)
    ticketed(core, lease)
    assert (core.records[lease].data["units"], core.records[lease].data["term_end"]) == (3, 9)
    assert core.records[waiting].state == "ticketing"
    core.extend(lease, 1, 12)
    ticketed(core, lease)
    assert core.records[lease].data["units"] == 1


def test_an_extension_grows_where_units_are_free() -> None:
    core = Core()
    lease = core.request(1, 5)
    core.settle()
    core.extend(lease, 4, 9)
    ticketed(core, lease)
    assert core.records[lease].data["units"] == 4


def test_an_inventory_that_has_shrunk_is_not_promised_twice() -> None:
    core = Core(units=1)
    for name in ("a", "b"):
        core.records[name] = Record("ticketed", 1, {**Record().data, "units": 1, "term_end": 9})
    core.restart(["a", "b"])
    core.extend("a", 1, 12)
    core.settle()
    assert core.records["a"].data["term_end"] == 9, "the extension had to be denied"
    waiting = core.request(1, 9)
    core.settle()
    assert core.records[waiting].state == "ticketing"


def test_a_broker_is_for_one_type() -> None:
    inventory = Inventory.parse({"units": [{"name": "a", "type": "node"}, {"name": "b", "type": "disk", "count": 3}]})
    with pytest.raises(InventoryError, match="several types of unit, node, disk; say which"):
        FirstComeFirstServed(inventory)
    with pytest.raises(InventoryError, match="no unit of type 'disc'; did you mean disk"):
        FirstComeFirstServed(inventory, type="disc")
    assert FirstComeFirstServed(inventory, type="disk").capacity == 3
