"""The verbs of clients against actors of one process: what they send on, whom they ask, and what they print."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import click
import pytest
from click.testing import CliRunner, Result

from leasehold.cli import client as verbs
from leasehold.cli.client import fields_given, length, moment
from leasehold.cli.explain import explain
from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.core.core import Core
from tests.impl.server.test_control import listening

Leasehold: TypeAlias = Callable[..., Awaitable[Result]]
Story: TypeAlias = Callable[[Cluster, Leasehold], Awaitable[None]]


@contextlib.asynccontextmanager
async def running(tmp_path: Path, units: int = 4, **settings: int | bool) -> AsyncIterator[tuple[Cluster, Any]]:
    """A service manager, a broker and a site whose sockets are in one folder, and the verbs that ask there."""

    async def leasehold(verb: str, *words: str, at: str = "") -> Result:
        place = ["--at", str(tmp_path / f"{at}.sock" if at else tmp_path)]
        command = explain if verb == "explain" else getattr(verbs, verb)
        return await asyncio.to_thread(CliRunner().invoke, command, [*words, *place])

    async with Cluster(units, settings=settings) as c, contextlib.AsyncExitStack() as stack:
        for name, actor in c.actors.items():
            await stack.enter_async_context(listening(actor, c.system, tmp_path / f"{name}.sock"))
        yield c, leasehold


def data_of(c: Cluster, lease: str, actor: str = "tenant", role: str = "service_manager") -> dict[str, Any]:
    held = c.held(lease, role)
    assert held is not None
    core: Core = c.actors[actor].program.roles[role]
    return core.view(held.record)


# Times and fields


ABOUT = {"now": 7, "tick_seconds": 0.5}


@pytest.mark.parametrize(
    ("words", "at"),
    [
        ("0", 0),
        ("12", 12),
        ("3s", 13),
        ("1.5s", 10),
        ("500ms", 8),
        ("1ms", 8),
        ("2m", 247),
        ("1h", 7207),
        ("1d", 172_807),
        ("0s", 8),
        ("1970-01-01T00:01:00+00:00", 120),
        ("1970-01-01T00:01:00Z", 120),
        ("1970-01-01T01:00:30+01:00", 60),
    ],
)
def test_a_time_is_a_tick_a_duration_from_now_or_a_date(words: str, at: int) -> None:
    """A duration is one tick at least; a length is measured from now, and a number is itself."""
    assert moment(words, ABOUT, "--until") == at
    assert length(words, ABOUT, "--term") == (at if words.isdigit() else at - 7)
    local = datetime.fromtimestamp(9_000, UTC).astimezone().replace(tzinfo=None)
    assert moment(local.isoformat(), ABOUT, "--until") == 18_000, "a date without a zone is of this machine's"


@pytest.mark.parametrize("words", ["", "m", "1 m", "-3", "1.s", "1w", "soon", "1.5", "2031-13-01"])
def test_a_word_that_is_no_time_is_refused_with_its_option(words: str) -> None:
    with pytest.raises(click.UsageError) as refused:
        moment(words, ABOUT, "--start")
    assert str(refused.value).startswith("--start takes a duration such as 10m, a time such as ")
    assert str(refused.value).endswith(f"not {words!r}")


def test_fields_are_json_or_words() -> None:
    given = ("a=1", "b=[1, {}]", "c=word", 'd="1"', "e=none", "f=", "g=x=y", "h=NaN", "i=null", "j=true")
    assert fields_given(given) == {
        "a": 1,
        "b": [1, {}],
        "c": "word",
        "d": "1",
        "e": None,
        "f": "",
        "g": "x=y",
        "h": "NaN",
        "i": None,
        "j": True,
    }
    assert fields_given(()) == {}
    for wrong in ("a", "=1", ""):
        with pytest.raises(click.UsageError, match=f"a field is written FIELD=VALUE, not '{wrong}'"):
            fields_given(("b=2", wrong))


# Demands


@pytest.mark.real_time
async def test_each_option_of_a_demand_is_sent_on(tmp_path: Path) -> None:
    async with running(tmp_path, held_joins=True) as (c, leasehold):
        first = await leasehold("demand", "--units", "1", "--until", "90")
        assert (first.exit_code, first.output) == (0, "tenant:1\n")
        wish = c.wish("tenant:1")
        assert wish is not None
        assert (wish.units, wish.until, wish.term, wish.start) == (1, 90, 60, 0), "a term is 60 s where none is given"
        said = await leasehold(
            "demand",
            "--units",
            "2",
            "--until",
            "80",
            "--term",
            "7",
            "--start",
            "20",
            "--type",
            "unit",
            "--property",
            "a=1",
            "--property",
            "b=x",
            "--configuration",
            "image=web",
            "--local",
            "team=blue",
            "--after",
            "tenant:1",
            "--lease",
            "tenant:9",
            "--json",
        )
        assert json.loads(said.output) == {"lease": "tenant:9"}
        wish = c.wish("tenant:9")
        assert wish is not None
        assert (wish.units, wish.until, wish.term, wish.start, wish.type) == (2, 80, 7, 20, "unit")
        assert (wish.properties, wish.configuration) == ({"a": 1, "b": "x"}, {"image": "web"})
        assert (wish.local, wish.after, wish.soon) == ({"team": "blue"}, ("tenant:1",), False)
        for at in ("broker", "site"):
            refused = await leasehold("demand", "--units", "1", "--until", "90", at=at)
            assert (refused.exit_code, f"takes demands ({at})" in refused.output) == (1, True)
        again = await leasehold("demand", "--units", "1", "--until", "90", "--lease", "tenant:9")
        assert (again.exit_code, "was asked for already" in again.output) == (1, True)


@pytest.mark.real_time
async def test_slices_are_said_listed_and_removed(tmp_path: Path) -> None:
    async with running(tmp_path) as (c, leasehold):
        assert (await leasehold("slice")).output.split("\n")[1].strip() == "no slices"
        said = await leasehold(
            "slice", "web", "--property", "user=physics", "--configuration", "image=[red]", "--local", "a=1"
        )
        assert (said.exit_code, said.output) == (0, "web\n")
        demanded = ("demand", "--units", "1", "--until", "90")
        first = await leasehold(*demanded, "--slice", "web")
        assert first.output == "tenant:1\n", first.output
        await leasehold(*demanded)
        wish = c.wish("tenant:1")
        assert wish is not None
        assert wish.slice == "web"
        lists = {"properties": {"user": "physics"}, "configuration": {"image": "[red]"}, "local": {"a": 1}}
        rows = json.loads((await leasehold("slice", "--json")).output)
        assert rows == {"slices": [{"slice": "web", **lists, "leases": ["tenant:1"]}]}
        shown = (await leasehold("slice")).output.splitlines()[1]
        assert re.split("  +", shown.strip()) == ["web", "user=physics", "image=[red]", "a=1", "tenant:1"]
        for at in ("", "tenant"):
            found = json.loads((await leasehold("leases", "--slice", "web", "--json", at=at)).output)["leases"]
            assert {row["lease"] for row in found} == {"tenant:1"}
        assert len(found) == 1
        assert "no leases" in (await leasehold("leases", "--slice", "other")).output
        for words, message in (
            (("--remove",), "slice 'web' has leases (tenant:1)"),
            (("--remove", "--local", "a=1"), "a slice is removed, or has properties"),
        ):
            refused = await leasehold("slice", "web", *words)
            assert (refused.exit_code != 0, message in refused.output) == (True, True), refused.output
        for words in (("--remove",), ("", "--local", "a=1"), ("",)):
            assert "name the slice" in (await leasehold("slice", *words)).output
        wrong = await leasehold(*demanded, "--slice", "wbe")
        assert "there is no slice 'wbe'; did you mean web?" in wrong.output
        await leasehold("slice", "web")
        assert json.loads((await leasehold("slice", "--json")).output)["slices"][0]["properties"] == {}
        await leasehold("close", "tenant:1")
        await c.settle()
        assert "tenant:1" in (await leasehold("leases", "--slice", "web", "--all")).output, "its record says it"
        assert "no leases" in (await leasehold("leases", "--slice", "web")).output
        assert (await leasehold("slice", "web", "--remove")).exit_code == 0
        assert "no slices" in (await leasehold("slice")).output


@pytest.mark.real_time
async def test_a_lease_that_has_not_begun_is_listed_with_its_slice(tmp_path: Path) -> None:
    async with running(tmp_path) as (c, leasehold):
        await leasehold("slice", "web")
        c.tenant.table.metadata["wish of tenant:7"] = b'{"units":1,"until":9,"term":1,"slice":"web"}'
        assert "tenant:7" in (await leasehold("leases", "--slice", "web")).output


@pytest.mark.real_time
async def test_a_demand_is_extended_by_its_end_its_units_or_both(tmp_path: Path) -> None:
    async with running(tmp_path) as (c, leasehold):
        lease = await c.lease(3, until=50, term=20)
        noted = f"{lease}: noted; `leasehold show {lease}` tells what becomes of it\n"

        async def extended(*words: str) -> tuple[int, int, bool, tuple[int, ...]]:
            done = await leasehold("extend", lease, *words)
            assert (done.exit_code, done.output) == (0, noted)
            wish = c.wish(lease)
            assert wish is not None
            return wish.until, wish.units, wish.soon, wish.victims

        assert await extended("--until", "60") == (60, 3, False, ())
        assert await extended("--units", "2") == (60, 2, False, ())
        held = await leasehold("extend", lease, "--units", "2", "--victims", " unit-0 ")
        assert (held.exit_code, c.wish(lease).victims) == (0, (0,))  # type: ignore[union-attr]
        assert await extended("--units", "1", "--victims", "2,unit-1", "--until", "70") == (70, 1, False, (1, 2))
        for words, code, why in (
            ((), 2, "give --until, --units or both"),
            (("--until", "80", "--victims", "0"), 2, "say with --units how many are kept"),
            (("--until", "80", "--soon"), 2, "--soon is about --units"),
            (("--units", "1", "--victims", "unit-9"), 1, f"{lease} has no unit 'unit-9'"),
            (("--until", "20"), 1, "is wanted until 70 already"),
        ):
            refused = await leasehold("extend", lease, *words)
            assert (refused.exit_code, why in " ".join(refused.output.split())) == (code, True), refused.output
            assert c.wish(lease).until == 70  # type: ignore[union-attr]
        half = await leasehold("extend", lease, "--until", "74", "--units", "99")
        assert (half.exit_code, c.wish(lease).until) == (1, 74)  # type: ignore[union-attr]
        assert "that can ever be had; its end is noted, and only that" in " ".join(half.output.split())
        as_json = await leasehold("extend", lease, "--until", "75", "--json")
        assert json.loads(as_json.output) == {"lease": lease}
        assert len(data_of(c, lease)["lease_units"]) == 3
        assert (await leasehold("extend", lease, "--units", "2", "--soon")).exit_code == 0
        await c.settle()
        await c.advance(1)
        assert len(data_of(c, lease)["lease_units"]) == 2


@pytest.mark.real_time
async def test_a_lease_is_closed_once(tmp_path: Path) -> None:
    async with running(tmp_path) as (c, leasehold):
        lease, other = await c.lease(1, until=50), await c.lease(1, until=50)
        closed = await leasehold("close", lease)
        assert (closed.exit_code, closed.output) == (0, f"{lease}: service_manager/active#close\n")
        await c.settle()
        assert [c.state(one)[0] for one in (lease, other)] == ["closed", "active"]
        again = await leasehold("close", lease)
        assert (again.exit_code, again.output) == (0, f"{lease}: it is ending already\n")
        as_json = json.loads((await leasehold("close", other, "--json")).output)
        assert (as_json["lease"], as_json["transition"]) == (other, "service_manager/active#close")
        unknown = await leasehold("close", "tenant:99")
        assert (unknown.exit_code, "there is no lease or run tenant:99 here" in unknown.output) == (1, True)


# Lists


@pytest.mark.real_time
async def test_leases_are_listed_with_their_state_at_each_actor(tmp_path: Path) -> None:
    """Leases that are over are listed on request alone; an actor that does not answer is named."""
    async with running(tmp_path) as (c, leasehold):
        lease, over = await c.lease(2, until=50), await c.lease(1, until=50)
        await c.tenant.tell(over, "service_manager", "close")
        await c.settle()
        listed = (await leasehold("leases")).output.splitlines()
        assert [line.split()[0] for line in listed] == ["lease", lease]
        assert listed[0].split() == ["lease", *sorted(c.actors)]
        every = (await leasehold("leases", "--all")).output.splitlines()
        assert [line.split()[0] for line in every] == ["lease", lease, over]
        as_json = json.loads((await leasehold("leases", "--json")).output)
        assert (as_json["now"], as_json["tick_seconds"]) == (c.time.now, 1.0)
        assert sorted((row["lease"], row["actor"], row["state"]) for row in as_json["leases"]) == [
            (lease, "broker", "ticketed"),
            (lease, "site", "active"),
            (lease, "tenant", "active"),
        ]
        everything = json.loads((await leasehold("leases", "--json", "--all")).output)["leases"]
        assert {row["lease"] for row in everything} == {lease, over}
        with socket.socket(socket.AF_UNIX) as gone:
            gone.bind(str(tmp_path / "gone.sock"))
        silent = await leasehold("leases")
        assert (silent.exit_code, "gone.sock" in silent.output) == (0, True)
        alone = await leasehold("leases", at="gone")
        assert (alone.exit_code, "gone.sock" in alone.output) == (2, True)


@pytest.mark.real_time
async def test_a_query_for_a_type_that_nobody_has_names_those_that_there_are(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, leasehold):
        assert (await leasehold("query", "--type", "unit")).output.count("now") == 2
        none = " ".join((await leasehold("query", "--type", "unti")).output.split())
        assert "no broker or site here has units of unti; did you mean unit?" in none


@pytest.mark.real_time
async def test_a_lease_is_shown_at_all_actors_that_have_it(tmp_path: Path) -> None:
    async with running(tmp_path) as (c, leasehold):
        lease = await c.lease(2, until=50)
        shown = await leasehold("show", lease)
        for actor, role, state in (
            ("tenant", "service_manager", "active"),
            ("broker", "broker", "ticketed"),
            ("site", "authority", "active"),
        ):
            assert f"{role} at {actor}: {state}" in shown.output
        as_json = json.loads((await leasehold("show", lease, "--json")).output)
        assert (as_json["lease"], as_json["now"]) == (lease, c.time.now)
        assert sorted(machine["actor"] for machine in as_json["machines"]) == ["broker", "site", "tenant"]
        one = json.loads((await leasehold("show", lease, "--json", at="site")).output)["machines"]
        assert [machine["actor"] for machine in one] == ["site"]
        waiting = (await leasehold("demand", "--units", "4", "--until", "40")).output.strip()
        await c.settle()
        partly = json.loads((await leasehold("show", waiting, "--json")).output)["machines"]
        assert sorted(machine["actor"] for machine in partly) == ["broker", "tenant"], "the site has not heard of it"
        unknown = await leasehold("show", "tenant:99")
        assert (unknown.exit_code, "there is no lease or run tenant:99 here" in unknown.output) == (1, True)


@pytest.mark.real_time
async def test_units_are_listed_by_the_actor_that_has_them(tmp_path: Path) -> None:
    async with running(tmp_path) as (c, leasehold):
        lease = await c.lease(2, until=50)
        names = [f"unit-{n}" for n in range(4)]

        async def listed(at: str = "") -> list[list[str]]:
            lines = (await leasehold("units", at=at)).output.splitlines()
            return [line.split() for line in lines if not line.startswith(" ")]  # others go on in a cell

        assert [words[0] for words in await listed("site")] == ["unit", *names]
        every = [words[:2] for words in await listed()]
        assert every[0] == ["unit", "actor"]
        assert sorted(every[1:]) == [
            ["guest[0]", "tenant"],
            ["guest[1]", "tenant"],
            *([name, "site"] for name in names),
        ]
        as_json = json.loads((await leasehold("units", "--json", at="site")).output)
        assert (as_json["now"], as_json["tick_seconds"]) == (c.time.now, 1.0)
        assert [(row["unit"], row["state"], row["lease"]) for row in as_json["units"]] == [
            *((f"unit-{n}", "active", lease) for n in (0, 1)),
            *((f"unit-{n}", "idle", "") for n in (2, 3)),
        ]
        steps = [[(step["transition"], step["to"]) for step in row["history"]] for row in as_json["units"]]
        assert steps[0] == steps[1] == [("unit/idle#setup", "priming"), ("unit/priming#up", "active")]
        assert steps[2] == steps[3] == []
        assert {*as_json["units"][0]["history"][0]} == {"at", "time", "transition", "from", "to"}
        (guest, _) = json.loads((await leasehold("units", "--json", at="tenant")).output)["units"]
        assert [step["to"] for step in guest["history"]] == ["joining", "active"]
        without = await leasehold("units", at="broker")
        assert (without.exit_code, "no units" in without.output) == (0, True)


# Events


@pytest.mark.real_time
async def test_an_event_goes_to_the_first_machine_that_takes_it(tmp_path: Path) -> None:
    async with running(tmp_path) as (c, leasehold):
        lease = await c.lease(1, until=50)
        for words, code, said in (
            (("unit-0", "repaired"), 1, "unit[0] does not take repaired in active: it has not failed"),
            ((lease, "nonsense"), 1, "nonsense"),
            (("tenant:99", "close"), 1, "there is no lease or run tenant:99 here"),
            (("unit-9", "lost"), 1, "unit-9"),
            (("unit-0", "lost", "--machine", "unit[0]"), 2, "--machine names a machine of a lease, and unit-0 is"),
            ((lease, "close", "units"), 2, "a field is written FIELD=VALUE"),
        ):
            done = await leasehold("tell", *words)
            assert (done.exit_code, said in " ".join(done.output.split())) == (code, True), done.output
        for at in ("tenant", "broker"):
            nowhere = await leasehold("tell", "unit-0", "lost", at=at)
            assert (nowhere.exit_code, f"has units ({at}), and a lease is named" in nowhere.output) == (1, True)
        lost = await leasehold("tell", "unit-0", "lost")
        assert (lost.exit_code, "unit-0: unit[0] took it (unit/active#lost)" in lost.output) == (0, True), lost.output
        closed = await leasehold("tell", lease, "close", "--machine", "service_manager", "--json")
        found = json.loads(closed.output)
        assert (found["lease"], found["machine"]) == (lease, "service_manager")
        assert found["transition"].endswith("#close")
        again = await leasehold("tell", lease, "close", "--machine", "service_manager")
        assert (again.exit_code, f"{lease}: service_manager ignored it: " in again.output) == (0, True), again.output


@pytest.mark.real_time
async def test_a_machine_recovers_at_each_actor_that_has_it(tmp_path: Path) -> None:
    async with running(tmp_path) as (c, leasehold):
        lease = await c.lease(1, until=50)
        recovered = await leasehold("recover", lease)
        assert recovered.exit_code == 0
        machines = [("tenant", "service_manager"), ("tenant", "guest[0]"), ("broker", "broker"), ("site", "authority")]
        assert sorted(recovered.output.splitlines()) == sorted(
            f"{lease}: {machine} at {actor} begins its work anew" for actor, machine in machines
        )
        unit = json.loads((await leasehold("recover", "unit-0", "--json")).output)
        assert unit == {"recovered": [{"actor": "site", "machine": "unit[0]"}]}
        for what in ("tenant:99", "unit-9"):
            unknown = await leasehold("recover", what)
            assert (unknown.exit_code, what in unknown.output) == (1, True)


@pytest.mark.real_time
async def test_a_run_begins_at_an_actor_that_plays_the_role(tmp_path: Path) -> None:
    async with running(tmp_path) as (c, leasehold):
        fields = ("units=1", "end=40", "start=0", "type=0", "properties=0", "configuration=0", "local=0")
        begun = await leasehold("begin", "service_manager", "demand", *fields, "--lease", "tenant:7")
        assert (begun.exit_code, begun.output) == (0, "tenant:7\n")
        await c.settle()
        assert data_of(c, "tenant:7")["ticket_units"] == 1
        another = await leasehold("begin", "service_manager", "demand", *fields, "--json")
        assert json.loads(another.output)["lease"] not in ("", "tenant:7")
        nobody = await leasehold("begin", "brokr[2]", "ask")
        assert (nobody.exit_code, "plays brokr; did you mean broker?" in nobody.output) == (1, True), nobody.output
        elsewhere = await leasehold("begin", "service_manager", "demand", *fields, at="site")
        assert (elsewhere.exit_code, "plays service_manager" in elsewhere.output) == (1, True)


@pytest.mark.real_time
async def test_a_lease_is_explained_by_the_actors_that_have_it(tmp_path: Path) -> None:
    async with running(tmp_path) as (c, leasehold):
        lease = await c.lease(2, until=50)
        told = await leasehold("explain", lease)
        assert told.exit_code == 0, told.output
        for actor, role, state in (
            ("tenant", "service_manager", "active"),
            ("broker", "broker", "ticketed"),
            ("site", "authority", "active"),
        ):
            assert f"{lease} at {actor} ({role}) is {state}, for " in told.output
        found = json.loads((await leasehold("explain", lease, "--json")).output)
        assert (found["lease"], found["told_by"], found["at"], found["notes"]) == (lease, "actors", None, [])
        assert sorted(machine["actor"] for machine in found["machines"]) == ["broker", "site", "tenant"]
        clock = {"now": c.time.now, "tick_seconds": 1.0, "first": 1}
        assert [one["name"] for one in found["actors"]] == sorted(c.actors)
        assert all(one.items() >= clock.items() for one in found["actors"])
        assert all(one["position"] > 1 for one in found["actors"])
        for one in found["machines"]:
            assert (one["restarts"], one["forgotten"], one["came"]["state"]) == (0, None, one["state"])
        decided = next(
            entry for entry in found["story"] if entry["machine"] == "broker" and entry["event"] == "granted"
        )
        assert (decided["cause"], decided["actor"], decided["fields"]["units"]) == ("policy", "broker", 2)
        assert found["lines"] == told.output.splitlines()
        unknown = await leasehold("explain", "tenant:99")
        assert (unknown.exit_code, "there is no lease or run tenant:99 here" in unknown.output) == (1, True)


@pytest.mark.real_time
async def test_the_last_events_of_actors_are_told_unless_all_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leasehold.cli.client.RECENT", 1)
    async with running(tmp_path) as (c, leasehold):
        lease = await c.lease(2, until=50)
        found = json.loads((await leasehold("explain", lease, "--json")).output)
        firsts = {one["name"]: one["first"] for one in found["actors"]}
        assert firsts == {one["name"]: one["position"] for one in found["actors"]}
        assert found["notes"] == [
            f"The events of {name} before {first} are not here." for name, first in firsts.items()
        ]
        assert {machine["state"] for machine in found["machines"]} == {"active", "ticketed"}
        every = json.loads((await leasehold("explain", lease, "--all", "--json")).output)
        assert (every["notes"], {one["first"] for one in every["actors"]}) == ([], {1})
        assert len(every["story"]) > len(found["story"])
