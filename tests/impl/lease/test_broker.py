"""The broker's policy against the broker's machine, as it is compiled, in random runs."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leasehold.impl.lease.arbiter import NAMED
from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.lease.calendar import Calendar, Holding
from leasehold.impl.lease.inventory import Inventory, InventoryError
from leasehold.impl.policy.policy import Decision, Lease, Question, Undecided
from tests.impl.lease.machines import Machines, first_data

UNITS = 4


FIRST = first_data("broker")


class Core(Machines):
    """Broker machines with their policy; decisions come when they are delivered."""

    def __init__(self, units: int = UNITS, **kinds: Any) -> None:
        self.inventory = Inventory.parse({"units": [{"name": "u", "count": units}]})
        self.kinds = kinds
        self.arrived: list[str] = []  # in the order in which they are to be served
        super().__init__("broker", lambda: FirstComeFirstServed(self.inventory, **kinds), max_units=UNITS + 1)

    def views(self) -> list[Lease]:
        return [self.view(name) for name in self.instances]

    def check(self, decision: Decision) -> None:
        """The contract of the system `contention`; and nothing is decided that was not asked."""
        record = self.records[decision.lease]
        if decision.state_epoch != record.state_epoch:
            raise AssertionError(f"{decision} answers nothing that is asked: {record}")
        if decision.event == "denied":
            assert decision.fields["reason"]
            return
        promised = {
            d.lease: d.fields["units"]
            for d in self.pending
            if d.event == "granted" and self.records[d.lease].state_epoch == d.state_epoch
        }
        promised[decision.lease] = decision.fields["units"]
        self.check_room(promised)
        if record.state == "ticketing" and not self.kinds.get("backfill"):
            answered = {d.lease for d in self.pending}
            waiting = [name for name in self.arrived if self.records[name].state == "ticketing"]
            before = waiting[: waiting.index(decision.lease)]
            assert all(n in answered or self.now >= self.records[n].data["requested_end"] for n in before), "overtaken"

    def check_room(self, promised: dict[str, int]) -> None:
        """At no time are more units held or promised than there are; the dumb way, time by time."""
        records = self.records
        for at in range(self.now, self.now + 20):
            held = 0
            for name, r in records.items():
                data = r.data
                start = data["start"] if r.state != "ticketing" else data["requested_start"]
                end = data["requested_end"] if name in promised else data["term_end"]
                ends = at < end or end <= self.now
                held += max(data["counted"], promised.get(name, 0)) if start <= at and ends else 0
            assert held <= len(self.inventory), f"{held} units are promised at {at}"

    def request(self, units: int, end: int, name: str = "", start: int = 0) -> str:
        name = name or f"l:{len(self.instances)}"
        self.arrived.append(name)
        self.hear(name, "ticket", units=units, start=start, end=end)
        return name

    def extend(self, name: str, units: int, end: int) -> None:
        self.hear(name, "extend_ticket", units=units, end=end)

    def shrunk(self, name: str) -> None:
        """The holder says that its lease has become as small as its ticket."""
        self.hear(name, "shrunk", end=self.records[name].data["term_end"])

    def relinquish(self, name: str) -> None:
        self.hear(name, "relinquish")


class Runs(RuleBasedStateMachine):
    @initialize(wait=st.booleans(), backfill=st.booleans())
    def begin(self, wait: bool, backfill: bool) -> None:
        self.core = Core(wait=wait, backfill=backfill)

    @rule(units=st.integers(1, UNITS + 1), term=st.integers(0, 4), later=st.sampled_from([0, 0, 0, 2, 5]))
    def request(self, units: int, term: int, later: int) -> None:
        start = self.core.now + later if later else 0
        self.core.request(units, max(start, self.core.now) + term, start=start)

    @precondition(lambda self: self.core.names("ticketed"))
    @rule(data=st.data())
    def shrunk(self, data: st.DataObject) -> None:
        self.core.shrunk(data.draw(st.sampled_from(self.core.names("ticketed"))))

    @precondition(lambda self: self.core.names("ticketed"))
    @rule(data=st.data(), units=st.integers(1, UNITS + 1), more=st.integers(1, 4))
    def extend(self, data: st.DataObject, units: int, more: int) -> None:
        name = data.draw(st.sampled_from(self.core.names("ticketed")))
        self.core.extend(name, units, self.core.records[name].data["term_end"] + more)

    @precondition(lambda self: self.core.names("ticketing", "ticketed", "extending"))
    @rule(data=st.data())
    def relinquish(self, data: st.DataObject) -> None:
        self.core.relinquish(data.draw(st.sampled_from(self.core.names("ticketing", "ticketed", "extending"))))

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
            self.core.check_room({})

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
                core.relinquish(name)
            core.settle()
        assert not core.names("extending")
        assert all(core.now >= core.records[n].data["requested_end"] for n in core.names("ticketing"))
        core.tick()
        core.settle()
        assert not core.names("ticketing")


Runs.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
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
    core.relinquish(first)
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
    core = Core(units=2)
    for name in ("a", "b"):
        core.request(1, 9, name)
    core.settle()
    core.inventory = Inventory.parse({"units": [{"name": "u"}]})
    core.restart(["a", "b"])
    core.extend("a", 1, 12)
    core.settle()
    assert core.records["a"].data["term_end"] == 9, "the extension had to be denied"
    waiting = core.request(1, 9)
    core.settle()
    assert core.records[waiting].state == "ticketing"


def test_a_broker_has_all_types_of_its_inventory_or_one() -> None:
    inventory = Inventory.parse({"units": [{"name": "a", "type": "node"}, {"name": "b", "type": "disk", "count": 3}]})
    assert FirstComeFirstServed(inventory).capacity == 4
    with pytest.raises(InventoryError, match="no unit of type 'disc'; did you mean disk"):
        FirstComeFirstServed(inventory, type="disc")
    assert FirstComeFirstServed(inventory, type="disk").capacity == 3


# Alone: requests as their records say them, and what the policy answers.


def broker(units: int = UNITS, **kinds: Any) -> FirstComeFirstServed:
    return FirstComeFirstServed(Inventory.parse({"units": [{"name": "u", "count": units}]}), **kinds)


def lease(
    name: str, state: str, units: int = 0, term_end: int = 0, wanted: int = 0, end: int = 0, start: int = 0
) -> Lease:
    data = FIRST | {"requested_units": wanted, "requested_end": end, "units": units, "counted": units}
    return Lease(name, "broker", state, data | {"term_end": term_end, "start": start}, {})


def waits(name: str, units: int, end: int = 9) -> Lease:
    return lease(name, "ticketing", wanted=units, end=end)


def has(name: str, units: int, end: int = 9, start: int = 0) -> Lease:
    return lease(name, "ticketed", units, end, start=start)


def grows(name: str, held: int, units: int, term_end: int = 9, end: int = 20) -> Lease:
    return lease(name, "extending", held, term_end, units, end)


def ask(policy: FirstComeFirstServed, asked: Lease, now: int = 0, epoch: int = 1) -> list[tuple[str, str, int]]:
    call = "extend" if asked.state == "extending" else "allocate"
    return words(policy.begin(Question(call, asked, ("granted", "denied"), epoch), now))


def note(policy: FirstComeFirstServed, *leases: Lease, now: int = 0) -> list[tuple[str, str, int]]:
    return [said for one in leases for said in words(policy.changed(one, now))]


def words(decisions: Iterable[Decision]) -> list[tuple[str, str, int]]:
    """Decisions in short; whoever is denied is told why."""
    decisions = list(decisions)
    assert [d.lease for d in decisions if d.event == "denied" and not d.fields["reason"]] == []
    return [(d.lease, d.event, d.fields.get("units", 0)) for d in decisions]


def granted(name: str, units: int) -> tuple[str, str, int]:
    return name, "granted", units


def denied(name: str) -> tuple[str, str, int]:
    return name, "denied", 0


@pytest.mark.parametrize(
    ("lease", "now", "said"),
    [
        (waits("a", UNITS), 0, [granted("a", UNITS)]),
        (waits("a", UNITS + 1), 0, [denied("a")]),
        (waits("a", 1, end=9), 8, [granted("a", 1)]),
        (waits("a", 1, end=9), 9, [denied("a")]),
        (grows("a", 1, UNITS), 0, [granted("a", UNITS)]),
        (grows("a", 1, UNITS + 1), 0, [granted("a", 1)]),
        (grows("a", 1, 1, term_end=9, end=20), 8, [granted("a", 1)]),
        (grows("a", 1, 1, term_end=9, end=20), 9, [denied("a")]),
        (grows("a", 1, 1, term_end=9, end=5), 8, [granted("a", 1)]),
    ],
)
def test_what_is_granted_to_who_is_alone(lease: Lease, now: int, said: list[Any]) -> None:
    """It gets all that there is: a request until its end, an extension until the end of its holder's term.

    Who has units and asks for more than there are keeps those: a mistake must not end the lease.
    """
    assert ask(broker(), lease, now) == said


def test_whatever_is_denied_stands_in_nobodys_way() -> None:
    policy = broker(2)
    note(policy, has("h", 2))
    assert ask(policy, waits("a", 2, end=5)) == ask(policy, waits("b", 1)) == []
    assert ask(policy, waits("a", 2, end=5), 5, epoch=2) == [denied("a")]
    assert policy.waiting == ("b",)
    assert note(policy, lease("h", "closed"), now=5) == [granted("b", 1)]
    policy = broker(2)
    note(policy, has("h", 2))
    assert ask(policy, waits("a", 2)) == ask(policy, waits("b", 1)) == []
    policy._note(lease("h", "closed"))
    assert ask(policy, waits("c", 3)) == [denied("c"), granted("a", 2)]


def test_who_is_asked_again_answers_the_same_and_promises_nothing_twice() -> None:
    policy = broker(3)
    assert ask(policy, waits("a", 2)) == ask(policy, waits("a", 2)) == [granted("a", 2)]
    assert policy.free == 1
    assert ask(policy, grows("b", 0, 1)) == ask(policy, grows("b", 0, 1)) == [granted("b", 1)]
    assert policy.free == 0
    note(policy, has("a", 2), grows("b", 0, 1))
    assert policy.free == 0


def test_who_is_asked_again_is_not_put_behind_those_that_wait() -> None:
    policy = broker(2)
    assert ask(policy, waits("a", 2)) == [granted("a", 2)]
    assert ask(policy, waits("b", 1)) == []
    assert ask(policy, waits("a", 2)) == [granted("a", 2)]
    assert policy.waiting == ("b",)


def test_an_extension_that_is_asked_for_before_its_record_was_told_of_is_of_what_that_says() -> None:
    policy = broker(3)
    note(policy, has("h", 2))
    assert ask(policy, waits("w", 2)) == []
    assert ask(policy, grows("a", 1, 2)) == [granted("a", 1)]


def test_an_answer_that_came_too_late_promises_nothing() -> None:
    """The state was entered anew: what was decided for the epoch before is nobody's."""
    policy = broker(3)
    ask(policy, waits("a", 3), epoch=1)
    assert ask(policy, waits("a", 1), epoch=2) == [granted("a", 1)]
    assert policy.free == 2


