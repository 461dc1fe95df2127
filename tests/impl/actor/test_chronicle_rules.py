"""The rules of seals and of dropping, each commit held against a direct reading of them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from leasehold.impl.actor import chronicle
from leasehold.impl.actor.chronicle import followers_of
from leasehold.impl.actor.environment import ActorError, EventSettings
from leasehold.impl.actor.ready import Follow, SealEvents, Tick
from leasehold.impl.core.core import Program
from leasehold.impl.events.event import (
    AnyEvent,
    PrunedEvent,
    RecoveredEvent,
    SealEvent,
    StepEvent,
    read,
)
from leasehold.impl.store.memory import Disk, MemoryStore
from leasehold.impl.store.store import Batch, RecordKey
from tests.impl.actor.alone import program_of
from tests.impl.actor.test_chronicle import FILES, RUN, Tower


@pytest.fixture(scope="module")
def program() -> Program:
    return program_of(FILES)


class Commit(NamedTuple):
    """The events before a commit, and those that it brought."""

    first: int
    last: int
    followers: Mapping[str, int]
    events: list[AnyEvent]
    prune_to: int

    @property
    def own(self) -> list[AnyEvent]:
        """The events that tell of something other than the chain itself."""
        return [event for event in self.events if not isinstance(event, PrunedEvent | SealEvent)]


class Ledger(MemoryStore):
    """A store that writes down what its commits bring."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self.disk, self.commits = disk, list[Commit]()

    async def _commit(self, batch: Batch) -> None:
        positions = self.disk.events or {0: b""}
        followers = followers_of({**self.disk.metadata, **batch.metadata})
        events = [read(body) for body in batch.events]
        self.commits.append(Commit(min(positions), max(positions), followers, events, batch.prune_events_to))
        await super()._commit(batch)


