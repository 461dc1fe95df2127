"""What `auto` does with a system of few states, and how soon it knows that there are more."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from leasehold.checker.explore import Exploration, Limits, explore
from leasehold.checker.explore.engines import FEW, NotSmall, SmallSearch
from leasehold.checker.explore.faulty import reference_of
from leasehold.checker.explore.reference import Reference
from leasehold.spec import System
from tests.checker.explore.test_engines import assert_found_alike
from tests.systems import TRUTH, load


@pytest.mark.parametrize(
    "limits",
    [
        Limits(),
        Limits(states=9),
        Limits(depth=0),
        Limits(depth=3),
        Limits(stop_at_violation=True),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["token_ring", "dining_philosophers", "chandy_misra"])
def test_it_finds_what_the_reference_finds(name: str, limits: Limits) -> None:
    """One has fewer states than the first look takes, the others more; one has a deadlock."""
    found = explore(load(TRUTH / name), limits)
    assert (found.engine, found.engine_reason) == ("reference", FEW)
    assert_found_alike(explore(load(TRUTH / name), limits, engine="reference"), found)


@pytest.mark.parametrize("steps", [0, 7, 40])
def test_it_finds_as_much_when_it_is_interrupted(steps: int) -> None:
    def interrupted(engine: Any) -> Exploration:
        return explore(load(TRUTH / "dining_philosophers"), engine=engine, reference=impatient(steps))

    found = interrupted("auto")
    assert (found.why_incomplete, found.engine_reason) == ("interrupted", FEW)
    assert_found_alike(interrupted("reference"), found)


def impatient(steps: int) -> Any:
    """Makes references at whose so manieth state somebody presses Ctrl-C."""

    def reference(system: System, budget: Any) -> Reference:
        world, asked = reference_of(system, budget), count()
        successors = world.successors

        def until(*arguments: Any) -> Iterator[Any]:
            if next(asked) == steps:
                raise KeyboardInterrupt
            return successors(*arguments)

        world.successors = until  # type: ignore[method-assign]
        return world

    return reference


def test_a_large_system_is_given_up_soon() -> None:
    search = SmallSearch(reference_of(load("lease"), None), Limits(), None)
    with pytest.raises(NotSmall):
        search.run()
    assert len(search.states) < 50
