"""Systems from the provers' literature: the explorer counts what a search without any of its code counts."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from leasehold.checker.explore import explore
from tests.checker.explore.literature import (
    Counts,
    Model,
    counted,
    dining_philosophers,
    lock_server,
    quorum_election,
    token_ring,
    token_snapshot,
)
from tests.systems import TRUTH, load


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        *((lock_server, {"clients": n}) for n in (1, 2, 3, 4)),
        *((token_ring, {"nodes": n}) for n in (2, 3, 5)),
        (token_snapshot, {}),
        *(
            (dining_philosophers, {"philosophers": n, "manner": manner})
            for n in (2, 3, 5)
            for manner in ("right_first", "one_left_first", "both_at_once")
        ),
        *((quorum_election, {"nodes": n, "terms": m}) for n, m in ((1, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1))),
    ],
)
def test_states_and_steps_are_those_of_another_search(
    model: Callable[..., Model], settings: Mapping[str, int | str]
) -> None:
    found = explore(load(TRUTH / model.__name__, settings))
    assert found.complete
    assert Counts(found.distinct, found.generated, found.depth) == counted(model(**settings))
