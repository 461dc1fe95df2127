"""Each failure of the catalogue is made real, noticed and mended (paper, section 5.4, Table 2); and the page of it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from leasehold.checker.recovery.lease.processes.hosts import NEEDS
from leasehold.checker.recovery.lease.processes.infrastructure import NOTICES, SCENES, HostFailures, lacking
from leasehold.checker.recovery.processes import hosts as machines
from leasehold.checker.recovery.processes.resources import JumpingClock
from leasehold.faults.model.catalogue import infrastructure
from tests.campaigns.infrastructure import page, wrong
from tests.impl.drivers.machine import needs

REPORT = Path(__file__).parents[5] / "reports" / "infrastructure.md"
CHEAP = ("host_reboots",)


def rows(text: str) -> list[list[str]]:
    """The rows of the page's table, without its head."""
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


def test_each_failure_of_the_catalogue_has_a_scene_and_a_kind() -> None:
    assert [*SCENES] == [*infrastructure()]
    assert all(callable(getattr(HostFailures, name)) for name in infrastructure())
    assert {fault.row for fault in infrastructure().values()} == {0, 1, 2, 3, 4, 5}, "each row of Table 2"
    known = {who for *_, agent, site in NOTICES for who in (agent, site)} | {"the property that is violated"}
    assert all({*fault.noticed} <= known for fault in infrastructure().values())


def test_the_report_has_the_failures_of_the_catalogue_and_nothing_is_wrong() -> None:
    found = rows(REPORT.read_text())
    names = [re.sub(r"\[?`?(\w+).*", r"\1", row[0]) for row in found]
    assert names == [*infrastructure()]
    assert [row[1] for row in found] == [str(fault.row or "–") for fault in infrastructure().values()]
    for row, fault in zip(found, infrastructure().values(), strict=True):
        assert row[2].startswith(("skipped: ", *fault.noticed)), row
        assert row[5:] in (["0", "0", "0"], ["", "", ""]), row
    sections = re.findall(r"^## (\w+)$", REPORT.read_text(), re.MULTILINE)
    assert sections == names


def record(name: str, **more: Any) -> dict[str, Any]:
    told = {"by": "the probe of its agent", "seconds": 1.5, "words": "unit-0 is found to be lost"}
    counts: dict[str, Any] = {"violations": [], "findings": [], "leaked": []}
    given = {"noticed": [told], "outage": [0.5, 9.0], "mended": 12.0, "saw": [[2.0, "tenant:1 is over"]]}
    return {"name": name, "evidence": "`ls` fails", **given, **counts, **more}


def test_the_page_tells_what_is_wrong_and_what_was_skipped() -> None:
    records = {name: record(name) for name in infrastructure()}
    records["mount_gone"] = {"name": "mount_gone", "skipped": "bindfs is missing, which the package bindfs brings"}
    records["host_reboots"] = record("host_reboots", leaked=["server unit-0"], noticed=[], outage=None)
    text = page([*records.values()])
    first, second, third, *_ = rows(text)
    assert first == ["[host_reboots](#host_reboots)", "1", "nobody", "–", "12.0 s", "0", "0", "1"]
    assert second[2] == "skipped: bindfs is missing, which the package bindfs brings"
    assert third[2:5] == ["the probe of its agent, 1.5 s", "from 0.5 to 9.0 s", "12.0 s"]
    assert "- leaked: server unit-0" in text
    assert "- What the holder said: after 2.0 s tenant:1 is over." in text
    assert [wrong(one) for one in records.values()] == [True] + [False] * (len(records) - 1)


def test_a_failure_that_cannot_be_made_here_is_named_with_what_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("leasehold.checker.recovery.lease.processes.infrastructure.PATH", "/nowhere")
    monkeypatch.setattr(JumpingClock, "LIBRARIES", [])
    assert lacking("mount_gone") == "bindfs is missing, which the package bindfs brings"
    assert lacking("host_read_only") == "e2fsck is missing, which the package e2fsprogs brings"
    assert lacking("clock_jumps") == "libfaketime is missing, which the package faketime brings"
    assert lacking("host_reboots") == ""


@needs(*NEEDS, *machines.NEEDS)
@pytest.mark.real_time
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.long if name in CHEAP else pytest.mark.slow) for name in infrastructure()],
)
def test_a_failure_is_noticed_and_mended_and_nothing_is_left(name: str) -> None:
    if lack := lacking(name):
        pytest.skip(lack)
    words = ["demo", "--driver", "container", "--fail", name, "--json", "--seed", "77"]
    done = subprocess.run([sys.executable, "-m", "leasehold", *words], capture_output=True, text=True, check=False)
    said = json.loads(done.stdout)
    wrong = {count: said[count] for count in ("violations", "findings", "leaked")}
    assert (done.returncode, wrong) == (0, {"violations": [], "findings": [], "leaked": []}), said
    assert {one["by"] for one in said["noticed"]} & {*infrastructure()[name].noticed}
