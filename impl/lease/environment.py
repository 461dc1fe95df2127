"""The environment of an actor of the lease: the policies, handlers and credentials of its roles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from leasehold.impl.actor.environment import Environment
from leasehold.impl.core.core import Program
from leasehold.impl.identity.trust import Identity
from leasehold.impl.lease import PROPERTIES_IN
from leasehold.impl.lease.authority import FirstFit
from leasehold.impl.lease.broker import FirstComeFirstServed
from leasehold.impl.lease.credentials import TicketCredentials
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.lease.service_manager import FixedDemand


def lease_environment(
    program: Program,
    identity: Identity,
    roles: Iterable[str],
    player: Mapping[str, str],
    inventory: Inventory,
    handler: Callable[[str], Any],
) -> Environment:
    """The policies, handlers and peers of an actor that plays some roles of the lease.

    Args:
        program: the compiled system.
        identity: of the actor.
        roles: that it plays.
        player: the actor that plays a role.
        inventory: the units of the broker and the site.
        handler: makes the handler of a role.
    """
    environment = Environment(properties_in=PROPERTIES_IN)
    for role in roles:
        if role == "service_manager":
            peers = {peer: player[peer] for peer in ("broker", "authority")}
            acts = dict.fromkeys(("join", "guest.modify", "leave"), handler(role))
            environment = replace(environment, handlers={**environment.handlers, **acts}, peers=peers)
            constants = program.constants
            environment.policies[role] = FixedDemand(
                max_units=int(constants["max_units"]),
                held_joins=bool(constants.get("held_joins", False)),
                leave_limit=int(constants.get("leave_limit", 0)),
                clock_margin=int(constants.get("clock_margin", 0)),
            )
        elif role == "broker":
            environment = replace(environment, peers={"authority": player["authority"]}, units=inventory)
            environment.policies[role] = FirstComeFirstServed(inventory)
        elif role == "authority":
            acts = dict.fromkeys(("setup", "unit.modify", "teardown"), handler(role))
            environment = replace(environment, handlers={**environment.handlers, **acts}, units=inventory)
            environment.policies[role] = FirstFit(inventory, lazy=bool(program.constants.get("lazy_close", True)))
    return replace(environment, credentials=TicketCredentials(program, identity, environment.peers))
