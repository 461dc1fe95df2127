"""A broker of several types and sites: a ticket says where its units are, and no stock is promised twice."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leasehold.impl.core.values import LARGEST
from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.lease.calendar import Calendar, Holding
from leasehold.impl.lease.inventory import Inventory, InventoryError
from leasehold.impl.lease.stock import Pool, Stock, stocks_of
from leasehold.impl.policy.policy import Decision, Lease, Question
from tests.impl.lease.machines import Machines, Seen, first_data

FIRST = first_data("broker")
INVENTORY = Inventory.parse(
    {
        "units": [
            {"name": "a", "count": 3, "type": "node", "site": "east"},
            {"name": "b", "count": 2, "type": "node", "site": "west"},
            {"name": "c", "count": 2, "type": "disk", "site": "west"},
        ]
    }
)
STOCKS = {("east", "node"): 3, ("west", "node"): 2, ("west", "disk"): 2}
SITES = ("east", "west")
Places = tuple[str, ...]


class Core(Machines):
    """Broker machines with their policy, over three stocks."""

    def __init__(self, **kinds: Any) -> None:
        self.kinds, self.arrived, self.asked = kinds, list[str](), dict[str, tuple[str, Places | None]]()
        self.content: dict[str, dict[str, int]] = {}
        other = bool(kinds.get("other_terms"))
        super().__init__("broker", lambda: FirstComeFirstServed(INVENTORY, **kinds), max_units=4, other_terms=other)

    def request(self, units: int, start: int, end: int, type: str, places: Places | None, **content: int) -> None:
        name = f"l:{len(self.instances)}"
        self.arrived.append(name)
        self.asked[name] = type, places
        properties = content | ({} if places is None else {"sites": list(places)})
        self.content[name] = content
        self.hear(name, "ticket", units=units, start=start, end=end, type=type, properties=properties)

    def may_use(self, lease: str) -> set[tuple[str, str]]:
        """The stocks that a lease may have units of, by what it asked for."""
        type, places = self.asked[lease]
        return {stock for stock in STOCKS if stock[1] == type and (places is None or stock[0] in places)}

    def check(self, decision: Decision) -> None:
        record = self.records[decision.lease]
        assert decision.state_epoch == record.state_epoch, f"{decision} answers nothing that is asked: {record}"
        if decision.event == "denied":
            assert decision.fields["reason"]
            return
        said = decision.fields["properties"]
        stock = said["authority"], said["type"]
        assert stock in self.may_use(decision.lease)
        if record.state == "extending":
            assert said["authority"] == record.data["properties"]["authority"], "a lease has changed its site"
        self.check_content(decision, record)
        promised = {
            d.lease: d
            for d in (*self.pending, decision)
            if d.event == "granted" and self.records[d.lease].state_epoch == d.state_epoch
        }
        self.check_room(promised)
        if record.state == "ticketing" and not self.kinds.get("backfill"):
            answered = {d.lease for d in self.pending}
            waiting = [name for name in self.arrived if self.records[name].state == "ticketing"]
            for name in waiting[: waiting.index(decision.lease)]:
                done = name in answered or self.now >= self.records[name].data["requested_end"]
                assert done or stock not in self.may_use(name), f"{name} was overtaken"

    def check_content(self, decision: Decision, record: Seen) -> None:
        """Nobody gets less than what is enough for it, nor another term."""
        fields, data, content = decision.fields, record.data, self.content[decision.lease]
        if record.state == "ticketing":
            start, end = data["requested_start"] + fields["later"], data["requested_end"] + fields["longer"]
            assert content.get("least_units", data["requested_units"]) <= fields["units"] <= data["requested_units"]
            assert fields["later"] >= 0
            assert fields["later"] == 0 or start <= content["latest_start"]
            assert fields["later"] in (0, fields["longer"])
            shorter = fields["longer"] < 0
            assert not shorter or end - max(start, self.now) >= content["least_ticks"]

    def check_room(self, promised: dict[str, Decision]) -> None:
        """At no time are more units of a stock held or promised than there are; the dumb way, time by time."""
        for at in range(self.now, self.now + 20):
            held = dict.fromkeys(STOCKS, 0)
            for name, r in self.records.items():
                data, decided = r.data, promised.get(name)
                said = decided.fields["properties"] if decided is not None else data["properties"]
                if not said or (r.state not in ("ticketed", "extending") and decided is None):
                    continue
                later, longer = (decided.fields[n] for n in ("later", "longer")) if decided is not None else (0, 0)
                start = data["start"] if r.state != "ticketing" else data["requested_start"] + later
                end = data["requested_end"] + longer if decided is not None else data["term_end"]
                more = decided.fields["units"] if decided is not None else 0
                if start <= at and (at < end or end <= self.now):
                    held[said["authority"], said["type"]] += max(data["counted"], more)
            assert all(held[stock] <= units for stock, units in STOCKS.items()), f"{held} at {at}"


class Runs(RuleBasedStateMachine):
    @initialize(wait=st.booleans(), backfill=st.booleans(), other_terms=st.booleans())
    def begin(self, wait: bool, backfill: bool, other_terms: bool) -> None:
        self.core = Core(wait=wait, backfill=backfill, other_terms=other_terms)

    @rule(
        units=st.integers(1, 4),
        term=st.integers(0, 5),
        later=st.sampled_from([0, 0, 3]),
        type=st.sampled_from(["node", "node", "disk", "", "tape"]),
        places=st.sampled_from([None, ("east",), ("west",), SITES, ("north",)]),
        content=st.sampled_from(["", "least_units", "least_ticks", "latest_start"]),
        least=st.integers(1, 4),
    )
    def request(
        self, units: int, term: int, later: int, type: str, places: Places | None, content: str, least: int
    ) -> None:
        start = self.core.now + later if later else 0
        value = min(least, units) if content == "least_units" else max(start, self.core.now) + least
        if content == "least_ticks":
            value = least
        given = {content: value} if content else {}
        self.core.request(units, start, max(start, self.core.now) + term, type, places, **given)

    @precondition(lambda self: self.core.names("ticketed"))
    @rule(data=st.data(), units=st.integers(1, 4), more=st.integers(1, 4))
    def extend(self, data: st.DataObject, units: int, more: int) -> None:
        name = data.draw(st.sampled_from(self.core.names("ticketed")))
        self.core.hear(name, "extend_ticket", units=units, end=self.core.records[name].data["term_end"] + more)

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

    @rule(data=st.data())
    def restart(self, data: st.DataObject) -> None:
        self.core.restart(data.draw(st.permutations(list(self.core.records))))

    @invariant()
    def no_stock_is_promised_twice(self) -> None:
        if hasattr(self, "core"):
            self.core.check_room({})
            views = [self.core.view(name) for name in self.core.instances]
            assert self.core.policy.calendar == Calendar.rebuilt(views)


TestRuns = Runs.TestCase
TestRuns.settings = settings(max_examples=20, stateful_step_count=25, deadline=None)


def waits(name: str, units: int, *, type: str = "node", end: int = 9, **properties: Any) -> Lease:
    data = {"requested_units": units, "requested_end": end, "type": type, "request": properties}
    return Lease(name, "broker", "ticketing", FIRST | data, {})


def ask(policy: FirstComeFirstServed, lease: Lease, call: str = "allocate", now: int = 0) -> Any:
    """Returns the properties of a request's ticket, why it is denied, or None while it waits."""
    decisions = [d for d in policy.begin(Question(call, lease, ("granted", "denied"), 1), now) if d.lease == lease.name]
    fields = decisions[0].fields if decisions else {}
    return fields.get("properties") or fields.get("reason")


