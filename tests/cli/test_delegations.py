"""Delegations by real actors: a site and two brokers, one under the other, with `kill -9`, clients and the verifier."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from leasehold.cli.main import cli
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust_file import TrustFile
from leasehold.impl.lease import delegation, ticket
from leasehold.impl.lease.delegation import convict, read_chain, read_release
from leasehold.impl.lease.delegations import Delegations
from leasehold.impl.processes.fleet import SystemFleet

PLAYERS = {"holder[0]": "site", "holder[1]": "east", "holder[2]": "west"}
ROLES = ("holder", "holder")


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[SystemFleet]:
    more = {
        "handler": {"name": "delegations", "folder": "handed", "look_seconds": 0.05},
        "inventory": {"units": [{"name": "gpu", "type": "gpu", "count": 3}, {"name": "unit", "count": 5}]},
    }
    with SystemFleet("delegation", tmp_path / "run", players=PLAYERS, more=more) as fleet:
        yield fleet


def said(fleet: SystemFleet, *words: str, at: str = "", code: int = 0) -> Result:
    done = CliRunner().invoke(cli, [*words, *(["--at", str(fleet.folder / f"{at}.sock")] if at else [])])
    assert done.exit_code == code, done.output
    return done


def listed(fleet: SystemFleet, at: str) -> Any:
    return json.loads(said(fleet, "delegations", "--json", at=at).stdout)["delegations"]


def until(true: Callable[[], object]) -> None:
    """Waits for what comes sooner or later, however busy the machine is."""
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def of(fleet: SystemFleet, name: str) -> Delegations:
    return Delegations(fleet.folder / "handed", name)


def restart(fleet: SystemFleet, name: str) -> None:
    fleet.kill(name)
    fleet.start(name)
    fleet.await_ready(name)


@pytest.mark.long
def test_units_are_handed_on_and_come_back_whoever_is_killed(fleet: SystemFleet) -> None:
    trust = TrustFile(fleet.folder / "trust.yaml").current()
    run = said(fleet, "stock", "--units", "3", "--until", "1h", "--type", "gpu", at="site").stdout.strip()
    assert run == "site:1"
    said(fleet, "delegate", "east", "--units", "2", "--until", "30m", at="site")
    restart(fleet, "site")
    until(lambda: of(fleet, "east").stocks)
    (stock,) = of(fleet, "east").stocks
    assert (stock.site, stock.type, stock.units) == ("site", "gpu", 2)
    chain = read_chain(
        stock.chain, trust, authority="site", holder="east", revoked=of(fleet, "site").revoked, roles=ROLES
    )

    # East hands one of them on: it takes back what it keeps for tickets, as soon as its seller says that none is out.
    few = said(fleet, "delegate", "west", "--units", "1", "--until", "10m", "--wait", "0.1", at="east", code=1)
    assert "site:1: east still has tickets out of its 2 units" in few.output
    (back,) = of(fleet, "east").called_back
    restart(fleet, "east")
    assert of(fleet, "east").called_back == (back,)
    of(fleet, "east").withdrawn(back.name)
    until(lambda: listed(fleet, "east")[0]["free"] == 2)
    said(fleet, "delegate", "west", "--units", "1", "--until", "10m", at="east")
    until(lambda: of(fleet, "west").stocks)
    (under,) = of(fleet, "west").stocks
    below = read_chain(under.chain, trust, authority="site", revoked=of(fleet, "site").revoked, roles=ROLES)
    assert [link.holder for link in below.links] == ["site", "east", "west"]
    assert below.links[:2] == chain.links
    said(fleet, "delegate", "east", "--units", "1", "--until", "10m", at="east")  # for its own tickets again
    assert listed(fleet, "east") == [
        {
            "run": "site:1",
            "actor": "east",
            "site": "site",
            "type": "gpu",
            "units": 2,
            "until": chain.last.end,
            "from": "site",
            "own": 1,
            "free": 0,
            "out": [{"to": "west", "units": 1, "until": below.last.end, "called_back": False}],
        }
    ]
    assert "east" in said(fleet, "delegations", at="site").stdout

    # East keeps its units for longer, and so may west then; what was cut from them before is good as it is.
    said(fleet, "delegate", "east", "--prolong", "--until", "45m", at="site")
    until(lambda: listed(fleet, "east")[0]["until"] > chain.last.end)
    restart(fleet, "east")
    later = listed(fleet, "east")[0]["until"]
    (longer,) = of(fleet, "east").stocks
    prolonged = read_chain(longer.chain, trust, authority="site", revoked=of(fleet, "site").revoked, roles=ROLES)
    assert (prolonged.last.serial, prolonged.last.units, prolonged.last.end) == (chain.last.serial, 2, later)
    assert convict([*(one.text for one in (chain, below, prolonged))], trust, roles=ROLES) == []
    assert read_chain(under.chain, trust, authority="site", revoked=of(fleet, "site").revoked, roles=ROLES) == below
    said(fleet, "delegate", "west", "--prolong", "--until", "40m", at="east")
    until(lambda: of(fleet, "west").stocks[0].end > below.last.end)
    assert (
        "or longer than it has the units"
        in said(fleet, "delegate", "west", "--prolong", "--until", "50m", at="east", code=1).output
    )
    assert said(fleet, "delegate", "west", "--prolong", "--units", "1", "--until", "50m", at="east", code=2)

    # The site calls its units back: they come when both brokers' tickets are over, whoever dies meanwhile.
    said(fleet, "undelegate", run, "--from", "east", at="site")
    for name in ("west", "east"):
        until(lambda name=name: of(fleet, name).called_back)
        assert of(fleet, name).stocks == ()
        restart(fleet, name)
    assert of(fleet, "site").revoked(chain.last) is None
    for name in ("west", "east"):
        for one in of(fleet, name).called_back:
            of(fleet, name).withdrawn(one.name)
    until(lambda: not listed(fleet, "site")[0]["out"])
    until(lambda: of(fleet, "site").revoked(chain.last))
    assert "given back to site" in (of(fleet, "site").revoked(chain.last) or "")
    assert listed(fleet, "east") == listed(fleet, "west") == []
    for name, other in (("site", "east"), ("east", "west")):
        (line,) = (fleet.folder / "handed" / f"site:1~{('site', 'east').index(name)}.releases").read_text().splitlines()
        back = read_release(line, trust)
        assert (back.issuer, back.holder, back.lease) == (name, other, "site:1")

    for verb in ("verify", "conform"):
        done = said(fleet, verb, str(fleet.folder))
        assert "violated" not in done.stdout.lower(), done.stdout


@pytest.mark.long
def test_nothing_is_called_back_for_what_cannot_be_handed_on(fleet: SystemFleet) -> None:
    said(fleet, "stock", "--units", "2", "--until", "20m", at="site")
    said(fleet, "delegate", "east", "--units", "2", "--until", "10m", at="site")
    until(lambda: listed(fleet, "east"))
    for broker, end, why in (
        ("west", "11m", "they cannot be handed on until"),
        ("west", "1", "they cannot be handed on until 1"),
        ("site", "5m", "east has these units of site"),
    ):
        few = said(fleet, "delegate", broker, "--units", "1", "--until", end, "--wait", "0", at="east", code=1)
        assert why in few.output
    time.sleep(0.3)  # what is called back would be free
    assert [(row["own"], row["free"]) for row in listed(fleet, "east")] == [(2, 0)]


@pytest.mark.long
def test_what_cannot_be_handed_on_is_said_clearly(fleet: SystemFleet) -> None:
    def wrong(*words: str, at: str = "site") -> str:
        return said(fleet, *words, at=at, code=1).output

    assert "no actor at" in wrong("delegate", "east", "--units", "1", "--until", "1h")
    said(fleet, "stock", "--units", "2", "--until", "10m", at="site")
    assert "eastt takes no part in site:1; did you mean east?" in wrong(
        "delegate", "eastt", "--units", "1", "--until", "5m"
    )
    refused = "more units, or longer, than it has left; or it has these units of them, or handed on to them already"
    assert refused in wrong("delegate", "east", "--units", "3", "--until", "5m")
    assert refused in wrong("delegate", "east", "--units", "1", "--until", "11m")
    assert "nothing is handed on to them" in wrong("undelegate", "site:1", "--from", "west")
    assert "has units in site:7" in wrong("undelegate", "site:7")
    assert "has units of gpu" in wrong("delegate", "east", "--units", "1", "--until", "5m", "--type", "gpu")
    said(fleet, "stock", "--units", "2", "--until", "10m", at="site")
    assert "there are several (site:1 at site, site:2 at site)" in wrong(
        "delegate", "east", "--units", "1", "--until", "5m"
    )
    assert "(east, site, west); name the socket of the site with --at" in " ".join(
        CliRunner().invoke(cli, ["stock", "--units", "1", "--until", "5m", "--at", str(fleet.folder)]).output.split()
    )
    restart(fleet, "site")
    none_left = wrong("stock", "--units", "2", "--until", "10m")
    assert "site has 5 units of unit, of which 1 is free at" in none_left
    assert "and 2 were to be opened: site:1 has 2 until" in none_left
    said(fleet, "stock", "--units", "1", "--until", "10m", at="site")


def test_tickets_convict_whoever_has_promised_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keys = {name: PrivateKey.generate() for name in ("site", "east", "west", "north")}
    for name, key in keys.items():
        kind = "authority" if name == "site" else "broker"
        done = CliRunner().invoke(cli, ["add-actor", name, str(key.public), "--role", kind])
        assert done.exit_code == 0, done.output
    trust = TrustFile(tmp_path / "trust.yaml").current()
    term = {"start": 0, "end": 10}
    whole = delegation.stock(keys["site"], site=trust.find("site"), lease="site:1", resource="vm", units=4, **term)
    east = delegation.cut(keys["site"], whole, holder=trust.find("east"), serial=1, units=2, **term)
    cuts = [
        delegation.cut(keys["east"], east, holder=trust.find(name), serial=1, units=2, **term)
        for name in ("west", "north")
    ]
    (tmp_path / "seen.txt").write_text("\n".join(cuts) + "\n")
    done = CliRunner().invoke(cli, ["tickets", "convict", "seen.txt"])
    assert done.exit_code == 1
    assert done.stdout == (
        "east had 2 units of vm of site at 0, and has promised 4 (texts 1, 2), unless it shows that north or west had "
        "given units back\n"
    )
    proof = json.loads(CliRunner().invoke(cli, ["tickets", "convict", "seen.txt", "--json"]).stdout)
    assert proof["convictions"][0]["papers"] == cuts
    assert proof["convictions"][0]["cleared_by"] == ["north", "west"]
    back = delegation.release(keys["west"], issuer="east", holder="west", lease="site:1", serial=1)
    (tmp_path / "back.txt").write_text(back)
    done = CliRunner().invoke(cli, ["tickets", "convict", "seen.txt", "back.txt"])
    assert (done.exit_code, done.stdout) == (0, "nobody is convicted by 2 texts\n")
    terms = {"authority": "site", "serial": 1, "resource": "vm", "units": 2, "end": 10, "properties": {"chain": east}}
    tickets = [
        ticket.issue(keys["east"], issuer="east", holder=trust.find("north"), lease=f"north:{n}", **terms)
        for n in (1, 2)
    ]
    (tmp_path / "sold.txt").write_text("\n".join(tickets))
    assert CliRunner().invoke(cli, ["tickets", "convict", "sold.txt"]).exit_code == 1
    given_back = ticket.release(keys["north"], issuer="east", holder="north", lease="north:1", before=0)
    (tmp_path / "east.releases").write_text(f"{given_back}\n")
    done = CliRunner().invoke(cli, ["tickets", "convict", "sold.txt", "east.releases"])
    assert (done.exit_code, done.stdout) == (0, "nobody is convicted by 2 texts\n")
    (tmp_path / "forged.txt").write_text(cuts[0][:-4] + "AAAA")
    done = CliRunner().invoke(cli, ["tickets", "convict", "forged.txt"])
    assert done.exit_code == 2
    assert "Traceback" not in done.output


@pytest.mark.slow
def test_real_actors_come_back_from_every_crash() -> None:
    done = CliRunner().invoke(cli, ["crash", "real", "delegation", "--set", "holders=2"])
    assert done.exit_code == 0, done.output
    assert "339 passed, 0 failed" in done.stdout
