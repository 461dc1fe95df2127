"""The words of operators and clients, by HTTP on a Unix socket that only the actor's user can open.

| request | does |
|---|---|
| `GET /about` | the actor: roles, specification, time, what is under way |
| `GET /states` | how many machines are in each state |
| `GET /leases`, `GET /units` | all machines, in short |
| `GET /leases/NAME` | one lease, and what is under way for it |
| `GET /leases/NAME/present` | the same, the position of the last event, and the events that would tell of it now |
| `GET /query` | what can be had of a broker or a site: inventory, what is free when |
| `GET /query?of=ACTOR&type=TYPE` | what another actor says to this one of that; `type` may be left out |
| `POST /begin` | `{machine, event, fields?, peers?, lease?}`: a new run of any system |
| `POST /leases/NAME/tell` | `{machine?, event, fields?}`: an event of the specification, such as `close` |
| `POST /units/NAME/tell` | `{event, fields?}`: an event that the world outside gives a unit, such as `repaired` |
| `POST /leases/NAME/recover`, `POST /units/NAME/recover` | the scalpel: recovery of one machine |
| `GET /metrics` | for Prometheus |
| `GET /events?after=N&limit=M` | events after a position, as lines (impl/events/lines.py) |
| `GET /events/state` | which events there are, and how far followers have come |
| `POST /events/seal` | a seal of all events |
| `POST /followers/NAME/acknowledge/N` | a follower has kept the events up to a position |
| `POST /followers/NAME/leave` | it follows no more |
| `POST /clock` | a test has moved the clock, which is a file: the actor takes the tick; where time is real it refuses |

A service manager takes the demands of clients for leases as well:

| request | does |
|---|---|
| `POST /demand` | `{units, until, term, start?, type?, properties?, configuration?, local?, slice?, after?, lease?}` |
| `POST /leases/NAME/flex` | `{units, soon?, victims?}`: another number of units, and which are given back |
| `POST /leases/NAME/prolong` | `{until}`: a later end |
| `POST /leases/NAME/stop` | the demand is over now, also one whose lease has not begun |
| `POST /slices/NAME` | `{properties?, configuration?, local?}`: all that leases of a slice share; or `{remove: true}` |
| `GET /slices` | the slices, with their properties and leases |

Times are ticks of the actor's clock. An answer is given when what was asked for is committed. What cannot be is
answered with a status and `{"error": words}`, and has changed nothing. So what is taken is possible: what follows from
it was tried against the record's codec, the state, the contract and the members of the run. Who may ask for what,
clients.py says; `GET /challenge` is for those who are to sign their requests, and `GET /clients` has the quotas.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import ContextVar
from errno import EEXIST
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web

from leasehold.impl.actor.actor import Actor
from leasehold.impl.actor.environment import ActorError
from leasehold.impl.actor.pruned import origin_of
from leasehold.impl.actor.queries import QUERIES_AT_ONCE, QUERIES_PER_SECOND
from leasehold.impl.actor.table import BELOW
from leasehold.impl.clock import ClockFileError, FileClock
from leasehold.impl.core.values import OPAQUE_DEEPEST
from leasehold.impl.identity.signed import Refusal
from leasehold.impl.server.clients import Denied, Gate, LiveClients, Requester
from leasehold.impl.server.config import ConfigError, Serving
from leasehold.impl.server.event_feed import EventFeed
from leasehold.impl.server.views import Views
from leasehold.impl.store.store import RecordKey, low_words
from leasehold.impl.transport.guard import GuardedServer, PortKeeper
from leasehold.impl.transport.limits import LIMITS, TokenBucket, TransportLimits
from leasehold.impl.words import choices, did_you_mean

MEMBERS: dict[str, type] = {"after": str, "victims": int}  # what the lists of a request hold


class Rejected(Exception):
    """A client asked for something that cannot be; nothing has changed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


async def read_body(request: web.Request, needed: dict[str, type], may: dict[str, type]) -> dict[str, Any]:
    """The JSON object of a request, with these keys.

    Raises:
        Rejected: it is none.
    """
    try:
        async with asyncio.timeout(LIMITS.body_seconds):
            body = await request.read()
        given = msgspec.json.decode(body or b"{}")
    except TimeoutError:
        raise Rejected(408, "the body of the request did not come in time") from None
    except RecursionError:
        raise Rejected(
            400, f"the request is nested too deep; {OPAQUE_DEEPEST} levels are the most of any value"
        ) from None
    except (msgspec.DecodeError, ValueError) as error:
        raise Rejected(400, f"the request is no JSON: {error}") from None
    known = {**needed, **may}
    if not isinstance(given, dict):
        raise Rejected(400, "the request is no JSON object")
    for name, value in given.items():
        if name not in known:
            raise Rejected(400, f"there is no {name[:60]!r} here (there are: {', '.join(known)})")
        if type(value) is not known[name]:
            raise Rejected(400, f"`{name}` is {str(value)[:60]!r}, and not of type {known[name].__name__}")
        if isinstance(value, list) and not all(type(one) is MEMBERS[name] for one in value):
            raise Rejected(400, f"`{name}` is {str(value)[:60]!r}, and not a list of {MEMBERS[name].__name__}")
    for name in needed:
        if name not in given:
            raise Rejected(400, f"`{name}` is missing")
    return given


