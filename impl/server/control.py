"""The words of operators and clients, by HTTP on a Unix socket that only the actor's user can open.

| request | does |
|---|---|
| `GET /about` | the actor: roles, specification, time, what is under way |
| `GET /states` | how many machines are in each state |
| `GET /leases`, `GET /units` | all machines, in short |
| `GET /leases/NAME` | one lease, and what it waits for |
| `POST /begin` | `{machine, event, fields?, peers?, lease?}`: a new run of any system |
| `POST /demand` | `{units, until, term, start?, lease?}`: a new lease |
| `POST /leases/NAME/flex` | `{units, soon?}`: another number of units |
| `POST /leases/NAME/prolong` | `{until}`: a later end, or an earlier one |
| `POST /leases/NAME/tell` | `{machine?, event, fields?}`: an event of the specification, such as `close` |
| `POST /leases/NAME/recover`, `POST /units/NAME/recover` | the scalpel: recovery of one machine |
| `GET /metrics` | for Prometheus |

Times are ticks of the actor's clock. An answer is given when what was asked for is committed. What cannot be is
answered with a status and `{"error": words}`, and has changed nothing. Whether somebody may ask is the file system's
to say: the socket has mode 0600.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from errno import EEXIST
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.held import BELOW
from leasehold.impl.actor.mail import Refusal
from leasehold.impl.actor.pruned import origin_of
from leasehold.impl.actor.setting import ActorError
from leasehold.impl.server.config import ConfigError
from leasehold.impl.server.views import Views

LARGEST = 64 * 1024
PROBE_SECONDS = 2.0

log = logging.getLogger("leasehold.control")


class _No(Exception):
    """What was asked for cannot be."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status = status


