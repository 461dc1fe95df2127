"""The reasons why `verify` does not report what a path of the explorer breaks, though actors have taken its steps.

Theory of operation. Events tell what machines have done, and by numbers of messages what came before what. A path has
more: steps of no machine, what machines ignore that are not there yet, an order also of steps that have nothing to do
with each other (`verify` decides for one), and copies of messages on their way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from leasehold.checker.explore.result import Step
from leasehold.checker.history.happened_before import causal_past

OF_NO_MACHINE = "its last step is of no machine, and no event tells of that"
UNMADE = "its last step is of a machine that nothing has begun, and no event tells of what that ignores"
DOWN = "an actor is down in the end, and no event tells of that until it is back"
ANY_ORDER = "its last step and one before it have no order in the events, and verify has taken another than the path"
ON_THEIR_WAY = "it asks for messages on their way, of which faults have made copies, and no event tells of those"
APART = "it asks who can reach whom, and no event tells of a partition"
UNBEGUN = "no machine takes a step on its path, and no event tells of a run that nothing begins"
AGAIN = "it fails again and again in a run without an end, and holds where the events of this one end"
KINDS = ("crash", "halt", "clock", "lose", "retry", "partition", "heal")  # of steps of no machine


@dataclass(frozen=True)
class Asked:
    """The things in a run that a property asks about.

    Attributes:
        of_runs: it is about what comes, and not about one state or step.
        messages: for messages on their way.
        reachability: for who can reach whom.
    """

    of_runs: bool
    messages: bool
    reachability: bool


def untold(steps: Sequence[Step], player: Mapping[str, str], made: bool, down: bool, asked: Asked) -> str:
    """Returns why no event may tell of what a path breaks; empty where events tell.

    Args:
        steps: of the path, at least one of a machine.
        player: by machine, its actor.
        made: whether the machine of the last step is there in the end.
        down: whether an actor is down in the end.
        asked: by the property.
    """
    last = steps[-1]
    if not asked.of_runs and last.kind in KINDS:
        return OF_NO_MACHINE
    if not asked.of_runs and not made and last.transition is None:
        return UNMADE
    if down:
        return DOWN
    if asked.reachability and any(step.kind == "partition" for step in steps):
        return APART
    of_machines = [at for at, step in enumerate(steps) if step.machine is not None]
    if causal_past(of_machines[-1], lambda at: _causes(steps, player, at)) != set(of_machines):
        return ANY_ORDER
    return ON_THEIR_WAY if asked.messages else ""


def _causes(steps: Sequence[Step], player: Mapping[str, str], at: int) -> Iterator[int]:
    """Yields the step of its actor before one, and the one that has sent what it receives."""
    own = (n for n in reversed(range(at)) if _actor(steps[n], player) == _actor(steps[at], player))
    said = (n for n in range(at) if _sends(steps[n], steps[at]))  # the first, as it may be the one that arrives
    yield from islice(own, 1)
    yield from islice(said, 1)


def _actor(step: Step, player: Mapping[str, str]) -> str | None:
    return None if step.machine is None else player[step.machine]


def _sends(one: Step, step: Step) -> bool:
    """Returns whether a step has sent what another one receives."""
    return step.sender is not None and any(
        (sent.message, sent.sender, sent.receiver) == (step.event, step.sender, step.machine) for sent in one.sent
    )