@pytest.mark.parametrize("state", ["closed", "ticketed"])
def test_a_promise_ends_when_the_record_says_what_became_of_it(state: str) -> None:
    policy = broker(3)
    ask(policy, waits("a", 2))
    note(policy, waits("a", 2))
    assert policy.free == 1, "the record says nothing of it yet"
    note(policy, lease("a", state, *((2, 9) if state == "ticketed" else ())))
    assert policy.free == (1 if state == "ticketed" else 3)


def test_units_of_who_shrinks_come_free_when_its_record_says_so() -> None:
    policy = broker(3)
    note(policy, has("a", 3))
    for units in (3, 2, 1):
        assert ask(policy, grows("a", 3, units), epoch=units) == [granted("a", units)]
        assert policy.free == 0
    assert ask(policy, waits("b", 1)) == []
    assert note(policy, has("a", 1)) == [granted("b", 1)]


@pytest.mark.parametrize(
    ("others", "wanted", "gets"),
    [
        ([has("h", 1)], 3, 3),
        ([has("h", 2)], 3, 1),
        ([has("h", 1)], 2, 2),
        ([has("h", 2), waits("w", 2)], 2, 1),
        ([has("h", 2), waits("w", 2)], 1, 1),
    ],
    ids=["all that are free", "more than are free", "fewer", "another waits for them", "as many as it has"],
)
def test_what_an_extension_gets(others: list[Lease], wanted: int, gets: int) -> None:
    policy = broker(4)
    note(policy, has("a", 1))
    for one in others:
        if one.state == "ticketing":
            assert ask(policy, one) == []
        else:
            note(policy, one)
    assert ask(policy, grows("a", 1, wanted)) == [granted("a", gets)]


