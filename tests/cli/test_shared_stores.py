"""A store that several actors share is a source that stands for all of them, as a folder of sockets does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from leasehold.cli.main import cli
from leasehold.faults.simulation.cluster import SystemCluster
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.identity.trust_file import save
from leasehold.spec import load
from tests.checker.verify.databases import answers
from tests.impl.store.conftest import MariadbPlace, PostgresqlPlace

SYSTEM = "two_phase_commit"


@pytest.fixture(params=["postgresql", "mariadb"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database in which three actors have committed a transaction, one of them in two incarnations."""
    answers(request.param)
    place = PostgresqlPlace() if request.param == "postgresql" else MariadbPlace()

    async def commit() -> None:
        program = compile_system(load(SYSTEM, {"participants": 2}))
        async with SystemCluster(program, store=lambda name: place.store()) as c:
            await c.actors["coordinator"].begin("coordinator:1", "coordinator", "begin", {}, c.players)
            await c.settle(20_000)
            await c.kill("participant-0")
            await c.start("participant-0")
            for number in range(2):
                await c.actors[f"participant-{number}"].tell("coordinator:1", f"participant[{number}]", "able")
            while (held := c.held("coordinator:1", "coordinator")) is None or held.state != "committed":
                await asyncio.sleep(0.01)
            save(tmp_path / "trust.yaml", c._identities["coordinator"].trust)

    asyncio.run(commit())
    yield place.url
    place.remove()


def asked(*words: str) -> str:
    result = CliRunner().invoke(cli, [*words])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_each_verb_reads_all_actors_of_a_store(shared: str, tmp_path: Path) -> None:
    told = json.loads(asked("verify", shared, "--trust", str(tmp_path / "trust.yaml"), "--json"))
    assert (told["verdict"], told["runs"], told["faults"]) == ("holds", 1, [])
    assert " events, 1 run, " in asked("verify", shared, "--follow", "--for", "1")
    assert "0 findings" in asked("conform", shared)
    assert "participant[1]" in asked("explain", "coordinator:1", shared)
    assert "the actors take each as it says" in asked("replay", shared)
