"""Acknowledgements of the control socket: whatever it is given, it takes or refuses in words, and nothing
that it took is refused later."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, UnixConnector
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.core.values import DEEPEST, OPAQUE_BYTES, OPAQUE_DEEPEST
from leasehold.impl.lease.demand import LeaseDemand
from leasehold.impl.lease.service_manager import FixedDemand
from leasehold.impl.server.client import ClientError
from leasehold.impl.server.control import DEMANDS
from leasehold.impl.store.store import RecordKey
from tests.impl.server.test_control import listening

DEMAND = {"units": 1, "until": 50, "term": 10}


def nested(levels: int) -> Any:
    found: Any = 1
    for _ in range(levels):
        found = {"a": found}
    return found


IMPOSSIBLE = [
    ({"properties": nested(60)}, "field `properties`: it is nested more than 20 deep"),
    ({"local": nested(OPAQUE_DEEPEST + 1)}, "field `local`: it is nested more than 14 deep"),
    ({"properties": {"n" * 201: 1}}, "field `properties`: the name 'n+[.]{3} has 201 characters, and 200 are the most"),
    ({"configuration": {"a": 2**63}}, "field `configuration`: 9223372036854775808 has more than 64 bits"),
    ({"properties": {"a": [-(2**70)]}}, "field `properties`: -1180591620717411303424 has more than 64 bits"),
    ({"until": 2**63}, "field `until`: 9223372036854775808 has more than 64 bits"),
    ({"term": 10**400}, "field `term`: 1000.* has more than 64 bits"),
    ({"type": "x" * OPAQUE_BYTES}, "field `type`: it has 16386 bytes, and 16384 are the most"),
    ({"properties": {"a": "x" * OPAQUE_BYTES}}, "field `properties`: it has 16392 bytes, and 16384 are the most"),
    ({"configuration": {"a": "x" * OPAQUE_BYTES}}, "field `configuration`: it has 16392 bytes"),
    ({"lease": "tenant:1"}, "tenant:1.*(does not take demand in closed|was asked for already)"),
    ({"lease": "tenant:2"}, "there is, or was, a lease tenant:2; give it another name, or none"),
]


@pytest.mark.parametrize(("wrong", "words"), IMPOSSIBLE)
@pytest.mark.real_time
async def test_a_demand_that_no_record_can_hold_is_refused_before_it_is_acknowledged(
    tmp_path: Path, wrong: dict[str, Any], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also one under the name of a lease that is over (tenant:1), or forgotten (tenant:2)."""

    async with Cluster() as c, listening(c.tenant, c.system, tmp_path / "a.sock") as ask:
        await ask("post", "demand", **DEMAND, lease="tenant:1")
        await ask("post", "leases", "tenant:1", "tell", event="close")
        await c.settle()
        c.tenant.table.pruned.add("tenant:2")
        before = dict(c.disks["tenant"].metadata)
        with pytest.raises(ClientError, match=words):
            await ask("post", "demand", **{**DEMAND, **wrong})
        await c.advance(5)
        assert {n: b for n, b in c.disks["tenant"].metadata.items() if n.startswith("wish")} == {
            n: b for n, b in before.items() if n.startswith("wish")
        }
        assert c.tenant.counts["policy errors"] == 0
    assert caplog.text == ""


@pytest.mark.real_time
async def test_what_is_as_deep_as_the_limit_begins_a_lease(tmp_path: Path) -> None:
    async with Cluster() as c, listening(c.tenant, c.system, tmp_path / "a.sock") as ask:
        deepest = {"properties": nested(OPAQUE_DEEPEST), "configuration": {"a": 2**63 - 1}, "until": 2**63 - 3}
        asked = await ask("post", "demand", **{**DEMAND, **deepest})
        await c.settle()
        assert c.state(asked["lease"])[0] == "active"


@pytest.mark.real_time
async def test_a_type_that_no_broker_has_is_denied_and_told_so(tmp_path: Path) -> None:
    """A holder does not know the types of its broker, so its demand is taken, and denied with a reason at once."""

    async with Cluster() as c, listening(c.tenant, c.system, tmp_path / "a.sock") as ask:
        lease = (await ask("post", "demand", **DEMAND, type="nosuch"))["lease"]
        await c.settle()
        (found,) = await ask("get", "leases", lease)
        assert (found["state"], found["wish"]) == ("failed", None)
        assert found["data"]["ticket_reason"] == "this broker has units of type unit, and not of nosuch"


