"""Attacks at the control socket of a holder with clients: whatever nobody may ask, by who reaches the socket.

Each is made in a world where alice has a lease of 1 unit until tick 50, and a quota of 80 units times ticks in 100.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from dataclasses import replace as with_fields
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml

from leasehold.faults.simulation.lease import Cluster
from leasehold.impl.actor.environment import Environment
from leasehold.impl.identity.keys import PrivateKey, Purpose
from leasehold.impl.identity.request import Challenges, ClientRequest, digest_of, write
from leasehold.impl.identity.signed import text_of
from leasehold.impl.lease.fleet import TENANT
from leasehold.impl.lease.quota import ClientAccounts
from leasehold.impl.server.client import Client, _UnixConnection
from leasehold.impl.server.clients import LiveClients
from leasehold.impl.server.control import LARGEST, ControlSocket
from leasehold.impl.server.views import Views

NAMES = ("alice", "bob", "viewer", "boss", "former", "stranger")
DEMAND = {"units": 1, "until": 50, "term": 10}


class ClientCluster(Cluster):
    """A cluster whose tenant has the clients of a file."""

    clients: LiveClients

    def _environment(self, name: str) -> Environment:
        environment = super()._environment(name)
        return (
            with_fields(environment, accounts=ClientAccounts(lambda: self.clients.quotas()))
            if name == TENANT
            else environment
        )


def written(keys: dict[str, PrivateKey], **changes: Any) -> str:
    """A file of clients; `changes` are whole entries, by name."""
    key = {name: [{"key": str(keys[name].public)}] for name in keys}
    clients: dict[str, Any] = {
        "alice": {"may": ["demand"], "quota": {"leases": 2, "unit_ticks": 80, "per": 100}, "keys": key["alice"]},
        "bob": {"may": ["demand"], "keys": key["bob"]},
        "viewer": {"may": ["view"], "keys": key["viewer"]},
        "boss": {"may": ["operate"], "keys": key["boss"]},
        "former": {"may": ["operate"], "keys": [{**key["former"][0], "revoked": True}]},
        **changes,
    }
    return yaml.safe_dump({"version": 1, "clients": {name: entry for name, entry in clients.items() if entry}})


@dataclass
class Desk:
    """A tenant that listens, and its clients."""

    c: ClientCluster
    path: Path
    file: Path
    keys: dict[str, PrivateKey]
    control: ControlSocket

    def as_(self, name: str) -> Client:
        return Client(self.path, key=self.keys[name])

    async def ask(self, name: str, how: str, *place: str, **given: Any) -> Any:
        return await asyncio.to_thread(getattr(self.as_(name), how), *place, **given)

    async def raw(
        self, method: str, target: str, body: bytes = b"", authorization: str = "", path: Path | None = None
    ) -> tuple[int, Any]:
        """A request as it is given, without the client's help."""

        def send() -> tuple[int, Any]:
            connection = _UnixConnection(path or self.path, 10.0)
            try:
                connection.request(method, target, body, {"Authorization": authorization} if authorization else {})
                response: HTTPResponse = connection.getresponse()
                content = response.read()
            finally:
                connection.close()
            return response.status, json.loads(content)

        return await asyncio.to_thread(send)

    async def challenge(self) -> dict[str, str]:
        status, answer = await self.raw("GET", "/challenge")
        assert status == 200
        return dict(answer)

    async def request(self, body: bytes = b"", **changes: Any) -> ClientRequest:
        """A request for a lease, as it should be but for the changes."""
        asked = await self.challenge()
        fields = {**asked, "number": 1, "method": "POST", "target": "/demand", "content": digest_of(body)}
        return ClientRequest(**{**fields, **changes})

    def kept(self) -> tuple[dict[str, bytes], dict[Any, Any]]:
        """Returns the words on leases that the tenant's disk has."""
        disk = self.c.disks[TENANT]
        names = ("wish of ", "account of ", "follower ")
        return {n: b for n, b in disk.metadata.items() if n.startswith(names)}, dict(disk.records)


@asynccontextmanager
async def desk(folder: Path) -> AsyncIterator[Desk]:
    keys = {name: PrivateKey.generate() for name in NAMES}
    file = folder / "clients.yaml"
    file.write_text(written(keys))
    file.chmod(0o644)
    c = ClientCluster(4)
    c.clients = LiveClients(file)
    async with c:
        control = ControlSocket(c.tenant, Views(c.tenant, c.system, 1.0), clients=c.clients)
        await control.start(folder / "a.sock")
        try:
            yield Desk(c, folder / "a.sock", file, keys, control)
        finally:
            await control.close()


