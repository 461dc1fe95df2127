"""A broker's machines with one of its policies, in random runs: what holds of every policy, and what of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leasehold.impl.lease.arbiter import Arbiter
from leasehold.impl.lease.calendar import Calendar
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.policy.policy import Decision, Lease, Question
from tests.impl.lease.machines import Machines, first_data

UNITS = 4
INVENTORY = Inventory.parse({"units": [{"name": "u", "count": UNITS}]})
FIRST = first_data("broker")
HOLDERS = ("anna", "ben", "cleo")


class Market(Machines):
    """Broker machines with a policy; decisions come when they are delivered, and what is over is forgotten at times.

    Attributes:
        asked: the properties of each request.
    """

    def __init__(self, make: Callable[[], Arbiter], backfill: bool = False) -> None:
        self.backfill, self.restarting = backfill, False
        self.asked: dict[str, dict[str, Any]] = {}
        super().__init__("broker", make, max_units=UNITS)

    def request(self, holder: str, units: int, end: int, start: int = 0, **properties: Any) -> str:
        name = f"{holder}:{len(self.asked) + 1}"
        self.asked[name] = properties
        self.hear(name, "ticket", units=units, start=start, end=end, properties=properties)
        return name

    def extend(self, name: str, units: int, end: int) -> None:
        self.hear(name, "extend_ticket", units=units, end=end, properties=self.asked[name])

    def waiting(self) -> list[str]:
        """The leases that wait and have no answer."""
        answered = {d.lease for d in self.pending}
        return [n for n, r in self.records.items() if r.state == "ticketing" and n not in answered]

    def fits_in_place_of(self, name: str, other: str) -> bool:
        """Returns whether a request wants no more units than another one, and no longer."""
        mine, its = self.records[name].data, self.records[other].data
        start, its_start = (max(self.now, data["requested_start"]) for data in (mine, its))
        return bool(
            mine["requested_units"] <= its["requested_units"]
            and its_start <= start
            and mine["requested_end"] <= its["requested_end"]
        )

    def overtakes(self, name: str, other: str) -> bool:
        """Returns whether the grant of a request keeps back one that should go first."""
        if self.now >= self.records[other].data["requested_end"]:
            return False
        return not self.backfill or self.fits_in_place_of(other, name)

    def check(self, decision: Decision) -> None:
        record = self.records[decision.lease]
        assert decision.state_epoch == record.state_epoch, f"{decision} answers nothing that is asked: {record}"
        if decision.event == "denied":
            assert decision.fields["reason"]
            return
        promised = {d.lease: d.fields["units"] for d in (*self.pending, decision) if self.counts(d)}
        self.check_room(promised)
        if record.state == "ticketing" and not self.restarting:  # else some requests are not asked again yet
            self.check_order(decision)

    def counts(self, decision: Decision) -> bool:
        """Returns whether a decision grants something, and may still be taken."""
        return decision.event == "granted" and self.records[decision.lease].state_epoch == decision.state_epoch

    def check_order(self, decision: Decision) -> None:
        """Checks the property of a policy, by all requests that wait."""

    def check_room(self, promised: dict[str, int]) -> None:
        """At no time are more units held or promised than there are; the dumb way, time by time."""
        for at in range(self.now, self.now + 20):
            held = 0
            for name, r in self.records.items():
                data = r.data
                start = data["start"] if r.state != "ticketing" else data["requested_start"]
                end = data["requested_end"] if name in promised else data["term_end"]
                counts = r.state in ("ticketed", "extending") or name in promised
                if counts and start <= at and (at < end or end <= self.now):
                    held += max(data["counted"], promised.get(name, 0))
            assert held <= UNITS, f"{held} units are promised at {at}"

    def restart(self, order: Sequence[str] = ()) -> None:
        self.restarting = True
        super().restart(order)
        self.restarting = False

    def forget(self) -> None:
        """Forgets what is over, as an actor does: not what the policy still reads."""
        needed = getattr(self.policy, "needed", frozenset())
        if needed is None:
            return
        decided = {decision.lease for decision in self.pending}
        for name, one in self.instances.items():
            if one.state in one.core.ends and name not in needed | decided:
                self.table.forget(one)

    def twin(self, order: Sequence[str]) -> Arbiter:
        """A policy that is told of the records alone, and of the open questions."""
        policy: Arbiter = self.make()
        for name in order:
            policy.recovered(self.view(name))
        calls = {"ticketing": "allocate", "extending": "extend"}
        decisions = [
            d
            for name in order
            if (call := calls.get(self.records[name].state))
            for d in policy.begin(
                Question(call, self.view(name), ("granted", "denied"), self.records[name].state_epoch), self.now
            )
        ]
        assert decisions == [], "a policy that was restarted decides otherwise"
        return policy


class MarketRuns(RuleBasedStateMachine):
    """Random runs of a policy.

    Attributes:
        properties: of requests.
    """

    properties: ClassVar[st.SearchStrategy[dict[str, Any]]]
    core: Market

    def make(self, **settings: Any) -> Market:
        """The machines with their policy."""
        raise NotImplementedError

    def shown(self, policy: Any, now: int) -> Any:
        """All of a policy that is in records."""
        return [request.lease for request in policy.order(now)]

    @initialize(backfill=st.booleans())
    def begin(self, backfill: bool) -> None:
        self.core = self.make(backfill=backfill)

    @rule(
        data=st.data(),
        holder=st.sampled_from(HOLDERS),
        units=st.integers(1, UNITS),
        term=st.integers(1, 6),
        later=st.sampled_from([0, 0, 0, 3]),
    )
    def request(self, data: st.DataObject, holder: str, units: int, term: int, later: int) -> None:
        start = self.core.now + later if later else 0
        self.core.request(holder, units, max(start, self.core.now) + term, start, **data.draw(type(self).properties))

    @precondition(lambda self: self.core.names("ticketed"))
    @rule(data=st.data(), units=st.integers(1, UNITS), more=st.integers(1, 4))
    def extend(self, data: st.DataObject, units: int, more: int) -> None:
        name = data.draw(st.sampled_from(self.core.names("ticketed")))
        self.core.extend(name, units, self.core.records[name].data["term_end"] + more)

    @precondition(lambda self: self.core.names("ticketing", "ticketed", "extending"))
    @rule(data=st.data())
    def relinquish(self, data: st.DataObject) -> None:
        names = self.core.names("ticketing", "ticketed", "extending")
        self.core.hear(data.draw(st.sampled_from(names)), "relinquish")

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

    @rule()
    def forget(self) -> None:
        self.core.forget()

    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        self.core.restart(data.draw(st.permutations(list(self.core.records))))

    @rule(data=st.data())
    def a_restarted_policy_decides_as_if_it_had_never_stopped(self, data: st.DataObject) -> None:
        self.core.settle()
        twin = self.core.twin(data.draw(st.permutations(list(self.core.records))))
        now = self.core.now
        shown = self.shown(twin, now), self.shown(self.core.policy, now)
        assert shown[0] == shown[1], shown

    @invariant()
    def the_calendar_is_that_of_the_records(self) -> None:
        if hasattr(self, "core"):
            self.core.check_room({})
            views = [self.core.view(name) for name in self.core.instances]
            assert self.core.policy.calendar == Calendar.rebuilt(views)


def waits(name: str, units: int, end: int = 9, start: int = 0, **properties: Any) -> Lease:
    data = {"requested_units": units, "requested_start": start, "requested_end": end, "request": properties}
    return Lease(name, "broker", "ticketing", FIRST | data, {})


def question(lease: Lease, epoch: int = 1) -> Question:
    call = "extend" if lease.state == "extending" else "allocate"
    return Question(call, lease, ("granted", "denied"), epoch)


def ask(policy: Arbiter, lease: Lease, now: int = 0, epoch: int = 1) -> list[tuple[str, str]]:
    """The decisions on a request, each with its lease."""
    return told(policy.begin(question(lease, epoch), now))


def told(decisions: Iterable[Decision]) -> list[tuple[str, str]]:
    return [(d.lease, d.event) for d in decisions]