def test_who_is_asked_again_keeps_its_place() -> None:
    policy = broker(1)
    note(policy, has("h", 1))
    for name in "abca":
        assert ask(policy, waits(name, 1)) == []
    assert policy.waiting == ("a", "b", "c")
    assert note(policy, waits("b", 1), lease("a", "closed")) == []
    assert policy.waiting == ("b", "c")
    assert note(policy, lease("h", "closed")) == [granted("b", 1)]


def test_who_waits_is_denied_before_its_end_and_those_behind_it_are_served() -> None:
    policy = broker(2)
    note(policy, has("h", 1))
    assert ask(policy, waits("a", 2, end=6)) == ask(policy, waits("b", 1, end=9)) == []
    assert words(policy.tick(4)) == []
    assert words(policy.tick(5)) == [denied("a"), granted("b", 1)], "its holder hears of it in the last tick"
    assert policy.waiting == ()
    assert words(policy.tick(6)) == []


def test_a_request_that_waits_is_over_for_who_has_heard_the_time() -> None:
    policy = broker(2)
    note(policy, has("h", 1))
    assert ask(policy, waits("a", 2, end=5)) == ask(policy, waits("b", 1, end=9)) == []
    assert note(policy, has("h", 1), now=5) == [granted("b", 1)]
    assert words(policy.tick(5)) == [denied("a")]
    assert policy.waiting == ()


