"""What clients hear while one of the actors has lost its store."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from leasehold.impl.lease.fleet import BROKER, SITE, TENANT, Fleet
from tests.waiting import wait_until

NO_STEPS = "leasehold: site takes no steps at the moment, as its store has failed"


def leasehold(fleet: Fleet, *words: str, code: int = 0) -> tuple[str, str]:
    ended = subprocess.run(
        [sys.executable, "-m", "leasehold", *words, "--at", str(fleet.folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended.stdout, ended.stderr.strip()


@pytest.mark.long
def test_an_actor_that_cannot_answer_is_named_beside_those_that_can(tmp_path: Path) -> None:
    with Fleet(tmp_path, units=2, tick_seconds=0.25, handler="simulated") as fleet:
        tenant, site = fleet.client(TENANT), fleet.client(SITE)
        now = fleet.about(TENANT)["now"]  # type: ignore[index]
        tenant.post("demand", units=1, until=now + 4000, term=2000, lease="tenant:1")
        wait_until(lambda: [row["state"] for row in tenant.get("leases")] == ["active"])
        # Units are at the site alone; that the others know of none is no failure.
        assert leasehold(fleet, "recover", "unit-0") == ("unit-0: unit[0] at site begins its work anew\n", "")
        (tmp_path / "site.db").rename(tmp_path / "away.db")
        tenant.post("leases", "tenant:1", "flex", units=2, soon=True)
        wait_until(lambda: not site.get("about")["running"])
        done, failed = leasehold(fleet, "recover", "tenant:1", "--json", code=1)
        assert {one["actor"] for one in json.loads(done)["recovered"]} == {TENANT, BROKER}
        assert failed == NO_STEPS
        done, failed = leasehold(fleet, "recover", "tenant:1", code=1)
        assert done.splitlines()[0] == "tenant:1: broker at broker begins its work anew"
        assert failed == NO_STEPS
        shown, failed = leasehold(fleet, "show", "tenant:1", "--json")
        assert {machine["actor"] for machine in json.loads(shown)["machines"]} == {TENANT, BROKER}
        assert failed == NO_STEPS
        assert leasehold(fleet, "recover", "unit-0", code=1) == ("", NO_STEPS)
        (tmp_path / "away.db").rename(tmp_path / "site.db")
        wait_until(lambda: site.get("about")["running"])
        wait_until(lambda: [len(row["data"]["told"]) for row in site.get("leases")] == [2])
        assert leasehold(fleet, "recover", "tenant:1")[1] == ""
