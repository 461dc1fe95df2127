"""How a record is shown."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leasehold.impl.compiler.program import compile_system
from leasehold.impl.core.core import Field
from leasehold.impl.core.work import local
from leasehold.impl.server.machine_views import MachineViews, shown
from leasehold.impl.server.views import wish_shown
from leasehold.spec.language import types as t
from tests.systems import files_of, load_for_run, write

SITE = t.Instance("site", 6)
SAID = t.Map(SITE, t.OPAQUE)
MANY = (0,) * 6


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        (Field("at", t.TIME, 0), 7, "7"),
        (Field("said", SAID, MANY), MANY, "{6 others: 0}"),
        (Field("said", SAID, MANY), (0, 0, {"a": 1}, 0, 0, 2), "{site[2]: {a: 1}, site[5]: 2, 4 others: 0}"),
        (
            Field("said", SAID, MANY), (0, 1, 1, 1, 0, 0),
            "{site[0]: 0, site[1]: 1, site[2]: 1, site[3]: 1, site[4]: 0, site[5]: 0}",
        ),
        (Field("who", t.Map(SITE, t.BOOL), (False,) * 6), (True, *(False,) * 5), "{site[0]: true, 5 others: false}"),
        (
            Field("n", t.Map(SITE, t.INT), (0, 0, 0, 0, 0, 1)), MANY,
            "{site[0]: 0, site[1]: 0, site[2]: 0, site[3]: 0, site[4]: 0, site[5]: 0}",
        ),
    ],
)  # fmt: skip
def test_of_a_large_map_the_cells_are_shown_that_have_changed(field: Field, value: Any, words: str) -> None:
    assert shown(field, value) == words


@pytest.mark.parametrize(("wish", "plain"), [
    (b"", None), (b'{"units":2}', {"units": 2}), (b"{", None), (b'"\xff"', None), (b"[" * 100_000, None),
])  # fmt: skip
def test_a_demand_is_shown_where_it_is_json(wish: bytes, plain: Any) -> None:
    """What a policy keeps is its own matter."""
    assert wish_shown(wish) == plain


EGG = files_of("impl/server/systems/egg")


@pytest.mark.parametrize(("since", "now", "due"), [(None, 5, None), (4, 5, 7), (4, 7, 7), (4, 9, 9)])
def test_a_timer_is_shown_with_when_it_is_due_unless_it_waits_for_more(
    since: int | None, now: int, due: int | None, tmp_path: Path
) -> None:
    """One that is due already is due now."""
    system = load_for_run(write(tmp_path, EGG))
    program = compile_system(system)
    core = program.roles["egg"]
    record = core.step(core.first(), local("buy"), 0)[0]
    if since is not None:
        record = core.step(record, local("start"), since)[0]
    (way,) = MachineViews(system, program).leaves(core, record, now)
    assert way == {"event": "tick", "from": "the clock", "to": ["hard"], "cause": "timer", "task": "", "due": due}
