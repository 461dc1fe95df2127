"""Events that drive machines, and that come true below them, come from nowhere else: no clients, no policies."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from leasehold.faults.simulation.simulation import Simulation
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.ready import Decide, SealEvents
from leasehold.impl.actor.table import BELOW
from leasehold.impl.compiler.program import compile_system
from leasehold.impl.events.event import RefusedEvent, read
from leasehold.impl.policy.policy import Decision
from leasehold.spec import load

PROGRAM = compile_system(load(Path(__file__).parent / "lodge"))
VISIT = "home:1"
NOT_FROM_OUTSIDE = "comes from what drives"
NOT_YET = "have come there, and they have not"
GIVEN = [
    (VISIT, "host", "all_in", NOT_YET),
    (VISIT, "guest[0]", "enter", NOT_FROM_OUTSIDE),
    (VISIT, "guest[0]", "entered", NOT_FROM_OUTSIDE),
    (BELOW, "hall[0]", "darken", NOT_FROM_OUTSIDE),
]


@pytest.fixture
def sim() -> Iterator[Simulation]:
    """The guests of a visit are entering, and none is in."""
    found = Simulation(PROGRAM)
    found.start_all()
    home = found.actors["home"]
    found.loop.call(partial(home.begin, VISIT, "visitor", "visit", {"who": [0, 1]}, found.players))
    found.loop.quiesce()
    assert found.where(VISIT) == "coming/opening"
    yield found
    found.close()


def states(sim: Simulation) -> dict[str, tuple[str, int]]:
    held = sim.actors["lodge"].table.instances
    return {key.machine: (instance.state, instance.state_epoch) for key, instance in held.items()}


@pytest.mark.parametrize(("lease", "machine", "event", "words"), GIVEN)
def test_a_client_is_refused(sim: Simulation, lease: str, machine: str, event: str, words: str) -> None:
    before = states(sim)
    answer = sim.loop.call(partial(sim.actors["lodge"].tell, lease, machine, event, {}))
    sim.loop.quiesce()
    with pytest.raises(ActorError, match=words):
        answer.result()
    assert states(sim) == before


@pytest.mark.parametrize("answers", [False, True])
@pytest.mark.parametrize(("lease", "machine", "event", "words"), GIVEN)
def test_a_policy_is_refused(sim: Simulation, lease: str, machine: str, event: str, words: str, answers: bool) -> None:
    before, lodge = states(sim), sim.actors["lodge"]
    decision = Decision(lease, machine, event, {}, before[machine][1] if answers else -1)
    sim.loop.call(partial(lodge.queue.put_quietly, Decide(decision)))
    sim.loop.quiesce()
    assert states(sim) == before
    sim.loop.call(partial(lodge.queue.put, SealEvents("asked")))  # what is refused is written down by the next commit
    sim.loop.quiesce()
    last = [read(body) for _, body in sorted(sim.disks["lodge"].events.items())]
    (refused,) = (event for event in last if isinstance(event, RefusedEvent))
    assert (refused.machine, refused.event, refused.cause) == (machine, event, "policy")
    assert words in refused.reason