def test_who_waits_is_told_behind_whom_and_until_when() -> None:
    """First behind leases that have the units, a reservation among them; then behind who came before."""
    policy = broker(2)
    note(policy, has("h", 2, end=30, start=10))
    assert ask(policy, waits("a", 1, end=20), now=1) == ask(policy, waits("b", 2, end=40), now=1) == []
    assert policy.undecided("a", 1) == Undecided(
        "it wants 1 of 2 units, h has 2 from tick 10 until tick 30; "
        "no room comes before the end of its term unless one of these ends early",
        20,
    )
    assert policy.undecided("b", 1) == Undecided(
        "a came before it: it wants 1 of 2 units, h has 2 from tick 10 until tick 30", 40
    )
    assert policy.undecided("h", 1) is None
    (late,) = policy.tick(19)
    assert late.fields["reason"] == (
        "no units came free before the end of the term: it wants 1 of 2 units, h has 2 until tick 30"
    )
    assert policy.undecided("a", 19) is None
    assert policy.undecided("b", 19) == Undecided("it wants 2 of 2 units, h has 2 until tick 30", 30)


@pytest.mark.parametrize("ends", list(itertools.permutations((5, 7, 9))))
def test_each_that_waits_is_denied_before_its_own_end(ends: tuple[int, ...]) -> None:
    policy = broker(1)
    note(policy, has("h", 1, end=20))
    for end in ends:
        assert ask(policy, waits(f"until {end}", 1, end)) == []
    said = {now: words(policy.tick(now)) for now in range(4, 11)}
    assert {now: told for now, told in said.items() if told} == {end - 1: [denied(f"until {end}")] for end in (5, 7, 9)}
    assert policy.waiting == ()