@pytest.mark.real_time
async def test_a_name_that_a_client_chooses_does_not_spoil_the_numbers_of_others(tmp_path: Path) -> None:
    async with Cluster() as c:
        async with listening(c.tenant, c.system, tmp_path / "a.sock") as ask:
            await ask("post", "demand", **DEMAND, lease="tenant:999999999999999999")
            assert (await ask("post", "demand", **DEMAND))["lease"] == "tenant:1"
            await c.settle()
        await c.kill("tenant")
        await c.start("tenant")
        async with listening(c.tenant, c.system, tmp_path / "b.sock") as ask:
            lease = (await ask("post", "demand", **DEMAND))["lease"]
            await c.settle()
            assert (lease, c.state(lease)[0]) == ("tenant:2", "active")


@pytest.mark.parametrize(
    ("how", "words"),
    [
        (
            {"start": 5, "end": 5},
            r"`demand`: Somebody wants units, until a time that is to come. \(event.end",
        ),
        ({"end": 3}, "breaks the contract `demand`"),
        ({"units": 5}, "event.units <= max_units; max_units is 4"),
        ({"end": 4}, ""),
    ],
)
@pytest.mark.real_time
async def test_a_first_event_outside_its_contract_is_refused_with_the_contract_s_text(
    tmp_path: Path, how: dict[str, int], words: str
) -> None:
    """Also where the contract reads the time, by the actor's clock, which is at 3."""

    async with Cluster() as c, listening(c.tenant, c.system, tmp_path / "a.sock") as ask:
        await c.advance(3)
        fields = {"units": 1, "start": 0, "end": 40, **how}
        with pytest.raises(ClientError, match=words) if words else nullcontext():
            await ask("post", "begin", machine="service_manager", event="demand", fields=fields)
        assert bool(c.tenant.table.instances) == (words == "")


@pytest.mark.real_time
async def test_an_earlier_end_is_refused_with_what_ends_a_lease(tmp_path: Path) -> None:
    async with Cluster() as c, listening(c.tenant, c.system, tmp_path / "a.sock") as ask:
        lease = await c.lease(1, until=60, term=60)
        with pytest.raises(ClientError, match=r"is wanted until 60 .*`leasehold close tenant:1`"):
            await ask("post", "leases", lease, "prolong", until=6)
        await c.advance(9)
        assert c.state(lease)[0] == "active"


@pytest.mark.real_time
async def test_who_is_no_machine_can_be_no_peer(tmp_path: Path) -> None:
    async with Cluster() as c, listening(c.tenant, c.system, tmp_path / "a.sock") as ask:
        run = {"machine": "service_manager", "event": "demand", "fields": {"units": 1, "start": 0, "end": 40}}
        with pytest.raises(ClientError, match="`peers` names 'brokr', which is no machine; did you mean broker"):
            await ask("post", "begin", **run, peers={"brokr": "broker"})


def peers_of(c: Cluster) -> dict[str, str]:
    return c.tenant.environment.peers  # type: ignore[return-value]


def unknown(c: Cluster, role: str) -> str:
    """Nobody is known any more to play a role for the holder; returns who did."""
    assert c.tenant.environment.directory is not None
    c.tenant.environment.directory.address_of = lambda name: ""
    return peers_of(c).pop(role)


def kept(c: Cluster, lease: str, **wrong: Any) -> None:
    """A store that an earlier version has written has a demand."""
    wish = LeaseDemand(1, 5000, 10, **wrong)
    c.disks["tenant"].metadata[f"wish of {lease}"] = json.dumps(
        {name: getattr(wish, name) for name in wish.__struct_fields__}
    ).encode()


