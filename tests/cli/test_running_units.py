"""Units of a running site from the command line: listed, and told what an operator has seen to."""

from __future__ import annotations

import json
import re
from itertools import pairwise, takewhile
from pathlib import Path

import pytest

from leasehold.impl.lease.fleet import SITE, Fleet
from tests.cli.test_json import reference
from tests.cli.test_running import leasehold, states
from tests.waiting import wait_until


def row_of(table: str, first: str) -> dict[str, str]:
    """A row of a table by its first cell: its cells, which may be of several lines, by their columns."""
    head, *lines = table.splitlines()
    starts = [match.start() for match in re.finditer(r"\S+", head)]
    begin = next(n for n, line in enumerate(lines) if line.startswith(f"{first} "))
    rest = takewhile(lambda line: line.startswith(" "), lines[begin + 1 :])
    parts = [[line[a:b].strip() for a, b in pairwise([*starts, None])] for line in (lines[begin], *rest)]
    return {
        name: " ".join(filter(None, cell)) for name, cell in zip(head.split(), zip(*parts, strict=True), strict=True)
    }


@pytest.mark.long
def test_an_operator_brings_a_quarantined_unit_back_to_a_lease_that_waits(tmp_path: Path) -> None:
    (broken := tmp_path / "broken").touch()
    down = ["sh", "-c", f'test "$LEASEHOLD_UNIT" != unit-1 || test ! -e {broken} || {{ echo it hangs >&2; exit 9; }}']
    handler = {"name": "command", "setup": "true", "modify": "true", "teardown": down}
    more = {"handling": {"tries": 1}}
    (folder := tmp_path / "fleet").mkdir()
    with Fleet(folder, units=2, tick_seconds=0.25, handler=handler, more=more) as fleet:
        first, *_ = leasehold(fleet, "units").splitlines()[1:]
        assert first.split() == ["unit-0", "idle"]
        wanted = ("--until", "5m", "--term", "1m")
        lease = leasehold(fleet, "demand", "--units", "2", *wanted).strip()
        wait_until(lambda: states(fleet, lease).get("service_manager") == "active")
        leasehold(fleet, "close", lease)
        site = fleet.client(SITE)
        wait_until(lambda: [row["state"] for row in site.get("units")] == ["closed", "failed"])
        holds = leasehold(fleet, "demand", "--units", "1", *wanted).strip()
        wait_until(lambda: states(fleet, holds).get("service_manager") == "active")
        waits = leasehold(fleet, "demand", "--units", "1", *wanted).strip()
        wait_until(lambda: states(fleet, waits).get("authority") == "priming")
        listed = json.loads(leasehold(fleet, "units", "--json"))
        assert listed.keys() == reference.UNITS_KEYS.keys()
        assert listed["units"][1].keys() == {**reference.MACHINE_KEYS, **reference.UNIT_KEYS}.keys()
        row = row_of(leasehold(fleet, "units"), "unit-1")
        assert (row["state"], row["lease"], "quarantined" in row["data"]) == ("failed", lease, True)
        assert "teardown ended with exit code 9; it said: it hangs" in row["last"]
        broken.unlink()
        assert leasehold(fleet, "tell", "unit-1", "repaired") == "unit-1: unit[1] took it (unit/failed#repaired)\n"
        wait_until(lambda: states(fleet, waits).get("service_manager") == "active")
        no = leasehold(fleet, "tell", "unit-1", "repaired", code=1)
        assert "unit[1] does not take repaired in active: it has not failed" in no
