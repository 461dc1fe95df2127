"""The outcome of actions, as actors answer them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leasehold.cli.operations import actions
from leasehold.cli.operations.actions import close, recover
from leasehold.impl.server.client import ClientError, Silent


def view(name: str, demands: bool = False, answers: bool = True) -> dict[str, Any]:
    return {
        "name": name,
        "socket": f"{name}.sock",
        "answers": answers,
        "takes_demands": demands,
        "rows": [{"lease": "tenant:1"}],
        "units": [],
    }


def test_a_lease_is_closed_by_the_actor_that_began_it(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Path]] = []

    def closed(lease: str, place: Path) -> tuple[dict[str, Any], str]:
        asked.append((lease, place))
        return {}, "closing"

    monkeypatch.setattr(actions, "close_lease", closed)
    assert close("tenant:1", [view("another", True), view("site"), view("tenant", True)]) == ("done", "closing")
    assert asked == [("tenant:1", Path("tenant.sock"))]
    assert close("tenant:1", [view("site")]).outcome == "refused"
    assert close("tenant:1", [view("tenant", True, answers=False)]).outcome == "refused"
    assert len(asked) == 1


def test_the_worst_outcome_counts_and_each_actor_has_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: dict[str, ClientError] = {}

    def recovered(target: str, place: Path) -> tuple[list[dict[str, str]], list[ClientError]]:
        if place.stem in errors:
            return [], [errors[place.stem]]
        return [{"actor": place.stem, "machine": "m"}], []

    monkeypatch.setattr(actions, "recover_machines", recovered)
    views = [view("a"), view("b"), {**view("c"), "rows": []}]
    done = recover("tenant:1", views)
    assert done == ("done", "m at a begins its work anew; m at b begins its work anew")
    errors["a"] = ClientError("it is over")
    assert recover("tenant:1", views) == ("refused", "it is over; m at b begins its work anew")
    errors["b"] = Silent("it hangs")
    assert recover("tenant:1", views) == ("unknown", "it is over; it hangs")
    assert recover("tenant:1", [view("a", answers=False)]).outcome == "refused"
    assert recover("tenant:2", views) == ("refused", "no actor has tenant:2")
