"""What folding leaves of a condition; that it means the same is asked of drawn ones in checker/verify."""

from __future__ import annotations

import pytest

from leasehold.spec.language import expression as x
from leasehold.spec.language.conditions import folded
from tests.spec.language.test_readings import Sight, World, typed
from tests.spec.language.test_readings import world as world

STEP = Sight(own=False, step=True)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("hub.amount > limit", "hub.amount > -2"),
        ("limit == -2 and hub.flag", "hub.flag"),
        ("hub.flag == hub.flag", "true"),
        ("hub.amount + 1 != hub.amount + 1", "false"),
        ("hub.flag or not hub.flag", "true"),
        ("hub.amount < 1 and hub.flag and hub.amount >= 1", "false"),
        ("hub.tint == red or hub.tint != red", "true"),
        ("hub.flag and hub.flag", "hub.flag"),
        (
            "all((u.flag and u.amount > 1) == (u.amount > 1 and u.flag) for u in unit)",
            "all((u.flag and u.amount > 1) == (u.amount > 1 and u.flag) for u in unit)",
        ),
        ("hub.peers < hub.peers or hub.flag", "hub.peers < hub.peers or hub.flag"),
        ("hub.peers <= {} or hub.peers > {}", "hub.peers <= {} or hub.peers > {}"),
    ],
)
def test_what_is_decided_is_left_out(world: World, text: str, left: str) -> None:
    assert x.text(folded(typed(world, text, STEP), world.system.values())) == left
