"""The judge of a federation finds what is wrong from outside; and a federation survives the death of each actor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.recovery.lease.processes.federation import ABOVE, BROKERS, HOLDERS, SITES, FederationJudge
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.lease.fleet import FederationFleet
from leasehold.impl.server.client import ClientError


class Said:
    """The fleet of which each actor says what the test wants it to say."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.sites, self.brokers, self.holders = folder, SITES, BROKERS, HOLDERS
        self.roles = dict.fromkeys([*HOLDERS, *BROKERS, *SITES])
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in self.roles}
        self.away: set[str] = set()

    def client(self, name: str) -> Any:
        said = self

        class Answers:
            def get(self, what: str) -> Any:
                if name in said.away:
                    raise ClientError(f"{name} does not answer")
                return {"now": 5} if what == "about" else said.rows[name]

        return Answers()


def judge(folder: Path) -> tuple[Said, FederationJudge]:
    said = Said(folder)
    return said, FederationJudge(said)  # type: ignore[arg-type]


@contextmanager
def unit(folder: Path, name: str, lease: str) -> Iterator[None]:
    """A process of a unit, as the kernel shows it."""
    variables = {"HOME": str(folder / "units-x" / name), "LEASEHOLD_UNIT": name, "LEASEHOLD_LEASE": lease}
    process = subprocess.Popen(["sleep", "60"], env={**os.environ, **variables})
    try:
        yield
    finally:
        process.kill()
        process.wait()


def active(lease: str, units: int, type: str = "node", site: str = "east", end: int = 9) -> dict[str, Any]:
    data = {"type": type, "ticket_properties": {"authority": site}, "lease_units": [*range(units)]}
    return {
        "lease": lease,
        "state": "active",
        "since": 1,
        "over": False,
        "data": {**data, "lease_end": end, "ticket_end": end},
    }


def promised(lease: str, units: int, type: str, site: str) -> dict[str, Any]:
    data = {"counted": units, "properties": {"authority": site, "type": type}}
    return {"lease": lease, "state": "ticketed", "over": False, "data": data}


def found(folder: Path, said: Said, judged: FederationJudge) -> list[str]:
    judged.observe()
    judged.observe()  # an observation is not of one moment
    return [*judged.violations]


def test_a_lease_that_has_what_its_ticket_says_is_well(tmp_path: Path) -> None:
    said, judged = judge(tmp_path)
    said.rows["anna"] = [active("anna:1", 1)]
    with unit(tmp_path, "east-node-0", "anna:1"):
        assert found(tmp_path, said, judged) == []
        assert judged.left() == ["east-node-0 for anna:1"]
    assert judged.left() == []


@pytest.mark.parametrize(
    ("name", "violation"),
    [
        ("east-disk-0", "anna:1 is for node at east, and has east-disk-0"),
        ("west-node-0", "anna:1 is for node at east, and has west-node-0"),
    ],
)
def test_units_of_another_type_or_site_are_found(name: str, violation: str, tmp_path: Path) -> None:
    said, judged = judge(tmp_path)
    said.rows["anna"] = [active("anna:1", 1)]
    with unit(tmp_path, name, "anna:1"):
        assert violation in found(tmp_path, said, judged)


def test_units_that_do_not_run_are_found_and_one_that_has_ended_is_excused(tmp_path: Path) -> None:
    said, judged = judge(tmp_path)
    said.rows["anna"] = [active("anna:1", 2), active("anna:2", 1, end=5)]
    with unit(tmp_path, "east-node-0", "anna:1"):
        assert found(tmp_path, said, judged) == ["anna:1 is active with 2 units of node at east, and 1 run"]


def test_units_that_two_brokers_promise_are_found(tmp_path: Path) -> None:
    said, judged = judge(tmp_path)
    said.rows["bazaar"], said.rows["stall"] = (
        [promised("anna:1", 2, "gpu", "west")],
        [promised("ben:1", 1, "gpu", "west")],
    )
    assert found(tmp_path, said, judged) == ["3 units of gpu at west are promised, more than it has"]


def test_a_lease_is_over_when_all_answer_and_say_so(tmp_path: Path) -> None:
    said, judged = judge(tmp_path)
    said.rows["anna"] = [active("anna:1", 0)]
    judged.observe()
    assert not judged.over("anna:1")
    said.rows["anna"] = [active("anna:1", 0) | {"over": True}]
    said.away = {"west"}
    judged.observe()
    assert not judged.over("anna:1"), "west may have it"
    said.away = set()
    judged.observe()
    assert judged.over("anna:1")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_a_federation_survives_the_death_of_each_actor(seed: int, tmp_path: Path) -> None:
    command = ["demo", "federation", "--kill-each", "--json", "--seed", str(seed), "--dir", str(tmp_path)]
    ran = subprocess.run([sys.executable, "-m", "leasehold", *command], capture_output=True, text=True, check=False)
    said = json.loads(ran.stdout)
    assert (said["violations"], said["findings"], said["leaked"]) == ([], [], [])
    assert said["kills"] == 2 * (len(SITES) + len(BROKERS)) + len(HOLDERS) + 1, "those that hand units on as well"
    assert said["served"] >= 5
    assert ran.returncode == 0


def test_each_actor_of_a_federation_has_its_configuration(tmp_path: Path) -> None:
    fleet = FederationFleet(tmp_path, SITES, BROKERS, HOLDERS, ABOVE)
    fleet.prepare()
    assert {name for name in fleet.roles if (tmp_path / f"{name}.yaml").exists()} == {*SITES, *BROKERS, *HOLDERS}
    assert (tmp_path / "delegating" / f"{ABOVE}.yaml").exists()
    for name in (*SITES, *BROKERS):
        keys = [PrivateKey.load(folder / f"{name}.key").public for folder in (tmp_path, tmp_path / "delegating")]
        assert keys[0] == keys[1], "a chain names who signs tickets"


def test_the_units_of_a_site_are_shared_out_among_its_brokers() -> None:
    shared = Counter(
        (site, t) for of in BROKERS.values() for site, ts in of.items() for t, n in ts.items() for _ in range(n)
    )
    assert shared == Counter({(site, t): n for site, ts in SITES.items() for t, n in ts.items()})
