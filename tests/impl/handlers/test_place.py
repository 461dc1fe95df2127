"""The newest action of a unit, as its file has it: of the newest lease first, then by number."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from leasehold.impl.handlers.handler import HandlerAction, Stale
from leasehold.impl.handlers.place import read_file, want

PAIRS = tuple(product((0, 1, 2), (1, 2, 3)))  # the fence of a lease, and an action's number


def action(fence: int, number: int) -> HandlerAction:
    return HandlerAction("join", "t:1", "t:1/guest", number, {}, properties={"fence": fence} if fence else {})


@pytest.mark.parametrize("seen", PAIRS)
def test_an_action_is_older_by_its_lease_or_within_it_by_its_number(seen: tuple[int, int], tmp_path: Path) -> None:
    """What is refused changes nothing; what was seen last comes again after a restart."""
    file = tmp_path / "wanted.json"
    for now in PAIRS:
        file.unlink(missing_ok=True)
        want(file, action(*seen))
        before = read_file(file)
        assert (before.get("fence", 0), before["number"]) == seen
        if now < seen:
            with pytest.raises(Stale):
                want(file, action(*now))
            assert read_file(file) == before
        else:
            want(file, action(*now))
            after = read_file(file)
            assert (after.get("fence", 0), after["number"]) == now
