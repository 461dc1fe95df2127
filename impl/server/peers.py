"""The actors that play machines: from an actor's configuration, or from a file that may change while it runs.

Theory of operation. The settings name the actor of each machine that is not played by the only trusted actor of its
role. In a standing system they are the membership: an actor believes nobody else who claims to play a machine, and
members join, leave or move when the file changes. A change that is wrong is logged, and the settings before it hold.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from leasehold.impl.files import Unreadable, mark, read_yaml
from leasehold.impl.identity.trust import Identity, Trust
from leasehold.impl.server.config import Config, ConfigError
from leasehold.impl.words import choices
from leasehold.spec import System
from leasehold.spec.language.model import Role, machine_name
from leasehold.spec.language.types import LARGEST_NUMBER

log = logging.getLogger("leasehold.peers")

Machine = Annotated[str, Meta(description="A role, or one of its machines, such as node[1].")]
Player = Annotated[str, Meta(description="The actor that plays it, by its name in the trust set.")]
PeersFile: TypeAlias = Annotated[dict[Machine, Player], Meta(description="Who plays which machine.")]


class LivePeers(Mapping[str, str]):
    """The actors of machines, as the settings and the trust set have them now.

    Args:
        config: of the actor.
        system: its system.
        identity: whose trust set.
        roles: the roles that it plays.

    Raises:
        ConfigError: the settings are wrong.
    """

    def __init__(self, config: Config, system: System, identity: Identity, roles: tuple[str, ...]) -> None:
        self._config, self._system, self._identity, self._roles = config, system, identity, roles
        others = [role for role in system.roles.values() if role.parent is None and role.name not in roles]
        self._single = tuple(role.name for role in others if not role.indexed)
        self._file = Path(config.peers).absolute() if isinstance(config.peers, str) else None
        self._seen: tuple[Any, Trust] = self._mark()
        self._named = self._read(self._seen[1])
        self._now = self._all(self._seen[1])

    def __getitem__(self, machine: str) -> str:
        return self.current()[machine]

    def __iter__(self) -> Iterator[str]:
        return iter(self.current())

    def __len__(self) -> int:
        return len(self.current())

    def current(self) -> dict[str, str]:
        """All of them; the same object as long as nothing has changed."""
        seen = self._mark()
        if seen[0] != self._seen[0] or seen[1] is not self._seen[1]:
            self._seen = seen
            try:
                named = self._read(seen[1])
                if named != self._named:
                    log.info("the peers of %s have changed, and hold from now on", self._config.name)
                    self._named = named
            except ConfigError as error:
                log.error("the peers of %s were changed and are wrong; those before hold: %s", self._config.name, error)
            self._now = self._all(seen[1])
        return self._now

    def _mark(self) -> tuple[Any, Trust]:
        return mark(self._file) if self._file is not None else None, self._identity.trust

    def _read(self, trust: Trust) -> dict[str, str]:
        named: Mapping[str, str] = self._config.peers if isinstance(self._config.peers, dict) else {}
        if self._file is not None:
            try:
                named = msgspec.convert(read_yaml(self._file, plain=True) or {}, PeersFile)
            except (Unreadable, msgspec.ValidationError) as error:
                raise ConfigError(f"peers: {error}; write lines such as broker: market, or node[1]: left") from None
        check_peers(named, self._config.name, self._system, trust, self._roles)
        return dict(named)

    def _all(self, trust: Trust) -> dict[str, str]:
        players: dict[str, list[str]] = {}
        for actor in trust.actors.values():
            for role in actor.roles:
                players.setdefault(role, []).append(actor.name)
        only = {role: players[role][0] for role in self._single if len(players.get(role, ())) == 1}
        return only | self._named


def peers_of(config: Config, system: System, identity: Identity, roles: tuple[str, ...]) -> LivePeers:
    """The actors of machines, for an actor that plays some roles.

    Raises:
        ConfigError: the settings are wrong.
    """
    return LivePeers(config, system, identity, roles)


def check_peers(named: Mapping[str, str], own: str, system: System, trust: Trust, roles: tuple[str, ...]) -> None:
    """Checks whether settings name trusted actors of the right roles, and in a standing system all that must be named.

    Raises:
        ConfigError: not so.
    """
    for machine, name in named.items():
        role = machine.partition("[")[0]
        if role not in system.roles:
            raise ConfigError(f"peers: {system.name} has no role {role[:60]!r}{choices(role, list(system.roles))}")
        actor = trust.actors.get(name)
        if actor is None:
            raise ConfigError(f"peers: no actor {name[:60]!r} is trusted{choices(name, sorted(trust.actors))}")
        if role not in actor.roles:
            raise ConfigError(f"peers: {name} is trusted as {actor.kind}, and cannot play {machine}")
    if system.standing:
        _check_places(named, own, system, roles)


def _check_places(named: Mapping[str, str], own: str, system: System, roles: tuple[str, ...]) -> None:
    """Checks whether settings say which machines of a standing system this actor plays, and who plays the others."""
    talking = [role for role in system.roles.values() if role.parent is None]
    machines = [machine_name(role, n) for role in talking for n in range(role.count)]
    for machine in named:
        if machine not in machines and not _is_dynamic(system.roles[machine.partition("[")[0]], machine):
            raise ConfigError(f"peers: {system.name} has no machine {machine[:60]!r}{choices(machine, machines)}")
    static = [machine_name(role, n) for role in talking if not role.instance.dynamic for n in range(role.count)]
    missing = [machine for machine in static if "[" in machine and machine not in named]
    if missing:
        raise ConfigError(
            f"peers: {missing[0]} is missing; the machines of {system.name} are there from the start, so `peers` says "
            f"which actor plays each: peers: {{{missing[0]}: {own}, ...}}"
        )
    mine = [machine for machine, name in named.items() if name == own]
    for role in roles:
        if system.roles[role].indexed and not any(machine.startswith(f"{role}[") for machine in mine):
            raise ConfigError(f"peers: {own} is to run as {role}, and plays none of its machines")


def _is_dynamic(role: Role, machine: str) -> bool:
    """Returns whether it is the name of a machine of a dynamic role."""
    number = machine.removeprefix(f"{role.name}[").removesuffix("]")
    known = number.isdecimal() and len(number) <= 10 and int(number) <= LARGEST_NUMBER
    return role.instance.dynamic and known and machine == machine_name(role, int(number))