def test_without_waiting_only_who_is_not_served_is_denied() -> None:
    policy = broker(2, wait=False)
    assert ask(policy, waits("a", 2)) == [granted("a", 2)]
    assert ask(policy, waits("b", 1)) == [denied("b")]
    assert policy.waiting == ()
    assert note(policy, lease("a", "closed")) == []


def test_after_a_restart_those_that_wait_are_served_by_their_ends_and_then_by_name() -> None:
    """Nobody who is asked first goes before, and whoever comes later comes behind."""
    policy = broker(3)
    policy.recovered(has("h", 1))
    for name, end in (("d", 5), ("b", 7), ("a", 7)):
        policy.recovered(waits(name, 1, end))
    assert ask(policy, waits("new", 1, 3)) == []
    assert policy.waiting == ("d", "a", "b", "new")
    assert ask(policy, waits("b", 1, 7)) == ask(policy, waits("a", 1, 7)) == []
    assert ask(policy, waits("d", 1, 5)) == [granted("d", 1), granted("a", 1)]
    assert policy.waiting == ("b", "new")


@pytest.mark.parametrize("heard", ["tick", "changed"])
def test_after_a_restart_a_request_is_there_before_it_is_asked_again(heard: str) -> None:
    """It is not denied before that: there is no question that could be answered."""
    policy = broker(1)
    policy.recovered(waits("a", 1, end=5))
    assert words(policy.tick(5) if heard == "tick" else policy.changed(lease("x", "nascent"), 5)) == []
    assert policy.waiting == ("a",)
    assert ask(policy, waits("a", 1, end=5), 5) == [denied("a")]
    assert policy.waiting == ()
    assert words(policy.tick(6)) == []


@pytest.mark.parametrize("state", ["nascent", "ticketed", "extending", "closed"])
def test_after_a_restart_only_who_asks_for_its_first_ticket_waits(state: str) -> None:
    policy = broker(2)
    policy.recovered(lease("a", state, 1, 9, 1, 12))
    list(policy.tick(1))
    assert policy.waiting == ()
    assert policy.free == (1 if state in ("ticketed", "extending") else 2)


@pytest.mark.parametrize(
    ("units", "end", "before"),
    [(1, 5, True), (1, 6, False), (2, 5, True), (3, 5, False), (2, 6, False)],
)
def test_who_goes_before_one_that_waits(units: int, end: int, before: bool) -> None:
    """A later one goes ahead if it ends when room comes for that one. Two are free, and the first needs all four."""
    policy = broker(4, backfill=True)
    note(policy, has("h", 2, end=5))
    assert ask(policy, waits("first", 4)) == []
    assert ask(policy, waits("later", units, end)) == ([granted("later", units)] if before else [])


@pytest.mark.parametrize(("units", "before"), [(1, True), (2, False)])
def test_who_takes_what_is_to_spare_goes_before_whenever_it_ends(units: int, before: bool) -> None:
    policy = broker(5, backfill=True)
    note(policy, has("h", 3, end=5))
    assert ask(policy, waits("first", 4)) == []
    assert ask(policy, waits("later", units, 90)) == ([granted("later", units)] if before else [])


