"""Actors in one process: what the caller gives them, and what becomes of it in a crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.faults.simulation.cluster import SystemCluster
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.store.sqlite import SqliteStore
from tests.systems import load


@pytest.mark.real_time
async def test_an_actor_that_is_killed_lets_go_of_its_file_and_goes_on_with_it(tmp_path: Path) -> None:
    program = compile_system(load("examples/ring"))
    async with SystemCluster(program, store=lambda name: SqliteStore(tmp_path / f"{name}.db")) as ring:
        for n in (1, 2):
            await ring.actors[f"node-{n}"].tell("ring:1", f"node[{n}]", "enter", {"after": "node[0]"})
            await ring.settle()
        await ring.actors["node-0"].tell("ring:1", "node[0]", "start")
        await ring.settle()
        for name in tuple(ring.actors):
            await ring.kill(name)
        for name in tuple(ring.actors):
            await ring.start(name)
        held = [ring.held("ring:1", f"node[{n}]") for n in range(3)]
        assert [machine.state for machine in held if machine is not None] == ["following", "following", "leading"]
