"""The events of a running actor, of its store and of a file: the same lines, read by position and acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result

from leasehold.cli.events import events as verb
from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.events.chain import ChainVerifier
from leasehold.impl.events.event import read
from leasehold.impl.events.lines import EventLines, verify_lines
from leasehold.impl.identity import trust_file
from leasehold.impl.server import event_feed
from leasehold.impl.server.client import Client, ClientError, Unreachable
from leasehold.impl.server.event_source import open_source
from leasehold.impl.store.sqlite import SqliteStore
from tests.impl.server.test_control import listening


@asynccontextmanager
async def leased(path: Path) -> AsyncIterator[tuple[Cluster, Any]]:
    """A lease that is active, and the site's control socket."""
    async with Cluster() as c, listening(c.site, c.system, path) as ask:
        await c.lease(1, 50, 10, "tenant:1")
        await c.settle()
        yield c, ask


@asynccontextmanager
async def told(tmp_path: Path) -> AsyncIterator[tuple[Cluster, Any, Path]]:
    async with leased(tmp_path / "site.sock") as (c, ask):
        yield c, ask, tmp_path / "site.sock"


@pytest.mark.real_time
async def test_each_page_has_what_comes_next(tmp_path: Path) -> None:
    """Events from each position, as many as are asked for, or all that there are."""
    async with told(tmp_path) as (c, _, _):
        feed = event_feed.EventFeed(c.site)
        last = c.site.chronicle.head.position
        whole = [*EventLines(await feed.read(0, last))]
        assert len(whole) == last > 3
        for after in range(last + 1):
            for limit in (1, 2, 3, last):
                assert [*EventLines(await feed.read(after, limit))] == whole[after : after + limit], (after, limit)


@pytest.mark.real_time
async def test_an_actor_that_has_written_nothing_yet_has_a_page_without_events(tmp_path: Path) -> None:
    """No events from the beginning; from a later position it is said that there is none."""
    async with told(tmp_path) as (c, _, _):
        empty = SqliteStore(tmp_path / "empty.db")
        await empty.open("site")
        actor = SimpleNamespace(store=empty, chronicle=SimpleNamespace(first=0), identity=c.site.identity)
        feed = event_feed.EventFeed(cast(Any, actor))
        assert [*EventLines(await feed.read(0, 10))] == []
        with pytest.raises(ActorError, match="event 1 has not been written yet"):
            await feed.read(1, 10)
        await empty.close()


