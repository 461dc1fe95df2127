"""The findings about a log: what is wrong with it, and what was judged of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

# step: it is none of the specification. record: it begins with a record that was not left. message: one was received
# that was not sent so. decision: the world outside gives what its contract does not allow, and no actor can refuse
# that. clock: time goes back. log: events are missing, or are those of another specification or setting.
What: TypeAlias = Literal["step", "record", "message", "decision", "clock", "log"]


@dataclass(frozen=True, slots=True)
class Nonconformity:
    """An event that the specification does not allow.

    Attributes:
        what: which of its parts.
        actor, position: the event.
        lease, machine: whose; empty: the actor's.
        reason: in words.
        compiled: whether the compiled core does not take the step either; None: it was not asked.
    """

    what: What
    actor: str
    position: int
    lease: str
    machine: str
    reason: str
    compiled: bool | None = None

    def __str__(self) -> str:
        of = f" ({self.machine} of {self.lease})" if self.lease and self.machine else ""
        place = f"event {self.position} of {self.actor}{of}" if self.position else self.actor
        return f"{place}: {self.reason}"

    def as_json(self) -> dict[str, object]:
        return {
            "what": self.what,
            "actor": self.actor,
            "position": self.position,
            "lease": self.lease,
            "machine": self.machine,
            "reason": self.reason,
            "compiled_core_differs": self.compiled,
        }


@dataclass
class JudgedLog:
    """The extent to which the log of an actor was judged.

    Attributes:
        events: how many there are; `first` and `last` are their positions.
        steps: how many steps were judged, with those of subsidiary machines.
        by_reference: how many of them also by the reference.
        not_judged: how many steps were not, as the record before them is in events that were dropped.
        messages: how many messages that were received were compared with what was sent.
        pruned: the position up to which events were dropped, or are of before a migration; 0: none.
        sealed: the position up to which signatures vouch; None: no signature was checked.
    """

    actor: str
    events: int = 0
    first: int = 0
    last: int = 0
    steps: int = 0
    by_reference: int = 0
    not_judged: int = 0
    messages: int = 0
    refusals: int = 0
    incarnations: int = 0
    pruned: int = 0
    sealed: int | None = None
    unknown: set[tuple[str, str]] = field(default_factory=set)  # lease and machine of which the record was not known

    def as_json(self) -> dict[str, object]:
        return {
            "actor": self.actor,
            "events": self.events,
            "first": self.first,
            "last": self.last,
            "steps": self.steps,
            "by_reference": self.by_reference,
            "not_judged": self.not_judged,
            "messages": self.messages,
            "refusals": self.refusals,
            "incarnations": self.incarnations,
            "pruned": self.pruned,
            "sealed": self.sealed,
        }