class Control:
    """Listens on a Unix socket.

    Args:
        actor: whose.
        views: what it tells.
        metrics: the text for Prometheus and its content type.
    """

    def __init__(self, actor: Actor, views: Views, metrics: Callable[[], tuple[bytes, str]] | None = None) -> None:
        self.actor, self.views, self._metrics = actor, views, metrics
        self._runner: web.AppRunner | None = None

    async def start(self, path: Path) -> None:
        """Begins to listen, in place of a socket that an earlier life has left behind.

        Raises:
            ConfigError: the socket cannot be made.
        """
        app = web.Application(client_max_size=LARGEST, middlewares=[_answered, self._acting])
        app.add_routes(
            [
                web.get("/about", self._about),
                web.get("/states", self._states),
                web.get("/leases", self._leases),
                web.get("/units", self._units),
                web.get("/leases/{lease}", self._lease),
                web.post("/begin", self._begin),
                web.post("/demand", self._demand),
                web.post("/leases/{lease}/flex", self._flex),
                web.post("/leases/{lease}/prolong", self._prolong),
                web.post("/leases/{lease}/tell", self._tell),
                web.post("/leases/{lease}/recover", self._recover),
                web.post("/units/{unit}/recover", self._recover_unit),
                web.get("/metrics", self._show_metrics),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        try:
            await web.SockSite(self._runner, _socket(path)).start()
            self._made = path.stat().st_ino
        except OSError as error:
            await self._runner.cleanup()
            self._runner = None
            raise ConfigError(f"control: nothing can listen at {path}: {error.strerror or error}") from None
        self._path = path

    async def close(self) -> None:
        """Stops listening; the socket goes."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
            with suppress(OSError):
                if self._path.stat().st_ino == self._made:  # nobody has put another in its place
                    self._path.unlink()

    @web.middleware
    async def _acting(self, request: web.Request, handler: Callable[[web.Request], Awaitable[Any]]) -> Any:
        """While the store is broken, nothing is told of leases, and nobody is kept waiting."""
        if not self.actor.running and request.path not in ("/about", "/metrics"):
            raise _No(503, f"{self.actor.identity.name} takes no steps at the moment, as its store has failed")
        return await handler(request)

    # What is told

    async def _about(self, request: web.Request) -> Any:
        return self.views.about()

    async def _states(self, request: web.Request) -> Any:
        return await self._read(self.views.states)

    async def _leases(self, request: web.Request) -> Any:
        return await self._read(self.views.leases)

    async def _units(self, request: web.Request) -> Any:
        return await self._read(self.views.units)

    async def _lease(self, request: web.Request) -> Any:
        lease = request.match_info["lease"]
        found = await self._read(lambda: self.views.lease(lease))
        if not found and self.views.pruned(lease):
            raise _No(404, f"the lease {lease[:80]} is over and forgotten")
        if not found:
            raise _No(404, f"there is no lease {lease[:80]} here")
        for machine in found:
            for unit in machine["units"]:
                unit["facts"] = await self._probed(unit["unit"], unit["facts"])
        return found

    async def _probed(self, unit: str, known: dict[str, Any]) -> dict[str, Any]:
        """What is known of a unit now, as its handler sees it; what was known, where it does not say."""
        for handler in self.actor.world.each_handler():
            try:
                async with asyncio.timeout(PROBE_SECONDS):
                    found = await handler.probe(unit)
            except Exception as error:
                log.warning("unit %s cannot be probed: %s", unit, str(error) or type(error).__name__)
                continue
            if found is not None:
                return dict(found)
        return known

    async def _read(self, view: Callable[[], Any]) -> Any:
        """What is told of leases takes its turn, so that it is durable when it is seen."""
        return await self.actor.ask(view)

    async def _show_metrics(self, request: web.Request) -> Any:
        if self._metrics is None:
            raise _No(404, "this actor has no metrics")
        body, content_type = self._metrics()
        return web.Response(body=body, headers={"Content-Type": content_type})

    # What is asked for

    async def _begin(self, request: web.Request) -> Any:
        given = await _body(request, {"machine": str, "event": str}, {"fields": dict, "peers": dict, "lease": str})
        lease = self._name(given)
        peers = {**self.actor.world.peers, **given.get("peers", {})}
        await self.actor.begin(lease, given["machine"], given["event"], given.get("fields", {}), peers)
        return {"lease": lease}

    def _name(self, given: dict[str, Any]) -> str:
        """The name that a client gives to what begins, or a new one."""
        name = self.actor.identity.name
        lease: str = given.get("lease") or self.actor.memory.new_name(name)
        named = origin_of(lease)
        if named is None or named[0] != name:
            raise _No(400, f"what begins here is named {name}:NUMBER, not {lease[:80]!r}")
        return lease

    async def _demand(self, request: web.Request) -> Any:
        given = await _body(request, {"units": int, "until": int, "term": int}, {"start": int, "lease": str})
        lease = self._name(given)
        await self._wish("demand", lease, given["units"], given["until"], given["term"], start=given.get("start", 0))
        return {"lease": lease}

    async def _flex(self, request: web.Request) -> Any:
        given = await _body(request, {"units": int}, {"soon": bool})
        await self._wish("flex", request.match_info["lease"], given["units"], soon=given.get("soon", False))
        return {}

    async def _prolong(self, request: web.Request) -> Any:
        given = await _body(request, {"until": int}, {})
        await self._wish("prolong", request.match_info["lease"], given["until"])
        return {}

    async def _wish(self, what: str, *args: Any, **options: Any) -> None:
        """A client's word for the policy that takes demands."""
        for role, policy in self.actor.world.policies.items():
            if hasattr(policy, what):
                await self.actor.wish(role, lambda p, now: getattr(p, what)(*args, now=now, **options))
                return
        played = ", ".join(sorted(self.actor.world.policies)) or "no role with a policy"
        raise _No(409, f"{self.actor.identity.name} ({played}) has no policy that takes a {what}")

    async def _tell(self, request: web.Request) -> Any:
        given = await _body(request, {"event": str}, {"machine": str, "fields": dict})
        lease, event = request.match_info["lease"], given["event"]
        machines = [held for key, held in self.actor.memory.held.items() if key.lease == lease and lease != BELOW]
        if "machine" in given:
            machines = [held for held in machines if held.key.machine == given["machine"]]
        takers = [held for held in machines if event in held.core.events]
        if not takers:
            known = ", ".join(f"{h.key.machine}: {', '.join(h.core.events)}" for h in machines)
            raise _No(404, f"no machine of {lease[:80]} here takes {event[:60]!r}" + (f" ({known})" if known else ""))
        outcome = await self.actor.tell(lease, takers[0].key.machine, event, given.get("fields", {}))
        return {"machine": takers[0].key.machine, "kind": outcome.kind, "transition": outcome.transition}

    async def _recover(self, request: web.Request) -> Any:
        lease = request.match_info["lease"]
        machines = [key.machine for key in self.actor.memory.held if key.lease == lease and lease != BELOW]
        if not machines:
            raise _No(404, f"there is no lease {lease[:80]} here")
        for machine in machines:
            await self.actor.recover(lease, machine)
        return {"recovered": machines}

    async def _recover_unit(self, request: web.Request) -> Any:
        key = self.views.unit(request.match_info["unit"])
        if key is None or key not in self.actor.memory.held:
            raise _No(404, f"nothing has happened to a unit {request.match_info['unit'][:80]} here")
        await self.actor.recover(*key)
        return {"recovered": [key.machine]}


def _socket(path: Path) -> socket.socket:
    """A socket that was never open to others, not for a moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_socket():
        with socket.socket(socket.AF_UNIX) as probe, suppress(ConnectionRefusedError):
            probe.settimeout(1.0)
            probe.connect(str(path))
            raise FileExistsError(EEXIST, "another actor listens there; give each a `control` of its own")
        path.unlink()
    elif path.exists():
        raise FileExistsError(EEXIST, "something else than a socket is there")
    made = socket.socket(socket.AF_UNIX)
    before = os.umask(0o177)
    try:
        made.bind(str(path))
    except BaseException:
        made.close()
        raise
    finally:
        os.umask(before)
    return made


async def _body(request: web.Request, needed: dict[str, type], may: dict[str, type]) -> dict[str, Any]:
    """The JSON object of a request, with these keys."""
    try:
        given = msgspec.json.decode(await request.read() or b"{}")
    except (msgspec.DecodeError, ValueError) as error:
        raise _No(400, f"the request is no JSON: {error}") from None
    known = {**needed, **may}
    if not isinstance(given, dict):
        raise _No(400, "the request is no JSON object")
    for name, value in given.items():
        if name not in known:
            raise _No(400, f"there is no {name[:60]!r} here (there are: {', '.join(known)})")
        if type(value) is not known[name]:
            raise _No(400, f"`{name}` is {str(value)[:60]!r}, and not of type {known[name].__name__}")
    for name in needed:
        if name not in given:
            raise _No(400, f"`{name}` is missing")
    return given


@web.middleware
async def _answered(request: web.Request, handler: Callable[[web.Request], Awaitable[Any]]) -> web.StreamResponse:
    """Plain data as JSON; what cannot be, as its status and words."""
    try:
        found = await handler(request)
    except _No as no:
        return web.json_response({"error": str(no)}, status=no.status)
    except (ActorError, Refusal, ValueError) as error:
        return web.json_response({"error": str(error)}, status=409)
    except web.HTTPException as error:
        return web.json_response({"error": error.reason}, status=error.status)
    return found if isinstance(found, web.StreamResponse) else _json(found)


def _json(found: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(found), content_type="application/json")