# Attacks: each returns the answer's status and content

Requesting = Callable[[Desk, str], Awaitable[tuple[int, Any]]]
BODY = json.dumps(DEMAND).encode()


async def unsigned(d: Desk, lease: str) -> tuple[int, Any]:
    return await d.raw("POST", "/demand", BODY)


async def by_a_stranger(d: Desk, lease: str) -> tuple[int, Any]:
    return await d.raw("POST", "/demand", BODY, write(await d.request(BODY), d.keys["stranger"]))


async def by_a_revoked_key(d: Desk, lease: str) -> tuple[int, Any]:
    return await d.raw("POST", "/demand", BODY, write(await d.request(BODY), d.keys["former"]))


async def by_the_right_name_and_another_key(d: Desk, lease: str) -> tuple[int, Any]:
    request = await d.request(BODY)
    genuine, forged = write(request, d.keys["alice"]), write(request, d.keys["bob"])
    parts = genuine.split(".")
    parts[2] = forged.split(".")[2]
    return await d.raw("POST", "/demand", BODY, ".".join(parts))


async def replayed(d: Desk, lease: str) -> tuple[int, Any]:
    header = write(await d.request(b"{}", target=f"/leases/{lease}/tell"), d.keys["alice"])
    await d.raw("POST", f"/leases/{lease}/tell", b"{}", header)  # it is genuine, and lacks an event
    return await d.raw("POST", f"/leases/{lease}/tell", b"{}", header)


async def with_another_body(d: Desk, lease: str) -> tuple[int, Any]:
    header = write(await d.request(BODY), d.keys["alice"])
    return await d.raw("POST", "/demand", BODY.replace(b"50", b"99"), header)


async def at_another_place(d: Desk, lease: str) -> tuple[int, Any]:
    header = write(await d.request(b"{}", target=f"/leases/{lease}/present", method="GET"), d.keys["alice"])
    return await d.raw("POST", f"/leases/{lease}/stop", b"{}", header)


async def with_another_query(d: Desk, lease: str) -> tuple[int, Any]:
    header = write(await d.request(method="GET", target="/events?after=5"), d.keys["viewer"])
    return await d.raw("GET", "/events?after=0", b"", header)


async def for_another_actor(d: Desk, lease: str) -> tuple[int, Any]:
    return await d.raw("POST", "/demand", BODY, write(await d.request(BODY, actor="rival"), d.keys["alice"]))


async def with_a_challenge_of_another(d: Desk, lease: str) -> tuple[int, Any]:
    other = Challenges(60.0).make(0.0)
    return await d.raw("POST", "/demand", BODY, write(await d.request(BODY, challenge=other), d.keys["alice"]))


async def for_another_purpose(d: Desk, lease: str) -> tuple[int, Any]:
    request = await d.request(BODY)
    body, key = msgspec.json.encode(request), d.keys["alice"]
    text = text_of("request1", "request", key.public.fingerprint, key.sign(Purpose.ENVELOPE, body), body)
    return await d.raw("POST", "/demand", BODY, f"leasehold {text}")


async def too_large(d: Desk, lease: str) -> tuple[int, Any]:
    body = BODY + b" " * LARGEST
    return await d.raw("POST", "/demand", body, write(await d.request(body), d.keys["alice"]))


async def with_no_signature_at_all(d: Desk, lease: str) -> tuple[int, Any]:
    return await d.raw("POST", "/demand", BODY, "leasehold request1.what.ever")


async def with_a_password(d: Desk, lease: str) -> tuple[int, Any]:
    return await d.raw("POST", "/demand", BODY, "Basic YWxpY2U6c2VjcmV0")


def by(name: str, method: str, place: str, body: Any = None, number: int = 1) -> Requesting:
    """Somebody asks for a place, well signed."""

    async def ask(d: Desk, lease: str) -> tuple[int, Any]:
        target, content = place.format(lease=lease), b"" if body is None else json.dumps(body).encode()
        request = await d.request(content, method=method, target=target, number=number)
        return await d.raw(method, target, content, write(request, d.keys[name]))

    return ask


class ControlAttack(NamedTuple):
    """An attack.

    Attributes:
        words: what is wrong.
        make: makes the request.
        status: of the answer.
        reason: a pattern of its words.
    """

    words: str
    make: Requesting
    status: int
    reason: str


