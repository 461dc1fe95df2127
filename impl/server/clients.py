"""The clients of an actor: who may ask it for what, by a file, and how a request proves whose it is.

    version: 1
    clients:
      alice:
        may: [demand]
        quota: {leases: 3, unit_ticks: 10000, per: 86400}
        keys:
        - key: ed25519:3p7bfXt9wbTTW2HC7OQ1Nz-DQ8hbeGdNrfx-FG-IK08

Theory of operation. An actor with such a file believes the signatures of requests (impl/identity/request.py) and
nothing else: whoever merely reaches its control socket gets a challenge there, and no more. Its own key counts as an
operator's, as whoever has that key has the actor. An actor without a file believes the operating system: who has opened
the socket is the actor's user, or root, or is refused.

What a client may do follows from the place that it asks for (`permit`): to see all (`view`), to have leases of its own
(`demand`), or everything (`operate`). A client that may not see all is told that a lease of another is not there.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from aiohttp import web
from msgspec import Meta, Struct

from leasehold.impl.identity import request as signed_request
from leasehold.impl.identity.keys import PublicKey, Purpose
from leasehold.impl.identity.request import Challenges
from leasehold.impl.identity.signed import Refusal
from leasehold.impl.identity.trust import NAME, TrustedActor, TrustedKey, TrustFault
from leasehold.impl.identity.trust_file import (
    KeyEntry,
    LiveFile,
    check_owners,
    content_of,
    read_fields,
    read_keys,
    read_mapping,
    read_top,
)
from leasehold.impl.lease.quota import ENDS, Quota
from leasehold.impl.transport.limits import LIMITS, SparseLog
from leasehold.impl.words import choices

RIGHTS = ("view", "demand", "operate")
CHALLENGE_SECONDS = 60.0

log = logging.getLogger("leasehold.clients")


class ClientEntry(Struct):
    """A client of the actor.

    Attributes:
        keys: its keys, the newest last.
        may: what it may do. view: see everything; demand: have leases of its own, and see them; operate: everything.
        quota: the most that its leases may have.
    """

    keys: list[KeyEntry]
    may: list[Literal["view", "demand", "operate"]]
    quota: Quota = Quota()


class ClientsFile(Struct):
    """The clients of an actor: those who may ask it for something.

    Attributes:
        version: of this form.
        clients: by name.
    """

    version: Literal[1]
    clients: dict[Annotated[str, Meta(pattern=f"^{NAME.pattern}$")], ClientEntry] | None = None


@dataclass(frozen=True, slots=True)
class KnownClient:
    """A client, with its keys."""

    actor: TrustedActor
    may: frozenset[str]
    quota: Quota


@dataclass(frozen=True)
class Clients:
    """The clients of an actor, by name."""

    clients: Mapping[str, KnownClient] = field(default_factory=dict)

    def of_key(self, fingerprint: str) -> KnownClient | None:
        """The client that has a key, revoked or not."""
        return next((client for client in self.clients.values() if client.actor.key(fingerprint)), None)

    def quotas(self) -> dict[str, Quota]:
        """The quotas, by client."""
        return {name: client.quota for name, client in self.clients.items()}


def load(path: Path) -> Clients:
    """Reads a file of clients.

    Raises:
        TrustFault: it is not there, others can write to it, or it is none; with the place, and the near miss.
    """
    remedy = "write one, as docs/howto/clients.md has it, or leave the key `clients` out"
    return parse(content_of(path, "file of clients", remedy), str(path))


def parse(content: bytes, where: str = "the file of clients") -> Clients:
    """Reads what a person has written.

    Raises:
        TrustFault: it is no file of clients.
    """
    top = read_top(content, where, ClientsFile)
    listed = {} if top.get("clients") is None else top["clients"]
    clients = {
        name: _client(name, entry, f"{where}: client {name[:80]}")
        for name, entry in read_mapping(listed, f"{where}: clients").items()
    }
    check_owners((client.actor for client in clients.values()), where)
    return Clients(clients)


def _client(name: str, entry: object, where: str) -> KnownClient:
    given = read_fields(entry, where, ClientEntry)
    if not NAME.fullmatch(name):
        raise TrustFault(f"{where}: the name needs up to 64 letters, digits, `.`, `_` and `-`")
    may, keys = given["may"], given["keys"]
    if not isinstance(keys, list) or not keys:
        raise TrustFault(f"{where}: `keys` is a list of one key or more; `leasehold keygen FILE` makes one")
    if not isinstance(may, list) or not may:
        raise TrustFault(f"{where}: `may` is a list of what it may do: {', '.join(RIGHTS)}")
    for right in may:
        if right not in RIGHTS:
            raise TrustFault(f"{where}: nobody may {str(right)[:60]!r}{choices(str(right), list(RIGHTS))}")
    actor = TrustedActor(name, "client", read_keys(keys, where))
    return KnownClient(actor, frozenset(may), _quota(given.get("quota", {}), f"{where}: quota"))


def _quota(value: object, where: str) -> Quota:
    given = read_fields(value, where, Quota)
    try:
        quota = msgspec.convert(given, Quota)
    except msgspec.ValidationError as error:
        raise TrustFault(f"{where}: {str(error)[:200]}; limits are whole numbers") from None
    if (quota.unit_ticks is None) is not (quota.per is None):
        missing, given_one = ("per", "unit_ticks") if quota.per is None else ("unit_ticks", "per")
        raise TrustFault(
            f"{where}: `{given_one}` needs `{missing}`; write {{unit_ticks: 10000, per: 86400}} for so many units "
            "times ticks in each period of so many ticks"
        )
    return quota


class LiveClients(LiveFile[Clients]):
    """The clients of a running actor, which change with their file."""

    def __init__(self, path: Path) -> None:
        """Reads the file.

        Raises:
            TrustFault: it is not there, or is none.
        """
        super().__init__(path, load, "file of clients")

    def quotas(self) -> dict[str, Quota]:
        """The quotas as they are now, by client."""
        return self.current().quotas()


# Who asks


class Denied(Exception):
    """Somebody asks for what he may not; nothing has changed.

    Attributes:
        status: of HTTP.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Requester:
    """Somebody who asks, and has proved who he is.

    Attributes:
        name: of a client; empty: the operator.
        may: of RIGHTS.
    """

    name: str
    may: frozenset[str]

    @property
    def operates(self) -> bool:
        """Returns whether he may do everything."""
        return "operate" in self.may

    @property
    def sees_all(self) -> bool:
        """Returns whether he sees what belongs to others."""
        return self.operates or "view" in self.may