def test_the_ticket_names_the_site_with_the_most_room() -> None:
    policy = FirstComeFirstServed(INVENTORY)
    assert ask(policy, waits("a", 2)) == {"ticket": 1, "type": "node", "authority": "east"}
    assert ask(policy, waits("b", 1))["authority"] == "west"
    assert ask(policy, waits("c", 2)) is None
    words = "it wants 2 of 3 units at one of east, west, a has 2 until tick 9, b has 1 until tick 9"
    assert policy.undecided("c", 0) == (
        f"{words}; no room comes before the end of its term unless one of these ends early",
        9,
    )


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"type": "tape"}, "units of type node, disk, and not of tape"),
        ({"type": ""}, r"several types \(node, disk\); say which"),
        ({"units": 4}, "there are 3 units of type node at one site, and 4 were asked for"),
        ({"site": "north"}, "at east, west, and the holder can have them at north"),
        ({"sites": []}, "at east, west, and the holder can have them at none"),
        ({"type": "disk", "site": "east"}, "units of type disk at west, and the holder can have them at east"),
    ],
)
def test_what_can_never_be_had_is_denied_at_once_with_its_reason(asked: dict[str, Any], why: str) -> None:
    policy = FirstComeFirstServed(INVENTORY)
    assert re.search(why, ask(policy, waits("a", **{"units": 1, **asked})))
    assert policy.free == 7, "nothing is booked"


