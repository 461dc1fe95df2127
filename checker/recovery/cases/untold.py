"""Why `verify` does not report what a path of the explorer breaks, though actors have taken each of its steps.

Theory of operation. Events tell what machines have done, and by numbers of messages what came before what. A path has
more: steps of no machine, what machines ignore that are not there yet, an order also of steps that have nothing to do
with each other (`verify` decides for one), and copies of messages on their way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from leasehold.checker.explore.result import Step

OF_NO_MACHINE = "its last step is of no machine, and no event tells of that"
UNMADE = "its last step is of a machine that nothing has begun, and no event tells of what that ignores"
DOWN = "an actor is down in the end, and no event tells of that until it is back"
ANY_ORDER = "its last step and one before it have no order in the events, and verify has taken another than the path"
ON_THEIR_WAY = "it asks for messages on their way, of which faults have made copies, and no event tells of those"
KINDS = ("crash", "halt", "clock", "lose", "partition", "heal")  # of steps of no machine


def untold(steps: Sequence[Step], player: Mapping[str, str], made: bool, down: bool, on_records: bool) -> str:
    """Why no event may tell of what the last step breaks; empty where events tell.

    Args:
        steps: of the path, at least one.
        player: by machine, its actor.
        made: whether its machine is there in the end.
        down: whether an actor is down in the end.
        on_records: whether the property asks for nothing but records.
    """
    last = steps[-1]
    if last.kind in KINDS:
        return OF_NO_MACHINE
    if not made and last.transition is None:
        return UNMADE
    if down:
        return DOWN
    if _before(steps, player) != {at for at, step in enumerate(steps) if step.machine is not None}:
        return ANY_ORDER
    return "" if on_records else ON_THEIR_WAY


def _before(steps: Sequence[Step], player: Mapping[str, str]) -> set[int]:
    """The steps of machines that happened before the last one, and itself: of its actor, or by messages."""
    found: set[int] = set()
    waiting = [len(steps) - 1]
    while waiting:
        at = waiting.pop()
        if at in found:
            continue
        found.add(at)
        step = steps[at]
        own = (n for n in reversed(range(at)) if _actor(steps[n], player) == _actor(step, player))
        said = (n for n in range(at) if _sends(steps[n], step))  # the first, as it may be the one that arrives
        waiting += [n for n in (next(own, None), next(said, None)) if n is not None]
    return found


def _actor(step: Step, player: Mapping[str, str]) -> str | None:
    return None if step.machine is None else player[step.machine]


def _sends(one: Step, step: Step) -> bool:
    """Whether a step has sent what another one receives."""
    return step.sender is not None and any(
        (sent.message, sent.sender, sent.receiver) == (step.event, step.sender, step.machine) for sent in one.sent
    )