@web.middleware
async def answered(request: web.Request, handler: Callable[[web.Request], Awaitable[Any]]) -> web.StreamResponse:
    """Plain data as JSON; errors as their status and words."""
    try:
        answer = await handler(request)
    except (Rejected, Denied) as error:
        return web.json_response({"error": str(error)}, status=error.status)
    except (ActorError, Refusal, ValueError) as error:
        return web.json_response({"error": str(error)}, status=409)
    except web.HTTPRequestEntityTooLarge as error:
        message = f"the request is larger than {LARGEST // 1024} KiB, the most that is taken"
        return web.json_response({"error": message}, status=error.status)
    except web.HTTPException as error:
        return web.json_response({"error": error.reason}, status=error.status)
    if isinstance(answer, web.StreamResponse):
        return answer
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


GROWS = ("begin", "demand", "flex", "prolong")  # what is not taken while the store's disk is full
LARGEST = 64 * 1024
PROBE_SECONDS = 2.0
CHALLENGE = "/challenge"
_asks: ContextVar[Requester] = ContextVar("asks")  # who has made the request that is answered
CONTROL_LIMITS = Serving().control_limits
PATIENCE_SECONDS = 1.0  # for which a client that has connected may think before others take its place

# The demands of clients: which keys a request needs, and which it may have.
DEMANDS: dict[str, tuple[dict[str, type], dict[str, type]]] = {
    "demand": (
        {"units": int, "until": int, "term": int},
        {
            "start": int,
            "type": str,
            "properties": dict,
            "configuration": dict,
            "local": dict,
            "after": list,
            "broker": str,
            "site": str,
            "least": int,
            "least_term": int,
            "latest_start": int,
            "group": dict,
            "slice": str,
            "lease": str,
        },
    ),
    "flex": ({"units": int}, {"soon": bool, "victims": list}),
    "prolong": ({"until": int}, {}),
    "stop": ({}, {}),
}
SLICES = "/slices"
SLICE_LISTS: dict[str, type] = {"properties": dict, "configuration": dict, "local": dict, "remove": bool}

log = logging.getLogger("leasehold.control")