def test_nobody_goes_before_while_a_decision_is_on_its_way() -> None:
    """Records that lack it do not say what comes free, and when."""
    policy = broker(5, backfill=True)
    note(policy, has("h", 3, end=5))
    assert ask(policy, waits("first", 4)) == []
    assert ask(policy, waits("later", 1, 5)) == [granted("later", 1)]
    assert ask(policy, waits("last", 1, 5)) == []
    assert note(policy, has("later", 1, 5)) == [granted("last", 1)]


@pytest.mark.parametrize("state", ["ticketed", "extending"])
def test_a_ticket_holds_its_units_from_its_grant_to_its_end(state: str) -> None:
    calendar = Calendar()
    calendar.note(lease("a", state, 2, 9))
    assert (calendar.of("a"), calendar.held, calendar.of("b")) == (2, 2, 0)
    calendar.note(lease("a", state, 3, 12))
    assert (calendar.of("a"), calendar.held) == (3, 3)
    calendar.note(lease("a", "closed", 3, 12))
    assert (calendar.of("a"), calendar.held) == (0, 0)
    assert calendar == Calendar()


def test_what_is_over_is_forgotten() -> None:
    """However many leases there were: a broker runs for years."""
    core = Core(backfill=True)

    def serve(name: str) -> int:
        core.forget()
        core.arrived.clear()
        core.request(3, core.now + 3, f"{name}:1")
        core.settle()
        core.request(3, core.now + 2, f"{name}:2")
        core.request(1, core.now + 2, f"{name}:3")
        core.settle()
        core.extend(f"{name}:1", 4, core.now + 5)
        for _ in range(5):
            core.settle()
            core.tick()
        core.settle()
        assert {record.state for record in core.records.values()} == {"closed"}
        return len(pickle.dumps(core.policy))

    new = len(pickle.dumps(core.policy))
    assert [serve(f"l{n}") for n in range(3)] == [new] * 3


# Terms that begin later, types, and units that the site may still hold.


def later(name: str, units: int, start: int, end: int) -> Lease:
    data = FIRST | {"requested_units": units, "requested_start": start, "requested_end": end}
    return Lease(name, "broker", "ticketing", data, {})


def reserved(name: str, units: int, start: int, end: int) -> Lease:
    data = FIRST | {"units": units, "counted": units, "start": start, "term_end": end}
    return Lease(name, "broker", "ticketed", data, {})


@pytest.mark.parametrize(("start", "end", "fits"), [(5, 9, True), (4, 9, False), (5, 20, True), (0, 5, False)])
def test_a_term_that_begins_when_another_ends_is_granted_now(start: int, end: int, fits: bool) -> None:
    policy = broker(2)
    note(policy, has("h", 2, end=5))
    assert ask(policy, later("a", 2, start, end)) == ([granted("a", 2)] if fits else [])


@pytest.mark.parametrize(("end", "units", "fits"), [(5, 2, True), (6, 2, False), (6, 1, True), (90, 1, True)])
def test_a_request_takes_nothing_of_what_is_reserved(end: int, units: int, fits: bool) -> None:
    policy = broker(2)
    note(policy, reserved("r", 1, 5, 9))
    assert ask(policy, waits("a", units, end)) == ([granted("a", units)] if fits else [])


def test_an_extension_gets_nothing_of_what_is_reserved() -> None:
    """Nor one for fewer units: the lease may not have become smaller before the others begin."""
    policy = broker(3)
    note(policy, has("a", 2, end=5), reserved("r", 2, 5, 9))
    assert ask(policy, grows("a", 2, 2, term_end=5, end=5)) == [granted("a", 2)]
    assert ask(policy, grows("a", 2, 1, term_end=5, end=9), epoch=2) == [denied("a")]
    (told,) = policy.begin(Question("extend", grows("a", 2, 2, term_end=5, end=9), (), 3), 0)
    assert told.fields == {"reason": "all units of type unit are promised to others before 9"}


