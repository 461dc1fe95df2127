"""The demo of servers on hosts, whole; and the judge, who has to see what is wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from leasehold.checker.recovery.lease.processes.hosts import NEEDS, HostsRun
from leasehold.checker.recovery.processes import hosts as machines
from leasehold.checker.recovery.processes.hosts import Hosts
from tests.impl.drivers.machine import needs, said

T = TypeVar("T")
pytestmark = [needs(*NEEDS, *machines.NEEDS), pytest.mark.real_time, pytest.mark.long]


def until(holds: Callable[[], T], seconds: float = 60.0) -> T:
    """Waits until something holds; returns it."""
    deadline = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return found


def test_servers_on_hosts_survive_the_death_of_all_actors_and_agents_and_of_their_own() -> None:
    words = ["demo", "--driver", "container", "--hosts", "2", "--leases", "2", "--crash", "--lose-units", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "leasehold", *words, "--seed", "11"], capture_output=True, text=True, check=False
    )
    summary = json.loads(done.stdout)
    nothing = {name: summary[name] for name in ("violations", "findings", "leaked")}
    assert (done.returncode, nothing) == (0, {"violations": [], "findings": [], "leaked": []}), done.stderr
    assert (summary["kills"], summary["lost"]) == (6, 4)
    assert summary["served"] >= 2


def test_a_server_that_answers_for_another_lease_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = HostsRun(tmp_path, Hosts(["left"], "zz9", tmp_path / "disks"), 1, 1, False, False, 0.0)
    told = {"host.privIPAddr": "10.91.0.2"}
    data = {"lease_end": 50, "lease_units": ["unit[0]"], "unit_properties": [told, 0]}
    run.rows, run._now = {"tenant:1": {"state": "active", "data": data}}, 10
    for page, seen in (("unit-0 tenant:1", []), ("unit-0 tenant:2", 1), ("", 1), ("unit-1 tenant:1", 1)):
        monkeypatch.setattr(run, "_page", lambda host, address, page=page: page)
        assert len([*run._differs()]) == (seen or 0), page
    data["unit_properties"] = [0, 0]
    assert [*run._differs()] == ["unit-0 of tenant:1 is at None on left, and answers 'no address'"]
    run._now = 50  # its term is over
    assert [*run._differs()] == []


def left_of(base: Path, key: str) -> list[str]:
    """Lists the things on this machine that are of a demo's hosts."""
    found = []
    for process in Path("/proc").iterdir():
        with suppress(OSError):
            if process.name.isdecimal() and str(base) in (process / "mountinfo").read_text():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:100])
            elif process.name.isdecimal() and str(base).encode() in (process / "cmdline").read_bytes():
                found.append(process.name)
    found += [line for line in said("losetup", "-n", "-O", "BACK-FILE", "-a").splitlines() if str(base) in line]
    found += [link for link in os.listdir("/sys/class/net") if link.startswith((f"lh{key}", f"v{key}"))]
    return found + sorted(str(path) for path in Path("/sys/fs/cgroup/memory").glob(f"lh{key}-*"))


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_nothing_is_left_of_a_demo_that_is_interrupted(number: signal.Signals, tmp_path: Path) -> None:
    words = ["demo", "--driver", "container", "--hosts", "2", "--leases", "2", "--seed", "845"]
    variables = {**os.environ, "TMPDIR": str(tmp_path)}
    demo = subprocess.Popen([sys.executable, "-m", "leasehold", *words], env=variables, start_new_session=True)
    try:
        (base,) = until(lambda: [*tmp_path.glob("leasehold-demo-*")])
        until(lambda: [one for one in left_of(base, "845") if "httpd" in one])
        demo.send_signal(number)
        until(lambda: demo.poll() is not None or time.sleep(0.3) or demo.send_signal(number))  # again, while it ends
        assert demo.returncode == 130
        until(lambda: not left_of(base, "845"))
        assert not base.exists()
    finally:
        if demo.poll() is None:
            demo.kill()


def test_nothing_of_hosts_is_left_where_their_process_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from leasehold.checker.recovery.processes.hosts import Hosts\n"
        "with Hosts(['left'], 'zz8', Path(sys.argv[1])) as hosts:\n"
        "    print(hosts.do('left', 'sh', '-c', 'sleep 1000 >/dev/null 2>&1 & echo up'), flush=True)\n"
        "    time.sleep(1000)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as held:
        assert held.stdout is not None
        assert held.stdout.readline() == b"up\n"
        held.kill()
    try:
        until(lambda: [one for one in left_of(tmp_path, "zz8") if not one.startswith(("lhzz8", "/sys"))] == [])
    finally:
        subprocess.run(["ip", "link", "delete", "lhzz8"], check=False)
        (Path("/sys/fs/cgroup/memory") / "lhzz8-left").rmdir()


def test_a_host_ends_although_a_program_that_has_entered_it_is_stopped(tmp_path: Path) -> None:
    with Hosts(["left"], "zz7", tmp_path) as hosts:
        entered = subprocess.Popen([*hosts.daemon("left"), "sleep", "1000"], start_new_session=True)
        until(lambda: b"nsenter" in (Path("/proc") / str(entered.pid) / "cmdline").read_bytes())
        for number in (signal.SIGSTOP, signal.SIGCONT, signal.SIGSTOP):
            os.killpg(entered.pid, number)
        began = time.monotonic()
        hosts.halt("left")
        assert time.monotonic() - began < 10
        assert entered.wait() == -signal.SIGKILL
        assert not hosts.is_up("left")
        hosts.boot("left")
        assert hosts.do("left", "echo", "up") == "up\n"


@pytest.mark.skipif(not Path("/sys/fs/cgroup/pids").is_dir(), reason="needs control groups of version 1")
def test_a_host_sees_its_own_links_and_takes_the_groups_of_its_units_with_it(tmp_path: Path) -> None:
    group = Path("/sys/fs/cgroup/pids/lh-zz6unit")
    joins = f"mkdir -p {group}/container && echo $$ >{group}/container/cgroup.procs && exec sleep 1000"
    with Hosts(["left"], "zz6", tmp_path) as hosts:
        assert hosts.do("left", "ls", "/sys/class/net").split() == ["eth0", "lo"]
        with subprocess.Popen([*hosts.within("left"), "sh", "-c", joins], start_new_session=True):
            until(lambda: (group / "container/cgroup.procs").read_text() if group.exists() else "")
            hosts.halt("left")
        assert not group.exists()
