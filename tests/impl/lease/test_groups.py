"""Groups of leases: all or none, over types, brokers and sites, whoever dies in the middle."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leasehold.faults.model.budget import Budget
from leasehold.faults.simulation.lease import Federation
from leasehold.faults.simulation.loop import VirtualLoop
from leasehold.faults.simulation.schedule import RunExtent, Schedule
from leasehold.impl.actor.environment import ActorError, ActorOptions, RetryPolicy
from leasehold.impl.handlers.handler import HandlerAction
from leasehold.impl.lease.arbiter import Arbiter, Request
from leasehold.impl.lease.service_manager import FixedDemand
from leasehold.impl.policy.policy import Decision, Question, Undecided
from leasehold.impl.store.store import RecordKey

SITES = {"east": {"node": 3}, "west": {"disk": 2}}
BROKERS = {"market": {"east": {"node": 3}}, "bazaar": {"west": {"disk": 2}}}
JOB = {"id": "job", "count": 2}
LEAVE = 2  # ticks: `leave_limit` and `clock_margin` of the lease
OF = {"anna:1": {"type": "node", "broker": "market"}, "anna:2": {"type": "disk", "broker": "bazaar"}}


class Observer:
    """Sees the units of all sites, and what the brokers have promised; it does not ask the holder.

    Attributes:
        seen: by lease, the units that were set up.
        wrong: what must not be.
    """

    def __init__(self, cluster: Federation) -> None:
        self.cluster, self.seen, self.wrong = cluster, dict[str, set[str]](), list[str]()
        for site, handler in cluster.handlers.items():
            handler.world.heard.append(partial(self._hear, site))

    def _hear(self, site: str, action: HandlerAction, became: str) -> None:
        if became == "begun" and action.verb == "setup":
            self.seen.setdefault(action.lease, set()).add(f"{site} {action.unit}")
            self._look(site, action.lease)

    def _look(self, site: str, lease: str) -> None:
        """The units of a lease are up until the end that its site knows: has each broker promised as much?"""
        own = self._data(site, RecordKey(lease, "authority"))
        for other, member in OF.items():
            promised = self._data(member["broker"], RecordKey(other, "broker"))
            if promised.get("term_end", 0) < own["end"]:
                self.wrong.append(f"{lease} is used until {own['end']}, and {other} has {promised.get('term_end')}")

    def look(self) -> None:
        """Looks at all units that are up."""
        for site, handler in self.cluster.handlers.items():
            world = handler.world
            for lease in {world.units[name].lease for name in world.on()}:
                self._look(site, lease)

    def _data(self, actor: str, key: RecordKey) -> Mapping[str, Any]:
        instance = self.cluster.actors[actor].table.instances.get(key)
        return {} if instance is None else instance.core.view(instance.record)

    def up(self) -> dict[str, int]:
        """The units that are up, by site."""
        return {site: len(handler.world.on()) for site, handler in self.cluster.handlers.items()}

    def free(self) -> dict[str, int]:
        """The units that no broker has promised."""
        return {name: self.cluster.actors[name].environment.policies["broker"].free for name in BROKERS}  # type: ignore[attr-defined]


FREE = {"market": 3, "bazaar": 2}
DOWN = {"east": 0, "west": 0}


def federation(**more: Any) -> Federation:
    """Two sites that end leases when they are over, and a broker of each."""
    constants = {"lazy_close": False, **more.pop("settings", {})}
    return Federation(SITES, BROKERS, ("anna", "ben"), settings=constants, **more)


async def ask(cluster: Federation, lease: str, units: int = 1, until: int = 30, **more: Any) -> None:
    more = {"group": JOB, **OF[lease], **more}
    await cluster.demand(lease.partition(":")[0], lease, units, until, **more)
    await cluster.settle()


async def go_on(cluster: Federation, ticks: int, observer: Observer) -> None:
    for _ in range(ticks):
        await cluster.advance(1)
        observer.look()


def holder(cluster: Federation) -> FixedDemand:
    policy = cluster.actors["anna"].environment.policies["service_manager"]
    assert isinstance(policy, FixedDemand)
    return policy


def reason(cluster: Federation, lease: str) -> str:
    wish = holder(cluster).wish(lease)
    assert wish is not None
    return wish.ended


def at_holder(cluster: Federation, *leases: str) -> list[str | None]:
    return [cluster.states(lease).get("anna") for lease in leases]


@contextmanager
def denying(kinds: Mapping[str, str]) -> Iterator[None]:
    """A broker has a reason to deny what is asked of it: `extend`, or `allocate`."""
    with pytest.MonkeyPatch.context() as patch:
        extension = Arbiter._extension

        def denied(self: Arbiter, question: Question, asked: Request, now: int) -> Decision:
            name = question.lease.name
            if name in kinds:
                return question.answer("denied", reason=kinds[name])
            return extension(self, question, asked, now)

        patch.setattr(Arbiter, "_extension", denied)
        yield


async def test_nothing_is_redeemed_before_all_members_are_ticketed() -> None:
    async with federation() as cluster:
        observer = Observer(cluster)
        await ask(cluster, "anna:1", 2)
        await go_on(cluster, 3, observer)
        assert at_holder(cluster, "anna:1") == ["ticketed"]
        assert observer.up() == DOWN
        assert observer.free() == {"market": 1, "bazaar": 2}
        assert holder(cluster).undecided("anna:1", 3) == Undecided("its group job waits for 1 more lease of 2", 10)
        await ask(cluster, "anna:2", until=40)
        await go_on(cluster, 2, observer)
        assert at_holder(cluster, "anna:1", "anna:2") == ["active", "active"]
        assert observer.up() == {"east": 2, "west": 1}
        await go_on(cluster, 24, observer)
        assert at_holder(cluster, "anna:1", "anna:2") == ["active", "active"], "both were renewed"
        await go_on(cluster, 6, observer)
        assert at_holder(cluster, "anna:1", "anna:2") == ["closed", "closed"], "they end with the first of them"
        assert (observer.up(), observer.free(), observer.wrong) == (DOWN, FREE, [])


async def test_where_one_is_denied_the_others_are_given_back_and_told_why() -> None:
    async with federation() as cluster:
        observer = Observer(cluster)
        await ask(cluster, "anna:1", 2)
        await ask(cluster, "anna:2", 3)
        assert at_holder(cluster, "anna:1", "anna:2") == ["closed", "failed"]
        assert (observer.seen, observer.free()) == ({}, FREE)
        for lease in OF:
            assert re.fullmatch("anna:2 was denied: .*2 units.*", reason(cluster, lease)), reason(cluster, lease)
        with pytest.raises(ActorError, match="group 'job' is over: anna:2 was denied"):
            await cluster.demand("anna", "anna:3", 1, 30, group=JOB, type="node", broker="market")
        await cluster.kill("anna")
        await cluster.restart("anna")
        assert reason(cluster, "anna:1").startswith("anna:2 was denied")
        await go_on(cluster, 14, observer)
        assert [holder(cluster).wish(lease) for lease in OF] == [None, None]
        await cluster.demand("anna", "anna:3", 1, 30, group=JOB, type="node", broker="market")


async def test_a_group_that_does_not_come_whole_ends_with_its_first_term() -> None:
    async with federation() as cluster:
        observer = Observer(cluster)
        await ask(cluster, "anna:1", 2)
        await cluster.kill("anna")
        await cluster.restart("anna")
        await go_on(cluster, 9, observer)
        assert at_holder(cluster, "anna:1") == ["ticketed"]
        await go_on(cluster, 1, observer)
        assert at_holder(cluster, "anna:1") == ["closed"]
        assert reason(cluster, "anna:1") == "its first term was over before it had 1 more lease of 2"
        assert (observer.seen, observer.free()) == ({}, FREE)


@pytest.mark.parametrize("dead", [("anna",), ("anna", "market"), ("anna", "bazaar")])
async def test_what_a_dead_holder_was_promised_comes_free_by_the_clock(dead: tuple[str, ...]) -> None:
    async with federation() as cluster:
        observer = Observer(cluster)
        await ask(cluster, "anna:1", 2)
        for name in dead:
            await cluster.kill(name)
        await go_on(cluster, 10 + LEAVE, observer)
        for name in dead[1:]:
            await cluster.restart(name)
            await cluster.settle()
        assert (observer.seen, observer.free()) == ({}, FREE)


@pytest.mark.parametrize("closed", ["anna:1", "anna:2"])
@pytest.mark.parametrize("when", [0, 3])
async def test_a_member_that_is_closed_takes_the_others_with_it(closed: str, when: int) -> None:
    async with federation() as cluster:
        observer = Observer(cluster)
        for lease in OF:
            await ask(cluster, lease)
        await go_on(cluster, when, observer)
        await cluster.actors["anna"].command("service_manager", "stop", closed)
        await cluster.settle()
        await go_on(cluster, 2, observer)
        assert at_holder(cluster, *OF) == ["closed", "closed"]
        assert reason(cluster, "anna:1") == f"a client has closed {closed}"
        assert (observer.up(), observer.free(), observer.wrong) == (DOWN, FREE, [])


async def test_a_member_whose_site_has_no_units_takes_the_others_with_it() -> None:
    async with federation(options=ActorOptions(seed=0, retry=RetryPolicy(tries=1, pause=0.0))) as cluster:
        observer = Observer(cluster)
        cluster.handlers["west"].world._fails = lambda action, chance: action.verb == "setup"
        for lease in OF:
            await ask(cluster, lease)
        await go_on(cluster, 4, observer)
        assert at_holder(cluster, *OF) == ["closed", "failed"]
        assert reason(cluster, "anna:1").startswith("anna:2 has failed at its site: ")
        assert (observer.up(), observer.free(), observer.wrong) == (DOWN, FREE, [])


async def test_where_one_is_not_extended_none_is_and_all_end_with_their_term() -> None:
    async with federation() as cluster:
        observer = Observer(cluster)
        for lease in OF:
            await ask(cluster, lease)
        with denying({"anna:2": "it is promised to others"}):
            await go_on(cluster, 9, observer)
            assert cluster.states("anna:1") == {"anna": "active_ticketed", "market": "ticketed", "east": "active"}
            assert holder(cluster).undecided("anna:1", 9) == Undecided(
                "its group waits for a longer ticket of anna:2", 10 + LEAVE
            )
            await cluster.kill("anna")
            await go_on(cluster, 5, observer)
            assert observer.up() == DOWN, "the longer ticket was not shown to the site"
            await cluster.restart("anna")
            await cluster.settle()
        await go_on(cluster, 2, observer)
        assert at_holder(cluster, *OF) == ["closed", "closed"]
        assert (observer.free(), observer.wrong) == (FREE, [])


async def test_an_extension_that_is_denied_once_is_asked_for_to_the_same_end() -> None:
    async with federation() as cluster:
        observer = Observer(cluster)
        for lease in OF:
            await ask(cluster, lease)
        with denying({"anna:2": "not yet"}):
            await go_on(cluster, 8, observer)
        assert cluster.states("anna:1")["anna"] == "active_ticketed"
        await go_on(cluster, 4, observer)
        assert at_holder(cluster, *OF) == ["active", "active"]
        ends = {observer._data("anna", RecordKey(lease, "service_manager"))["lease_end"] for lease in OF}
        assert len(ends) == 1
        assert min(ends) > 10 + LEAVE
        assert observer.wrong == []


async def test_all_last_longer_where_one_does() -> None:
    async with federation() as cluster:
        for lease in OF:
            await ask(cluster, lease)
        await cluster.actors["anna"].command("service_manager", "prolong", "anna:2", 50)
        assert [holder(cluster).wish(lease).until for lease in OF] == [50, 50]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"group": {"id": "job"}}, "the count of a group is None; it needs the number of its leases, 2 or more"),
        ({"group": {"id": "job", "count": 1}}, "the count of a group is 1; it needs the number of its leases"),
        ({"group": {"id": "", "count": 2}}, "the id of a group is ''; it needs a name"),
        ({"group": {"id": "job", "count": 2, "of": 3}}, "a group has an `id` and a `count`, and no 'of'"),
        ({"group": {"id": "job", "count": 3}}, "group 'job' is of 2 leases, as anna:1 says, and not of 3"),
        ({"latest_start": 9}, "all terms of group 'job' begin and end together, so none is shorter or later"),
        ({"least_term": 1}, "all terms of group 'job' begin and end together, so none is shorter or later"),
        ({"start": 10}, "start is 10, and the first term of group 'job' is over at 10; let it start earlier"),
    ],
)
async def test_a_lease_that_cannot_be_a_member_is_refused_and_changes_nothing(more: dict[str, Any], why: str) -> None:
    async with federation() as cluster:
        await ask(cluster, "anna:1")
        with pytest.raises(ActorError, match=re.escape(why)):
            await ask(cluster, "anna:2", until=20, **more)
        assert cluster.states("anna:2") == {}
        assert holder(cluster).wish("anna:1").until == 30  # type: ignore[union-attr]


async def test_a_group_takes_no_more_leases_than_it_has() -> None:
    async with federation() as cluster:
        for lease in OF:
            await ask(cluster, lease)
        with pytest.raises(ActorError, match="group 'job' is of 2 leases, and has them: anna:1, anna:2"):
            await cluster.demand("anna", "anna:3", 1, 30, group=JOB, type="node", broker="market")


async def test_a_ticket_for_another_term_than_its_group_asked_for_ends_it() -> None:
    """A broker may grant less than is asked for, where the constant `other_terms` is true."""
    async with federation(settings={"other_terms": True}) as cluster:
        observer = Observer(cluster)
        begin = Arbiter.begin

        def shorter(self: Arbiter, question: Question, now: int) -> list[Decision]:
            decisions = begin(self, question, now)
            return [
                question.answer("granted", **{**d.fields, "longer": -1})
                if d.event == "granted" and d.lease == "anna:2"
                else d
                for d in decisions
            ]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Arbiter, "begin", shorter)
            for lease in OF:
                await ask(cluster, lease)
        await go_on(cluster, 2, observer)
        assert at_holder(cluster, *OF) == ["closed", "closed"]
        assert reason(cluster, "anna:1") == "the ticket of anna:2 ends at 11, and not at 12 as was asked"
        assert (observer.seen, observer.free()) == ({}, FREE)


class Denials:
    """Members that brokers deny, at first or when they are extended."""

    def __init__(self, first: frozenset[str], later: frozenset[str]) -> None:
        self.first, self.later = first, later

    @contextmanager
    def __call__(self) -> Iterator[None]:
        begin = Arbiter.begin

        def denied(policy: Arbiter, question: Question, now: int) -> list[Decision]:
            names = self.later if question.call == "extend" else self.first
            if question.lease.name in names:
                return [question.answer("denied", reason="it is promised to others")]
            return list(begin(policy, question, now))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Arbiter, "begin", denied)
            yield


MEMBERS = st.frozensets(st.sampled_from(sorted(OF)))
TICKS = st.integers(0, 20)
COMES = st.integers(0, 5)
KILLS = st.lists(st.tuples(TICKS, st.sampled_from(["anna", *BROKERS, *SITES])), max_size=4)
UNTIL, TERM = 22, 8


async def played(
    schedule: Schedule, comes: Mapping[str, int], kills: list[tuple[int, str]], denials: Denials, stops: int | None
) -> Observer:
    """A run in which members come when they do; returns who has seen it."""
    with denials():
        async with federation(schedule=schedule) as cluster:
            observer = Observer(cluster)
            for now in range(UNTIL + LEAVE + 4):
                for lease, at in comes.items():
                    if at == now:
                        await command(cluster, "demand", lease, 1, UNTIL, TERM, group=JOB, **OF[lease])
                if stops == now:
                    await command(cluster, "stop", "anna:1")
                for at, name in kills:
                    if at == now:
                        await cluster.kill(name)
                        await cluster.restart(name)
                        await cluster.settle()
                observer.look()
                await cluster.advance(1)
                await cluster.settle()
                observer.look()
            assert observer.wrong == []
            assert (observer.up(), observer.free()) == (DOWN, FREE)
            assert {state for lease in OF for state in cluster.states(lease).values()} <= {"closed", "failed"}
            return observer


async def command(cluster: Federation, *arguments: Any, **options: Any) -> None:
    """A client's command: it may be refused, or its actor may die before it is durable."""
    asked = cluster.actors["anna"].command("service_manager", *arguments, **options)
    await cluster.settle()
    if asked.done() and not asked.cancelled():
        asked.exception()


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(1, 10_000),
    crashes=st.integers(0, 2),
    comes=st.dictionaries(st.sampled_from(sorted(OF)), COMES, min_size=1),
    kills=KILLS,
    first=MEMBERS,
    later=MEMBERS,
    stops=st.none() | TICKS,
)
def test_no_half_of_a_group_is_ever_used(
    seed: int,
    crashes: int,
    comes: dict[str, int],
    kills: list[tuple[int, str]],
    first: frozenset[str],
    later: frozenset[str],
    stops: int | None,
) -> None:
    """Crashes at any points, also at those between two commits, and kills at rest; messages are lost or come twice."""
    schedule = Schedule(seed, Budget(crash=crashes, lose=1, duplicate=1), RunExtent(messages=40, points=150))
    run = played(schedule, comes, kills, Denials(first, later), stops)
    observer = VirtualLoop().run(run)  # type: ignore[abstract]
    if first & comes.keys() or len(comes) < len(OF):
        assert not observer.seen
    if not (first or kills or schedule.faults) and stops is None and len(comes) == len(OF):
        assert observer.seen.keys() == OF.keys()