def dropped(commit: Commit, settings: EventSettings, at_once: int) -> tuple[int, tuple[str, ...]]:
    """Returns up to where a commit drops events, 0 for nowhere, and which followers have not read them."""
    first, last = max(1, commit.first), commit.last + len(commit.own)
    chunk = min(at_once, settings.keep // 10) or 1
    most = max(settings.most, settings.keep + chunk)
    full = last - first + 1 > most
    if last - first + 1 < settings.keep + chunk:
        return 0, ()
    for until in range(commit.last, first - 1, -1):  # those that this commit brings stay
        enough = last - until >= settings.keep
        unread = tuple(sorted(name for name, position in commit.followers.items() if position < until))
        forced = full and last - until >= most
        if enough and (not unread or forced) and (full or until - first + 1 >= chunk):
            return until, unread
    return 0, ()


async def crowd(t: Tower, chance: random.Random, rounds: int, acknowledged: bool) -> None:
    """Bells ring, some in one turn, while followers read, fall back and leave."""
    bells = [f"own:{n}" for n in range(1, 6)]
    followers = dict[str, int]()
    for _ in range(rounds):
        some = chance.sample(bells, chance.randint(1, 5))
        await asyncio.gather(*(ring(t, bell) for bell in some))
        await asyncio.sleep(1)
        assert t.actor.chronicle.first == min(t.disk.events)
        if acknowledged and chance.random() < 0.6:
            name, last = chance.choice(("one", "two")), t.actor.chronicle.head.position
            followers[name] = chance.randint(max(0, last - 30), last)
            await t.actor.queue.put(Follow(name, followers[name]))


async def ring(t: Tower, run: str) -> Any:
    if RecordKey(run, RUN.machine) in t.actor.table.instances:
        return await t.actor.tell(run, RUN.machine, "ring", {"note": None})
    return await t.actor.begin(run, RUN.machine, "ring", {"note": None}, {})


@pytest.mark.parametrize("acknowledged", [False, True])
@pytest.mark.parametrize(
    ("keep", "most", "at_once"),
    [(1, 1, 1000), (9, 9, 1000), (10, 12, 1000), (20, 25, 1000), (25, 60, 1000), (45, 50, 1000), (45, 60, 2)],
)
async def test_a_commit_drops_what_the_rule_says(
    program: Program, keep: int, most: int, at_once: int, acknowledged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every commit of a long life drops up to the position that a direct reading of the rule gives."""
    settings = EventSettings(keep=keep, most=most, seal_events=10**6, seal_seconds=10**6)
    monkeypatch.setattr(chronicle, "CHUNK", at_once)
    commits: list[Commit] = []
    overtaken: list[str] = []
    t = Tower(program, settings)
    store = Ledger(t.disk)
    await t.start(store)
    await crowd(t, random.Random(keep + most), 40, acknowledged)
    commits.extend(store.commits)
    assert t.actor.counts["followers overtaken"] == sum(
        len(event.overtaken) for commit in commits for event in commit.events if isinstance(event, PrunedEvent)
    )
    for commit in commits:
        until, unread = dropped(commit, settings, at_once)
        assert commit.prune_to == until
        pruned = [event for event in commit.events if isinstance(event, PrunedEvent)]
        assert [(event.until, event.overtaken) for event in pruned] == ([(until, unread)] if until else [])
        overtaken += unread
    assert sum(commit.prune_to > 0 for commit in commits) >= 3
    assert bool(overtaken) is (acknowledged and most - keep < 30)


def sealed(commits: list[Commit], starts: list[float], settings: EventSettings, asked: set[int]) -> list[str]:
    """Returns for each commit why it ends with a seal, or nothing."""
    found = list[str]()
    waiting, since = 0, 0.0
    for number, commit in enumerate(commits):
        wall = commit.events[-1].time if commit.events else 0.0
        since = max(since if waiting else wall, *(at for at in (0.0, *starts) if at <= wall))
        waiting += len(commit.own)
        if waiting >= settings.seal_events:
            why = "many"
        elif number in asked:
            why = "asked"
        else:
            why = "time" if waiting and wall - since >= settings.seal_seconds else ""
        found.append(why)
        waiting = 0 if why else waiting
    return found


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("many", "seconds"), [(4, 3.0), (1, 50.0), (12, 2.0), (50, 1.0)])
async def test_a_commit_is_sealed_when_the_rule_says(program: Program, seed: int, many: int, seconds: float) -> None:
    """Every commit of several lives ends with the seal that a direct reading gives, and no tick passes one over."""
    settings = EventSettings(seal_events=many, seal_seconds=seconds)
    commits, starts, asked = list[Commit](), list[float](), set[int]()
    t = Tower(program, settings)
    chance = random.Random(seed)
    for _ in range(3):
        starts.append(t.clock.wall())
        store = Ledger(t.disk)
        await t.start(store)
        for _ in range(12):
            bells = chance.sample(range(1, 4), chance.choice((0, 1, 1, 2)))
            await asyncio.gather(*(ring(t, f"own:{n}") for n in bells))
            await asyncio.sleep(1)
            if chance.random() < 0.2 and t.actor.chronicle.unsealed:
                asked.add(len(commits) + len(store.commits))
                await t.actor.queue.put(SealEvents("asked"))
            await t.clock.time.elapse(chance.choice((0, 0, 1, 2)))
            assert not t.actor.chronicle.unsealed or t.clock.wall() - oldest(t, starts[-1]) < max(seconds, 1)
        commits.extend(store.commits)
        await t.crash()
        await t.clock.time.elapse(2)
    kept = [(n, commit) for n, commit in enumerate(commits) if commit.events]
    said = [next((e.why for e in c.events if isinstance(e, SealEvent)), "") for _, c in kept]
    assert said == sealed([c for _, c in kept], starts, settings, {at for at, (n, _) in enumerate(kept) if n in asked})
    assert len(said) > 30
    assert "many" in said or "time" in said


def oldest(t: Tower, started: float) -> float:
    """When the oldest event that no seal vouches for was written, or the actor started, if that was later."""
    after = t.actor.chronicle.head.sealed
    return max(started, min(event.time for event in t.events if event.position > after))


async def test_refusals_come_before_the_steps_after_them(program: Program) -> None:
    """Order of what waits for a commit, and each of it is written once."""
    t = Tower(program)
    await t.start()
    await t.ring()
    for _ in range(2):
        with pytest.raises(ActorError, match="breaks the contract"):
            await t.actor.tell(*RUN, "crack")
    await t.ring()
    await t.ring()
    assert t.kinds == ["Recovered", "Step", "Step", "Refused", "Refused", *["Step"] * 4]


async def test_times_of_events_are_milliseconds(program: Program) -> None:
    """The wall clock is written as it is to the thousandth of a second."""
    t = Tower(program)
    t.clock.wall = lambda: 7.1234567  # type: ignore[method-assign]
    await t.start()
    await t.ring()
    assert {event.time for event in t.events} == {7.123}


@pytest.mark.parametrize("before", [0, 1, 3])
async def test_commits_without_events_are_counted_only_from_a_chain_on(program: Program, before: int) -> None:
    """A chain that begins with records tells of no commits before it; one that goes on tells of those since."""
    t = Tower(program)
    settings = t.settings
    for on in (False, True, False, True):
        t.settings = settings if on else None
        await t.start()
        for _ in range(1 if on else before):
            await t.ring()
        await t.crash()
    found = [event.unrecorded for event in t.events if isinstance(event, RecoveredEvent)]
    assert found == [0, 2 * before]


@pytest.mark.parametrize("count", [99, 100])
async def test_known_followers_go_on_however_many_there_are(program: Program, count: int) -> None:
    """The limit is for new names; one that is let go makes room, and position 0 is an acknowledgement."""
    t = Tower(program)
    await t.start()
    await t.ring()
    for n in range(count):
        await t.actor.queue.put(Follow(f"f{n}", 0))
    assert followers_of(t.disk.metadata) == {f"f{n}": 0 for n in range(count)}
    await t.actor.queue.put(Follow("f7", 2))
    for bad in (-1, 4):
        with pytest.raises(ActorError, match=f"event {bad} has not been written yet"):
            await t.actor.queue.put(Follow("f8", bad))
    if count == 100:
        with pytest.raises(ActorError, match="100 followers are the most"):
            await t.actor.queue.put(Follow("new", 3))
        await t.actor.queue.put(Follow("f9", None))
        with pytest.raises(ActorError, match="no follower 'f9' is known here"):
            await t.actor.queue.put(Follow("f9", None))
    await t.actor.queue.put(Follow("new", 3))
    known = t.actor.chronicle.followers()
    assert known == followers_of(t.disk.metadata)
    assert list(known) == sorted(known)
    assert (known["f7"], known["f8"], known["new"], len(known)) == (2, 0, 3, 100)


async def test_steps_are_all_there_between_first_and_last(program: Program) -> None:
    """A chain that is pruned in every turn has its positions without a gap, and verifies."""
    t = Tower(program, EventSettings(keep=1, most=1, seal_events=10**6, seal_seconds=10**6))
    await t.start()
    await crowd(t, random.Random(5), 20, True)
    positions = list(t.disk.events)
    assert positions == list(range(positions[0], positions[-1] + 1))
    assert t.verified().first == positions[0] > 1
    assert any(isinstance(event, StepEvent) for event in t.events)


@pytest.mark.parametrize("elapsed", [0.0, 2.998, 2.999, 3.0, 3.001, 9.0])
@pytest.mark.parametrize("restarted", [False, True])
async def test_time_of_a_seal_to_the_millisecond(program: Program, elapsed: float, restarted: bool) -> None:
    """A commit that no tick comes before is sealed from the limit on, counted from the oldest event or the start."""
    t = Tower(program, EventSettings(seal_events=1000, seal_seconds=3.0))
    wall = [100.0]
    t.clock.wall = lambda: wall[0]  # type: ignore[method-assign]
    await t.start()
    await t.ring()
    if restarted:
        await t.crash()
        wall[0] += 50.0
        await t.start()
    wall[0] += elapsed
    await t.ring()
    assert ("Seal" in t.kinds) is (elapsed >= 3.0)
    assert [event.why for event in t.events if isinstance(event, SealEvent)] == ["time"] * (elapsed >= 3.0)


@pytest.mark.parametrize("elapsed", [0.0, 3.0, 9.0])
@pytest.mark.parametrize("ticks", [0, 1])
async def test_a_seal_that_was_asked_for_says_so_however_late_it_is(
    program: Program, elapsed: float, ticks: int
) -> None:
    """The reason of a client is kept where time has passed too; a tick in the same turn, not late, takes none away."""
    t = Tower(program, EventSettings(seal_events=1000, seal_seconds=3.0))
    wall = [100.0]
    t.clock.wall = lambda: wall[0]  # type: ignore[method-assign]
    await t.start()
    await t.ring()
    wall[0] += elapsed
    ask, tick = SealEvents("asked"), Tick(t.clock.now())
    await asyncio.gather(*(t.actor.queue.put(request) for request in (ask, *[tick] * ticks)))
    assert [event.why for event in t.events if isinstance(event, SealEvent)] == ["asked"]
