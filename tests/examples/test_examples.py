"""The systems in examples/: each is as its expected.yaml says, and runs."""

from __future__ import annotations

import asyncio
import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from leasehold.checker.explore import explore
from leasehold.checker.explore.expectations import differences, expectation_for
from leasehold.faults.simulation.cluster import SystemCluster
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.compiler.program import compile_system
from leasehold.spec import load

EXAMPLES = sorted(path.parent for path in (Path(__file__).parents[2] / "examples").glob("*/system.yaml"))


LONG = {"raft", "register"}


@pytest.mark.parametrize(
    "folder", [pytest.param(f, marks=pytest.mark.long if f.name in LONG else (), id=f.name) for f in EXAMPLES]
)
def test_each_example_is_as_it_says(folder: Path) -> None:
    system = load(folder)
    found = explore(system)
    assert found.complete
    assert (expected := expectation_for(system)) is not None
    assert differences(found, expected) == ()


@pytest.mark.long
def test_a_register_with_quorums_of_one_goes_back(tmp_path: Path) -> None:
    wrong = shutil.copytree(EXAMPLES[0].parent / "register", tmp_path / "register")
    client = wrong / "roles" / "client.yaml"
    client.write_text(client.read_text().replace("> failures", ">= failures").replace("<= failures", "< failures"))
    found = explore(load(wrong, {"mixed": False}))
    violated = {found.name for found in found.properties if found.verdict == "violated"}
    assert {"no_operation_goes_back", "what_has_ended_is_at_a_majority"} <= violated


@pytest.mark.parametrize("seed", range(4))
def test_the_store_never_takes_a_write_by_an_older_token_whoever_is_killed(seed: int) -> None:
    """Judged by the store's own record, and by what each client was told."""

    async def run() -> tuple[int, int]:
        program = compile_system(load(EXAMPLES[0].parent / "mutex", {"clients": 3}))
        rng, highest, writes = random.Random(seed), 0, 0
        async with SystemCluster(program) as cluster:
            for _ in range(150):
                name = rng.choice(sorted(cluster.actors))
                if rng.random() < 0.15:
                    await cluster.kill(name)
                    await cluster.start(name)
                    continue
                machine = next(m for m, player in cluster.players.items() if player == name)
                events = sorted(program.machines[machine][0].events)
                if events:
                    with suppress(ActorError):  # it refuses some where it is
                        await cluster.actors[name].tell(program.only_run, machine, rng.choice(events))
                for _ in range(rng.randrange(40)):
                    await asyncio.sleep(0)
                store = cluster.held(program.only_run, "store")
                assert store is not None
                token = store.core.view(store.record)["token"]
                assert token >= highest
                writes, highest = writes + (token > highest), token
            await cluster.settle()
            server, store = (cluster.held(program.only_run, name) for name in ("server", "store"))
            assert server is not None
            assert store is not None
            assert store.core.view(store.record)["token"] <= server.core.view(server.record)["token"]
            newest = server.core.view(server.record)["token"]
            holders = [
                held.key.machine
                for n in range(3)
                if (held := cluster.held(program.only_run, f"client[{n}]")) is not None
                and (held.state, held.core.view(held.record)["token"]) == ("writing", newest)
            ]
            assert len(holders) <= 1
            return writes, newest

    writes, newest = asyncio.run(run())
    assert writes > 2
    assert newest > 2
