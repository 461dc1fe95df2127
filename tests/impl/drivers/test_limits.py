"""Control groups and process groups as parts: limits count, and all that ran in a group is gone with it."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.handlers import cgroups
from leasehold.impl.handlers.cgroups import Hierarchy
from leasehold.impl.handlers.handler import HandlerError
from tests.impl.drivers.machine import needs, seen
from tests.impl.drivers.machine import network as at
from tests.impl.drivers.one import One

pytestmark = needs("ip", "nsenter")


def test_a_group_has_limits_that_are_changed_and_is_removed_with_its_processes(units: Path) -> None:
    one = One(units, "cgroup")
    path = one.create(cpus=0.25, memory="32MiB", processes=7)["path"]
    assert {name: value.split()[0] for name, value in cgroups.limits(path).items()} == {
        "cpu": "25000",
        "memory": str(32 << 20),
        "pids": "7",
    }
    one.modify(memory="64MiB")
    limits = cgroups.limits(path)
    assert limits["cpu"].split()[0] in ("-1", "max")
    assert (limits["memory"], limits["pids"]) == (str(64 << 20), "max")
    with subprocess.Popen(["sleep", "600"]) as sleeps:
        for file in cgroups.member_files(path):
            Path(file).write_text(str(sleeps.pid))
        found = one.probe()
        assert found is not None
        assert (found.up, found.facts["processes"]) == (True, 1)
        one.destroy()
        assert sleeps.wait() == -signal.SIGKILL
    assert one.probe() is None
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{path}"))
    one.destroy()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"memory": "lots"}, "memory: 'lots' is no size"),
        ({"cpus": -1}, "0 means no limit"),
        ({"cpus": "many"}, "Expected `float`"),
    ],
)
def test_limits_that_cannot_be_met(units: Path, given: dict[str, Any], words: str) -> None:
    one = One(units, "cgroup")
    with pytest.raises(HandlerError, match=words):
        one.create(**given)
    one.destroy()


def test_a_limit_that_a_unit_exceeds_already_is_refused_where_the_kernel_refuses_it(units: Path) -> None:
    one = One(units, "cgroup")
    path = one.create(memory="64MiB")["path"]
    code = "import time; kept = bytearray(30 << 20); print(1, flush=True); time.sleep(600)"
    with subprocess.Popen(["sh", "-c", f"read go; exec python3 -c '{code}'"], stdin=subprocess.PIPE, stdout=-1) as eats:
        for file in cgroups.member_files(path):
            Path(file).write_text(str(eats.pid))
        assert eats.stdin is not None
        assert eats.stdout is not None
        eats.stdin.write(b"go\n")
        eats.stdin.flush()
        assert eats.stdout.readline() == b"1\n"
        if not cgroups.hierarchy_of("memory").unified:  # version 2 ends the process instead
            with pytest.raises(HandlerError, match="the unit uses more than 4194304 bytes at the moment"):
                one.modify(memory="4MiB")
        one.destroy()


@pytest.mark.parametrize(("value", "expected"), [((0.5, 1 << 20, 9), "50000 1048576 9"), ((0, 0, 0), "max max max")])
def test_the_files_of_version_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: Any, expected: str) -> None:
    """A folder stands for a hierarchy of version 2, as this may be a machine of version 1."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids io")
    line = f"31 22 0:27 / {tmp_path} rw - cgroup2 cgroup rw"
    (tmp_path / "mounts").write_text(line + "\n" + line + "\n")
    unified = cgroups.hierarchies(tmp_path / "mounts")
    assert unified == [Hierarchy(tmp_path, frozenset({"cpu", "memory", "pids", "io"}), True)]
    monkeypatch.setattr(cgroups, "hierarchies", lambda: unified)
    cgroups.make("/u")
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    cpus, memory, processes = value
    cgroups.limit("/u", cpus=cpus, memory=memory, processes=processes)
    written = [(tmp_path / "u" / name).read_text() for name in ("cpu.max", "memory.max", "pids.max")]
    assert written[0].endswith(" 100000")
    assert " ".join([written[0].split()[0], *written[1:]]) == expected
    monkeypatch.setattr(cgroups, "hierarchies", lambda: [])
    with pytest.raises(HandlerError, match="this machine has no cgroup controller 'cpu'"):
        cgroups.limit("/u", cpus=1, memory=0, processes=0)
    cgroups.limit("/u", cpus=0, memory=0, processes=0)


def test_a_process_group_is_in_its_unit_s_network_and_limits(units: Path, bridge: str) -> None:
    network = {"bridge": bridge, "subnet": f"{at(bridge)}.0/24"}
    net, size, group = One(units, "network"), One(units, "cgroup"), One(units, "process")
    namespace, path = net.create(**network)["namespace"], size.create(processes=20)["path"]
    script = "readlink /proc/self/ns/net >ns; sleep 600 & sleep 600"
    given = {"command": ["sh", "-c", script], "namespace": namespace, "cgroup": path, "grace": 0.5}
    facts = group.create(**given)
    inside = Path(facts["directory"]) / "ns"
    for _ in range(200):
        if inside.exists() and inside.read_text():
            break
        time.sleep(0.02)
    assert inside.read_text().strip() == f"net:[{Path('/run/netns', namespace).stat().st_ino}]"
    assert facts["pid"] in cgroups.processes_in(path)
    found = group.probe(**given)
    assert found is not None
    assert found.up
    assert group.create(**given)["pid"] == facts["pid"], "it is left alone"
    os.kill(facts["pid"], signal.SIGKILL)
    for _ in range(200):
        found = group.probe(**given)
        assert found is not None
        if not found.up:
            break
        time.sleep(0.02)
    assert not found.up
    assert group.create(**given)["pid"] != facts["pid"]
    group.modify(**given, limits={"files": 77})
    group.destroy(**given)
    assert group.probe(**given) is None
    size.destroy()
    net.destroy(**network)
    assert {*seen(units, bridge)} == {"files"}
