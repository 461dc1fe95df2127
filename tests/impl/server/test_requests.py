"""Requests at the control socket: each key, each status, each argument that is carried, and all that is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.table import BELOW
from leasehold.impl.core.values import to_plain
from leasehold.impl.core.work import Outcome
from leasehold.impl.events.event import FoundEvent, RefusedEvent, read
from leasehold.impl.server import client, control
from leasehold.impl.server.client import Client, ClientError, NotFound
from leasehold.impl.server.control import DEMANDS, GROWS, SLICE_LISTS, ControlSocket
from leasehold.impl.server.views import Views
from leasehold.impl.store.store import RecordKey
from tests.impl.server.test_control import listening

pytestmark = pytest.mark.real_time

Ask = Callable[[str, str, Any], Awaitable[tuple[int, Any]]]
VALUES: dict[str, Any] = {
    "units": 2,
    "until": 50,
    "term": 10,
    "start": 3,
    "type": "node",
    "properties": {"a": 1},
    "configuration": {"b": 2},
    "local": {"c": 3},
    "after": ["tenant:1"],
    "broker": "market",
    "site": "rack",
    "least": 1,
    "least_term": 4,
    "group": {"id": "job", "count": 2},
    "latest_start": 9,
    "slice": "web",
    "remove": True,
    "lease": "tenant:7",
    "soon": True,
    "victims": [4],
    "machine": "broker",
    "event": "ticket",
    "fields": {"d": 4},
    "peers": {"broker": "b"},
}
OTHERS: dict[type, Any] = {int: True, str: 7, dict: [], list: {}, bool: 1}  # of each type, a value of another
PLACES = {"demand": "/demand", **{what: f"/leases/tenant:9/{what}" for what in ("flex", "prolong", "stop")}}
BEGIN: tuple[dict[str, type], dict[str, type]] = (
    {"machine": str, "event": str},
    {"fields": dict, "peers": dict, "lease": str},
)
TELL: tuple[dict[str, type], dict[str, type]] = ({"event": str}, {"machine": str, "fields": dict})
REQUESTS = {
    **{PLACES[what]: keys for what, keys in DEMANDS.items()},
    "/slices/web": ({}, SLICE_LISTS),
    "/begin": BEGIN,
    "/leases/tenant:9/tell": TELL,
    "/units/unit-0/tell": ({"event": str}, {"fields": dict}),
}


def raw(path: Path, method: str, place: str, body: Any) -> tuple[int, Any]:
    """Asks with any body; returns the status and what is answered."""
    connection = client._UnixConnection(path, 30.0)
    connection.request(method, place, body if isinstance(body, bytes | None) else json.dumps(body))
    response = connection.getresponse()
    content = response.read()
    connection.close()
    plain = response.getheader("Content-Type", "").startswith("application/json")
    return response.status, json.loads(content) if plain else content


@asynccontextmanager
async def heard(tmp_path: Path, who: str = "tenant") -> AsyncIterator[tuple[Cluster, Ask, list[Any]]]:
    """An actor that notes what it is asked for, and does nothing of it."""
    async with Cluster(2) as c, listening(c.actors[who], c.system, tmp_path / "a.sock"):
        actor, calls = c.actors[who], list[Any]()

        async def noted(*given: Any, **named: Any) -> Outcome:
            calls.append((*given, named) if named else given)
            return Outcome("taken", "an event", "a/b#c", reason="why")

        for name in ("command", "begin", "tell"):
            setattr(actor, name, noted)

        async def ask(method: str, place: str, body: Any) -> tuple[int, Any]:
            return await asyncio.to_thread(raw, tmp_path / "a.sock", method, place, body)

        yield c, ask, calls


# The body of a request


@pytest.mark.real_time
@pytest.mark.parametrize("place", REQUESTS)
async def test_each_key_of_a_request_is_looked_at(place: str, tmp_path: Path) -> None:
    """One that is missing, unknown, or of another type is said, and nothing is asked for."""
    needed, may = REQUESTS[place]
    full = {name: VALUES[name] for name in (*needed, *may)}
    async with heard(tmp_path) as (_, ask, calls):
        for name, kind in {**needed, **may}.items():
            wrong = {**full, name: OTHERS[kind]}
            words = f"`{name}` is {str(OTHERS[kind])[:60]!r}, and not of type {kind.__name__}"
            assert await ask("POST", place, wrong) == (400, {"error": words})
        for name in needed:
            lacking = {key: value for key, value in full.items() if key != name}
            assert await ask("POST", place, lacking) == (400, {"error": f"`{name}` is missing"})
        known = ", ".join((*needed, *may))
        words = f"there is no 'more' here (there are: {known})"
        assert await ask("POST", place, {**full, "more": 1}) == (400, {"error": words})
        for body in ([], "text", 1, None):
            given = json.dumps(body).encode()
            assert await ask("POST", place, given) == (400, {"error": "the request is no JSON object"})
        for body, words in ((b"{", "the request is no JSON: "), (b'"\xff"', "the request is no JSON: ")):
            status, said = await ask("POST", place, body)
            assert (status, said["error"][: len(words)]) == (400, words)
        status, said = await ask("POST", place, b"[" * 20_000 + b"]" * 20_000)
        assert (status, "nested too deep; " in said["error"]) == (400, True)
        status, said = await ask("POST", place, b" " * (control.LARGEST + 1))
        assert (status, said["error"]) == (413, "the request is larger than 64 KiB, the most that is taken")
        if needed:
            assert (await ask("POST", place, b""))[0] == 400  # no body is an empty object
        assert calls == []


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("what", "name", "good", "bad"),
    [
        ("demand", "after", [], [1]),
        ("demand", "after", ["tenant:1", "tenant:2"], ["tenant:1", None]),
        ("flex", "victims", [], ["1"]),
        ("flex", "victims", [1, 2], [1, True]),
    ],
)
async def test_each_member_of_a_list_is_looked_at(
    what: str, name: str, good: list[Any], bad: Any, tmp_path: Path
) -> None:
    needed = {key: VALUES[key] for key in DEMANDS[what][0]}
    async with heard(tmp_path) as (_, ask, calls):
        kind = control.MEMBERS[name].__name__
        words = f"`{name}` is {str(bad)[:60]!r}, and not a list of {kind}"
        assert await ask("POST", PLACES[what], {**needed, name: bad}) == (400, {"error": words})
        assert calls == []
        assert (await ask("POST", PLACES[what], {**needed, name: good}))[0] == 200
        assert calls[0][-1] == {name: good}


# What is carried to the actor


@pytest.mark.real_time
@pytest.mark.parametrize("what", DEMANDS)
async def test_each_key_of_a_demand_is_carried_to_the_policy(what: str, tmp_path: Path) -> None:
    """Arguments that are needed come in their order, optional ones by name, and none that is not given."""
    needed, may = DEMANDS[what]
    options = [name for name in may if name != "lease"]
    async with heard(tmp_path) as (_, ask, calls):
        arguments = [VALUES[name] for name in needed]
        first = {name: VALUES[name] for name in needed}
        for given in ([], options, *([name] for name in options)):
            chosen = {name: VALUES[name] for name in given}
            body = {**first, **chosen, **({"lease": "tenant:7"} if what == "demand" else {})}
            answer = {"lease": "tenant:7"} if what == "demand" else {}
            assert await ask("POST", PLACES[what], body) == (200, answer)
            lease = "tenant:7" if what == "demand" else "tenant:9"
            expected = ("service_manager", what, lease, *arguments)
            assert calls.pop() == ((*expected, chosen) if chosen else expected)
        assert calls == []


@pytest.mark.real_time
@pytest.mark.parametrize("what", DEMANDS)
async def test_an_actor_whose_policies_take_no_demand_says_which_it_has(what: str, tmp_path: Path) -> None:
    body = {name: VALUES[name] for name in DEMANDS[what][0]}
    async with heard(tmp_path, "broker") as (c, ask, calls):
        place = PLACES[what].replace("tenant", "broker")
        assert await ask("POST", place, body) == (409, {"error": f"broker (broker) has no policy that takes a {what}"})
        c.broker.environment.policies.clear()  # type: ignore[attr-defined]
        words = f"broker (no role with a policy) has no policy that takes a {what}"
        assert await ask("POST", place, body) == (409, {"error": words})
        assert calls == []


@pytest.mark.real_time
async def test_what_begins_is_carried_to_the_actor_with_the_peers_that_it_knows(tmp_path: Path) -> None:
    async with heard(tmp_path) as (c, ask, calls):
        own = dict(c.tenant.environment.peers)
        assert own
        body = {"machine": "broker", "event": "ticket"}
        assert await ask("POST", "/begin", body) == (200, {"lease": "tenant:1"})
        assert calls.pop() == ("tenant:1", "broker", "ticket", {}, own)
        body |= {"fields": {"d": 4}, "peers": {"broker": "b", "authority": "a"}, "lease": "tenant:7"}
        assert await ask("POST", "/begin", body) == (200, {"lease": "tenant:7"})
        assert calls.pop() == ("tenant:7", "broker", "ticket", {"d": 4}, {**own, "broker": "b", "authority": "a"})
        body["lease"] = "site:7"
        words = "what begins here is named tenant:NUMBER, not 'site:7'"
        assert await ask("POST", "/begin", body) == (400, {"error": words})
        assert calls == []


async def test_an_event_is_told_to_the_machine_that_takes_it(tmp_path: Path) -> None:
    """The one that is named, or that of the lease which has such an event; a unit only where it is named."""
    async with Cluster(2) as c, listening(c.tenant, c.system, tmp_path / "a.sock"):
        lease = await c.lease(1, until=50)
        calls = list[Any]()

        async def noted(*given: Any) -> Outcome:
            calls.append(given)
            return Outcome("taken", "close", "a/b#c", reason="why")

        c.tenant.tell = noted  # type: ignore[method-assign, assignment]

        async def ask(place: str, **body: Any) -> tuple[int, Any]:
            return await asyncio.to_thread(raw, tmp_path / "a.sock", "POST", place, body)

        tell = f"/leases/{lease}/tell"
        said = {"machine": "service_manager", "kind": "taken", "transition": "a/b#c", "reason": "why"}
        assert await ask(tell, event="close") == (200, said)
        assert calls.pop() == (lease, "service_manager", "close", {})
        assert await ask(tell, event="close", machine="service_manager", fields={"d": 4}) == (200, said)
        assert calls.pop() == (lease, "service_manager", "close", {"d": 4})
        assert await ask(tell, event="left", machine="guest[0]") == (200, {**said, "machine": "guest[0]"})
        assert calls.pop() == (lease, "guest[0]", "left", {})
        for place, body, words in (
            (tell, {"event": "clse"}, f"no machine of {lease} here takes 'clse'; did you mean close? (service_man"),
            (tell, {"event": "broken"}, f"no machine of {lease} here takes 'broken'"),
            (tell, {"event": "close", "machine": "guest[0]"}, f"no machine of {lease} here takes 'close'"),
            (
                tell,
                {"event": "close", "machine": "gest[0]"},
                f"{lease} has no machine 'gest[0]' here; did you",
            ),
            ("/leases/tenant:9/tell", {"event": "close"}, "there is no lease or run tenant:9 here"),
            ("/leases/-/tell", {"event": "close"}, "there is no lease or run - here"),
        ):
            status, answer = await ask(place, **body)
            assert (status, answer["error"][: len(words)]) == (404, words)
        assert calls == []


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("raised", "status", "words"),
    [
        (ActorError("it cannot be"), 409, "it cannot be"),
        (ValueError("odd"), 409, "odd"),
        (control.Rejected(418, "a teapot"), 418, "a teapot"),
    ],
)
async def test_an_error_is_answered_with_its_status_and_words(
    raised: Exception, status: int, words: str, tmp_path: Path
) -> None:
    async with heard(tmp_path) as (c, ask, _):

        async def fails(*given: Any, **named: Any) -> None:
            raise raised

        c.tenant.begin = fails  # type: ignore[method-assign]
        body = {"machine": "broker", "event": "ticket"}
        assert await ask("POST", "/begin", body) == (status, {"error": words})
        for method, place, code in (("GET", "/nowhere", 404), ("GET", "/begin", 405), ("POST", "/about", 405)):
            answered, said = await ask(method, place, None)
            assert (answered, [*said]) == (code, ["error"])


# When nothing is taken


@pytest.mark.real_time
@pytest.mark.parametrize("place", [*REQUESTS, "/leases/tenant:9/recover", "/units/unit-0/recover", "/events/seal"])
async def test_while_the_disk_is_full_what_grows_is_refused_and_nothing_else(place: str, tmp_path: Path) -> None:
    full = {name: VALUES[name] for name in chain.from_iterable(REQUESTS.get(place, ()))}
    async with heard(tmp_path) as (c, ask, _):
        type(c.tenant.store).low = property(lambda store: True)  # type: ignore[assignment, method-assign]
        try:
            status, said = await ask("POST", place, full)
            told = await ask("GET", "/leases", None)
        finally:
            del type(c.tenant.store).low
        words = "the disk of its store is full: leases end, and none begins; free some space on it"
        assert (said == {"error": words}) == (place.rpartition("/")[2] in (*GROWS, "web"))
        assert (status == 503) == (said == {"error": words})
        assert told == (200, [])


async def test_while_the_store_is_broken_only_the_actor_and_its_metrics_are_told(tmp_path: Path) -> None:
    async with Cluster(2) as c:
        socket = ControlSocket(c.site, Views(c.site, c.system, 1.0), lambda: (b"m 1\n", "text/plain"))
        await socket.start(tmp_path / "a.sock")

        async def ask(place: str) -> tuple[int, Any]:
            return await asyncio.to_thread(raw, tmp_path / "a.sock", "GET", place, None)

        places = ("/about", "/metrics", "/leases", "/units", "/states", "/events", "/events/state")
        assert [(await ask(place))[0] for place in places] == [200] * 7
        c.site.running = False
        assert [(await ask(place))[0] for place in places] == [200, 200, 503, 503, 503, 503, 503]
        assert (await ask("/metrics"))[1] == b"m 1\n"
        c.site.running = True
        await socket.close()
        await socket.close()
        assert not (tmp_path / "a.sock").exists()
        bare = ControlSocket(c.site, Views(c.site, c.system, 1.0))
        await bare.start(tmp_path / "a.sock")
        assert await ask("/metrics") == (404, {"error": "this actor has no metrics"})
        await bare.close()


# What is told


async def test_an_actor_tells_of_itself_as_it_is(tmp_path: Path) -> None:
    """Each value next to the part of the actor that it is of."""
    async with Cluster(2) as c, listening(c.site, c.system, tmp_path / "a.sock") as ask:
        await c.lease(1, until=50)
        await c.advance(3)
        for actor in c.actors.values():
            views = Views(actor, c.system, 2.5, "/a/lease")
            told = views.about()
            roles = {"tenant": ["service_manager"], "broker": ["broker"], "site": ["authority"]}
            assert told == {
                "name": actor.identity.name,
                "roles": roles[actor.identity.name],
                "system": "lease",
                "folder": "/a/lease",
                "spec_digest": c.program.digest,
                "agreement": actor.codec.agreement,
                "constants": dict(c.program.constants),
                "address": actor.codec.address,
                "epoch": 1,
                "running": True,
                "idle": actor.idle,
                "low": "",
                "now": 3,
                "tick_seconds": 2.5,
                "machines": len(actor.table.instances),
                "units": 2 if actor is c.site else 0,
                "messages_waiting": len(actor.outbox),
                "messages_on_their_way": dict(actor.outbox.on_their_way()),
                "handlers_at_work": actor.calls.under_way(),
                "counts": dict(actor.counts),
                "takes_demands": actor is c.tenant,
            }
            assert told["machines"] > 0
        assert (await ask("get", "about"))["name"] == "site"
        assert await ask("get", "states") == {"authority": {"active": 1}, "unit": {"active": 1}}


async def test_queries_tell_what_can_be_had_and_are_answered_so_often_and_no_more(tmp_path: Path) -> None:
    async with Cluster(2) as c:
        for actor, role in ((c.broker, "broker"), (c.site, "authority")):
            async with listening(actor, c.system, tmp_path / f"{role}.sock") as ask:
                said = (await ask("get", "query"))["answers"][role]["inventory"]
                assert [(entry["type"], entry["units"]) for entry in said] == [("unit", 2)]
                assert [period["units"] for period in said[0]["free"]] == [2]
        async with listening(c.tenant, c.system, tmp_path / "tenant.sock") as ask:
            assert (await ask("get", "query"))["answers"] == {}, "it has nothing to give"

            async def often() -> None:
                for _ in range(200):
                    await ask("get", "query")

            with pytest.raises(ClientError, match="tenant answers 5 queries a second; ask later"):
                await often()


async def test_an_actor_asks_another_what_can_be_had_of_it(tmp_path: Path) -> None:
    async with Cluster(2) as c, listening(c.tenant, c.system, tmp_path / "tenant.sock") as ask:
        said = await ask("get", "query", of="broker")
        assert (said["name"], said["answers"]["broker"]["inventory"][0]["units"]) == ("broker", 2)
        assert said["tick_seconds"] == 1.0
        assert (await ask("get", "query", of="site", type="tape"))["answers"]["authority"]["inventory"] == []
        for wrong, words in (
            ({"of": "brokers"}, "no actor 'brokers' is trusted; did you mean broker"),
            ({"off": "broker"}, r"a query has no 'off' \(there are: of, type\)"),
        ):
            with pytest.raises(ClientError, match=words):
                await ask("get", "query", **wrong)


async def test_a_machine_in_short_is_its_record(tmp_path: Path) -> None:
    """Each field of each machine of several leases, next to its record; and what is wanted and has not begun."""
    async with Cluster(2) as c, listening(c.tenant, c.system, tmp_path / "a.sock") as ask:
        for units, until in ((1, 50), (1, 4)):
            await c.lease(units, until=until)
        await c.advance(8)
        del c.tenant.environment.peers["broker"]  # type: ignore[attr-defined]
        assert c.tenant.environment.directory is not None
        c.tenant.environment.directory.address_of = lambda name: ""
        await c.tenant.command("service_manager", "demand", "tenant:5", 1, 90, 10)
        await c.settle()
        rows = await ask("get", "leases")
        assert [(row["lease"], row["machine"], row["state"]) for row in rows] == [
            ("tenant:1", "service_manager", "active"),
            ("tenant:2", "service_manager", "closed"),
            ("tenant:5", "", "not begun"),
        ]
        assert rows[2].pop("wish")["until"] == 90
        assert rows[2] == {
            "lease": "tenant:5",
            "actor": "tenant",
            "machine": "",
            "client": "",
            "state": "not begun",
            "since": None,
            "over": False,
            "asks": [],
            "data": {},
            "times": [],
        }
        assert [row["over"] for row in rows] == [False, True, False]
        for row in rows[:2]:
            held = c.tenant.table.instances[RecordKey(row["lease"], row["machine"])]
            core = held.core
            own = {
                f.name: to_plain(f.type, held.record[at])
                for at, f in enumerate(core.fields, core.data_at)
                if not c.system.roles[core.role].data[f.name].captured
            }
            assert row["data"] == own
            assert row["since"] == held.metadata["since"]
            assert row["actor"] == "tenant"
            assert row["times"] == [f.name for f in core.fields if str(f.type) == "time"]
        words = "nobody was named to play broker for tenant:5; `leasehold close tenant:5` withdraws it"
        with pytest.raises(NotFound, match=f"tenant:5 has not begun: {words}"):
            await ask("get", "leases", "tenant:5")
        with pytest.raises(NotFound, match="there is no lease or run tenant:6 here"):
            await ask("get", "leases", "tenant:6")
        c.tenant.upcalls.unbegun = lambda: {"tenant:6": ""}  # type: ignore[method-assign]
        with pytest.raises(NotFound, match="tenant:6 has not begun; `leasehold close tenant:6` withdraws it"):
            await ask("get", "leases", "tenant:6")


async def test_a_lease_is_told_with_its_units_and_its_peers(tmp_path: Path) -> None:
    async with Cluster(2) as c, listening(c.site, c.system, tmp_path / "a.sock") as ask:
        lease = await c.lease(2, until=50)
        (told,) = await ask("get", "leases", lease)
        assert (told["machine"], told["state"], told["peers"]) == (
            "authority",
            "active",
            {"service_manager": "tenant"},
        )
        assert (told["wish"], told["undecided"], told["refused"], told["handlers"]) == (None, None, None, [])
        assert [(u["unit"], u["state"], u["left"], u["handlers"]) for u in told["units"]] == [
            ("unit-0", "active", None, []),
            ("unit-1", "active", None, []),
        ]
        facts = [await c.handler.probe(name) for name in ("unit-0", "unit-1")]
        assert [unit["facts"] for unit in told["units"]] == facts
        assert all(unit["since"] == 0 for unit in told["units"])
        assert told["messages"] == []
        short = {"lease", "actor", "machine", "state", "since", "over", "asks", "data", "times"}
        own = {"client", "shown", "peers", "wish", "undecided", "units", "messages", "refused", "handlers"}
        assert {*told} == short | own
        assert all(
            {*unit} == {"unit", "machine", "state", "since", "facts", "handlers", "left"} for unit in told["units"]
        )
        assert {*told["shown"]} == {*told["data"]}
        assert told["shown"]["end"] == str(told["data"]["end"])
        (row, *_) = await ask("get", "units")
        assert {*row} == short | {"unit", "shown", "facts", "left"}
        assert (row["lease"], row["facts"], row["shown"]["quarantined"]) == (lease, {"on": True}, "false")
        (wanted,) = Views(c.tenant, c.system, 1.0).lease(lease)
        assert (wanted["wish"]["units"], wanted["wish"]["until"]) == (2, 50)
        assert wanted["peers"] == {"broker": "broker", "authority": "site"}
        assert [unit["unit"] for unit in wanted["units"]] == ["guest[0]", "guest[1]"]


async def test_a_lease_as_it_is_now_goes_on_from_where_the_events_end(tmp_path: Path) -> None:
    """With all records as `found`, and what was refused and is not written yet; nothing of that is in the chain."""
    async with Cluster(2) as c, listening(c.site, c.system, tmp_path / "a.sock") as ask:
        lease = await c.lease(1, until=50)
        await c.lease(1, until=50)
        with pytest.raises(ActorError, match="the term is not over"):
            await c.site.tell(lease, "authority", "reclaim")
        last = [*map(read, c.disks["site"].chain())][-1]
        told = await ask("get", "leases", lease, "present")
        assert told["machines"] == await ask("get", "leases", lease)
        assert (told["now"], told["last"]) == (c.time.now, last.position)
        *found, refused = map(read, map(str.encode, told["events"]))
        assert isinstance(refused, RefusedEvent)
        assert (refused.lease, refused.event, refused.reason) == (lease, "reclaim", "the term is not over")
        shown, describer = {}, c.site.chronicle.describer
        for one in found:
            assert isinstance(one, FoundEvent)
            assert (one.actor, one.epoch, one.spec, one.now) == ("site", 1, c.program.digest, c.time.now)
            shown[RecordKey(one.lease, one.machine)] = one.record, one.serves
        held = c.site.table.instances
        assert {key.lease for key in held} == {lease, "tenant:2", BELOW}
        assert shown == {
            key: (describer.record(one.core, one.record), one.serves if one.core.of_actor else "")
            for key, one in held.items()
            if key.lease in (lease, BELOW)
        }
        assert {serves for _, serves in shown.values()} == {"", lease, "tenant:2"}
        assert [*map(read, c.disks["site"].chain())][-1] == last
        with pytest.raises(NotFound, match="there is no lease or run tenant:6 here"):
            await ask("get", "leases", "tenant:6", "present")


async def test_a_message_that_is_under_way_is_told_as_it_is(tmp_path: Path) -> None:
    """One that nobody takes, next to the outbox that has it; and one for which nobody is known."""
    async with Cluster(2) as c:
        await c.kill("broker")
        lease = await c.lease(1, until=50)
        views = Views(c.tenant, c.system, 1.0)
        (told,) = views.lease(lease)
        (pending,) = c.tenant.outbox.of(RecordKey(lease, "service_manager"))
        (message,) = told["messages"]
        again = message.pop("again_seconds")
        assert message == {
            "message": "ticket",
            "number": 1,
            "to": "broker",
            "times": pending.times,
            "taken": False,
            "reason": pending.reason,
        }
        assert pending.times > 0
        assert (again is None) == (pending.again is None)
        assert again is None or 0 <= again < 60
        held = c.tenant.table.instances[RecordKey(lease, "service_manager")]
        position: Any = held.core.position("broker", 0, 0)
        c.tenant.table.unaddressed[held.key] = {position}
        assert views.lease(lease)[0]["messages"][1:] == [
            {
                "message": "ticket",
                "number": 1,
                "to": "",
                "times": 0,
                "taken": False,
                "reason": "nobody is known to play broker",
                "again_seconds": None,
            }
        ]


async def test_a_unit_is_known_by_its_name_its_machine_and_its_number(tmp_path: Path) -> None:
    async with Cluster(2) as c:
        views = Views(c.site, c.system, 1.0)
        machines = [RecordKey("-", f"unit[{n}]") for n in range(2)]
        assert views.unit_names == {f"unit-{n}": key for n, key in enumerate(machines)}
        for n, key in enumerate(machines):
            assert views.unit(f"unit-{n}") == views.unit(f"unit[{n}]") == views.unit(str(n)) == key
        for name in ("", "2", "unit", "unit[2]", "unit-2", "[0]", "0]", "unit[0"):
            assert views.unit(name) is None
        assert Views(c.tenant, c.system, 1.0).unit_names == {}


async def test_a_unit_s_facts_are_those_of_its_handler_or_else_those_that_were_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A handler that fails or knows nothing of it costs nothing."""
    async with Cluster(2) as c, listening(c.site, c.system, tmp_path / "a.sock") as ask:
        lease, kept = await c.lease(1, until=50), {"on": True}

        async def facts() -> Any:
            return (await ask("get", "leases", lease))[0]["units"][0]["facts"]

        for found in ({"a": 1}, {}, None, OSError("no such bus"), TimeoutError()):

            async def probe(unit: str, found: Any = found) -> Any:
                assert unit == "unit-0"
                if isinstance(found, Exception):
                    raise found
                return found

            c.handler.probe = probe
            assert await facts() == (found if isinstance(found, dict) else kept)
        said = [record.getMessage() for record in caplog.records if "probed" in record.getMessage()]
        assert said == ["unit unit-0 cannot be probed: no such bus", "unit unit-0 cannot be probed: TimeoutError"]


# The client


async def test_a_client_asks_for_each_name_as_it_is(tmp_path: Path) -> None:
    """Slashes, spaces and letters of any kind in a name of a place; nothing that was not given is sent."""
    async with Cluster(2) as c, listening(c.tenant, c.system, tmp_path / "a.sock"):
        asked = Client(tmp_path / "a.sock")
        for name in ("tenant:9", "a b", "é", "a?b", "a#b", "%41"):
            with pytest.raises(NotFound) as caught:
                await asyncio.to_thread(asked.get, "leases", name)
            assert str(caught.value) == f"there is no lease or run {name} here"
        with pytest.raises(ClientError, match="`units` is missing") as refused:
            await asyncio.to_thread(lambda: asked.post("demand", units=None, until=5, term=1))
        assert type(refused.value) is ClientError
        lease = (await asyncio.to_thread(lambda: asked.post("demand", units=1, until=50, term=10, type=None)))["lease"]
        assert lease == "tenant:1"
        assert await asyncio.to_thread(lambda: asked.read("events", after="0", limit="1")) != b""
        assert await asyncio.to_thread(asked.read, "about") == b""  # that is JSON