def test_a_smaller_ticket_counts_as_before_until_the_lease_is_smaller() -> None:
    policy = broker(3)
    data = FIRST | {"units": 1, "counted": 3, "term_end": 9}
    note(policy, Lease("a", "broker", "ticketed", data, {}))
    assert ask(policy, waits("b", 1)) == []
    assert note(policy, Lease("a", "broker", "ticketed", data | {"counted": 1}, {})) == [granted("b", 1)]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (waits("a", 5), "there are 4 units of type unit, and 5 were asked for"),
        (waits("a", 1, end=0), "the term that was asked for has ended"),
        (grows("a", 1, 1, term_end=0), "the ticket has ended"),
    ],
)
def test_what_can_never_be_is_denied_with_the_reason(asked: Lease, reason: str) -> None:
    (told,) = broker().begin(Question("extend" if asked.state == "extending" else "allocate", asked, (), 1), 0)
    assert told.fields == {"reason": reason}


def test_units_of_another_type_are_denied_with_the_reason() -> None:
    units = [{"name": "a", "type": "node"}, {"name": "b", "type": "disk"}]
    policy = FirstComeFirstServed(Inventory.parse({"units": units}), type="disk")
    asked = waits("a", 1)
    (told,) = policy.begin(
        Question("allocate", Lease("a", "broker", "ticketing", asked.data | {"type": "node"}, {}), (), 1), 0
    )
    assert told.fields == {"reason": "this broker has units of type disk, and not of node"}
    assert ask(policy, Lease("b", "broker", "ticketing", asked.data | {"type": "disk"}, {})) == [granted("b", 1)]


# Words, and terms that touch


@pytest.mark.parametrize("others", range(NAMED + 3))
def test_those_that_have_the_units_are_named_by_their_ends_and_the_rest_is_counted(others: int) -> None:
    policy = broker(10)
    for n in reversed(range(others)):
        note(policy, has(f"h{n}", 2, end=20 + n))
    assert ask(policy, waits("a", 10, end=15)) == ([granted("a", 10)] if not others else [])
    if others:
        undecided = policy.undecided("a", 0)
        assert undecided is not None
        said, _, never = undecided.words.partition("; ")
        named = [f"h{n} has 2 until tick {20 + n}" for n in range(min(others, NAMED))]
        more = [f"{others - NAMED} more leases have others"] if others > NAMED else []
        assert said == ", ".join(["it wants 10 of 10 units", *named, *more])
        assert (never, undecided.until) == (
            "no room comes before the end of its term unless one of these ends early",
            15,
        )


def test_a_reservation_is_named_with_its_start_until_it_has_begun() -> None:
    policy = broker(2)
    note(policy, has("h", 2, end=30, start=10))
    assert ask(policy, waits("a", 1, end=40)) == []
    for now, words_ in ((9, "h has 2 from tick 10 until tick 30"), (10, "h has 2 until tick 30")):
        assert policy.undecided("a", now) == Undecided(f"it wants 1 of 2 units, {words_}", 30)


@pytest.mark.parametrize("backfill", [False, True])
def test_a_request_behind_another_waits_for_what_is_in_its_own_way_with_backfill(backfill: bool) -> None:
    policy = broker(4, backfill=backfill)
    note(policy, has("h", 2, end=20))
    assert ask(policy, waits("a", 4, end=40)) == ask(policy, waits("b", 3, end=30)) == []
    before = "" if backfill else "a came before it: "
    wants = "it wants 3 of 4 units" if backfill else "it wants 4 of 4 units"
    assert policy.undecided("b", 0) == Undecided(f"{before}{wants}, h has 2 until tick 20", 20 if backfill else 30)


@pytest.mark.parametrize(("start", "end"), [(5, 4), (5, 5), (5, 6), (9, 9), (0, 1)])
def test_a_term_that_ends_as_it_begins_is_denied_with_the_reason(start: int, end: int) -> None:
    (told,) = broker().begin(Question("allocate", later("a", 1, start, end), ("granted", "denied"), 1), 0)
    if start < end:
        assert (told.event, told.fields["units"]) == ("granted", 1)
    else:
        assert told.fields == {"reason": f"a term cannot begin at {start} and end at {end}"}