@pytest.mark.real_time
async def test_a_follower_reads_page_by_page_and_acknowledges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_feed, "PAGE", 3)
    async with told(tmp_path) as (c, ask, _):
        last = c.site.chronicle.head.position
        verifier, after, pages = ChainVerifier(c.site.identity.trust, "site"), 0, 0
        while True:
            lines = EventLines((await ask("read", "events", after=str(after))).splitlines())
            bodies = [*lines]
            for body in bodies:
                after = verifier.take(body).position
            assert lines.check_end(verifier).sealed == after  # each page is signed
            if not bodies:
                break
            state = await ask("post", "followers", "verifier", "acknowledge", str(after))
            assert state["followers"] == {"verifier": after}
            pages += 1
        assert (after, pages) == (last, -(-last // 3))
        assert (await ask("post", "followers", "verifier", "leave"))["followers"] == {}
        state = await ask("post", "events", "seal")
        assert (state["last"], state["sealed"]) == (last + 1, last + 1)
        again = await ask("get", "events", "state")
        assert {**again, "time": 0} == {**state, "time": 0}
        assert again["time"] >= state["time"]


@pytest.mark.real_time
async def test_what_cannot_be_read_or_acknowledged_is_said(tmp_path: Path) -> None:
    async with told(tmp_path) as (c, ask, _):
        for how, place, given, words in (
            ("read", ("events",), {"after": "x"}, "a position or limit is a number, not 'x'"),
            ("read", ("events",), {"after": "999"}, "event 999 has not been written yet"),
            ("post", ("followers", "v", "acknowledge", "999"), {}, "event 999 has not been written yet"),
            ("post", ("followers", "v", "leave"), {}, "no follower 'v' is known here"),
            ("post", ("followers", "-v", "acknowledge", "1"), {}, "'-v' cannot be a follower's name"),
        ):
            with pytest.raises(ClientError, match=words):
                await ask(how, *place, **given)
        c.site.chronicle.first = 4
        with pytest.raises(ClientError, match="the events up to 3 are dropped; read on after that one"):
            await ask("read", "events", after="2")
        left = EventLines((await ask("read", "events", after="3")).splitlines())  # 3 is the last that is dropped
        assert read(next(iter(left))).position == 4


@pytest.mark.real_time
async def test_each_position_around_what_is_dropped_and_the_end(tmp_path: Path) -> None:
    """Events from 4 on are there: who has read the third goes on, and so does who begins anew; no other below."""
    async with told(tmp_path) as (c, ask, _):
        events, last = c.disks["site"].events, c.site.chronicle.head.position
        for position in (1, 2, 3):
            del events[position]
        c.site.chronicle.first = 4
        for after in (1, 2, last + 1):
            with pytest.raises(ClientError, match=r"are dropped|has not been written yet"):
                await ask("read", "events", after=str(after))
        for after in (0, *range(3, last + 1)):
            bodies = EventLines((await ask("read", "events", after=str(after))).splitlines())
            assert [read(body).position for body in bodies] == [*range(max(after, 3) + 1, last + 1)]


def invoked(*words: object) -> Result:
    return CliRunner().invoke(verb, [str(word) for word in words])


@pytest.mark.real_time
async def test_an_actor_a_store_and_a_file_give_the_same_events(tmp_path: Path) -> None:
    """The events of an actor, as the command line shows and verifies them."""
    trust = tmp_path / "trust.yaml"
    async with told(tmp_path) as (c, _, path):
        trust_file.save(trust, c.site.identity.trust)
        bodies = [*c.disks["site"].events.values()]

        def look() -> None:
            found = invoked(path, "--trust", trust)
            assert (found.exit_code, found.stderr) == (
                0,
                f"events 1 to {len(bodies)} are as they were written; all of them are sealed\n",
            )
            assert "tenant:1 authority nascent -> priming: redeem from service_manager (1)" in found.stdout
            assert len(found.stdout.splitlines()) == len(bodies)
            assert len(invoked(path, "--after", 3).stdout.splitlines()) == len(bodies) - 3
            file = tmp_path / "site.jsonl"
            file.write_bytes(invoked(path, "--json").stdout_bytes)
            assert [*EventLines(file.read_bytes().splitlines())] == bodies
            assert invoked(file).stdout == found.stdout
            assert invoked(file, "--trust", trust).exit_code == 0
            lines = file.read_bytes().splitlines(keepends=True)
            for changed, words in (
                (lines[:3] + lines[4:], f"event 3 of {file}: it is missing: event 4 comes in its place"),
                (lines[:-1], "the last line is missing"),
                ([], "there is no line of events"),
            ):
                file.write_bytes(b"".join(changed))
                wrong = invoked(file, "--trust", trust)
                assert (wrong.exit_code, words in wrong.stderr) == (1, True), wrong.stderr
            after = invoked(path, "--json", "--after", 3, "--trust", trust)
            assert after.exit_code == 0
            assert verify_lines(c.site.identity.trust, after.stdout_bytes.splitlines()).first == 4

        await asyncio.to_thread(look)


async def written(actor: Actor, store: SqliteStore) -> list[bytes]:
    """The events that an actor has committed, in a store as that actor would have it."""
    from leasehold.impl.store.store import Batch

    bodies = [body async for _, body in actor.store.events()]
    await store.open("site")
    await store.commit(Batch(metadata=await actor.store.metadata(), events=bodies))
    return bodies


@pytest.mark.real_time
async def test_a_store_is_read_while_its_actor_runs_and_its_head_says_where_it_ends(tmp_path: Path) -> None:
    trust, url = tmp_path / "trust.yaml", f"sqlite:{tmp_path / 'site.db'}"
    async with told(tmp_path) as (c, _, _):
        from leasehold.impl.store.store import Batch

        trust_file.save(trust, c.site.identity.trust)
        store = SqliteStore(tmp_path / "site.db")
        bodies = await written(c.site, store)
        found = await asyncio.to_thread(invoked, url, "--json", "--trust", trust)
        assert found.exit_code == 0, found.stderr
        assert [*EventLines(found.stdout_bytes.splitlines())] == bodies
        file = tmp_path / "copy.jsonl"
        file.write_bytes(found.stdout_bytes)
        assert "nobody has signed that events end here" in invoked(file, "--trust", trust).stderr
        assert invoked(file, "--trust", trust, "--unsigned").exit_code == 0
        head = (await store.metadata())["events"]
        await store.commit(
            Batch(metadata={"events": head.replace(b"%d " % len(bodies), b"%d " % (len(bodies) + 1), 1)})
        )
        found = await asyncio.to_thread(invoked, url, "--trust", trust)
        assert found.exit_code == 1
        assert f"event {len(bodies) + 1} of {url}: it is missing" in found.stderr
        await store.close()


def test_a_source_that_is_not_there_is_said(tmp_path: Path) -> None:
    for words, code, said in (
        (tmp_path / "no.sock", 2, "there is nothing at"),
        ("sqlite:/nowhere/no.db", 2, "there is no such file"),
        ("redis:x", 2, "names no store"),
        (tmp_path, 2, "there is no socket of an actor in"),
    ):
        found = invoked(words)
        assert (found.exit_code, said in found.stderr) == (code, True), found.stderr
    with pytest.raises(Unreachable):
        open_source(str(tmp_path / "no.sock"))


@pytest.mark.real_time
async def test_one_of_several_actors_is_named(tmp_path: Path) -> None:
    one, two = tmp_path / "site.sock", tmp_path / "broker.sock"
    async with Cluster() as c, listening(c.site, c.system, one), listening(c.broker, c.system, two):
        with pytest.raises(Unreachable, match="has the sockets of broker, site; name one"):
            open_source(str(tmp_path))
        assert open_source(str(tmp_path), "broker").live


@pytest.mark.real_time
async def test_the_client_takes_what_is_no_json(tmp_path: Path) -> None:
    async with told(tmp_path) as (_, _, path):
        body = await asyncio.to_thread(Client(path).read, "events", after="0")
        assert read(body.splitlines()[1]).position == 1
