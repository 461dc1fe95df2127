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
from leasehold.impl.lease.delegations import Delegations
from leasehold.impl.lease.inventory import Inventory
from leasehold.impl.lease.service_manager import FixedDemand
from leasehold.impl.policy.directory import Directory

# The machines whose players each role has to know: those that it sends to, and the site that its tickets are for.
SPEAKS_WITH = {"service_manager": ("broker", "authority"), "broker": ("authority",)}


def lease_environment(
    program: Program,
    identity: Identity,
    roles: Iterable[str],
    player: Mapping[str, str],
    inventory: Inventory,
    handler: Callable[[str], Any],
    delegations: Delegations | None = None,
) -> Environment:
    """The policies, handlers and peers of an actor that plays some roles of the lease.

    Args:
        program: the compiled system.
        identity: of the actor.
        roles: that it plays.
        player: the actor that plays a role, where there is only one.
        inventory: the units of the broker and the site.
        handler: makes the handler of a role.
        delegations: of the actor, if it has a folder of them.
    """
    peers = {peer: player[peer] for role in roles for peer in SPEAKS_WITH.get(role, ()) if peer in player}
    environment = Environment(properties_in=PROPERTIES_IN, peers=peers, directory=Directory(identity, peers))
    for role in roles:
        if role == "service_manager":
            acts = dict.fromkeys(("join", "guest.modify", "leave"), handler(role))
            environment = replace(environment, handlers={**environment.handlers, **acts})
            constants = program.constants
            environment.policies[role] = FixedDemand(
                max_units=int(constants["max_units"]),
                held_joins=bool(constants.get("held_joins", False)),
                leave_limit=int(constants.get("leave_limit", 0)),
                clock_margin=int(constants.get("clock_margin", 0)),
                directory=environment.directory,
            )
        elif role == "broker":
            environment = replace(environment, units=inventory)
            environment.policies[role] = FirstComeFirstServed(
                inventory,
                other_terms=bool(program.constants.get("other_terms", False)),
                clock_margin=int(program.constants.get("clock_margin", 0)),
                directory=environment.directory,
                delegations=delegations,
            )
        elif role == "authority":
            acts = dict.fromkeys(("setup", "unit.modify", "teardown"), handler(role))
            environment = replace(environment, handlers={**environment.handlers, **acts}, units=inventory)
            environment.policies[role] = FirstFit(
                inventory, lazy=bool(program.constants.get("lazy_close", True)), delegations=delegations
            )
    return replace(environment, credentials=TicketCredentials(program, identity, peers, delegations))
