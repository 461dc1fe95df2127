"""The actors that an actor can speak with, by role, for its policies: who may be named in a decision."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from leasehold.impl.identity.trust import Identity
from leasehold.impl.words import choices


class NoSuchPeer(ValueError):
    """A peer that was named cannot be asked: nobody trusts it, it plays another role, or nobody knows where it is."""


class Directory:
    """The trusted actors of each role, as the trust set and the settings have them now.

    Args:
        identity: whose trust set.
        peers: who plays which machine, by the settings.

    Attributes:
        address_of: where an actor is reached; empty where nobody knows it. The actor sets it.
    """

    def __init__(self, identity: Identity, peers: Mapping[str, str]) -> None:
        self._identity, self._peers = identity, peers
        self.address_of: Callable[[str], str] = self._trusted_address

    def __deepcopy__(self, memo: dict[int, Any]) -> Directory:
        return self  # it keeps nothing that a policy could spoil

    def _trusted_address(self, name: str) -> str:
        actor = self._identity.trust.actors.get(name)
        return (actor.address or "") if actor is not None else ""

    def player(self, role: str) -> str:
        """The actor that plays a role where nobody says more: by the settings, or the only one that is trusted."""
        return self._peers.get(role, "")

    def trusted(self, role: str) -> list[str]:
        """The trusted actors of a role, in the order of their names."""
        return sorted(actor.name for actor in self._identity.trust.actors.values() if role in actor.roles)

    def reached(self, role: str) -> list[str]:
        """Returns those of them that can be reached."""
        return [name for name in self.trusted(role) if self.address_of(name)]

    def check(self, role: str, name: str) -> None:
        """Checks whether an actor can be asked to play a role.

        Raises:
            NoSuchPeer: it cannot; with the near miss.
        """
        actor = self._identity.trust.actors.get(name)
        if actor is None or role not in actor.roles:
            known = f"{name[:60]!r} is trusted as {actor.kind}" if actor is not None else f"nobody trusts {name[:60]!r}"
            raise NoSuchPeer(f"{known}, so it cannot play {role}{choices(name, self.trusted(role))}")
        if not self.address_of(name):
            raise NoSuchPeer(f"nobody knows where {name} is reached; give it an address in the trust set")
