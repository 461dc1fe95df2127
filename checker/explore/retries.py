"""What a machine sends again while it runs, because the network has lost it.

A message that is lost is sent again by a retry, with its number: for as long as the sender is in a state that sends it,
it sends what was lost, or what was not answered because the answer was lost. Messages that are answers themselves are
not retried; who asks, asks again (paper, section 4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from leasehold.checker.explore import channels
from leasehold.checker.explore.compiled import Machine, Sending, wanted
from leasehold.checker.explore.footprint import Part
from leasehold.checker.explore.layout import Lane, State, closed, opened
from leasehold.checker.explore.step import Action

if TYPE_CHECKING:
    from leasehold.checker.explore.faulty import FaultySystem


class Retrier:
    """The retries of one machine.

    Attributes:
        back: by the cell of each mailbox that it sends by, the one by which its answers come.
    """

    def __init__(self, world: FaultySystem, machine: Machine) -> None:
        self.world, self.machine = world, machine
        self.back: dict[int, Lane] = {}
        layout = world.layout
        for lane in layout.lanes:
            if lane.channel.kind == "mailbox" and lane.channel.sender == machine.role.name:
                if lane.sender != machine.instance:
                    continue
                other = layout.lane_between(lane.channel.receiver, lane.receiver, machine.role.name, machine.instance)
                self.back[lane.cell] = other if other is not None and other.channel.kind == "mailbox" else lane

    def part(self, only: Callable[[State], bool]) -> Part:
        """The retries as a part: they depend on the machine, on its neighbours and on the channels between them."""
        world = self.world
        neighbours = {world.by_name[r.channel.sender, r.sender] for r in self.back.values()} | {self.machine}
        cells = [world.cells_of(m) for m in neighbours]
        known = {*self.back, *(lane.cell for lane in self.back.values())}
        return Part(None if None in cells else known.union(*(c for c in cells if c)), self.steps, only=only)

    def steps(self, s: State, of: Any = ()) -> Iterator[tuple[Action, State]]:
        """The machine sends again what was lost, or what was received and whose answer was lost."""
        machine, world = self.machine, self.world
        if not world.running(s, machine):
            return
        work = [w for w in machine.places[s[machine.cell]].work if wanted(w, s)]
        for i, w in enumerate(work):
            if isinstance(w, Sending) and self._is_due(s, w):
                new = opened(s)
                world.send_again(new, w)
                group = ("retry", machine.role.name, machine.instance, w.lane.cell)
                done = tuple(j == i for j in range(len(work)))
                yield (
                    Action(
                        "retry", machine.role.name, machine.instance, f"retry:{w.task.name}", group=group, done=done
                    ),
                    closed(new),
                )

    def _is_due(self, s: State, w: Sending) -> bool:
        if w.lane.cell not in self.back or self.world.system.messages[w.task.message].answer:
            return False
        return channels.missing(s[w.lane.cell]) or self._unanswered(s, w.lane, self.back[w.lane.cell])

    def _unanswered(self, s: State, lane: Lane, back: Lane) -> bool:
        """Whether a message was received, and the answer that its receiver's state sends was lost."""
        receiver = self.world.by_name[lane.channel.receiver, lane.receiver]
        if back is lane or not channels.received(s[lane.cell]) or not channels.missing(s[back.cell]):
            return False
        place = receiver.places[s[receiver.cell]]
        return self.world.running(s, receiver) and any(
            isinstance(w, Sending) and w.lane is back and wanted(w, s) for w in place.work
        )
