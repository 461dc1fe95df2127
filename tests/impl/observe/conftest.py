"""Clusters of real actors that are watched before they start, as a process does it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.actor import Actor

Attach = Callable[[Actor], Any]


class _Actors(dict[str, Actor]):
    """Whoever comes in is watched; also an actor that comes again after a crash."""

    def __init__(self, attach: Attach) -> None:
        super().__init__()
        self._attach = attach

    def __setitem__(self, name: str, actor: Actor) -> None:
        super().__setitem__(name, actor)
        self._attach(actor)


@pytest.fixture
def watched() -> Callable[..., Cluster]:
    def make(attach: Attach, **options: Any) -> Cluster:
        cluster = Cluster(**options)
        cluster.actors = _Actors(attach)
        return cluster

    return make
