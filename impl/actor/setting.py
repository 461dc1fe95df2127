"""What an actor is given: how it works, and what it meets outside."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from leasehold.impl.actor.calls import Patience
from leasehold.impl.actor.outbox import Pauses
from leasehold.impl.handlers.handler import Handler
from leasehold.impl.policy.inventory import Inventory
from leasehold.impl.policy.policy import Policy


class ActorError(Exception):
    """What a client asked of an actor cannot be; nothing has changed."""


@dataclass(frozen=True, slots=True)
class Options:
    """How an actor works.

    Attributes:
        retire_after: ticks for which a lease that is over is remembered.
        reopen_pause: seconds between two tries to open a store that failed.
        pauses: of messages.
        patience: with handlers.
        seed: of the jitter; None: from the system.
    """

    retire_after: int = 600
    reopen_pause: float = 1.0
    pauses: Pauses = field(default_factory=Pauses)
    patience: Patience = field(default_factory=Patience)
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class World:
    """What an actor meets outside: all of it may be replaced by a test.

    Attributes:
        policies: by role.
        handlers: by verb: `setup`, `join`.
        units: the names of the subsidiary machines of a role, by number.
        unit_properties: of each, likewise.
        peers: who plays which machine: the neighbours of one that a policy begins, and whom tickets are for. It is
            looked at anew each time, and may change.
        inventory: of these units; records know them by their number in it.
    """

    policies: dict[str, Policy] = field(default_factory=dict)
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    units: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unit_properties: Mapping[str, tuple[Mapping[str, Any], ...]] = field(default_factory=dict)
    peers: Mapping[str, str] = field(default_factory=dict)
    inventory: Inventory | None = None

    def each_handler(self) -> list[Handler]:
        """The handlers, each once: one may serve several verbs."""
        return list({id(handler): handler for handler in self.handlers.values()}.values())
