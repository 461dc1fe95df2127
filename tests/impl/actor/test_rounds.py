"""Answers of subsidiary machines: a machine takes so many for one request, and a specification that goes round ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from leasehold.faults.simulation.clock import SimulatedClock
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.stepper import MOST_ANSWERS
from leasehold.impl.policy.policy import Decision, Lease
from leasehold.impl.store.memory import MemoryStore
from leasehold.impl.store.store import RecordKey
from tests.impl.actor.alone import alone, program_of
from tests.impl.actor.test_timers import LAMPLIGHTER
from tests.impl.policies import IdlePolicy
from tests.systems import files_of

ROUNDS = LAMPLIGHTER | files_of("impl/actor/systems/rounds")


class Listener(IdlePolicy):
    """A quick policy that counts how often it hears of each lease."""

    quick = True

    def __init__(self) -> None:
        self.changes: list[str] = []

    def changed(self, lease: Lease, now: int) -> list[Decision]:
        self.changes.append(lease.name)
        return []


Listener.__module__ = "leasehold.test"


@pytest.mark.parametrize("most", [0, 1, MOST_ANSWERS - 1, MOST_ANSWERS, MOST_ANSWERS + 1])
async def test_a_machine_takes_so_many_answers_for_one_request_and_its_policy_hears_of_them_once(
    tmp_path: Path, most: int
) -> None:
    program, key = program_of(tmp_path, ROUNDS), RecordKey("own:1", "keeper")

    policy = Listener()
    actor = alone(program, "keeper", MemoryStore(), {}, SimulatedClock(), policies={"keeper": policy})
    await actor.start()
    if most >= MOST_ANSWERS:
        with pytest.raises(ActorError, match="without an end: 100 for one request"):
            await actor.begin(*key, "begin", {"most": most}, {})
        assert (policy.changes, actor.running) == ([], False), "nothing follows from its turn"
    else:
        await actor.begin(*key, "begin", {"most": most}, {})
        assert actor.table.instances[key].core.view(actor.table.instances[key].record)["turns"] == most
        assert policy.changes == ["own:1"]
        assert actor.table.instances[key].state == "over"
    await actor.stop()
    assert MOST_ANSWERS == 100