def test_a_broker_without_units_says_so() -> None:
    for type in ("", "node"):
        assert ask(FirstComeFirstServed(Inventory(())), waits("a", 1, type=type)) == "this broker has no units"


def test_one_that_waits_for_a_site_is_in_nobodys_way_elsewhere() -> None:
    policy = FirstComeFirstServed(INVENTORY)
    assert ask(policy, waits("a", 2, site="west"))["authority"] == "west"
    assert ask(policy, waits("b", 1, site="west")) is None
    assert ask(policy, waits("c", 3))["authority"] == "east"
    assert ask(policy, waits("d", 2, type="disk"))["authority"] == "west"
    assert policy.waiting == ("b",)


def test_a_ticket_from_before_its_broker_knew_several_sites_counts_where_its_type_is() -> None:
    policy = FirstComeFirstServed(INVENTORY)
    data = FIRST | {"units": 2, "counted": 2, "term_end": 9, "properties": {"ticket": 1, "type": "disk"}}
    policy.recovered(Lease("a", "broker", "ticketed", data, {}))
    assert ask(policy, waits("b", 1, type="disk")) is None
    assert ask(policy, waits("c", 3)) == {"ticket": 1, "type": "node", "authority": "east"}


def test_an_inventory_says_at_which_site_its_units_are() -> None:
    assert stocks_of(INVENTORY) == tuple(Stock(type, units, site) for (site, type), units in STOCKS.items())
    assert stocks_of(INVENTORY, "disk") == (Stock("disk", 2, "west"),)
    moved = Inventory.parse({"units": [{"name": "a", "site": "west"}]})
    with pytest.raises(InventoryError, match="was at east, and is now at west"):
        moved.check(Inventory.parse({"units": [{"name": "a", "site": "east"}]}).remembered())
    moved.check(Inventory.parse({"units": [{"name": "a"}]}).remembered())  # it is said now


# Requests that are content with less


@pytest.mark.parametrize(
    ("content", "units", "given"),
    [
        ({"least_units": 1}, 3, (2, 0, 0)),
        ({"least_ticks": 4}, 2, (2, 0, -3)),
        ({"least_ticks": 6}, 2, None),
        ({"latest_start": 12}, 2, (2, 9, 9)),
        ({"latest_start": 8}, 2, None),
    ],
)
def test_a_request_is_content_with_fewer_units_a_shorter_term_or_a_later_one(
    content: dict[str, int], units: int, given: tuple[int, int, int] | None
) -> None:
    policy = FirstComeFirstServed(INVENTORY, other_terms=True)
    if units == 2:  # both are reserved from tick 5 until 9
        data = FIRST | {"requested_units": 2, "requested_start": 5, "requested_end": 9, "type": "disk"}
        assert ask(policy, Lease("a", "broker", "ticketing", data, {}))["authority"] == "west"
    asked = waits("b", units, type="disk", end=8, **content)
    decisions = list(policy.begin(Question("allocate", asked, ("granted", "denied"), 1), 0))
    assert [tuple(d.fields[n] for n in ("units", "later", "longer")) for d in decisions] == ([given] if given else [])
    assert all(d.fields["reason"] for d in decisions), "it is told that it gets less"


