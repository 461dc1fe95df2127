"""Stretches of a history: parts between migrations, which belong together where they have one agreement."""

from __future__ import annotations

from itertools import product

import pytest

from leasehold.impl.events.event import RecoveredEvent
from leasehold.impl.events.stretches import Stretch


def begun(agreement: str | None) -> RecoveredEvent | None:
    if agreement is None:
        return None
    return RecoveredEvent(
        position=1, before="0" * 64, actor="site", spec="s", now=0, time=0.0, epoch=1, commit=1,
        agreement=agreement, machines=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other"), [*product((("s", "a"), ("s", "b"), ("s", None), ("t", "a"), ("t", None)), repeat=2)]
)
def test_parts_of_one_specification_and_one_set_of_constants_belong_together(
    one: tuple[str, str | None], other: tuple[str, str | None]
) -> None:
    """A part that does not tell its constants may have any."""
    same = one[0] == other[0] and (None in (one[1], other[1]) or one[1] == other[1])
    assert Stretch(one[0], begun(one[1])).is_of(Stretch(other[0], begun(other[1]))) == same
