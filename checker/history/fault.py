"""The faults of events: something cannot have happened as they say, or cannot be judged."""

from __future__ import annotations

from dataclasses import dataclass

from leasehold.impl.events.event import RecoveredEvent
from leasehold.spec.language.model import System

CONTRADICTION, UNDECIDED = "contradiction", "undecided"  # kinds of faults


@dataclass(frozen=True, slots=True)
class CutFault:
    """A fault of events: something cannot have happened as they say, or cannot be judged.

    Attributes:
        actor, position: the event.
        run: the lease that it is about; empty: it is about the chain.
        reason: in words.
        kind: `undecided` where events are missing that nobody claims to have, so that something was not judged; else
            `contradiction`, or how a chain is not as it was written (`Tampering`).
    """

    actor: str
    position: int
    run: str
    reason: str
    kind: str = CONTRADICTION

    def as_json(self) -> dict[str, object]:
        return {
            "actor": self.actor,
            "position": self.position,
            "run": self.run,
            "kind": self.kind,
            "reason": self.reason,
        }

    def __str__(self) -> str:
        of = f" ({self.run})" if self.run else ""
        place = f"event {self.position} of {self.actor}{of}" if self.position else self.actor
        return f"{place}: {self.reason}"


def other_constants(event: RecoveredEvent, system: System) -> str:
    """`: most is 2 there and 3 here`, for each constant in which an actor's system differs; else of its ticks."""
    here = system.values()
    names = [name for name, value in event.constants.items() if name in here and here[name] != value]
    there, here = (
        {name: str(value).lower() if isinstance(value, bool) else value for name, value in of.items()}
        for of in (event.constants, here)
    )
    differ = [f"{name} is {there[name]} there and {here[name]} here" for name in names]
    return f": {', '.join(differ)} (--set, --system)" if differ else ""


def recovered_words(machine: str, has: str) -> str:
    """Returns words for an actor that recovers another record than its last event has left; `has` empty: no record."""
    difference = "with another record than" if has else "without the record that"
    return f"{machine} comes back {difference} its last event has left"