class ControlSocket:
    """Listens on a Unix socket.

    Args:
        actor: whose.
        views: what it tells.
        metrics: the text for Prometheus and its content type.
        limits: of the socket.
        clients: who may ask; None: the actor's user and root.
    """

    def __init__(
        self,
        actor: Actor,
        views: Views,
        metrics: Callable[[], tuple[bytes, str]] | None = None,
        limits: TransportLimits = CONTROL_LIMITS,
        clients: LiveClients | None = None,
    ) -> None:
        self.actor, self.views, self._metrics, self._limits = actor, views, metrics, limits
        self.gate = Gate(actor.identity.name, actor.identity.key.public, clients)
        self._server: GuardedServer | None = None
        self._queries = TokenBucket(QUERIES_PER_SECOND, QUERIES_AT_ONCE, time.monotonic())

    async def start(self, path: Path) -> None:
        """Begins to listen, in place of a socket that an earlier life has left behind.

        Raises:
            ConfigError: the socket cannot be made.
        """
        app = web.Application(client_max_size=LARGEST, middlewares=[answered, self._known, self._acting])
        app.add_routes(
            [
                web.get("/about", self._about),
                web.get("/states", self._tells(self.views.states)),
                web.get("/leases", self._leases),
                web.get(CHALLENGE, self._challenge),
                web.get("/clients", self._clients),
                web.get(SLICES, self._tells(self.views.slices)),
                web.get("/units", self._tells(self.views.units)),
                web.get("/query", self._query),
                web.get("/leases/{lease}", self._lease),
                web.get("/leases/{lease}/present", self._present),
                web.post("/begin", self._begin),
                web.post("/leases/{lease}/tell", self._tell),
                web.post("/leases/{lease}/recover", self._recover),
                web.post("/units/{unit}/tell", self._tell_unit),
                web.post("/units/{unit}/recover", self._recover_unit),
                web.get("/metrics", self._show_metrics),
                web.post("/clock", self._clock),
                web.post("/demand", self._demand),
                web.post(f"{SLICES}/{{slice}}", self._set_slice),
                web.post("/leases/{lease}/flex", self._demand),
                web.post("/leases/{lease}/prolong", self._demand),
                web.post("/leases/{lease}/stop", self._demand),
                *EventFeed(self.actor).routes(),
            ]
        )
        keeper = PortKeeper(self._limits, f"control of {self.actor.identity.name}")
        server = GuardedServer(app, keeper, PATIENCE_SECONDS, shutdown_timeout=1.0)
        try:
            await server.start(_socket(path, 0o600 if self.gate.clients is None else 0o666))
            self._made = path.stat().st_ino
        except OSError as error:
            await server.close()
            raise ConfigError(f"control: nothing can listen at {path}: {error.strerror or error}") from None
        self._server, self._path = server, path

    async def close(self) -> None:
        """Stops listening; the socket goes."""
        if self._server is not None:
            await self._server.close()
            self._server = None
            with suppress(OSError):
                if self._path.stat().st_ino == self._made:  # nobody has put another in its place
                    self._path.unlink()

    @web.middleware
    async def _known(self, request: web.Request, handler: Callable[[web.Request], Awaitable[Any]]) -> Any:
        """Refuses those who do not prove who they are, or may not ask for this."""
        if request.path == CHALLENGE and self.gate.clients is not None:
            return await handler(request)
        requester = await self.gate.admit(request)
        _asks.set(requester)
        resource, lease = request.match_info.route.resource, request.match_info.get("lease", "")
        if resource is not None:
            client = await self._client(lease) if lease and not requester.operates else ""
            self.gate.permit(requester, request.method, resource.canonical, lease, client)
        return await handler(request)

    @web.middleware
    async def _acting(self, request: web.Request, handler: Callable[[web.Request], Awaitable[Any]]) -> Any:
        """Refuses what grows the store while its disk is full, and all but /about and /metrics while it has failed."""
        if (
            (low := low_words(self.actor.store))
            and request.method == "POST"
            and (request.path.rpartition("/")[2] in GROWS or request.path.startswith(f"{SLICES}/"))
        ):
            raise Rejected(503, f"{low}; free some space on it")
        if not self.actor.running and request.path not in ("/about", "/metrics"):
            raise Rejected(503, f"{self.actor.identity.name} takes no steps at the moment, as its store has failed")
        return await handler(request)

    # What is told

    async def _about(self, request: web.Request) -> Any:
        return self.views.about()

    def _tells(self, view: Callable[[], Any]) -> Callable[[web.Request], Awaitable[Any]]:
        """A handler that shows a view; the view takes its turn, so that all that it shows is durable."""

        async def tell(request: web.Request) -> Any:
            return await self.actor.read(view)

        return tell

    async def _query(self, request: web.Request) -> Any:
        if not self._queries.take(time.monotonic()):
            raise Rejected(
                429, f"{self.actor.identity.name} answers {QUERIES_PER_SECOND:g} queries a second; ask later"
            )
        if unknown := sorted({*request.query} - {"of", "type"}):
            raise Rejected(400, f"a query has no {unknown[0][:60]!r} (there are: of, type)")
        if of := request.query.get("of"):
            told = await self.actor.queries.ask(of, request.query.get("type", ""))
            return told | {"tick_seconds": self.views.tick_seconds}
        return await self.actor.read(self.views.query)

    async def _client(self, lease: str) -> str:
        """The client whose a lease is, as it is durable; while the actor takes no steps it is nobody's."""
        client: str = await self.actor.read(lambda: self.views.client(lease)) if self.actor.running else ""
        return client

    async def _challenge(self, request: web.Request) -> Any:
        return self.gate.challenge()

    async def _leases(self, request: web.Request) -> Any:
        requester = _asks.get()
        rows = await self.actor.read(self.views.leases)
        return rows if requester.sees_all else [row for row in rows if row["client"] == requester.name]

    async def _clients(self, request: web.Request) -> Any:
        requester = _asks.get()
        if self.gate.clients is None:
            raise Rejected(404, f"{self.actor.identity.name} has no clients: its configuration has no key `clients`")
        known = self.gate.clients.current().clients
        may = {name: client.may for name, client in known.items()}
        rows = await self.actor.read(lambda: self.views.clients(may))
        return [row for row in rows if requester.sees_all or row["client"] == requester.name]

    async def _lease(self, request: web.Request) -> Any:
        answer = await self._found(request, lambda lease: {"machines": self.views.lease(lease)})
        return answer["machines"]

    async def _present(self, request: web.Request) -> Any:
        return await self._found(request, self.views.present)

    async def _found(self, request: web.Request, view: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
        """A view of a lease that is here, with the facts of its units."""
        lease = request.match_info["lease"]
        answer: dict[str, Any] = await self.actor.read(lambda: view(lease))
        if not answer["machines"] and lease in self.actor.table.pruned:
            raise Rejected(404, f"the lease {lease[:80]} is over and forgotten")
        if not answer["machines"]:
            raise self._absent(lease)
        for machine in answer["machines"]:
            for unit in machine["units"]:
                unit["facts"] = await self._probed(unit["unit"], unit["facts"])
        return answer

    async def _probed(self, unit: str, known: dict[str, Any]) -> dict[str, Any]:
        """The facts about a unit from its handler; the facts that were known, where the handler gives none."""
        for handler in self.actor.environment.each_handler():
            try:
                async with asyncio.timeout(PROBE_SECONDS):
                    facts = await handler.probe(unit)
            except Exception as error:
                log.warning("unit %s cannot be probed: %s", unit, str(error) or type(error).__name__)
                continue
            if facts is not None:
                return dict(facts)
        return known

    async def _show_metrics(self, request: web.Request) -> Any:
        if self._metrics is None:
            raise Rejected(404, "this actor has no metrics")
        body, content_type = self._metrics()
        return web.Response(body=body, headers={"Content-Type": content_type})

    # What is asked for

    async def _begin(self, request: web.Request) -> Any:
        given = await read_body(request, {"machine": str, "event": str}, {"fields": dict, "peers": dict, "lease": str})
        lease = self._name(given)
        peers = {**self.actor.environment.peers, **given.get("peers", {})}
        await self.actor.begin(lease, given["machine"], given["event"], given.get("fields", {}), peers)
        return {"lease": lease}

    def _name(self, given: dict[str, Any]) -> str:
        """The name that a client gives to what begins, or a new one."""
        name = self.actor.identity.name
        lease: str = given.get("lease") or self.actor.table.new_name(name)
        named = origin_of(lease)
        if named is None or named[0] != name:
            raise Rejected(400, f"what begins here is named {name}:NUMBER, not {lease[:80]!r}")
        return lease

    async def _demand(self, request: web.Request) -> Any:
        """A client's demand, for the policy of the actor that takes it."""
        command = request.path.rpartition("/")[2]
        needed, may = DEMANDS[command]
        given = await read_body(request, needed, may)
        lease = request.match_info.get("lease") or self._name(given)
        arguments = [given[name] for name in needed]
        options = {name: given[name] for name in may if name in given and name != "lease"}
        requester = _asks.get()
        for other in options.get("after", ()) if not requester.sees_all else ():
            client = await self._client(other)
            self.gate.permit(requester, "GET", "/leases/{lease}", other, client)
        whose = {"client": requester.name} if requester.name else {}
        await self.actor.command(self._taker(command, command), command, lease, *arguments, **whose, **options)
        return {"lease": lease} if command == "demand" else {}

    def _taker(self, method: str, command: str) -> str:
        """The role whose policy has a method that takes a command.

        Raises:
            Rejected: there is none.
        """
        policies = self.actor.environment.policies
        for role, policy in policies.items():
            if hasattr(policy, method):
                return role
        played = ", ".join(sorted(policies)) or "no role with a policy"
        raise Rejected(409, f"{self.actor.identity.name} ({played}) has no policy that takes a {command}")

    async def _set_slice(self, request: web.Request) -> Any:
        """An operator's word on what the leases of a slice share."""
        given = await read_body(request, {}, SLICE_LISTS)
        name = request.match_info["slice"]
        await self.actor.command(self._taker("set_slice", "slice"), "set_slice", name, **given)
        return {"slice": name}

    async def _clock(self, request: web.Request) -> Any:
        """Takes the tick that the clock's file has, in an actor that was started for a test."""
        clock, name = self.actor.clock, self.actor.identity.name
        if not isinstance(clock, FileClock):
            raise Rejected(
                409,
                f"the time of {name} is real, and nobody moves it; only an actor with `clock: {{file: FILE}}` takes it",
            )
        try:
            return {"now": await clock.look()}
        except ClockFileError as error:
            raise Rejected(409, f"clock.file: {error}") from None

    async def _tell(self, request: web.Request) -> Any:
        given = await read_body(request, {"event": str}, {"machine": str, "fields": dict})
        lease, event = request.match_info["lease"], given["event"]
        self.gate.permit_event(_asks.get(), event)
        machines = [
            instance for key, instance in self.actor.table.instances.items() if key.lease == lease and lease != BELOW
        ]
        if not machines:
            raise self._absent(lease)
        if "machine" in given and all(instance.key.machine != given["machine"] for instance in machines):
            among = choices(given["machine"], [instance.key.machine for instance in machines])
            raise Rejected(404, f"{lease[:80]} has no machine {given['machine'][:60]!r} here{among}")
        if "machine" in given:
            machines = [instance for instance in machines if instance.key.machine == given["machine"]]
        else:  # a subsidiary machine of the lease is meant only if it is named
            machines = [instance for instance in machines if not instance.core.subsidiary] or machines
        takers = [instance for instance in machines if event in instance.core.events]
        if not takers:
            near = did_you_mean(event, [name for instance in machines for name in instance.core.events])
            known = [
                f"{instance.key.machine}: {', '.join(instance.core.events) or 'no events'}" for instance in machines
            ]
            raise Rejected(404, f"no machine of {lease[:80]} here takes {event[:60]!r}{near} ({'; '.join(known)})")
        return await self._told(takers[0].key, event, given)

    async def _told(self, key: RecordKey, event: str, given: dict[str, Any]) -> dict[str, Any]:
        outcome = await self.actor.tell(*key, event, given.get("fields", {}))
        return {
            "machine": key.machine,
            "kind": outcome.kind,
            "transition": outcome.transition,
            "reason": outcome.reason,
        }

    async def _tell_unit(self, request: web.Request) -> Any:
        given = await read_body(request, {"event": str}, {"fields": dict})
        unit, event, program = request.match_info["unit"], given["event"], self.actor.program
        key = self._unit(unit)
        core, _ = program.machines[key.machine]
        if event not in core.events:
            among = choices(event, program.from_outside[core.role])
            raise Rejected(409, f"unit {unit[:80]} takes no event {event[:60]!r} from outside{among}")
        return {"unit": unit, **await self._told(key, event, given)}

    def _unit(self, name: str) -> RecordKey:
        """The machine of a unit that a client names.

        Raises:
            Rejected: there is none.
        """
        key = self.views.unit(name)
        if key is None:
            raise Rejected(404, f"there is no unit {name[:80]!r} here{did_you_mean(name, self.views.unit_names)}")
        return key

    def _absent(self, lease: str) -> Rejected:
        """Nothing of the name is here, or nothing has begun."""
        program, unbegun = self.actor.program, self.actor.upcalls.unbegun()
        if lease in unbegun:
            why = f": {unbegun[lease]}" if unbegun[lease] else ""
            return Rejected(404, f"{lease[:80]} has not begun{why}; `leasehold close {lease[:80]}` withdraws it")
        missing = f"no run {lease[:80]} here: {program.system} stands, and its run is {program.only_run}"
        return Rejected(404, f"there is {missing if program.standing else f'no lease or run {lease[:80]} here'}")

    async def _recover(self, request: web.Request) -> Any:
        lease = request.match_info["lease"]
        machines = [key.machine for key in self.actor.table.instances if key.lease == lease and lease != BELOW]
        if not machines:
            raise self._absent(lease)
        for machine in machines:
            await self.actor.recover(lease, machine)
        return {"recovered": machines}

    async def _recover_unit(self, request: web.Request) -> Any:
        unit = request.match_info["unit"]
        key = self._unit(unit)
        if key not in self.actor.table.instances:
            raise Rejected(404, f"nothing has happened to the unit {unit[:80]} here")
        await self.actor.recover(*key)
        return {"recovered": [key.machine]}


def check_socket(path: Path) -> None:
    """Checks whether a socket may be made at a path.

    Raises:
        OSError: it may not.
    """
    with socket.socket(socket.AF_UNIX) as probe, suppress(ConnectionRefusedError, FileNotFoundError):
        probe.settimeout(1.0)
        probe.connect(str(path))
    _check_free(path)


def _check_free(path: Path) -> None:
    if path.exists() and not path.is_socket():
        raise FileExistsError(EEXIST, "something else than a socket is there")


def _socket(path: Path, mode: int) -> socket.socket:
    """A socket that was never open to others than its mode says, not for a moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_socket():
        with socket.socket(socket.AF_UNIX) as probe, suppress(ConnectionRefusedError):
            probe.settimeout(1.0)
            probe.connect(str(path))
            raise FileExistsError(EEXIST, "another actor listens there; give each a `control` of its own")
        path.unlink()
    _check_free(path)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o777 & ~mode)
    try:
        listener.bind(str(path))
    except BaseException:
        listener.close()
        raise
    finally:
        os.umask(before)
    return listener
