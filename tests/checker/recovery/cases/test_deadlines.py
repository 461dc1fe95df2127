"""A `within` of a run of real actors is broken by the first state after its last tick, as the explorer has it."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.recovery.cases.properties import Deadlines
from leasehold.spec import load
from tests.systems import write

MOST = 2
BEGAN = 5
FILES = {
    "system.yaml": """
system: late
roles: {clerk: {}}
clock: {horizon: 9}
environment: {ask: {to: clerk, when: now < 2}}
""",
    "roles/clerk.yaml": """
role: clerk
data: {since: time}
events: {ask: {}}
states:
  idle: {initial: true, on: {ask: {to: asked, set: {since: now}}}}
  asked: {on: {tick: {to: done, when: now >= since + TICKS}}, refuse: {ask: it was}}
  done: {refuse: {ask: it was}}
""",
    "invariants.yaml": "properties: {soon: {when: clerk.state == asked, leads_to: clerk.state == done, within: 2}}\n",
}


@pytest.mark.parametrize("ticks", range(MOST + 3))
def test_what_comes_in_the_last_tick_is_not_late(ticks: int, tmp_path: Path) -> None:
    files = {name: text.replace("TICKS", str(ticks)) for name, text in FILES.items()}
    found = explore(load(write(tmp_path / "late", files)))
    (explored,) = (p.verdict for p in found.properties if p.name == "soon")
    deadlines = Deadlines({("soon",): (lambda s, *_: s[1], lambda s, *_: s[2], MOST)}, 0)
    deadlines.see((0, False, False))
    for now in range(ticks):
        deadlines.see((BEGAN + now, True, False))
    deadlines.see((BEGAN + ticks, ticks == 0, True))
    deadlines.see((BEGAN + 99, False, True))
    assert deadlines.late == (set() if ticks <= MOST else {"soon"})
    assert (explored == "violated") == (ticks > MOST)