@pytest.mark.parametrize(
    "wrong", [{"lease": "tenant:1", "properties": {"a": 2**70}}, {"lease": "tenant:2"}, {"lease": "tenant:3"}]
)
@pytest.mark.real_time
async def test_a_kept_demand_that_can_never_be_is_given_up(
    wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried once: no record can hold it, or its lease is forgotten (2), or over (3)."""

    async with Cluster() as c:
        await c.lease(1, until=50, name="tenant:3")
        await c.tenant.tell("tenant:3", "service_manager", "close")
        await c.settle()
        c.tenant.table.pruned.add("tenant:2")
        c.disks["tenant"].metadata["pruned of tenant"] = c.tenant.table.pruned.write("tenant")
        await c.kill("tenant")
        kept(c, **wrong)
        await c.start("tenant")
        await c.advance(20)
        assert c.wish(wrong["lease"]) is None
        assert not any(name.startswith("wish") for name in c.disks["tenant"].metadata)
    assert len([one for one in caplog.records if one.levelno >= logging.ERROR]) <= 1


@pytest.mark.real_time
async def test_a_demand_that_cannot_begin_yet_is_tried_seldom_shown_and_can_be_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is known to play the broker; the pauses double, and once it is known the lease begins."""

    async with Cluster() as c, listening(c.tenant, c.system, tmp_path / "a.sock") as ask:
        broker = unknown(c, "broker")
        for _ in range(2):
            await ask("post", "demand", **{**DEMAND, "until": 5000})
        with pytest.raises(ClientError, match="has more than 64 bits"):  # that is so whoever the broker is
            await ask("post", "demand", **DEMAND, properties={"a": 2**64})
        await c.advance(100)
        tries = [one for one in caplog.records if one.name == "leasehold.stepper"]
        assert 2 * 4 <= len(tries) <= 2 * 8
        with pytest.raises(ClientError, match="tenant:1 has not begun: nobody was named to play broker"):
            await ask("get", "leases", "tenant:1")
        with pytest.raises(ClientError, match=r"tenant:1 has not begun.*`leasehold close tenant:1`"):
            await ask("post", "leases", "tenant:1", "tell", event="close")
        assert await ask("post", "leases", "tenant:1", "stop") == {}
        with pytest.raises(ClientError, match="there is no lease or run tenant:1 here"):
            await ask("get", "leases", "tenant:1")
        with pytest.raises(ClientError, match="nothing is wanted of lease 'tenant:1'"):
            await ask("post", "leases", "tenant:1", "stop")
        assert [name for name in c.disks["tenant"].metadata if name.startswith("wish")] == ["wish of tenant:2"]
        peers_of(c)["broker"] = broker
        await c.advance(64)
        assert c.state("tenant:2")[0] == "active"


class OwnDemand(FixedDemand):
    """A user's policy: it is asked in a thread of its own."""


@pytest.mark.real_time
async def test_a_policy_of_a_user_s_own_takes_a_refused_command_back(tmp_path: Path) -> None:
    async with Cluster() as c, listening(c.tenant, c.system, tmp_path / "a.sock") as ask:
        c.tenant.environment.policies["service_manager"] = policy = OwnDemand()
        c.tenant.table.pruned.add("tenant:2")
        for wrong in ({"lease": "tenant:2"}, {"units": 5}, {"properties": {"a": 2**64}}):
            with pytest.raises(ClientError):
                await ask("post", "demand", **{**DEMAND, "lease": "tenant:1", **wrong})
            await c.settle()
            assert (policy.wish("tenant:1"), policy.wish("tenant:2")) == (None, None)
            assert not any(name.startswith("wish") for name in c.disks["tenant"].metadata)
        await ask("post", "demand", **DEMAND, lease="tenant:1")
        await c.settle()
        assert c.state("tenant:1")[0] == "active"
        wish = policy.wish("tenant:1")
        with pytest.raises(ClientError, match="breaks the contract `extend`"):
            await ask("post", "leases", "tenant:1", "flex", units=5, soon=True)
        await c.settle()
        assert policy.wish("tenant:1") == wish
        assert json.loads(c.disks["tenant"].metadata["wish of tenant:1"])["units"] == 1


# Whatever comes

WORDS = ["", "tenant:1", "tenant:77", "close", "demand", "unit-0", "\ud800", "\x00", "\u00fc", "a" * 300]
NUMBERS = [-1, 0, 1, 2, 50, 2**31, 2**63 - 1, 2**63, -(2**63), 2**64, 10**40, 0.5, 1e308]
DEEP = [nested(levels) for levels in (OPAQUE_DEEPEST, OPAQUE_DEEPEST + 1, DEEPEST, DEEPEST + 1, 60, 300)]
LEAVES = st.sampled_from([None, True, *NUMBERS, *WORDS, *DEEP])
DICTS = st.sampled_from(DEEP) | st.dictionaries(st.sampled_from(WORDS), LEAVES, min_size=1, max_size=2)
OF: dict[type, st.SearchStrategy[Any]] = {
    int: st.sampled_from(NUMBERS),
    str: st.sampled_from(WORDS),
    dict: DICTS,
    list: st.lists(LEAVES, max_size=2),
}
MAY = {**DEMANDS["demand"][0], **DEMANDS["demand"][1], "nosuch": str}
WRONG = st.one_of([st.tuples(st.just(name), OF[kind] | LEAVES) for name, kind in MAY.items()])
BODIES = [
    b"",
    b"[" * 60_000,
    b'{"a":' * 12_000,
    b"\xff",
    b"{",
    b"NaN",
    b"[]",
    b'{"units": 1e999}',
    b'{"type": "\\ud800"}',
    b"1" * 5000,
    b"x" * 70_000,
    *(json.dumps({"event": event}).encode() for event in ("", "close", "lost", "extend", "left", "\ud800")),
    *(json.dumps({"event": "extend", "fields": {"end": value, "units": 1}}).encode() for value in (*NUMBERS, *DEEP)),
    *(json.dumps({"units": value, "until": value}).encode() for value in (1, 2**63, "", "\ud800")),
]
VERBS = ("tell", "recover", "nosuch", *(name for name in DEMANDS if name != "demand"))
PLACES = [
    *(("tenant", where) for where in ("/demand", "/begin", "/events/seal", "/nosuch")),
    *(("tenant", f"/leases/{lease}/{verb}") for lease in ("tenant:1", "%ff%00") for verb in VERBS),
    *(("site", f"/units/{unit}/{verb}") for unit in ("unit-0", "9", "%00") for verb in ("tell", "recover")),
    *(("site", f"/followers/me/acknowledge/{at}") for at in ("0", "-1", "9" * 30, "\u00b2")),
    ("site", "/followers/%00/acknowledge/0"),
    *(("site", f"/events?after={at}&limit={at}") for at in ("x", "-1", "9" * 40, "\u00b2")),
]


class Attacked:
    """Actors whose sockets are given anything. Each request is taken, or refused in words; and so are they all."""

    def __init__(self, cluster: Cluster, sessions: dict[str, ClientSession]) -> None:
        self.cluster, self.sessions = cluster, sessions

    async def send(self, name: str, where: str, body: bytes) -> None:
        ask = self.sessions[name].get if where.startswith("/events?") else self.sessions[name].post
        async with ask(f"http://actor{where}", data=body) as response:
            content = await response.read()
        said = where, body[:200], response.status, content[:200]
        assert response.status in (200, 400, 404, 405, 409, 413), said
        if response.status != 200:
            assert json.loads(content)["error"], said
        elif where in ("/demand", "/begin"):
            await self.cluster.settle()
            key = RecordKey(json.loads(content)["lease"], "service_manager")
            assert key in self.cluster.tenant.table.instances, said
        refused = [actor.counts["policy errors"] for actor in self.cluster.actors.values()]
        assert refused == [0, 0, 0], said


def attack(folder: Path, requests: list[tuple[tuple[str, str], bytes]]) -> None:
    async def story() -> None:
        async with Cluster(units=2) as c:
            paths = {name: folder / f"{name}.sock" for name in ("tenant", "site")}
            async with (
                listening(c.tenant, c.system, paths["tenant"]),
                listening(c.site, c.system, paths["site"]),
                ClientSession(connector=UnixConnector(str(paths["tenant"]))) as tenant,
                ClientSession(connector=UnixConnector(str(paths["site"]))) as site,
            ):
                await c.lease(1, until=40)
                attacked = Attacked(c, {"tenant": tenant, "site": site})
                for (name, where), body in requests:
                    await attacked.send(name, where, body)
                await c.advance(2)
                assert all(actor.running and not actor.counts["policy errors"] for actor in c.actors.values())

    asyncio.run(story())


def test_whatever_comes_is_taken_or_refused_in_words(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """No input ends in a traceback or a status of 500."""
    attack(tmp_path, [(place, body) for place in PLACES for body in BODIES])
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(WRONG, min_size=8, max_size=16))
def test_a_demand_that_is_taken_begins(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, given: list[tuple[str, Any]]
) -> None:
    """With anything in place of one of its values, a demand or a first event is refused, or its lease is there."""
    caplog.clear()
    bodies = []
    for name, value in given:
        fields = {"units": 1, "start": 0, "end": 40, name: value}
        begun = {"machine": "service_manager", "event": "demand", "fields": fields}
        bodies += [(("tenant", "/demand"), {**DEMAND, name: value}), (("tenant", "/begin"), begun)]
    attack(tmp_path, [(place, json.dumps(body).encode()) for place, body in bodies])
    assert [one.getMessage() for one in caplog.records if one.levelno >= logging.ERROR] == []