OPERATOR = Requester("", frozenset(RIGHTS))
_OPEN = ("/about", "/clients", "/leases", "/query")  # those who see less than all are shown their own
_OWN = "/leases/{lease}"
_CHANGES = tuple(f"{_OWN}/{command}" for command in ("flex", "prolong", "stop", "tell"))


class Gate:
    """Lets requests in that prove whose they are.

    Args:
        name: of the actor.
        key: its own.
        clients: None: the operating system says who asks.
    """

    def __init__(self, name: str, key: PublicKey, clients: LiveClients | None) -> None:
        self.name, self.clients = name, clients
        self._own = TrustedActor(name, "actor", (TrustedKey(key),))
        self._challenges = Challenges(CHALLENGE_SECONDS)
        self._sparse = SparseLog(log, 1 / 10, 5)

    def challenge(self) -> dict[str, Any]:
        """A challenge, for who is to sign; without clients nobody is."""
        made = "" if self.clients is None else self._challenges.make(time.monotonic())
        return {"actor": self.name, "challenge": made}

    async def admit(self, request: web.Request) -> Requester:
        """Returns who asks.

        Raises:
            Denied: nobody knows, or it is somebody who may not.
        """
        try:
            return self._user(request) if self.clients is None else await self._signer(request, self.clients.current())
        except (Refusal, Denied) as refusal:
            self._sparse.warning(time.monotonic(), "refused", "%s refuses a request: %s", self.name, refusal)
            raise refusal if isinstance(refusal, Denied) else Denied(401, str(refusal)) from None

    def _user(self, request: web.Request) -> Requester:
        uid = _peer(request)
        if uid not in (0, os.geteuid()):
            raise Denied(
                401,
                f"user {uid} may not ask {self.name} for anything: its own user {os.geteuid()} may, and root; the key "
                "`clients` of its configuration names others",
            )
        return OPERATOR

    async def _signer(self, request: web.Request, clients: Clients) -> Requester:
        text = request.headers.get("Authorization", "")
        if not text:
            raise Denied(
                401,
                f"{self.name} answers signed requests alone; say with --as KEYFILE, or LEASEHOLD_KEY, whose key signs",
            )
        fingerprint, signature, body, said = signed_request.read(text)
        client, own = clients.of_key(fingerprint), self._own.key(fingerprint) is not None
        if client is None and not own:
            raise Denied(401, f"the key {fingerprint} is of no client of {self.name}")
        signer = self._own if client is None else client.actor
        signer.check_signature(Purpose.REQUEST, fingerprint, body, signature, time.time())
        if said.actor != self.name:
            raise Denied(401, f"the request is for {said.actor[:80]!r}, and this is {self.name}")
        if (said.method, said.target) != (request.method, request.raw_path):
            raise Denied(401, f"{said.method} {said.target[:80]} was signed, and not {request.method} of this place")
        if said.content != signed_request.digest_of(await _content(request)):
            raise Denied(401, "another content was signed than the one that came")
        self._challenges.take(said.challenge, fingerprint, said.number, time.monotonic())
        return OPERATOR if client is None else Requester(client.actor.name, client.may)

    # What he may do

    def permit(self, requester: Requester, method: str, place: str, lease: str, client: str) -> None:
        """Checks whether somebody may ask for a place.

        Args:
            requester: who.
            method: of HTTP.
            place: the pattern of its path, such as `/leases/{lease}/flex`.
            lease: that it is about; may be empty.
            client: whose lease that is; empty: nobody's, or there is none.

        Raises:
            Denied: he may not.
        """
        if requester.operates or (method == "GET" and (requester.sees_all or place in _OPEN)):
            return
        own = place.startswith(_OWN) and (method == "GET" or place in _CHANGES)
        if "demand" not in requester.may or not (own or (method, place) == ("POST", "/demand")):
            needed = "`view`" if method == "GET" else "`demand`" if own or place == "/demand" else "`operate`"
            raise Denied(403, f"{requester.name} may {_listed(requester.may)}, and this needs {needed}")
        if own and client != requester.name:
            if requester.sees_all and client:
                raise Denied(403, f"{lease[:80]} is a lease of {client}, and {requester.name} may change its own alone")
            raise Denied(
                404, f"{requester.name} has no lease {lease[:80]} here; its own are all that it may see or change"
            )

    def permit_event(self, requester: Requester, event: str) -> None:
        """Checks whether somebody may tell a lease of his own an event.

        Raises:
            Denied: he may not, as it could ask for more than his quota.
        """
        if not requester.operates and event not in ENDS:
            known = ", ".join(ENDS)
            raise Denied(403, f"{requester.name} may tell its leases {known}, and {event[:60]!r} needs `operate`")


def _listed(rights: frozenset[str]) -> str:
    return " and ".join(f"`{right}`" for right in RIGHTS if right in rights)


async def _content(request: web.Request) -> bytes:
    try:
        async with asyncio.timeout(LIMITS.body_seconds):
            return await request.read()
    except TimeoutError:
        raise Denied(408, "the body of the request did not come in time") from None


def _peer(request: web.Request) -> int:
    """The user that has opened a connection, as the system knows; -1: it does not say."""
    plug = request.transport.get_extra_info("socket") if request.transport is not None else None
    if plug is None or plug.family != socket.AF_UNIX:
        return -1
    _, uid, _ = struct.unpack("3i", plug.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(uid)
