"""Another system than the lease, as processes: two-phase commit, begun, voted on and seen from the command line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from leasehold.impl.identity import trust_file
from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Trust, add
from leasehold.impl.processes.fleet import free_ports

MACHINES = {"chief": "coordinator", "one": "participant", "two": "participant"}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Three actors that run."""
    trust = Trust()
    for (name, role), port in zip(MACHINES.items(), free_ports(3), strict=True):
        key = PrivateKey.generate()
        key.save(tmp_path / f"{name}.key")
        trust = add(trust, name, role, key.public, f"http://127.0.0.1:{port}")
    trust_file.save(tmp_path / "trust.yaml", trust)
    made = [start(tmp_path, name) for name in MACHINES]
    yield tmp_path
    for process in made:
        process.terminate()
    for process in made:
        process.wait(20)


def start(folder: Path, name: str) -> subprocess.Popen[bytes]:
    config = {
        "name": name,
        "system": "two_phase_commit",
        "settings": {"participants": 2},
        "store": f"sqlite:{name}.db",
        "listen": trust_file.load(folder / "trust.yaml").find(name).address,
        "key": f"{name}.key",
        "trust": "trust.yaml",
        "policy": None,
        "clock": {"tick_seconds": 0.25},
        "messages": {"first_pause_seconds": 0.05, "longest_pause_seconds": 0.2, "ask_again_seconds": 0.5},
        "peers": {"participant[0]": "one", "participant[1]": "two"} if name == "chief" else {},
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(config))
    with (folder / f"{name}.log").open("ab") as log:
        made = subprocess.Popen(
            [sys.executable, "-m", "leasehold", "run", MACHINES[name], "--config", str(folder / f"{name}.yaml")],
            stdout=log,
            stderr=log,
        )
    deadline = time.monotonic() + 30
    while not (folder / f"{name}.sock").exists():
        assert made.poll() is None, (folder / f"{name}.log").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return made


def leasehold(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "leasehold", *words, "--at", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def states(folder: Path, run: str) -> dict[str, str]:
    rows = json.loads(leasehold(folder, "leases", "--all", "--json"))["leases"]
    return {row["machine"]: row["state"] for row in rows if row["lease"] == run}


def wait_for(folder: Path, run: str, wanted: dict[str, str]) -> None:
    deadline = time.monotonic() + 30
    while (found := states(folder, run)) != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


@pytest.mark.long
def test_a_transaction_commits_although_its_coordinator_is_killed(folder: Path) -> None:
    run = leasehold(folder, "begin", "coordinator", "begin").strip()
    assert run == "chief:1"
    wait_for(folder, run, {"coordinator": "asking", "participant[0]": "voting", "participant[1]": "voting"})
    assert "able -> prepared" in leasehold(folder, "explain", run)
    assert "participant[0] took it" in leasehold(folder, "tell", run, "able", "--machine", "participant[0]")
    pid = int(subprocess.run(["pgrep", "-f", f"{folder}/chief.yaml"], capture_output=True, text=True).stdout.split()[0])
    os.kill(pid, signal.SIGKILL)
    leasehold(folder, "tell", run, "able", "--machine", "participant[1]")
    (folder / "chief.sock").unlink()
    again = start(folder, "chief")
    try:
        wait_for(
            folder, run, {"coordinator": "committed", "participant[0]": "committed", "participant[1]": "committed"}
        )
    finally:
        again.terminate()
        again.wait(20)
