"""The stocks that a site may open: held to its inventory, whatever else its records, its folder and its leases have."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from leasehold.faults.simulation.cluster import SystemCluster
from leasehold.impl.actor.environment import ActorError, Environment
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.identity.signed import Malformed, Refusal, Unauthorised
from leasehold.impl.lease.delegations import Published
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.lease.stock_admission import CountedUnits, HeldLeases, StockAdmission
from leasehold.spec import load

PROGRAM = compile_system(load("delegation", {"holders": "2"}))
INVENTORY = Inventory.parse({"units": [{"name": "gpu", "type": "gpu", "count": 4}, {"name": "vm", "type": "vm"}]})
Record = tuple[str, dict[str, Any]]


def record(run: str, units: int, end: int, type: str = "gpu", above: int | None = None) -> Record:
    return run, {"units": units, "end": end, "type": type, "above": above}


def opened(units: int, *records: Record, end: int = 30, start: Any = 5, type: Any = "gpu", folder: Any = None) -> None:
    site = StockAdmission("site", INVENTORY, folder)
    site.admit("open", {"units": units, "start": start, "end": end, "type": type}, records, now=5)


def refusal(*arguments: Any, **more: Any) -> str:
    with pytest.raises(Refusal) as refused:
        opened(*arguments, **more)
    return refused.value.reason


def test_a_stock_has_no_more_units_than_there_are() -> None:
    opened(4)
    assert refusal(5) == "site has 4 units of gpu, of which 4 are free at 5, and 5 were to be opened"
    opened(1, type="vm")
    assert "site has 1 unit of vm" in refusal(2, type="vm")


def test_other_stocks_of_the_type_take_units_until_they_are_over() -> None:
    others = record("site:1", 2, 20), record("site:2", 1, 10), record("site:3", 1, 30, "vm")
    opened(1, *others)
    assert refusal(2, *others) == (
        "site has 4 units of gpu, of which 1 is free at 5, and 2 were to be opened: site:1 has 2 until 20, "
        "site:2 has 1 until 10"
    )
    opened(2, record("site:1", 2, 20), record("site:2", 2, 5))  # at its end a stock is over
    assert "of which 0 are free" in refusal(1, record("site:1", 4, 6))
    opened(4, record("site:1", 0, 0), record("site:2", 4, 30, above=2))  # one that is over, and units of another site


def test_a_stock_that_begins_later_is_held_to_what_is_taken_then() -> None:
    opened(4, record("site:1", 4, 10), start=10)
    assert "of which 0 are free at 9" in refusal(1, record("site:1", 4, 10), start=9)
    assert "of which 0 are free at 5" in refusal(1, record("site:1", 4, 10), start=2), "not before now"


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"start": "now"}, Malformed, "the start of a term is a number of ticks, not 'now'"),
        ({"start": 30}, Malformed, "a term from 30 until 30 has no time in it"),
        ({"type": "gpus"}, Unauthorised, "site has no units of type 'gpus'; did you mean gpu?"),
        ({"type": None}, Unauthorised, "site has no units of type 'unit'"),
    ],
)
def test_a_stock_that_is_none(changes: dict[str, Any], error: type[Refusal], words: str) -> None:
    with pytest.raises(error) as refused:
        opened(1, **changes)
    assert words in refused.value.reason


def test_who_has_no_inventory_opens_no_stock() -> None:
    fields = {"units": 1, "start": 5, "end": 30, "type": "gpu"}
    with pytest.raises(Unauthorised, match="no inventory says which units east has; name it by `inventory`"):
        StockAdmission("east", None, None).admit("open", fields, (), 5)
    StockAdmission("east", None, None).admit("hand_on", {"units": 9}, (), 5)


# What its records do not know


def published(folder: Path, run: str, units: int, end: int = 30, actor: str = "site", above: str = "") -> None:
    one = Published(
        run=run,
        machine="holder[0]",
        actor=actor,
        site="site",
        type="gpu",
        units=units,
        start=1,
        end=end,
        above=above,
        chain="",
        own=0,
        own_end=0,
        withdrawing=False,
        name=f"{run}~0~0.0",
        out=(),
    )
    (folder / f"{run}~0.delegation").write_bytes(msgspec.json.encode(one))


def test_what_was_published_before_its_store_was_new_counts_until_it_is_over(tmp_path: Path) -> None:
    published(tmp_path, "site:1", 3)
    published(tmp_path, "site:2", 4, end=5)
    published(tmp_path, "other:1", 4, actor="east", above="other")
    published(tmp_path, "other:2", 4, above="other")  # the site is a broker of another one
    opened(1, folder=tmp_path)
    assert "of which 1 is free at 5" in refusal(2, folder=tmp_path)
    opened(4, record("site:1", 0, 0), folder=tmp_path)  # its record knows better


def test_leases_that_were_cut_from_no_delegation_count(tmp_path: Path) -> None:
    leases = HeldLeases(tmp_path, "site")
    leases.write([CountedUnits("anna:1", "gpu", 2, 20), CountedUnits("ben:1", "vm", 1, 20)])
    assert HeldLeases(tmp_path, "site").read() == (
        CountedUnits("anna:1", "gpu", 2, 20),
        CountedUnits("ben:1", "vm", 1, 20),
    )
    assert "2 are free at 5, and 3 were to be opened: anna:1 has 2 until 20" in refusal(3, folder=tmp_path)
    leases.write([])
    opened(4, folder=tmp_path)


def test_a_folder_that_cannot_be_read_lets_no_stock_be_opened(tmp_path: Path) -> None:
    HeldLeases(tmp_path, "site").path.write_text("{}")
    assert "it is not known which units are taken" in refusal(1, folder=tmp_path)


# Real actors


PLAYERS = {"holder[0]": "site", "holder[1]": "east"}


def cluster() -> SystemCluster:
    def environment(name: str) -> Environment:
        whose = INVENTORY if name == "site" else None
        return Environment(peers=PLAYERS, admission=StockAdmission(name, whose, None))

    return SystemCluster(PROGRAM, environment=environment, players=PLAYERS)


async def opens(actors: SystemCluster, number: int, units: int, end: int = 30) -> str:
    """Opens a stock; returns why it is refused, or nothing."""
    fields = {"units": units, "start": actors.time.now, "end": end, "type": "gpu"}
    try:
        await actors.actors["site"].begin(f"site:{number}", "holder[0]", "open", fields, PLAYERS)
    except ActorError as error:
        return str(error)
    return ""


def stocks(actors: SystemCluster) -> list[int]:
    found = (actors.held(f"site:{number}", "holder[0]") for number in range(1, 40))
    return [one.core.view(one.record)["units"] for one in found if one is not None]


async def test_stocks_that_are_opened_at_once_are_never_too_many() -> None:
    async with cluster() as actors:
        words = await asyncio.gather(*(opens(actors, number, 1 + number % 2) for number in range(1, 12)))
        await actors.settle()
        assert sum(stocks(actors)) == 4
        assert len(stocks(actors)) == words.count("")
        refused = [text for text in words if text]
        assert all("holder[0] does not take open: site has 4 units of gpu, of which" in text for text in refused)


async def test_it_knows_its_stocks_after_a_crash_and_opens_others_when_they_are_over() -> None:
    async with cluster() as actors:
        assert await opens(actors, 1, 3, end=10) == ""
        await actors.settle()
        await actors.kill("site")
        await actors.restart("site")
        assert "of which 1 is free" in await opens(actors, 2, 2)
        assert stocks(actors) == [3], "what is refused leaves no run"
        assert await opens(actors, 3, 1, end=10) == ""
        await actors.advance(12)
        assert "of which 4 are free" in await opens(actors, 4, 5)
        assert await opens(actors, 5, 4) == ""


async def test_a_run_that_is_over_is_not_opened_again_with_more_than_there_are() -> None:
    async with cluster() as actors:
        assert await opens(actors, 1, 1, end=2) == ""
        await actors.advance(5)
        assert await opens(actors, 2, 4) == ""
        await actors.settle()
        fields = {"units": 1, "start": actors.time.now, "end": 30, "type": "gpu"}
        with pytest.raises(ActorError, match="of which 0 are free"):
            await actors.actors["site"].tell("site:1", "holder[0]", "open", fields)


async def test_who_has_no_inventory_hands_on_what_it_was_handed() -> None:
    async with cluster() as actors:
        fields = {"units": 1, "start": 0, "end": 30, "type": "gpu"}
        with pytest.raises(ActorError, match="no inventory says which units east has"):
            await actors.actors["east"].begin("east:1", "holder[1]", "open", fields, PLAYERS)
        assert await opens(actors, 1, 4) == ""
        given = {"who": 1, "units": 4, "start": actors.time.now, "end": 20}
        await actors.actors["site"].tell("site:1", "holder[0]", "hand_on", given)
        await actors.settle()
        east = actors.held("site:1", "holder[1]")
        assert east is not None
        assert east.state == "holding"