@pytest.mark.parametrize("content", ["least_units", "least_ticks", "latest_start"])
@pytest.mark.parametrize("seed", range(40))
def test_of_all_that_a_request_is_content_with_it_gets_the_best(content: str, seed: int) -> None:
    """What there is between some reservations, tick by tick: the most units, the soonest start, or the longest term."""
    chance, policy = Random(seed), FirstComeFirstServed(INVENTORY, other_terms=True)
    room = [2] * 60  # of the disks, at each tick
    for n in range(4):
        units, start = chance.randint(1, 2), chance.randint(1, 16)
        end = start + chance.randint(1, 6)
        data = {"requested_units": units, "requested_start": start, "requested_end": end, "type": "disk"}
        if min(room[start:end]) >= units:
            assert ask(policy, Lease(f"r{n}", "broker", "ticketing", FIRST | data, {}))["authority"] == "west"
            room[start:end] = [free - units for free in room[start:end]]
    units, end = chance.randint(1, 2), chance.randint(2, 8 if content == "latest_start" else 18)
    least = {"least_units": 1, "least_ticks": chance.randint(1, end - 1), "latest_start": 20}[content]
    few = least if content == "least_units" else units
    terms = [(0, end)]
    if content == "least_ticks":
        terms += [(0, shorter) for shorter in range(end - 1, least - 1, -1)]
    elif content == "latest_start":
        terms += [(later, later + end) for later in range(1, least + 1)]
    best = next(((s, e) for s, e in terms if min(room[s:e]) >= few), None)
    asked = waits("b", units, type="disk", end=end, **{content: least})
    decisions = list(policy.begin(Question("allocate", asked, ("granted", "denied"), 1), 0))
    given = [tuple(d.fields[n] for n in ("units", "later", "longer")) for d in decisions]
    assert given == ([] if best is None else [(min(units, *room[slice(*best)]), best[0], best[1] - end)])


def test_other_terms_are_granted_only_where_the_specification_has_them() -> None:
    policy = FirstComeFirstServed(INVENTORY)
    assert "the constant `other_terms` would let it" in ask(policy, waits("a", 1, latest_start=12))


# A store that is new


def test_a_broker_with_a_new_store_promises_nothing_until_what_it_may_have_promised_is_over() -> None:
    policy = FirstComeFirstServed(INVENTORY, longest_term=10)
    policy.opened(5)
    assert ask(policy, waits("a", 1, end=12), now=5) is None
    why = "the broker's store is new since tick 5, and tickets that it may have issued before count until tick 15"
    assert policy.undecided("a", 5) == (why, 12)
    assert ask(policy, waits("b", 1, end=16), now=6) is None
    assert [d.fields["reason"] for d in policy.tick(11)] == [f"no units came free before the end of the term: {why}"]
    assert policy.tick(14) == []
    assert [(d.lease, d.event) for d in policy.tick(15)] == [("b", "granted")]
    assert ask(policy, waits("c", 1, end=26), now=15) == (
        "this broker grants no term beyond 10 ticks from now, and one until 26 was asked for"
    )