@pytest.mark.parametrize("now", [3, 4, 5, 6])
def test_a_request_goes_before_another_once_every_reservation_has_begun(now: int) -> None:
    """Room for the first cannot be foreseen as long as one has not begun."""
    policy = broker(4, backfill=True)
    note(policy, has("h", 2, end=20), has("r", 1, end=9, start=5))
    assert ask(policy, waits("first", 4, end=40)) == []
    assert ask(policy, waits("later", 1, end=8), now) == ([granted("later", 1)] if now >= 5 else [])


@pytest.mark.parametrize("state", ["ticketing", "extending"])
def test_what_is_promised_is_held_for_the_term_that_was_asked_for(state: str) -> None:
    """The term goes from the start of the request, or of the extended ticket, until the end that was asked for."""
    policy = broker(2)
    if state == "ticketing":
        asked = later("a", 2, 5, 9)
    else:
        policy.calendar.put("a", Holding(2, 7, 5))
        asked = lease("a", "extending", 2, 7, 2, 9, start=5)
    assert ask(policy, asked) == [granted("a", 2)]
    assert next(iter(policy.pools)).booked.holding("a") == Holding(2, 9, 5)
    assert (policy.free, ask(policy, waits("b", 2, end=5))) == (0, [granted("b", 2)])
    assert ask(policy, later("c", 1, 8, 10)) == []


def test_a_grant_says_what_the_machine_takes_and_no_reason_where_all_is_given() -> None:
    """The number of the ticket goes on from that in the record's properties, whatever else these hold."""
    for before, number in ((0, 1), ({}, 1), ({"ticket": 4, "other": 9}, 5)):
        asked = waits("a", 2)
        asked.data["properties"] = before  # type: ignore[index]
        (told,) = broker().begin(Question("allocate", asked, ("granted", "denied"), 7), 0)
        assert (told.lease, told.machine, told.event, told.state_epoch) == ("a", "broker", "granted", 7)
        assert told.fields == {
            "units": 2,
            "later": 0,
            "longer": 0,
            "properties": {"ticket": number, "type": "unit"},
            "reason": "",
        }


FULL = [has("h", 3, end=30), waits("w", 2, end=40)]


@pytest.mark.parametrize(
    ("others", "wanted", "reason"),
    [
        ([], 4, ""),
        ([], 5, "5 units of type unit were asked for, and 4 units are free until 20"),
        ([has("h", 1, end=30)], 4, "4 units of type unit were asked for, and 3 units are free until 20"),
        ([has("h", 1, end=30)], 3, ""),
        (FULL, 2, "2 units of type unit were asked for, and others wait for units"),
        (FULL, 1, ""),
    ],
)
def test_an_extension_that_gets_less_is_told_why(others: list[Lease], wanted: int, reason: str) -> None:
    policy = broker(4)
    note(policy, has("a", 1))
    for one in others:
        note(policy, one) if one.state == "ticketed" else ask(policy, one)
    (told,) = policy.begin(Question("extend", grows("a", 1, wanted), ("granted", "denied"), 1), 0)
    assert (told.event, told.fields["reason"]) == ("granted", reason)


def test_a_request_without_waiting_is_denied_with_the_reason_and_those_that_wait_are_served() -> None:
    policy = broker(3, wait=False)
    note(policy, has("h", 2))
    (told,) = policy.begin(Question("allocate", waits("a", 2), ("granted", "denied"), 1), 0)
    assert told.fields == {"reason": "no 2 units are free, and this broker lets none wait"}
    policy.recovered(waits("old", 1))
    assert ask(policy, waits("old", 1)) == [granted("old", 1)]
