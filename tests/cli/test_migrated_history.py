"""A history in which records were migrated to other constants: each stretch is judged and explained by its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from leasehold.cli.main import cli
from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.events.event import AnyEvent, MigratedEvent, RecoveredEvent
from leasehold.impl.events.stretches import stretches
from leasehold.impl.identity.trust import Identity
from leasehold.impl.lease.fleet import ROLES
from leasehold.impl.store.url import store_from_url

MIGRATED_AT = 14
CLAIMS = ("--property", "tickets_are_told_as_issued", "--property", "ticket_is_as_issued")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The stores of a tenant, a broker and a site that had four units, and then six; a lease goes on over that."""
    folder = tmp_path_factory.mktemp("migrated")
    known: Mapping[str, Identity] = {}

    def cluster(units: int, now: int) -> Cluster:
        nonlocal known
        made = Cluster(units, store=lambda name: store_from_url(f"sqlite:{folder / name}.db"))
        known = made._identities = known or made._identities
        made.time.now = now
        return made

    async def before() -> None:
        async with cluster(4, 0) as actors:
            await actors.lease(2, until=30)
            await actors.lease(1, until=12)
            await actors.advance(MIGRATED_AT)

    async def after() -> None:
        async with cluster(6, MIGRATED_AT) as actors:
            await actors.settle()
            await actors.lease(4, until=30, name="tenant:3")
            await actors.advance(30)
            assert actors.state("tenant:1") == actors.state("tenant:3") == ("closed", "closed", "closed")

    asyncio.run(before())
    places = [f"sqlite:{folder / name}.db" for name in sorted(ROLES)]
    for place in places:
        done = asked("migrate", place, "lease", "--set", "max_units=6")
        assert done.exit_code == 0, done.output
    asyncio.run(after())
    return places


def asked(*words: str) -> Result:
    return CliRunner().invoke(cli, words)


def test_each_stretch_is_verified_by_its_own_constants(stores: list[str]) -> None:
    """Nothing is contradicted. A lease that goes on was not seen to begin in the later one, and that is said."""
    told = asked("verify", *stores, *CLAIMS, "--json")
    found = json.loads(told.output)
    assert told.exit_code == 3, told.output
    assert (found["verdict"], found["violations"]) == ("undecided", [])
    assert {fault["run"] for fault in found["faults"]} == {"tenant:1", "tenant:2"}
    assert ["max_units=4" in title for title in found["stretches"]] == [True, False]
    assert ["max_units=6" in title for title in found["stretches"]] == [False, True]


def test_a_violation_in_an_earlier_stretch_is_found(stores: list[str], tmp_path: Path) -> None:
    """The units that tenant:1 had before the migration are more than a property of one's own allows."""
    own = tmp_path / "own.yaml"
    own.write_text("properties: {at_most_one: {always: service_manager.ticket_units <= 1}}\n")
    found = json.loads(asked("verify", *stores, "--more", str(own), "--property", "at_most_one", "--json").output)
    assert {(v["run"], v["now"]) for v in found["violations"]} == {("tenant:1", 0), ("tenant:3", MIGRATED_AT)}


def test_each_stretch_conforms(stores: list[str]) -> None:
    told = asked("conform", *stores, "--json")
    found = json.loads(told.output)
    assert told.exit_code == 0, told.output
    assert found["findings"] == []
    judged = [(log["actor"], log["pruned"] > 0, log["not_judged"]) for log in found["logs"]]
    assert judged == [(name, later, 0) for later in (False, True) for name in sorted(ROLES)]


@pytest.mark.parametrize(("at", "state"), [("5", "active"), ("site:9", ""), ("20", "active"), (None, "closed")])
def test_a_moment_is_explained_in_its_stretch(stores: list[str], at: str | None, state: str) -> None:
    told = asked("explain", "tenant:1", *stores, *([] if at is None else ["--at", at]), "--json")
    found = json.loads(told.output)
    assert told.exit_code == 0, told.output
    begin = {actor["name"]: actor["first"] for actor in found["actors"]}
    assert (begin["site"] > 1) == (at in ("20", None))
    assert state in {"", *(machine["state"] for machine in found["machines"] if machine["machine"] == "authority")}


@pytest.mark.parametrize("stretch", [(), ("--until", "site:20"), ("--from", "tenant:10", "--until", "tenant:33")])
def test_a_stretch_is_played_by_its_constants(stores: list[str], stretch: tuple[str, ...]) -> None:
    (found,) = json.loads(asked("replay", *stores, *stretch, "--json").output)["cases"]
    assert (found["differs"], found["same"]) == (False, found["steps"])
    assert found["steps"] > 20


# What a stretch is


def chain(actor: str, *parts: tuple[str, str, int]) -> list[AnyEvent]:
    """The events with which an actor begins: kind (`+` begins, `>` is migrated), agreement, machines."""
    made: list[AnyEvent] = []
    for kind, agreement, machines in parts:
        of: dict[str, Any] = {
            "actor": actor,
            "spec": "s",
            "epoch": len(made) + 1,
            "position": len(made) + 1,
            "now": 0,
            "time": 0.0,
            "commit": 0,
            "before": "",
        }
        more = {"agreement": agreement, "machines": machines} if kind == "+" else {"source": "s", "records": machines}
        made.append((RecoveredEvent if kind == "+" else MigratedEvent)(**of, **more))
    return made


def told(chains: Mapping[str, list[AnyEvent]]) -> list[dict[str, tuple[int, int]]]:
    return [{a: (p[0], p[-1]) for a, p in sorted(one.positions.items())} for one in stretches(chains)]


def test_a_history_without_a_migration_is_one_stretch() -> None:
    """Though its actors have other constants than each other, which is for those to say who judge it."""
    assert told({"a": chain("a", ("+", "s.1", 0), ("+", "s.2", 0)), "b": chain("b", ("+", "s.1", 0))}) == [
        {"a": (1, 2), "b": (1, 1)}
    ]


def test_who_has_no_records_begins_with_other_constants() -> None:
    migrated = chain("a", ("+", "s.1", 0), (">", "", 3), ("+", "s.2", 3), (">", "", 3), ("+", "s.1", 3))
    assert told({"b": chain("b", ("+", "s.1", 0), ("+", "s.2", 0), ("+", "s.1", 0)), "a": migrated}) == [
        {"a": (1, 1), "b": (1, 1)},
        {"a": (3, 3), "b": (2, 2)},
        {"a": (5, 5), "b": (3, 3)},
    ]


def test_who_has_records_has_to_migrate_them() -> None:
    found = told(
        {
            "a": chain("a", ("+", "s.1", 0), (">", "", 3), ("+", "s.2", 3)),
            "b": chain("b", ("+", "s.1", 2), ("+", "s.2", 2)),
        }
    )
    assert found == [{"a": (1, 1), "b": (1, 2)}, {"a": (3, 3)}]


def test_records_that_nobody_has_begun_with_are_no_stretch() -> None:
    assert told({"a": chain("a", ("+", "s.1", 0), (">", "", 3))}) == [{"a": (1, 1)}]
