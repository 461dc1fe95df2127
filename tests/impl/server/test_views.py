"""How a record is shown."""

from __future__ import annotations

from typing import Any

import pytest

from leasehold.impl.core.core import Field
from leasehold.impl.server.machine_views import shown
from leasehold.impl.server.views import wish_shown
from leasehold.spec.language import types as t

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
            Field("said", SAID, MANY),
            (0, 1, 1, 1, 0, 0),
            "{site[0]: 0, site[1]: 1, site[2]: 1, site[3]: 1, site[4]: 0, site[5]: 0}",
        ),
        (Field("who", t.Map(SITE, t.BOOL), (False,) * 6), (True, *(False,) * 5), "{site[0]: true, 5 others: false}"),
        (
            Field("n", t.Map(SITE, t.INT), (0, 0, 0, 0, 0, 1)),
            MANY,
            "{site[0]: 0, site[1]: 0, site[2]: 0, site[3]: 0, site[4]: 0, site[5]: 0}",
        ),
    ],
)
def test_of_a_large_map_the_cells_are_shown_that_have_changed(field: Field, value: Any, words: str) -> None:
    assert shown(field, value) == words


@pytest.mark.parametrize(
    ("wish", "plain"),
    [
        (b"", None),
        (b'{"units":2}', {"units": 2}),
        (b"{", None),
        (b'"\xff"', None),
        (b"[" * 100_000, None),
    ],
)
def test_a_demand_is_shown_where_it_is_json(wish: bytes, plain: Any) -> None:
    """What a policy keeps is its own matter."""
    assert wish_shown(wish) == plain
