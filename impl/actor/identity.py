"""An actor among others: its name, its key, and whom it trusts."""

from __future__ import annotations

from dataclasses import dataclass

from leasehold.impl.identity.keys import PrivateKey
from leasehold.impl.identity.trust import Trust


@dataclass(slots=True)
class Identity:
    """Who an actor is. `trust` may be replaced while the actor runs."""

    name: str
    key: PrivateKey
    trust: Trust
