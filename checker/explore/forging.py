"""What a byzantine actor may do: have any message received that it could sign, at any time.

Theory of operation (paper, section 3.1: the program is to detect and handle such faults). Such an actor keeps to no
machine, so its own state says nothing and takes no step. What its neighbours see are its messages: each may come at
any time, with any content and a new number. So they need not wait in a channel; a delivery is one step. (Under an old
number a message would only be answered again.) What it cannot do is sign for another: a message that `carries`
another's shows values that it was once sent. What it was sent it knows for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from leasehold.checker.explore import channels
from leasehold.checker.explore.compiled import Machine
from leasehold.checker.explore.layout import Lane, State, closed, opened
from leasehold.checker.explore.step import FORGED, Action
from leasehold.checker.explore.transition_system import choose
from leasehold.spec.language.model import Message

if TYPE_CHECKING:
    from leasehold.checker.explore.faulty import FaultySystem


class Forger:
    """The messages of the byzantine actor of a system."""

    def __init__(self, world: FaultySystem) -> None:
        self.world = world
        layout, system = world.layout, world.system
        self.ways: list[tuple[Lane, Machine, Message, Any]] = []
        for lane in layout.lanes:
            sender = layout.of[lane.channel.sender, lane.sender]
            receiver = layout.of[lane.channel.receiver, lane.receiver]
            if sender is layout.traitor and receiver is not layout.traitor:
                machine = world.by_name[lane.channel.receiver, lane.receiver]
                for message in system.received_by(lane.channel.receiver):
                    if message.sender == lane.channel.sender:
                        self.ways.append((lane, machine, message, machine.domain(message.fields)))

    def deliveries(self, s: State) -> Iterator[tuple[Action, State]]:
        """Every forged message that changes something."""
        world = self.world
        for lane, machine, message, values in self.ways:
            if not world.running(s, machine) or not world.connected(s, lane):
                continue
            moves = machine.places[s[machine.cell]].moves.get(message.name, [])
            for fields in values(s) if moves else ():
                if not self._signed(s, message, fields):
                    continue
                move = choose(moves, s, fields, lane.sender)
                if move is None:
                    continue
                new = opened(s)
                action = Action(
                    "deliver", machine.role.name, machine.instance, message.name, fields, lane.sender, move.transition,
                    lane, FORGED, fault=True,
                )  # fmt: skip
                try:
                    world._fire(new, machine, move, fields, lane.sender, None)
                except channels.Full:
                    continue
                yield action, closed(new)

    def _signed(self, s: State, message: Message, fields: tuple[Any, ...]) -> bool:
        """Whether what a message shows of another's was signed by that other."""
        if message.carries is None:
            return True
        names = [f.name for f in self.world.system.messages[message.carries].fields]
        shown = {f.name: v for f, v in zip(message.fields, fields, strict=True) if f.name in names}
        return any(
            all(was[names.index(name)] == value for name, value in shown.items())
            for was in s[self.world.layout.known[message.carries]]
        )
