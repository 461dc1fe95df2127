"""The demo of servers on hosts, whole; and the judge, who has to see what is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.checker.recovery.lease.processes.hosts import NEEDS, Hosts, HostsRun
from tests.impl.drivers.machine import needs

pytestmark = [needs(*NEEDS), pytest.mark.real_time, pytest.mark.long]


@pytest.mark.skipif(os.geteuid() != 0, reason="hosts are network namespaces, which root alone can make")
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
    run = HostsRun(tmp_path, Hosts(["left"], "zz9"), 1, 1, False, False, 0.0)
    told = {"host.privIPAddr": "10.91.0.2"}
    data = {"lease_end": 50, "lease_units": ["unit[0]"], "unit_properties": [told, 0]}
    run.rows, run.now = {"tenant:1": {"state": "active", "data": data}}, 10
    for page, seen in (("unit-0 tenant:1", []), ("unit-0 tenant:2", 1), ("", 1), ("unit-1 tenant:1", 1)):
        monkeypatch.setattr(run, "_page", lambda host, address, page=page: page)
        assert len([*run._differs()]) == (seen or 0), page
    data["unit_properties"] = [0, 0]
    assert [*run._differs()] == ["unit-0 of tenant:1 is at None on left, and answers 'no address'"]
    run.now = 50  # its term is over
    assert [*run._differs()] == []
