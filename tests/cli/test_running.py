"""Actors as processes, and the verbs of their clients: `run`, `demand`, `leases`, `show`, `explain`, `extend`, ..."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from leasehold.impl.handlers import processes
from leasehold.impl.lease.fleet import ROLES, SITE, TENANT, Fleet
from leasehold.impl.server.client import Client, ClientError, Unreachable
from tests.cli.test_json import reference
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    made = Fleet(tmp_path_factory.mktemp("fleet"), units=4, tick_seconds=0.25)
    with made:
        yield made
    made.end_units()


def leasehold(fleet: Fleet, *words: str, code: int = 0, at: str = "") -> str:
    """What a verb prints; on the standard error, where it fails."""
    ended = subprocess.run(
        [sys.executable, "-m", "leasehold", *words, "--at", str(fleet.folder / at)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stderr if code else ended.stdout


def lives(pid: int) -> bool:
    seen = processes.look(pid)
    return seen is not None and not seen.gone


def states(fleet: Fleet, lease: str) -> dict[str, str]:
    rows = json.loads(leasehold(fleet, "leases", "--all", "--json"))["leases"]
    return {row["machine"]: row["state"] for row in rows if row["lease"] == lease}


@pytest.mark.long
def test_a_lease_from_the_command_line(fleet: Fleet) -> None:
    """Asked for, seen, explained, changed, and ended."""
    lease = leasehold(fleet, "demand", "--units", "2", "--until", "5m", "--term", "4s").strip()
    assert lease.startswith("tenant:")
    wait_until(
        lambda: states(fleet, lease) == {"service_manager": "active", "broker": "ticketed", "authority": "active"}
    )
    listed = json.loads(leasehold(fleet, "leases", "--json"))
    assert listed.keys() == reference.LEASES_KEYS.keys()
    assert listed["leases"][0].keys() == {**reference.MACHINE_KEYS, **reference.CLIENT_KEYS}.keys()
    (machine, *_) = json.loads(leasehold(fleet, "show", lease, "--json"))["machines"]
    assert machine.keys() == {**reference.MACHINE_KEYS, **reference.SHOWN_KEYS}.keys()
    table = leasehold(fleet, "leases")
    assert lease in table
    assert "ticketed" in table
    shown = leasehold(fleet, "show", lease)
    assert "unit-0" in shown
    assert "pid" in shown
    why = leasehold(fleet, "explain", lease)
    assert f"{lease} at tenant (service_manager) is active" in why
    assert "Somebody wants 2 units for another" in why
    assert "extend_lease of service_manager (tenant) -> modifying" in why
    assert "service_manager joining -> active: joined" in why
    leasehold(fleet, "extend", lease, "--units", "3", "--soon")
    site = fleet.client(SITE)
    wait_until(lambda: len(site.get("leases", lease)[0]["data"]["told"]) == 3)
    assert "modifying" not in leasehold(fleet, "close", lease)
    assert "Somebody wants" not in leasehold(fleet, "explain", lease)
    wait_until(lambda: set(states(fleet, lease).values()) == {"closed"})
    assert lease not in leasehold(fleet, "leases")
    assert "is ending already" in leasehold(fleet, "close", lease)


@pytest.mark.long
def test_an_actor_that_is_down_is_named_by_who_waits_for_it(fleet: Fleet) -> None:
    lease = leasehold(fleet, "demand", "--units", "1", "--until", "5m", "--term", "1m").strip()
    wait_until(lambda: states(fleet, lease).get("service_manager") == "active")
    unit = fleet.client(SITE).get("leases", lease)[0]["units"][0]
    fleet.kill(SITE)
    try:
        assert lives(unit["facts"]["pid"])
        leasehold(fleet, "close", lease)
        wait_until(lambda: "not taken" in leasehold(fleet, "explain", lease))
        why = leasehold(fleet, "explain", lease)
        assert "is closing" in why
        assert "It says close" in why
        no = leasehold(fleet, "show", lease, at="site.sock", code=2)
        assert no.startswith("leasehold: no actor answers at")
        assert "is it running?" in no
    finally:
        fleet.start(SITE)
        about = fleet.await_ready(SITE)
    assert about["epoch"] >= 2
    wait_until(lambda: states(fleet, lease).get("authority") == "closed")
    assert not lives(unit["facts"]["pid"])


@pytest.mark.long
def test_the_scalpel(fleet: Fleet) -> None:
    """Paper, section 4.2: a recovery event for one machine, which disturbs nothing."""
    lease = leasehold(fleet, "demand", "--units", "1", "--until", "5m", "--term", "1m").strip()
    wait_until(lambda: states(fleet, lease).get("service_manager") == "active")
    unit = fleet.client(SITE).get("leases", lease)[0]["units"][0]
    recovered = json.loads(leasehold(fleet, "recover", lease, "--json"))["recovered"]
    assert {one["machine"] for one in recovered} == {"service_manager", "guest[0]", "broker", "authority"}
    assert unit["unit"] in leasehold(fleet, "recover", unit["unit"])
    assert leasehold(fleet, "recover", "unit-99", code=1).startswith(
        "leasehold: there is no unit 'unit-99' here; did you mean unit-"
    )
    assert states(fleet, lease)["service_manager"] == "active"
    assert fleet.client(SITE).get("leases", lease)[0]["units"][0]["facts"]["pid"] == unit["facts"]["pid"]
    leasehold(fleet, "close", lease)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["demand", "--units", "2", "--until", "0", "--term", "5"], 1, "until"),
        (["demand", "--units", "9", "--until", "1m"], 1, "units is 9; 4 is the most that can ever be had"),
        (["demand", "--units", "1", "--until", "soon"], 2, "--until takes a duration such as 10m"),
        (["demand", "--units", "1", "--until", "1m", "--lease", "other:1"], 1, "named tenant:NUMBER"),
        (["show", "tenant:999"], 1, "there is no lease or run tenant:999"),
        (["close", "tenant:999"], 1, "there is no lease or run tenant:999"),
        (["extend", "tenant:999", "--until", "1m"], 1, "nothing is wanted of lease 'tenant:999'"),
        (["extend", "tenant:999"], 2, "give --until, --units or both"),
        (["recover", "tenant:999"], 1, "there is no lease or run tenant:999"),
        (["tell", "unit-7", "repaired"], 1, "there is no unit 'unit-7' here; did you mean unit-"),
        (["tell", "unit-3", "repared"], 1, "unit-3 takes no event 'repared' from outside; did you mean repaired?"),
        (["tell", "unit-3", "setup"], 1, "setup comes from what drives unit[3] or from its handlers"),
        (["tell", "unit-3", "repaired", "--machine", "unit[3]"], 2, "and unit-3 is a unit"),
    ],
)
def test_what_cannot_be_is_said(fleet: Fleet, words: list[str], code: int, said: str) -> None:
    wait_until(lambda: not any(row["state"] == "closing" for row in fleet.client(TENANT).get("leases")))
    before = fleet.client(TENANT).get("leases")
    assert said in leasehold(fleet, *words, code=code)
    assert fleet.client(TENANT).get("leases") == before
    assert fleet.client(TENANT).get("about")["running"]


def test_only_the_actors_user_may_talk_to_it(fleet: Fleet) -> None:
    for name in ROLES:
        assert stat.S_IMODE((fleet.folder / f"{name}.sock").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("place", "given", "words"),
    [
        (("demand",), {"units": 1, "until": 1}, "`term` is missing"),
        (("demand",), {"units": True, "until": 1, "term": 1}, "`units` is 'True', and not of type int"),
        (("demand",), {"units": 1, "until": 1, "term": 1, "color": "red"}, "there is no 'color' here"),
        (("leases", "tenant:1", "tell"), {"event": "explode"}, "there is no lease or run tenant:1 here"),
        (("leases", "-", "tell"), {"event": "repaired", "machine": "unit[0]"}, "there is no lease or run - here"),
        (("nowhere",), {}, "Not Found"),
    ],
)
def test_requests_that_are_not_good(fleet: Fleet, place: tuple[str, ...], given: dict[str, Any], words: str) -> None:
    with pytest.raises(ClientError) as error:
        fleet.client(TENANT).post(*place, **given)
    assert words in str(error.value)
    assert not isinstance(error.value, Unreachable)


def test_metrics_are_there(fleet: Fleet) -> None:
    text = fleet.client(SITE).get("metrics").decode()
    assert "# TYPE leasehold_transitions_total counter" in text
    assert f'digest="{fleet.about(SITE)["spec_digest"]}"' in text


@pytest.mark.long
def test_a_second_copy_cannot_start(fleet: Fleet) -> None:
    config = fleet.folder / "site.yaml"
    ended = subprocess.run(
        [sys.executable, "-m", "leasehold", "run", "authority", "--config", str(config)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 2
    assert "site cannot start: " in ended.stderr
    assert "stop that copy" in ended.stderr
    assert fleet.about(SITE)["running"]  # type: ignore[index]


@pytest.mark.long
def test_a_port_that_is_taken_is_said(fleet: Fleet, tmp_path: Path) -> None:
    config = yaml.safe_load((fleet.folder / "site.yaml").read_text())
    config.update(store="memory:", key=str(fleet.folder / "site.key"), trust=str(fleet.folder / "trust.yaml"))
    (tmp_path / "twin.yaml").write_text(yaml.safe_dump(config))
    ended = subprocess.run(
        [sys.executable, "-m", "leasehold", "run", "authority", "--config", str(tmp_path / "twin.yaml")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 2
    assert "is in use; stop what listens there" in ended.stderr
    assert not (tmp_path / "site.sock").exists()


@pytest.mark.long
def test_a_configuration_is_checked_without_starting(fleet: Fleet) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "leasehold", "run", "authority", "--config", str(fleet.folder / "site.yaml"), "--check"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert ended.stdout.startswith("site can run as authority: specification ")


@pytest.mark.long
def test_a_signal_ends_it_well(tmp_path: Path) -> None:
    """SIGTERM: exit code 0, the socket is gone, and the units go on."""
    fleet = Fleet(tmp_path, units=2, tick_seconds=0.25)
    with fleet:
        fleet.client(TENANT).post("demand", units=2, until=int(time.time() * 4) + 4000, term=2000)
        site = fleet.client(SITE)
        wait_until(lambda: any(row["state"] == "active" for row in site.get("leases")))
        pids = [unit["facts"]["pid"] for unit in site.get("leases", "tenant:1")[0]["units"]]
        fleet.processes[SITE].send_signal(signal.SIGTERM)
        assert fleet.processes[SITE].wait(20) == 0
        assert not (tmp_path / "site.sock").exists()
        assert all(map(lives, pids))
    assert [process.returncode for process in fleet.processes.values()] == [0, 0, 0]
    fleet.end_units()
    assert isinstance(fleet.client(SITE), Client)


@pytest.mark.long
def test_the_demo_survives_kill_9(tmp_path: Path) -> None:
    """Every actor is killed once; all leases end as they should, and no process is left."""
    words = ["--json", "--crash", "--leases", "4", "--seed", "11", "--dir", str(tmp_path / "demo")]
    ended = subprocess.run(
        [sys.executable, "-m", "leasehold", "demo", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found = json.loads(ended.stdout)
    assert found.keys() == reference.DEMO_KEYS.keys() | reference.DEMO_CRASH_KEYS.keys()
    assert found["violations"] == []
    verifier = found["verifier"]
    assert (verifier["violations"], verifier["faults"], verifier["lag"]["events"], verifier["runs"]) == (0, 0, 0, 4)
    assert verifier["cuts"] > verifier["events"] / 2 > 20
    assert (found["leases"], found["closes"], found["crashes"]) == (4, 4, 3)
    assert found["crashes_of"] == dict.fromkeys(ROLES, 1)
    assert found["extensions"] >= 1


@pytest.mark.parametrize("files", [6, 9, 12, 16, 24])
def test_an_actor_that_may_open_few_files_says_so_and_ends(files: int, tmp_path: Path) -> None:
    """However few: without an event loop, a store or a port it is nothing, and nobody reads a traceback."""
    fleet = Fleet(tmp_path, units=1, tick_seconds=0.25)
    fleet.prepare()
    ended = subprocess.run(
        ["sh", "-c", f'ulimit -n {files}; exec "$0" -m leasehold run --config site.yaml', sys.executable],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr == "leasehold: Too many open files: give the process more (`ulimit -a`), and try again\n"