CONTROL_ATTACKS: list[ControlAttack] = [
    ControlAttack(*attack)
    for attack in (
        ("unsigned", unsigned, 401, "tenant answers signed requests alone"),
        ("signed by a key that is no client's", by_a_stranger, 401, "is of no client of tenant"),
        ("signed by a key that is revoked", by_a_revoked_key, 401, "of former is revoked"),
        ("a client's key, and another's signature", by_the_right_name_and_another_key, 401, "not that of alice"),
        ("a request that was made before", replayed, 401, "the request was made before, and counts once"),
        ("another body than the signed one", with_another_body, 401, "another content was signed"),
        ("another place than the signed one", at_another_place, 401, "was signed, and not POST of this place"),
        ("another query than the signed one", with_another_query, 401, "was signed, and not GET of this place"),
        ("signed for another actor", for_another_actor, 401, "the request is for 'rival', and this is tenant"),
        (
            "an answer to a challenge of another actor, or before a restart",
            with_a_challenge_of_another,
            401,
            "ask for another",
        ),
        ("a header that is no signed request", with_no_signature_at_all, 401, "does not have the form"),
        ("signed for another purpose, as a message is", for_another_purpose, 401, "not that of alice"),
        ("larger than a request may be", too_large, 413, "larger than 64 KiB"),
        ("a password", with_a_password, 401, "does not have the form"),
        (
            "a client flexes another's lease",
            by("bob", "POST", "/leases/{lease}/flex", {"units": 2}),
            404,
            "bob has no lease",
        ),
        (
            "a client prolongs another's lease",
            by("bob", "POST", "/leases/{lease}/prolong", {"until": 60}),
            404,
            "bob has no lease",
        ),
        ("a client stops another's lease", by("bob", "POST", "/leases/{lease}/stop", {}), 404, "bob has no lease"),
        (
            "a client closes another's lease",
            by("bob", "POST", "/leases/{lease}/tell", {"event": "close"}),
            404,
            "bob has no lease",
        ),
        ("a client looks at another's lease", by("bob", "GET", "/leases/{lease}"), 404, "bob has no lease"),
        (
            "a client looks at what happens to another's lease",
            by("bob", "GET", "/leases/{lease}/present"),
            404,
            "bob has no lease",
        ),
        (
            "a client waits for another's lease",
            by("bob", "POST", "/demand", {**DEMAND, "after": ["tenant:1"]}),
            404,
            "bob has no lease",
        ),
        ("a client reads all events", by("bob", "GET", "/events?after=0"), 403, "this needs `view`"),
        ("a client reads the metrics", by("bob", "GET", "/metrics"), 403, "this needs `view`"),
        (
            "a client recovers a lease, also its own",
            by("alice", "POST", "/leases/{lease}/recover", {}),
            403,
            "this needs `operate`",
        ),
        (
            "a client begins a run past its quota",
            by("alice", "POST", "/begin", {"machine": "service_manager", "event": "demand"}),
            403,
            "this needs `operate`",
        ),
        (
            "a client tells its lease to extend, past its quota",
            by("alice", "POST", "/leases/{lease}/tell", {"event": "extend", "fields": {"units": 4}}),
            403,
            "alice may tell its leases close, and 'extend' needs `operate`",
        ),
        (
            "one who may see all follows events, and so keeps them",
            by("viewer", "POST", "/followers/x/acknowledge/1", {}),
            403,
            "this needs `operate`",
        ),
        ("one who may see all demands", by("viewer", "POST", "/demand", DEMAND), 403, "this needs `demand`"),
        (
            "one who may see all stops a lease",
            by("viewer", "POST", "/leases/{lease}/stop", {}),
            403,
            "this needs `demand`",
        ),
        (
            "more units times ticks than the quota",
            by("alice", "POST", "/demand", {**DEMAND, "units": 3}),
            409,
            "alice may use 80 units times ticks in each 100 ticks .*from tick 0 to 100 30 are left, and this needs 150",
        ),
        (
            "a later end than the quota",
            by("alice", "POST", "/leases/{lease}/prolong", {"until": 90}),
            409,
            "this needs",
        ),
        (
            "more units for a lease than the quota",
            by("alice", "POST", "/leases/{lease}/flex", {"units": 4}),
            409,
            "30 are left, and this needs 150",
        ),
        (
            "more units for another's lease than its quota, by an operator",
            by("boss", "POST", "/leases/{lease}/flex", {"units": 4}),
            409,
            "alice may use 80",
        ),
    )
]