def test_an_older_store_and_units_that_came_after_it_are_not_waited_out() -> None:
    policy = FirstComeFirstServed(INVENTORY, longest_term=10, clock_margin=2)
    policy.opened(None)
    assert ask(policy, waits("a", 1), now=5)["authority"] == "east"
    policy.pools.renew([Stock("node", 1, "east", 0, 50, "d1", 8), Stock("node", 1, "west", 0, 50, "d2", 7)])
    policy.opened(5)
    assert [pool.quiet_until for pool in policy.pools if pool.stock.units] == [0, 15]
    policy.pools.renew([Stock("node", 1, "west", 0, 9, "d2", 7)])
    policy.opened(5)
    assert [pool.quiet_until for pool in policy.pools if pool.stock.units] == [9], "no ticket outlasts its delegation"


def test_without_a_longest_term_a_delegation_is_waited_out() -> None:
    policy = FirstComeFirstServed(INVENTORY)
    policy.pools.renew([Stock("node", 1, "west", 0, 50, "d2", 5)])
    policy.opened(5)
    assert [pool.quiet_until for pool in policy.pools if pool.stock.units] == [50]


# Queries


def test_a_query_is_told_what_is_free_when() -> None:
    policy = FirstComeFirstServed(INVENTORY, other_terms=True)
    data = FIRST | {"requested_units": 2, "requested_start": 5, "requested_end": 9, "type": "disk"}
    assert ask(policy, Lease("a", "broker", "ticketing", data, {}))["authority"] == "west"
    assert ask(policy, waits("b", 1, type="disk", end=3))["authority"] == "west"
    said = policy.query(1)
    assert {(of["site"], of["type"]): of["units"] for of in said["inventory"]} == STOCKS
    free = next(of["free"] for of in said["inventory"] if of["type"] == "disk")
    assert free == [
        {"from": 1, "until": 3, "units": 1},
        {"from": 3, "until": 5, "units": 2},
        {"from": 9, "until": LARGEST, "units": 2},
    ]
    assert said["request_properties"] == ["site", "sites", "least_units", "least_ticks", "latest_start"]
    assert policy.query(1) == said, "it changes nothing"


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 3), st.integers(0, 12), st.integers(1, 8)), max_size=6),
    st.integers(0, 8),
)
def test_what_is_free_is_what_a_request_gets(holdings: list[tuple[int, int, int]], now: int) -> None:
    pool = Pool(Stock("node", 9, "east", 2, 15))
    for n, (units, start, ticks) in enumerate(holdings):
        pool.booked.put(f"l:{n}", Holding(units, start + ticks, start))
    free = dict.fromkeys(range(now, 20), 0)
    for period in pool.free(now):
        free |= dict.fromkeys(range(period["from"], period["until"]), period["units"])
    assert free == {at: max(0, pool.room(at, at + 1, now)) for at in range(now, 20)}


@pytest.mark.parametrize(
    ("other", "given"),
    [
        (Stock("node", 1, "east", 0, 50, "d2"), "d2"),
        (Stock("node", 1, "west", 0, 50, "d2"), None),
        (Stock("disk", 1, "east", 0, 50, "d2"), None),
    ],
)
def test_a_lease_goes_on_with_other_units_of_its_site_and_type_alone(other: Stock, given: str | None) -> None:
    """The units that it had are handed on until tick 9."""
    policy = FirstComeFirstServed(Inventory(()))
    policy.pools.renew([Stock("node", 1, "east", 0, 9, "d1"), other])
    ticket = {"ticket": 1, "type": "node", "authority": "east", "delegation": "d1"}
    data = {"units": 1, "counted": 1, "term_end": 9, "properties": ticket, "type": "node"}
    extends = Lease("a", "broker", "extending", FIRST | data | {"requested_units": 1, "requested_end": 20}, {})
    answer = ask(policy, extends, "extend", 5)
    if given is None:
        assert answer == "all units of type node are promised to others before 20"
    else:
        assert answer == {**ticket, "ticket": 2, "delegation": given}
        assert [pool.booked.held for pool in policy.pools] == [1, 1], "until the record says where it is"
