"""Clients' demands for leases, as requests on the control socket of a service manager (impl/server/control.py).

| request | does |
|---|---|
| `POST /demand` | `{units, until, term, start?, lease?}`: a new lease |
| `POST /leases/NAME/flex` | `{units, soon?}`: another number of units |
| `POST /leases/NAME/prolong` | `{until}`: a later end, or an earlier one |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from aiohttp import web

from leasehold.impl.actor.actor import Actor
from leasehold.impl.server.answers import Rejected, read_body


class Demands:
    """Takes the demands of clients for the policy of an actor that takes them.

    Args:
        actor: whose policy.
        name: the name that a client's request gives to a lease, or a new one.
    """

    def __init__(self, actor: Actor, name: Callable[[dict[str, Any]], str]) -> None:
        self.actor, self._name = actor, name

    def routes(self) -> Iterable[web.RouteDef]:
        return (
            web.post("/demand", self._demand),
            web.post("/leases/{lease}/flex", self._flex),
            web.post("/leases/{lease}/prolong", self._prolong),
        )

    async def _demand(self, request: web.Request) -> Any:
        given = await read_body(request, {"units": int, "until": int, "term": int}, {"start": int, "lease": str})
        lease = self._name(given)
        await self._command("demand", lease, given["units"], given["until"], given["term"], start=given.get("start", 0))
        return {"lease": lease}

    async def _flex(self, request: web.Request) -> Any:
        given = await read_body(request, {"units": int}, {"soon": bool})
        await self._command("flex", request.match_info["lease"], given["units"], soon=given.get("soon", False))
        return {}

    async def _prolong(self, request: web.Request) -> Any:
        given = await read_body(request, {"until": int}, {})
        await self._command("prolong", request.match_info["lease"], given["until"])
        return {}

    async def _command(self, what: str, *arguments: Any, **options: Any) -> None:
        policies = self.actor.environment.policies
        for role, policy in policies.items():
            if hasattr(policy, what):
                await self.actor.command(role, what, *arguments, **options)
                return
        played = ", ".join(sorted(policies)) or "no role with a policy"
        raise Rejected(409, f"{self.actor.identity.name} ({played}) has no policy that takes a {what}")
